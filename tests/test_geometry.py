"""Axis tables, by themselves: what is hard to see from outside."""

import numpy as np
import pytest
import reference

from roicy._kernels import geometry

RULES = {
    "roi_align": (geometry.sampled(2, False, True), {"sampling_ratio": 2}),
    "ps_roi_align": (geometry.sampled(-1, True, False), {}),
    "prroi_pool": (geometry.INTEGRATED_RULE, {}),
    "ps_roi_pool": (geometry.UNIFORM_RULE, {}),
}


def tables(boxes, rule, bins, extents, dtype, slopes=False, most=2**31, threads=1, first=0, scale=0.75):
    kind = {np.float32: "float", np.float64: "double"}[dtype]
    order = np.arange(len(boxes), dtype=np.int32)
    return geometry.tables[kind](np.ascontiguousarray(boxes[:, 1:], dtype), order, first, most, rule, bins, extents, scale, slopes, threads)


def as_dictionaries(spans, index, weight):
    return [dict(zip(index[first:stop].tolist(), weight[first:stop].tolist(), strict=True)) for first, stop in spans]


@pytest.mark.parametrize("name", RULES)
def test_tables_are_those_of_the_definition(name, dtype, rng):
    rule, parameters = RULES[name]
    low = rng.uniform(-8, 40, (200, 2))
    boxes = np.concatenate([np.zeros((200, 1)), low, low + rng.uniform(-3, 30, (200, 2))], axis=1).astype(dtype)
    stop, windows, spans, index, weight, _ = tables(boxes, rule, (3, 4), (29, 37), dtype)
    assert stop == len(boxes)
    for k, box in enumerate(boxes):
        ys, xs = reference.axes(name, box, (3, 4), (29, 37), dtype, spatial_scale=0.75, **parameters)
        found = as_dictionaries(spans[k], index, weight)
        for made, expected in zip(found, ys + xs, strict=True):
            assert list(made) == sorted(expected)
            np.testing.assert_allclose(list(made.values()), [expected[i] for i in made], rtol=8 * np.finfo(dtype).eps, atol=1e-15)
        for axis, ends in ((ys, windows[k, :2]), (xs, windows[k, 2:])):
            read = sorted({i for pixels in axis for i in pixels})
            assert ends.tolist() == ([read[0], read[-1] + 1] if read else [0, 0])


@pytest.mark.parametrize("name", RULES)
def test_parts_are_the_whole(name, dtype, rng):
    rule, _ = RULES[name]
    boxes = np.concatenate([np.zeros((50, 1)), rng.uniform(-5, 60, (50, 4))], axis=1)
    _, windows, spans, index, weight, slopes = tables(boxes, rule, (3, 4), (29, 37), dtype, slopes=True)
    first = 0
    while first < len(boxes):
        stop, part_windows, part_spans, part_index, part_weight, part_slopes = tables(boxes, rule, (3, 4), (29, 37), dtype, True, 7, first=first)
        assert stop == min(first + 7, len(boxes))
        np.testing.assert_array_equal(part_windows, windows[first:stop])
        for part, whole in zip(part_spans.reshape(-1, 2), spans[first:stop].reshape(-1, 2), strict=True):
            np.testing.assert_array_equal(part_index[slice(*part)], index[slice(*whole)])
            np.testing.assert_array_equal(part_weight[slice(*part)], weight[slice(*whole)])
            np.testing.assert_array_equal(part_slopes[:, slice(*part)], slopes[:, slice(*whole)])
        first = stop


def test_threads_make_the_same_tables(dtype, rng):
    boxes = np.concatenate([np.zeros((3000, 1)), rng.uniform(-5, 60, (3000, 4))], axis=1)
    for rule, _ in RULES.values():
        alone, together = (tables(boxes, rule, (3, 4), (29, 37), dtype, threads=threads) for threads in (1, 3))
        for first, second in zip(alone[1:3], together[1:3], strict=True):
            np.testing.assert_array_equal(first, second)
        for start, stop in alone[2].reshape(-1, 2):
            np.testing.assert_array_equal(alone[3][start:stop], together[3][start:stop])
            np.testing.assert_array_equal(alone[4][start:stop], together[4][start:stop])


def test_tables_are_bounded(dtype):
    """A million boxes over all of a large map, or boxes of any size: part by part, 16 MiB at a time."""
    boxes = np.tile(np.array([[0, -1e9, -1e9, 1e9, 1e9]]), (20000, 1))
    for rule, _ in RULES.values():
        stop, windows, spans, index, weight, slopes = tables(boxes, rule, (7, 7), (2000, 3000), dtype, slopes=True)
        assert 0 < stop < len(boxes)
        assert sum(array.nbytes for array in (windows, spans, index, weight, slopes)) <= 8 * 2**20
    assert tables(boxes, geometry.QUANTISED_RULE, (7, 7), (2000, 3000), dtype)[0] == len(boxes)
    assert tables(boxes, geometry.UNIFORM_RULE, (7, 7), (3000000, 3000000), dtype)[0] == 1


