"""Axis tables have properties that are hard to see from outside."""

import numpy as np
import pytest
from conftest import DTYPES, pairs, random_boxes

from roicy._kernels.plan import Arguments, Plan, Rule
from roicy._table import INTEGRATED, UNIFORM, WEIGHTED_SUM, Operator

RULES = {
    "two samples": Rule("sampled", sampling_ratio=2),
    "adaptive samples": Rule("sampled", sampling_ratio=-1, aligned=True),
    "three samples": Rule("sampled", sampling_ratio=3, aligned=True),
    "integrated": INTEGRATED,
    "uniform": UNIFORM,
}


def make(boxes, rule, bins, extents, dtype, purpose="forward", scale=1.0, images=1, channels=1):
    """Return the plan of a call with these boxes.  Maps have a shape but no memory, since a plan
    does not look at pixels.
    """
    maps = np.broadcast_to(dtype(0), (images, channels, *extents))
    arguments = Arguments(boxes.astype(dtype), None, scale, "NCHW", 1)
    operator = Operator("any", WEIGHTED_SUM)
    if purpose != "grad_input":
        return Plan(purpose, operator, rule, maps, bins, arguments)
    shapes = {"input_shape": maps.shape, "dtype": maps.dtype}
    plan = Plan(purpose, operator, rule, shapes, bins, arguments)
    plan.bind([maps])
    return plan


def tables_of(*arguments, **options):
    """Return the tables of the first step of a call."""
    plan = make(*arguments, **options)
    assert plan.next()
    return plan.tables()


@pairs(purpose=["forward", "grad_boxes", "grad_input"], width=[100, 300])
def test_order(purpose, width, rng):
    """Boxes are sorted by image.  In an image, boxes that follow each other are near."""
    boxes = random_boxes(rng, 5, 300, (400, width), np.float64)
    made = tables_of(boxes, INTEGRATED, (1, 1), (400, width), np.float64, purpose, 0.5, 5, 2)
    images = boxes[made.rows, 0].astype(int)
    assert made.starts.tolist() == [0, *np.cumsum(np.bincount(images, minlength=5))]
    same = np.diff(images) == 0
    assert same.sum() == 300 - 5
    steps = np.abs(np.diff(boxes[made.rows, 2]))[same]
    assert steps.mean() < 800 / 12  # at random, they would be a third of the height apart


@pytest.mark.parametrize("rule", RULES)
def test_tables_are_bounded(rule, dtype):
    """The tables of many boxes, which cover a large map, take 8 MiB in each step."""
    boxes = np.tile(np.array([[0, -1e9, -1e9, 1e9, 1e9]]), (20000, 1))
    made = tables_of(boxes, RULES[rule], (7, 7), (2000, 3000), dtype, "grad_boxes")
    assert 0 < made.stop < len(boxes)
    arrays = (made.windows, made.spans, made.tap_pixel, made.tap_weight, made.tap_slopes)
    assert sum(array.nbytes for array in arrays) <= 8 * 2**20


def test_tables_that_take_more_than_their_share(dtype):
    """Boxes with such large tables are taken one at a time."""
    boxes = np.tile(np.array([[0, 0, 0, 2**20, 2**20]]), (4, 1))
    plan = make(boxes, UNIFORM, (2, 2), (2**20, 2**20), dtype)
    steps = 0
    while plan.next():
        assert len(plan.tables().rows) == 1
        steps += 1
    assert steps == 4


def taps_by_bin(made, k, first, stop):
    """Return pixel, bin and weight of each tap of an axis, in order of the pixels."""
    return sorted(
        (made.tap_pixel[j], p, made.tap_weight[j])
        for p, span in enumerate(made.spans[k, first:stop])
        for j in range(*span)
    )


@pairs(
    rule=RULES,
    boxes=["ordinary", "inverted", "tiny", "coarse columns", "coarse rows", "far"],
    dtype=DTYPES,
)
def test_transposed_tables_are_the_same(rule, boxes, dtype, rng):
    """Transposed tables have each tap once, and their pixels ascend.  This holds even if
    coordinates are so coarse that bins do not ascend.
    """
    low = rng.uniform(-8, 40, (30, 2))
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
    corners = np.concatenate([np.zeros((30, 1)), low, low + rng.uniform(*size, (30, 2))], axis=1)
    # There are enough channels to fill lanes.  With fewer channels, numbers may be added without
    # transposed tables.
    made = tables_of(corners, RULES[rule], bins, extents, dtype, "grad_input", channels=16)
    assert made.stop == len(corners)
    found_some = False
    for k in range(len(corners)):
        for axis, (first, stop) in enumerate(((0, bins[0]), (bins[0], sum(bins)))):
            base = made.spans[k, first, 0]
            mine = slice(base, base + made.counts[k, axis])
            assert (np.diff(made.pixels[mine]) > 0).all()
            pixels = zip(made.pixels[mine], made.pixel_spans[mine], strict=True)
            found = [
                (pixel, made.bin[j], made.bin_weight[j])
                for pixel, span in pixels
                for j in range(*span)
            ]
            assert sorted(found) == taps_by_bin(made, k, first, stop)
            found_some |= bool(found)
    no_pixels = boxes == "inverted" and rule in ("integrated", "adaptive samples")
    assert found_some or boxes == "far" or no_pixels


@pairs(rule=RULES, magnitude=range(18, 31, 2), dtype=DTYPES)
def test_tables_have_room_where_coordinates_are_coarse(rule, magnitude, dtype, rng):
    """If coordinates are coarse, rounding moves the ends of bins by many pixels.  But the taps of
    an axis never run into those of the next one.
    """
    low = rng.uniform(-(2**magnitude), 2**magnitude, (300, 2))
    high = low + rng.uniform(-300, 300, (300, 2)) * 2 ** rng.uniform(0, 4, (300, 1))
    corners = np.concatenate([np.zeros((300, 1)), low, high], axis=1)
    plan = make(corners, RULES[rule], (3, 50), (2**29, 2**30), dtype)
    while plan.next():
        made = plan.tables()
        ends = made.spans.ravel()
        assert (np.diff(ends) >= 0).all()
        assert ends[-1] <= len(made.tap_pixel)
