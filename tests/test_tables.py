"""Axis tables have properties that are hard to see from outside."""

import numpy as np
import pytest
from conftest import DTYPES, SUMS, pairs, random_boxes

from roicy import _table
from roicy._kernels.plan import Arguments, Plan, Rule
from roicy._table import INTEGRATED, QUANTISED, UNIFORM, WEIGHTED_SUM, Operator

REDUCTIONS = {
    "max_pixel": _table.MAX_PIXEL,
    "max_pixel_grad": _table.MAX_PIXEL,
    "max_sample": _table.MAX_SAMPLE,
}


RULES = {
    "roi_align": Rule("sampled", sampling_ratio=2),
    "ps_roi_align": Rule("sampled", sampling_ratio=-1, aligned=True),
    "prroi_pool": INTEGRATED,
    "ps_prroi_pool": INTEGRATED,
    "ps_roi_pool": UNIFORM,
}


def make(
    boxes,
    rule,
    bins,
    extents,
    dtype,
    purpose="forward",
    threads=1,
    scale=0.75,
    images=1,
    layout="NCHW",
    channels=1,
):
    """Return the plan of a call with these boxes.  Maps have a shape but no memory, since a plan
    does not look at pixels.
    """
    shape = (images, channels, *extents) if layout == "NCHW" else (images, *extents, channels)
    operator = Operator("any", REDUCTIONS.get(purpose, WEIGHTED_SUM))
    arguments = Arguments(boxes.astype(dtype), None, scale, layout, threads)
    maps = np.broadcast_to(dtype(0), shape)
    if layout == "NHWC":  # the channels lie together
        maps = np.lib.stride_tricks.as_strided(maps, shape, (0, 0, 0, maps.itemsize))
    if purpose not in ("grad_input", "max_pixel_grad"):
        return Plan(purpose, operator, rule, maps, bins, arguments)
    shapes = {"input_shape": (images, channels, *extents), "dtype": maps.dtype}
    plan = Plan(purpose, operator, rule, shapes, bins, arguments)
    plan.bind([maps])
    return plan


def tables_of(*arguments, **options):
    """Return the tables of the first step of a call."""
    plan = make(*arguments, **options)
    assert plan.next()
    return plan.tables()


@pairs(
    purpose=["forward", "grad_boxes", "grad_input"],
    layout=["NCHW", "NHWC"],
    width=[100, 300],
    count=[20, 300],
)
def test_order(count, purpose, layout, width, rng):
    """Boxes are sorted by image.  In an image, boxes that follow each other are near."""
    extents = (400, width)
    boxes = random_boxes(rng, 5, count, extents, np.float64)
    made = tables_of(
        boxes, INTEGRATED, (1, 1), extents, np.float64, purpose,
        scale=0.5, images=5, layout=layout, channels=2,
    )  # fmt: skip
    images = boxes[:, 0].astype(int)
    assert made.starts.tolist() == [0, *np.cumsum(np.bincount(images, minlength=5))]
    assert (np.diff(images[made.rows]) >= 0).all()
    same = np.diff(images[made.rows]) == 0
    steps = np.abs(np.diff(boxes[made.rows, 2]))[same]
    if count == 300:  # at random, they would be a third of the height apart
        assert steps.mean() < extents[0] / 0.5 / 12


def test_far_boxes_have_a_place():
    far = np.array(
        [[0, -1e30, 1e30, 0, 0], [0, 1e30, -1e30, 0, 0], [0, 3, 3, 0, 0], [0, 0, 1e9, 0, 0]]
    )
    for layout in ("NCHW", "NHWC"):  # the boxes are sorted by row, or in bands
        for extents in ((1, 1), (1000, 7), (7, 2**20), (2**29, 2**30)):
            made = tables_of(
                far, QUANTISED, (1, 1), extents, np.float64, "max_pixel", scale=1.0, layout=layout
            )
            count = 1 if extents == (2**29, 2**30) else 4  # on such a map, a box is a step
            assert len({0, 1, 2, 3}.intersection(made.rows)) == len(made.rows) == count
            assert made.starts.tolist() == [0, count]


def assert_part_of(part, whole):
    """Check that tables of a step are those of the same boxes in the tables of all boxes."""
    mine = slice(part.first, part.stop)
    np.testing.assert_array_equal(part.rows, whole.rows[mine])
    np.testing.assert_array_equal(
        part.starts, whole.starts.clip(part.first, part.stop) - part.first
    )
    np.testing.assert_array_equal(part.windows, whole.windows[mine])
    for some, all_of_them in zip(
        part.spans.reshape(-1, 2), whole.spans[mine].reshape(-1, 2), strict=True
    ):
        some, all_of_them = slice(*some), slice(*all_of_them)
        np.testing.assert_array_equal(part.tap_pixel[some], whole.tap_pixel[all_of_them])
        np.testing.assert_array_equal(part.tap_weight[some], whole.tap_weight[all_of_them])
        np.testing.assert_array_equal(part.tap_slopes[:, some], whole.tap_slopes[:, all_of_them])


