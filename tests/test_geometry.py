"""Axis tables, by themselves: what is hard to see from outside."""

import numpy as np
import pytest
import reference
from conftest import random_boxes

from roicy._kernels import geometry

RULES = {
    "roi_align": (geometry.sampled(2, False, True), {"sampling_ratio": 2}),
    "ps_roi_align": (geometry.sampled(-1, True, False), {}),
    "prroi_pool": (geometry.INTEGRATED_RULE, {}),
    "ps_roi_pool": (geometry.UNIFORM_RULE, {}),
}


def make(
    boxes,
    rule,
    bins,
    extents,
    dtype,
    slopes=False,
    most=2**31,
    threads=1,
    scale=0.75,
    before=None,
    images=1,
    most_rows=2**31,
    rows=None,
):
    """Tables of boxes, and what is in them."""
    coordinates = np.ascontiguousarray(boxes[:, 1:], dtype)
    arguments = (
        boxes[:, 0].astype(np.int32),
        coordinates,
        rows,
        images,
        rule,
        bins,
        extents,
        scale,
        most_rows,
        before,
        slopes,
        most,
        threads,
    )
    tables = geometry.tables[{np.float32: "float", np.float64: "double"}[dtype]](*arguments)
    return tables, tables.arrays()


def as_dictionaries(spans, index, weight):
    return [
        dict(zip(index[first:stop].tolist(), weight[first:stop].tolist(), strict=True))
        for first, stop in spans
    ]


@pytest.mark.parametrize("name", RULES)
def test_tables_are_those_of_the_definition(name, dtype, rng):
    rule, parameters = RULES[name]
    low = rng.uniform(-8, 40, (200, 2))
    boxes = np.concatenate(
        [np.zeros((200, 1)), low, low + rng.uniform(-3, 30, (200, 2))], axis=1
    ).astype(dtype)
    tables, made = make(boxes, rule, (3, 4), (29, 37), dtype)
    assert tables.stop == len(tables) == len(boxes)
    assert sorted(made.order) == list(range(len(boxes)))
    for i, box in enumerate(boxes[made.order]):
        ys, xs = reference.axes(
            name, box, (3, 4), (29, 37), dtype, spatial_scale=0.75, **parameters
        )
        for found, expected in zip(
            as_dictionaries(made.spans[i], made.index, made.weight), ys + xs, strict=True
        ):
            assert list(found) == sorted(expected)
            np.testing.assert_allclose(
                list(found.values()),
                [expected[pixel] for pixel in found],
                rtol=8 * np.finfo(dtype).eps,
                atol=1e-15,
            )
        for axis, ends in ((ys, made.windows[i, :2]), (xs, made.windows[i, 2:])):
            read = sorted({pixel for pixels in axis for pixel in pixels})
            assert ends.tolist() == ([read[0], read[-1] + 1] if read else [0, 0])