@pytest.mark.parametrize("ratio", [33, 200, 1000])
@pytest.mark.parametrize("box", [(0.0, 1.5), (3.0, 12.0), (-4.0, 30.0), (-0.75, 0.75), (18.5, 22.0), (9.0, 4.0), (6.0, 6.0)])
def test_dense_samples_are_summed_by_pixel(box, ratio, rng):
    """Weights and slopes of a grid of many samples, taken pixel by pixel, are those of the samples one by one."""
    extent, bins = 20, 2
    rule = geometry.sampled(ratio, True, False)
    boxes = np.array([[0, box[0], 0, box[1], 1]])
    _, _, spans, index, weight, slopes = tables(boxes, rule, (1, bins), (1, extent), np.float64, True, scale=1)
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
                    expected[:, pixel] += w / ratio, moves * slope * (1 - r) / ratio, moves * slope * r / ratio
        made = np.zeros((3, extent))
        first, stop = spans[0, 1 + q]
        made[0, index[first:stop]] = weight[first:stop]
        made[1:, index[first:stop]] = slopes[:, first:stop]
        # a sample within rounding of a pixel's border may fall to either side: its share of the slope is 1 / ratio
        on_border = sum(abs(v - round(v)) < 1e-9 for v in low + (q + (np.arange(ratio) + 0.5) / ratio) / bins * (high - low))
        np.testing.assert_allclose(made[0], expected[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(made[1:], expected[1:], rtol=0, atol=1e-12 + on_border / ratio)


@pytest.mark.parametrize("rule", [*(rule for rule, _ in RULES.values()), geometry.sampled(3, True, False)], ids=[*RULES, "fixed samples"])
@pytest.mark.parametrize("boxes", ["ordinary", "inverted", "tiny", "coarse", "far"])
def test_by_pixel_is_the_same_table(rule, boxes, dtype, rng):
    """Every entry once, pixels ascending; also where float coordinates are so coarse that bins do not ascend."""
    low = rng.uniform(-8, 40, (100, 2))
    size = {"ordinary": (1, 30), "inverted": (-30, -1), "tiny": (0, 0.5), "coarse": (100, 400), "far": (500, 900)}[boxes]
    extents, bins = (29, 37), (3, 40)
    if boxes == "coarse":
        low, extents = low + 2**26, (2**30, 2**30)
    corners = np.concatenate([np.zeros((100, 1)), low, low + rng.uniform(*size, (100, 2))], axis=1)
    _, _, spans, index, weight, _ = tables(corners, rule, bins, extents, dtype, scale=1.0)
    kind = {np.float32: "float", np.float64: "double"}[dtype]
    counts, pixels, pixel_spans, bin_of, bin_weight = geometry.by_pixel[kind](spans, index, weight, bins, 1)
    some = 0
    for k in range(len(corners)):
        for axis, (first, stop) in enumerate(((0, bins[0]), (bins[0], sum(bins)))):
            expected = sorted((index[j], p, weight[j]) for p, span in enumerate(spans[k, first:stop]) for j in range(*span))
            base = spans[k, first, 0]
            mine = slice(base, base + counts[k, axis])
            assert (np.diff(pixels[mine]) > 0).all()
            found = [(pixel, bin_of[j], bin_weight[j]) for pixel, span in zip(pixels[mine], pixel_spans[mine], strict=True) for j in range(*span)]
            assert sorted(found) == expected
            some += len(found)
    assert some > 0 or boxes == "far" or (boxes == "inverted" and rule in (geometry.INTEGRATED_RULE, geometry.sampled(-1, True, False)))


@pytest.mark.parametrize("rule", [*(rule for rule, _ in RULES.values()), geometry.sampled(3, True, False)], ids=[*RULES, "fixed samples"])
@pytest.mark.parametrize("magnitude", range(18, 31, 2))
def test_tables_have_room_where_coordinates_are_coarse(rule, magnitude, dtype, rng):
    """Rounding then moves the ends of bins by many pixels, but never one axis's entries into the next one's."""
    low = rng.uniform(-(2**magnitude), 2**magnitude, (300, 2))
    corners = np.concatenate([np.zeros((300, 1)), low, low + rng.uniform(-300, 300, (300, 2)) * 2 ** rng.uniform(0, 4, (300, 1))], axis=1)
    _, _, spans, index, _, _ = tables(corners, rule, (3, 50), (2**30, 2**30), dtype, scale=1.0)
    ends = spans.ravel()  # of as many boxes as the tables of one call hold
    assert (np.diff(ends) >= 0).all()
    assert ends[-1] <= len(index)