@pytest.mark.parametrize("name", SUMS)
def test_parts_are_the_whole(name, dtype, rng):
    rule = RULES[name]
    boxes = np.concatenate([rng.integers(0, 3, (50, 1)), rng.uniform(-5, 60, (50, 4))], axis=1)
    call = (boxes, rule, (3, 4), (29, 37), dtype, "grad_boxes")
    whole = tables_of(*call, images=3)
    plan, stop = make(*call, images=3), 0
    while plan.next(7):
        part = plan.tables()
        assert (part.first, part.stop) == (stop, min(stop + 7, len(boxes)))
        assert_part_of(part, whole)
        stop = part.stop
    assert stop == len(boxes)


def plan_of_levels(rng, name, dtype):
    """Return a plan for gradients of 60 boxes, all of the first or the last of 3 levels."""
    rule = RULES[name]
    low, sides = rng.uniform(0, 60, (60, 2)), np.repeat([[20, 30], [150, 130]], 30, axis=0)
    boxes = np.column_stack([rng.integers(0, 3, 60), low, low + sides])[rng.permutation(60)]
    # boxes of less than 50 pixels belong to level 0, and those of 100 to level 2
    pyramid = (50, 1, None)
    arguments = Arguments(boxes.astype(dtype), None, [1.0, 0.5, 0.25], "NCHW", 1, None, pyramid)
    maps = tuple(np.broadcast_to(dtype(0), (3, 2, 80 >> i, 100 >> i)) for i in range(3))
    operator = Operator("any", WEIGHTED_SUM)
    return boxes, Plan("grad_boxes", operator, rule, maps, (3, 4), arguments)


@pytest.mark.parametrize("name", SUMS)
def test_rows_of_levels(name, dtype, rng):
    """Each box has its row of the output on any level, and in any number of steps."""
    state = rng.bit_generator.state
    boxes, plan = plan_of_levels(rng, name, dtype)
    large = boxes[:, 3] - boxes[:, 1] > 100
    assert plan.next()
    whole = [plan.tables(level) for level in range(3)]
    assert whole[1].rows is None
    for level, mine in ((0, ~large), (2, large)):
        np.testing.assert_array_equal(np.sort(whole[level].rows), np.flatnonzero(mine))
        np.testing.assert_array_equal(np.diff(boxes[whole[level].rows, 0]) >= 0, True)
    rng.bit_generator.state = state
    _, plan = plan_of_levels(rng, name, dtype)
    while plan.next(7):
        for level in (0, 2):
            assert_part_of(plan.tables(level), whole[level])


def test_threads_make_the_same_tables(dtype, rng):
    boxes = np.concatenate([np.zeros((3000, 1)), rng.uniform(-5, 60, (3000, 4))], axis=1)
    single_samples = Rule("single_samples", sampling_ratio=3, aligned=True)
    for rule in (*RULES.values(), single_samples):
        purpose = "max_sample" if rule == single_samples else "forward"
        alone, together = (
            tables_of(boxes, rule, (3, 4), (29, 37), dtype, purpose, threads=threads)
            for threads in (1, 3)
        )
        np.testing.assert_array_equal(alone.windows, together.windows)
        np.testing.assert_array_equal(alone.spans, together.spans)
        np.testing.assert_array_equal(alone.outside, together.outside)
        spans = alone.spans.reshape(-1, 2)
        used = np.concatenate([np.arange(start, stop) for start, stop in spans])
        np.testing.assert_array_equal(alone.tap_pixel[used], together.tap_pixel[used])
        np.testing.assert_array_equal(alone.tap_weight[used], together.tap_weight[used])


def test_tables_are_bounded(dtype):
    """The tables of a million boxes, which cover a large map or have any size, take 8 MiB in each
    step.
    """
    boxes = np.tile(np.array([[0, -1e9, -1e9, 1e9, 1e9]]), (20000, 1))
    for rule in RULES.values():
        made = tables_of(boxes, rule, (7, 7), (2000, 3000), dtype, "grad_boxes")
        assert 0 < made.stop < len(boxes)
        arrays = (made.windows, made.spans, made.tap_pixel, made.tap_weight, made.tap_slopes)
        assert sum(array.nbytes for array in arrays) <= 8 * 2**20
    made = tables_of(boxes, QUANTISED, (7, 7), (20, 30), dtype, "max_pixel")
    assert made.stop == len(boxes)
    assert tables_of(boxes, UNIFORM, (7, 7), (3000000, 3000000), dtype).stop == 1