@pytest.mark.parametrize("most_rows", [0, 50, 2**31])
@pytest.mark.parametrize("count", [20, 300])
def test_order(count, most_rows, rng):
    """
    By image, then in bands, or by row with boxes of more than most_rows last, among which all
    are that read so many.
    """
    boxes = random_boxes(rng, 5, count, (400, 300), np.float64)
    _, made = make(
        boxes,
        geometry.INTEGRATED_RULE,
        (1, 1),
        (400, 300),
        np.float64,
        scale=0.5,
        images=5,
        most_rows=most_rows,
    )
    assert made.starts.tolist() == [
        0,
        *np.cumsum(np.bincount(boxes[:, 0].astype(int), minlength=5)),
    ]
    rows, ends = (np.clip(boxes[:, i] * 0.5, 0, 399).astype(int) for i in (2, 4))
    columns = np.clip(boxes[:, 1] * 0.5, 0, 299).astype(int)
    tall = abs(ends - rows) + 3 > most_rows
    keys = (
        (rows, tall, boxes[:, 0])
        if most_rows
        else (columns // (300 // 32 + 1), rows // 32, boxes[:, 0])
    )
    assert made.order.tolist() == np.lexsort(keys).tolist()
    read = made.windows[:, 1] - made.windows[:, 0]
    assert tall[made.order][read > most_rows].all()
    assert most_rows != 50 or 0 < tall.sum() < count


def test_far_boxes_have_a_place():
    far = np.array(
        [[0, -1e30, 1e30, 0, 0], [0, 1e30, -1e30, 0, 0], [0, 3, 3, 0, 0], [0, 0, 1e9, 0, 0]]
    )
    for most_rows in (2**31, 1, 0):
        for extents in ((1, 1), (0, 0), (1000, 7), (2**30, 2**30)):
            _, made = make(
                far,
                geometry.QUANTISED_RULE,
                (1, 1),
                extents,
                np.float64,
                scale=1.0,
                most_rows=most_rows,
            )
            assert sorted(made.order) == [0, 1, 2, 3]
            assert made.starts.tolist() == [0, 4]


def test_boxes_everywhere(rng):
    """Sorted by image alone."""
    images = rng.integers(0, 4, 100).astype(np.int32)
    made = geometry.everywhere(images, 5, (20, 30)).arrays()
    assert made.order.tolist() == np.argsort(images, kind="stable").tolist()
    assert made.starts.tolist() == [0, *np.cumsum(np.bincount(images, minlength=5))]
    assert (made.windows == [0, 20, 0, 30]).all()


@pytest.mark.parametrize("name", RULES)
def test_parts_are_the_whole(name, dtype, rng):
    rule, _ = RULES[name]
    boxes = np.concatenate([rng.integers(0, 3, (50, 1)), rng.uniform(-5, 60, (50, 4))], axis=1)
    rows = rng.permutation(50).astype(np.int32) + 100
    _, whole = make(boxes, rule, (3, 4), (29, 37), dtype, slopes=True, images=3)
    tables = None
    while tables is None or tables.stop < len(boxes):
        tables, part = make(
            boxes, rule, (3, 4), (29, 37), dtype, True, 7, images=3, rows=rows, before=tables
        )
        mine = slice(tables.first, tables.stop)
        assert len(tables) == min(7, len(boxes) - tables.first)
        np.testing.assert_array_equal(part.order, whole.order[mine])
        np.testing.assert_array_equal(tables.rows(), rows[part.order])
        np.testing.assert_array_equal(
            part.starts, whole.starts.clip(tables.first, tables.stop) - tables.first
        )
        np.testing.assert_array_equal(part.windows, whole.windows[mine])
        for some, all_of_them in zip(
            part.spans.reshape(-1, 2), whole.spans[mine].reshape(-1, 2), strict=True
        ):
            np.testing.assert_array_equal(
                part.index[slice(*some)], whole.index[slice(*all_of_them)]
            )
            np.testing.assert_array_equal(
                part.weight[slice(*some)], whole.weight[slice(*all_of_them)]
            )
            np.testing.assert_array_equal(
                part.slopes[:, slice(*some)], whole.slopes[:, slice(*all_of_them)]
            )


def test_threads_make_the_same_tables(dtype, rng):
    boxes = np.concatenate([np.zeros((3000, 1)), rng.uniform(-5, 60, (3000, 4))], axis=1)
    for rule in (
        *(rule for rule, _ in RULES.values()),
        geometry.one_by_one(geometry.sampled(3, True, False)),
    ):
        alone, together = (
            make(boxes, rule, (3, 4), (29, 37), dtype, threads=threads)[1] for threads in (1, 3)
        )
        np.testing.assert_array_equal(alone.windows, together.windows)
        np.testing.assert_array_equal(alone.spans, together.spans)
        for start, stop in alone.spans.reshape(-1, 2):
            np.testing.assert_array_equal(alone.index[start:stop], together.index[start:stop])
            np.testing.assert_array_equal(alone.weight[start:stop], together.weight[start:stop])


def test_tables_are_bounded(dtype):
    """
    A million boxes over all of a large map, or boxes of any size: part by part, 8 MiB at a
    time.
    """
    boxes = np.tile(np.array([[0, -1e9, -1e9, 1e9, 1e9]]), (20000, 1))
    for rule, _ in RULES.values():
        tables, made = make(boxes, rule, (7, 7), (2000, 3000), dtype, slopes=True)
        assert 0 < tables.stop < len(boxes)
        assert (
            sum(
                array.nbytes
                for array in (made.windows, made.spans, made.index, made.weight, made.slopes)
            )
            <= 8 * 2**20
        )
    assert len(make(boxes, geometry.QUANTISED_RULE, (7, 7), (2000, 3000), dtype)[0]) == len(boxes)
    assert len(make(boxes, geometry.UNIFORM_RULE, (7, 7), (3000000, 3000000), dtype)[0]) == 1


@pytest.mark.parametrize("ratio", [33, 200, 1000])
@pytest.mark.parametrize(
    "box",
    [(0.0, 1.5), (3.0, 12.0), (-4.0, 30.0), (-0.75, 0.75), (18.5, 22.0), (9.0, 4.0), (6.0, 6.0)],
)
def test_dense_samples_are_summed_by_pixel(box, ratio, rng):
    """
    Weights and slopes of a grid of many samples, taken pixel by pixel, are those of the samples
    one by one.
    """
    extent, bins = 20, 2
    rule = geometry.sampled(ratio, True, False)
    boxes = np.array([[0, box[0], 0, box[1], 1]])
    _, found = make(boxes, rule, (1, bins), (1, extent), np.float64, True, scale=1)
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
        made[0, found.index[mine]] = found.weight[mine]
        made[1:, found.index[mine]] = found.slopes[:, mine]
        # a sample within rounding of a pixel's border may fall to either side: its share of the
        # slope is 1 / ratio
        on_border = sum(
            abs(v - round(v)) < 1e-9
            for v in low + (q + (np.arange(ratio) + 0.5) / ratio) / bins * (high - low)
        )
        np.testing.assert_allclose(made[0], expected[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(made[1:], expected[1:], rtol=0, atol=1e-12 + on_border / ratio)


@pytest.mark.parametrize(
    "rule",
    [*(rule for rule, _ in RULES.values()), geometry.sampled(3, True, False)],
    ids=[*RULES, "fixed samples"],
)
@pytest.mark.parametrize("boxes", ["ordinary", "inverted", "tiny", "coarse", "far"])
def test_by_pixel_is_the_same_table(rule, boxes, dtype, rng):
    """
    Every entry once, pixels ascending; also where float coordinates are so coarse that bins do
    not ascend.
    """
    low = rng.uniform(-8, 40, (100, 2))
    size = {
        "ordinary": (1, 30),
        "inverted": (-30, -1),
        "tiny": (0, 0.5),
        "coarse": (100, 400),
        "far": (500, 900),
    }[boxes]
    extents, bins = (29, 37), (3, 40)
    if boxes == "coarse":
        low, extents = low + 2**26, (2**30, 2**30)
    corners = np.concatenate([np.zeros((100, 1)), low, low + rng.uniform(*size, (100, 2))], axis=1)
    tables, _ = make(corners, rule, bins, extents, dtype, scale=1.0)
    geometry.by_pixel(tables, 1)
    made, some = tables.arrays(), 0
    for k in range(len(corners)):
        for axis, (first, stop) in enumerate(((0, bins[0]), (bins[0], sum(bins)))):
            expected = sorted(
                (made.index[j], p, made.weight[j])
                for p, span in enumerate(made.spans[k, first:stop])
                for j in range(*span)
            )
            base = made.spans[k, first, 0]
            mine = slice(base, base + made.counts[k, axis])
            assert (np.diff(made.pixels[mine]) > 0).all()
            pixels = zip(made.pixels[mine], made.pixel_spans[mine], strict=True)
            found = [
                (pixel, made.bins_of_pixel[j], made.bin_weight[j])
                for pixel, span in pixels
                for j in range(*span)
            ]
            assert sorted(found) == expected
            some += len(found)
    assert (
        some > 0
        or boxes == "far"
        or (
            boxes == "inverted"
            and rule in (geometry.INTEGRATED_RULE, geometry.sampled(-1, True, False))
        )
    )


@pytest.mark.parametrize(
    "rule",
    [*(rule for rule, _ in RULES.values()), geometry.sampled(3, True, False)],
    ids=[*RULES, "fixed samples"],
)
@pytest.mark.parametrize("magnitude", range(18, 31, 2))
def test_tables_have_room_where_coordinates_are_coarse(rule, magnitude, dtype, rng):
    """
    Rounding then moves the ends of bins by many pixels, but never one axis's entries into the
    next one's.
    """
    low = rng.uniform(-(2**magnitude), 2**magnitude, (300, 2))
    corners = np.concatenate(
        [
            np.zeros((300, 1)),
            low,
            low + rng.uniform(-300, 300, (300, 2)) * 2 ** rng.uniform(0, 4, (300, 1)),
        ],
        axis=1,
    )
    _, made = make(corners, rule, (3, 50), (2**30, 2**30), dtype, scale=1.0)
    ends = made.spans.ravel()  # of as many boxes as the tables of one call hold
    assert (np.diff(ends) >= 0).all()
    assert ends[-1] <= len(made.index)