@pairs(
    box=[
        (0.0, 1.5), (3.0, 12.0), (-4.0, 30.0), (-0.75, 0.75), (18.5, 22.0), (9.0, 4.0), (6.0, 6.0),
    ],
    ratio=[33, 200, 1000],
)  # fmt: skip
def test_dense_samples_are_summed_by_pixel(box, ratio, rng):
    """Weights and slopes of a dense grid, which are computed pixel by pixel, are sums over its
    samples.
    """
    extent, bins = 20, 2
    rule = Rule("sampled", sampling_ratio=ratio, aligned=True)
    boxes = np.array([[0, box[0], 0, box[1], 1]])
    found = tables_of(boxes, rule, (1, bins), (1, extent), np.float64, "grad_boxes", scale=1.0)
    low, high = box[0] - 0.5, box[1] - 0.5
    for q in range(bins):
        expected = np.zeros((3, extent))
        for s in range(ratio):
            r = (q + (s + 0.5) / ratio) / bins
            v = low + r * (high - low)
            if v < -1 or v > extent:
                continue
            i = min(int(max(v, 0)), extent - 1)
            fraction = max(v, 0) - i if i < extent - 1 else 0
            moves = 0 < v < extent - 1
            for pixel, w, slope in ((i, 1 - fraction, -1), (i + 1, fraction, 1)):
                if pixel < extent:
                    expected[:, pixel] += (
                        w / ratio,
                        moves * slope * (1 - r) / ratio,
                        moves * slope * r / ratio,
                    )
        made = np.zeros((3, extent))
        mine = slice(*found.spans[0, 1 + q])
        made[0, found.tap_pixel[mine]] = found.tap_weight[mine]
        made[1:, found.tap_pixel[mine]] = found.tap_slopes[:, mine]
        # By rounding, a sample at the border of a pixel may fall to either side.  Its share of the
        # slope is 1 / ratio.
        on_border = sum(
            abs(v - round(v)) < 1e-9
            for v in low + (q + (np.arange(ratio) + 0.5) / ratio) / bins * (high - low)
        )
        np.testing.assert_allclose(made[0], expected[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(made[1:], expected[1:], rtol=0, atol=1e-12 + on_border / ratio)


SUMMED = RULES | {"fixed samples": Rule("sampled", sampling_ratio=3, aligned=True)}


@pairs(
    rule=SUMMED,
    boxes=["ordinary", "inverted", "tiny", "coarse columns", "coarse rows", "far"],
    dtype=DTYPES,
)
def test_transposed_tables_are_the_same(rule, boxes, dtype, rng):
    """Transposed tables have each tap once, and their pixels ascend.  This holds even if
    coordinates are so coarse that bins do not ascend.
    """
    rule = SUMMED[rule]
    low = rng.uniform(-8, 40, (100, 2))
    size = {
        "ordinary": (1, 30),
        "inverted": (-30, -1),
        "tiny": (0, 0.5),
        "coarse columns": (100, 400),
        "coarse rows": (25, 100),
        "far": (500, 900),
    }[boxes]
    extents, bins = (29, 37), (3, 40)
    if boxes == "coarse columns":
        low[:, 0] += 2**26
        extents = (29, 2**27)
    elif boxes == "coarse rows":
        low[:, 1] += 2**24
        extents, bins = (2**24 + 1000, 37), (40, 3)
    corners = np.concatenate([np.zeros((100, 1)), low, low + rng.uniform(*size, (100, 2))], axis=1)
    # There are enough channels to fill lanes.  With fewer channels, numbers may be added without
    # transposed tables.
    made = tables_of(corners, rule, bins, extents, dtype, "grad_input", scale=1.0, channels=16)
    assert made.stop == len(corners)
    found_some = 0
    for k in range(len(corners)):
        for axis, (first, stop) in enumerate(((0, bins[0]), (bins[0], sum(bins)))):
            expected = sorted(
                (made.tap_pixel[j], p, made.tap_weight[j])
                for p, span in enumerate(made.spans[k, first:stop])
                for j in range(*span)
            )
            base = made.spans[k, first, 0]
            mine = slice(base, base + made.counts[k, axis])
            assert (np.diff(made.pixels[mine]) > 0).all()
            pixels = zip(made.pixels[mine], made.pixel_spans[mine], strict=True)
            found = [
                (pixel, made.bin[j], made.bin_weight[j])
                for pixel, span in pixels
                for j in range(*span)
            ]
            assert sorted(found) == expected
            found_some += len(found)
    no_pixels = boxes == "inverted" and rule in (INTEGRATED, RULES["ps_roi_align"])
    assert found_some > 0 or boxes == "far" or no_pixels


@pairs(rule=SUMMED, magnitude=range(18, 31, 2), dtype=DTYPES)
def test_tables_have_room_where_coordinates_are_coarse(rule, magnitude, dtype, rng):
    """If coordinates are coarse, rounding moves the ends of bins by many pixels.  But the taps of
    an axis never run into those of the next one.
    """
    rule = SUMMED[rule]
    low = rng.uniform(-(2**magnitude), 2**magnitude, (300, 2))
    corners = np.concatenate(
        [
            np.zeros((300, 1)),
            low,
            low + rng.uniform(-300, 300, (300, 2)) * 2 ** rng.uniform(0, 4, (300, 1)),
        ],
        axis=1,
    )
    plan = make(corners, rule, (3, 50), (2**29, 2**30), dtype, scale=1.0)
    while plan.next():
        made = plan.tables()
        ends = made.spans.ravel()
        assert (np.diff(ends) >= 0).all()
        assert ends[-1] <= len(made.tap_pixel)
