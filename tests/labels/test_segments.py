"""Areas, boxes, codes and scores of masks, painted masks, thresholds, and quantised maps."""

import re

import numpy as np
import pytest
import reference_labels as reference
from conftest import DTYPES, ISAS, assert_refused, assert_same_bits, pairs
from reference_images import run_lengths

import roicy

SIZES = [((9, 7), (50, 61)), ((30, 70), (33, 80)), ((20, 40), (20, 40)), ((5, 6), (1, 9))]


def some_stored(shape, kind, rng):
    """Return masks: noise, blobs, none, all, or bytes of any value."""
    noise = rng.random(shape)
    if kind == "blobs":
        y, x = np.mgrid[: shape[-2], : shape[-1]]
        noise = np.hypot(y - shape[-2] * noise[..., :1, :1], x - shape[-1] / 3) / 20
    if kind == "bytes":
        return (noise * 4).astype(np.uint8)
    return noise < {"none": -1, "all": 2}.get(kind, 0.5)


@pairs(kind=["noise", "blobs", "none", "all", "bytes"], threads=[1, 2], isa=ISAS,
       shape=[(70, 101), (8, 32), (9, 1), (1, 40), (65, 33)])  # fmt: skip
@pytest.mark.parametrize("strides", ["rows", "columns", "turned"])
def test_stored(kind, shape, strides, threads, isa, rng):
    """Codes, areas and boxes are those of pixels that are not 0, of any strides."""
    masks = some_stored((3, 2, *shape), kind, rng)
    given = masks
    if strides == "columns":
        given = np.ascontiguousarray(masks.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)
    elif strides == "turned":
        given = masks[:, :, ::-1, ::-1].copy()[:, :, ::-1, ::-1]
    found = roicy.mask_segments(given, num_threads=threads)
    flat = masks.reshape(6, *shape) != 0
    assert [one["id"] for one in found] == list(range(6))
    for mask, one in zip(flat, found, strict=True):
        area, box, _ = reference.segment(mask)
        assert (one["area"], one["bbox"], one["score"]) == (area, box, None)
        assert one["segmentation"] == {"size": [*shape], "counts": run_lengths(mask)}


@pairs(sizes=SIZES, dtype=[*DTYPES, np.float16], via=[False, True], isa=ISAS)
def test_enlarged(sizes, dtype, via, isa, rng):
    """They are those of resize_masks with a threshold for each mask; scores are means of values."""
    maps = rng.standard_normal((2, 3, *sizes[0])).astype(dtype)
    limits = [-0.5, 0, 0.25, 1, 0.1, 9]
    given = {"via": (sizes[0][0] + 3, 2 * sizes[0][1])} if via else {}
    values = roicy.label_map(maps.reshape(6, 1, *sizes[0]), sizes[1], values=True, **given)[1]
    masks = values > np.array(limits, values.dtype)[:, None, None]
    found = roicy.resize_masks(maps, sizes[1], threshold=limits, **given)
    assert_same_bits(found.reshape(masks.shape), masks)
    codes = roicy.resize_masks(maps, sizes[1], threshold=limits, format="rle", **given)
    segments = roicy.mask_segments(maps, sizes[1], threshold=limits, **given)
    assert segments == roicy.mask_segments(
        maps, sizes[1], threshold=np.array(limits), num_threads=3, **given
    )
    for i, one in enumerate(segments):
        area, box, mean = reference.segment(masks[i], values[i])
        assert (one["area"], one["bbox"], one["segmentation"]) == (area, box, codes[i])
        assert codes[i]["counts"] == run_lengths(masks[i])
        np.testing.assert_allclose(one["score"], mean, rtol=1e-13, atol=1e-15)
    alone = roicy.mask_segments(maps[1, 2], sizes[1], threshold=9, **given)
    assert alone == [segments[5] | {"id": 0}]


@pairs(sizes=SIZES, dtype=[*DTYPES, np.int8], several=[False, True], wide=[False, True],
       threads=[1, 3], isa=ISAS)  # fmt: skip
def test_painted(sizes, dtype, several, wide, threads, isa, rng):
    """A pixel has the label of the first mask that it lies in."""
    maps = (rng.standard_normal((2, 4, *sizes[0])) * 3 - 1).astype(dtype)
    names = [7, 300, 0, 7] if wide else [1, 2, 3, 4]
    limits = [0, 1, -0.5, 0.25, 3, 0, 0, 0.5] if several else 0.25
    masks = roicy.resize_masks(maps, sizes[1], threshold=limits)
    expected = np.stack([reference.painted(one, names, 9) for one in masks])
    given = {"threshold": limits, "background": 9, "num_threads": threads}
    given |= {"labels": names} if wide else {}
    found = roicy.paint_masks(maps, sizes[1], **given)
    assert found.dtype == (np.uint16 if wide else np.uint8)
    np.testing.assert_array_equal(found, expected)
    out = np.full((sizes[1][1], 2, 2 * sizes[1][0]), 77, np.int32).transpose(1, 2, 0)[:, ::2]
    assert roicy.paint_masks(maps, sizes[1], out=out, **given) is out
    np.testing.assert_array_equal(out, expected)
    if not several:
        assert_same_bits(roicy.paint_masks(maps[1], sizes[1], **given), found[1])


@pairs(dtype=[np.int8, np.uint8, np.int16, np.uint16], sizes=SIZES, meaning=[(1, 0), (0.037, 11)],
       layout=["NCHW", "NHWC"], isa=ISAS)  # fmt: skip
def test_quantised(dtype, sizes, meaning, layout, isa, rng):
    """Integers are computed with as (integers - zero_point) * scale in float32."""
    info = np.iinfo(dtype)
    numbers = rng.integers(info.min, info.max, (2, 5, *sizes[0]), dtype, endpoint=True)
    scale, zero = map(np.float32, meaning)
    plain = (numbers.astype(np.float32) - zero) * scale
    given = numbers if meaning == (1, 0) else (numbers, *meaning)
    expected = roicy.label_map(plain, sizes[1], values=True)
    if layout == "NHWC":
        last = np.ascontiguousarray(np.moveaxis(numbers, 1, -1))
        found = roicy.label_map((last, *meaning), sizes[1], values=True, layout=layout)
    else:
        found = roicy.label_map(given, sizes[1], values=True)
    assert_same_bits(found[0], expected[0])
    assert_same_bits(found[1], expected[1])
    assert_same_bits(roicy.label_map(given, sizes[1]), expected[0])
    middle = float(np.median(plain))
    masks = roicy.resize_masks(given, sizes[1], threshold=middle)
    assert_same_bits(masks, roicy.resize_masks(plain, sizes[1], threshold=middle))
    boxes = [[1, 2, 20, 15]] * 5
    pasted = [
        roicy.paste_masks(one, boxes, (30, 40), threshold=None)
        for one in (numbers[0] if given is numbers else (numbers[0], *meaning), plain[0])
    ]
    assert_same_bits(*pasted)
    weights = rng.integers(-9, 9, (5, 5)).astype(np.int8)
    mixed = [
        roicy.prototype_masks(one, (weights, 0.1, 2), boxes, (36, 28), threshold=None)
        for one in ((numbers[0], *meaning), plain[0])
    ]
    assert_same_bits(*mixed)


@pairs(sizes=[((3, 4, 5), (9, 11, 12)), ((4, 9, 7), (4, 18, 30))], isa=ISAS, dtype=DTYPES,
       kind=["noise", "infinite"])  # fmt: skip
@pytest.mark.parametrize("nearest", [(0,), (1,), (2,), (0, 2), (0, 1, 2), ()])
def test_modes(nearest, sizes, kind, dtype, isa, rng):
    """An axis of mode "nearest" is as if its slices had been repeated before."""
    maps = rng.standard_normal((4, *sizes[0])).astype(dtype)
    if kind == "infinite":
        maps[rng.random(maps.shape) < 0.05] = -np.inf
    modes = ["nearest" if axis in nearest else "bilinear" for axis in range(3)]
    repeated = maps
    for axis in nearest:
        extent, pixels = sizes[0][axis], sizes[1][axis]
        low = reference.positions(extent, pixels, "nearest", np.float32, False)[0]
        repeated = np.take(repeated, low, axis + 1)
    expected = roicy.label_map(repeated, sizes[1], values=True)
    found = roicy.label_map(maps, sizes[1], values=True, mode=modes)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(roicy.label_map(maps, sizes[1], mode=modes), expected[0])


def test_peers(rng):
    """Codes are those of pycocotools."""
    coco = pytest.importorskip("pycocotools.mask")
    for kind in ("noise", "blobs", "none", "all"):
        masks = some_stored((4, 130, 75), kind, rng)
        expected = coco.encode(np.asfortranarray(masks.view(np.uint8).transpose(1, 2, 0)))
        found = roicy.mask_segments(masks)
        assert [one["segmentation"] for one in found] == expected
        assert [one["area"] for one in found] == coco.area(expected).tolist()
        assert [one["bbox"] for one in found] == coco.toBbox(expected).tolist()


def test_none():
    assert roicy.mask_segments(np.ones((0, 3, 4), bool)) == []
    assert roicy.mask_segments(np.ones((0, 3, 4)), (5, 6)) == []
    empty = {"id": 0, "area": 0, "bbox": [0, 0, 0, 0], "score": 0.0}
    code = {"segmentation": {"size": [0, 6], "counts": b"0"}}
    assert roicy.mask_segments(np.ones((3, 4)), (0, 6)) == [empty | code]
    assert roicy.mask_segments(np.ones((0, 6), bool)) == [empty | code | {"score": None}]
    assert roicy.paint_masks(np.ones((2, 3, 4)), (0, 6)).shape == (0, 6)
    assert roicy.paint_masks(np.ones((0, 2, 3, 4)), (5, 6)).shape == (0, 5, 6)
    assert (roicy.paint_masks(np.ones((2, 3, 4)), (5, 6), labels=range(7, 9)) == 7).all()
    assert roicy.resize_masks(np.ones((0, 3, 4)), (5, 6), threshold=[]).shape == (0, 5, 6)


MASKS, STORED = {"masks": np.ones((2, 3, 4)), "size": (6, 7)}, {"masks": np.ones((3, 4), bool)}


@pytest.mark.parametrize(
    ("function", "right", "wrong", "message"),
    [
        (roicy.mask_segments, STORED, {"masks": np.ones((3, 4))}, "masks: dtype float64, expected"),
        (roicy.mask_segments, STORED, {"masks": np.ones(3, bool)}, "masks: shape (3,), expected"),
        (roicy.mask_segments, STORED, {"via": (9, 9)}, "via: (9, 9), expected a size"),
        (roicy.mask_segments, STORED, {"box": (0, 0, 1, 1)}, "box: (0, 0, 1, 1), expected a size"),
        (roicy.mask_segments, STORED, {"align_corners": True}, "align_corners: True, expected"),
        (roicy.mask_segments, STORED, {"threshold": 0.5}, "threshold: 0.5, expected a size"),
        (roicy.mask_segments, STORED, {"size": (2, 2)}, "masks: dtype bool, expected"),
        (roicy.mask_segments, MASKS, {"size": (2, 2, 2)}, "size: (2, 2, 2), expected two"),
        (roicy.mask_segments, MASKS, {"threshold": [1]}, "threshold: 1 numbers, expected 2"),
        (roicy.resize_masks, MASKS, {"threshold": [1, np.nan]}, "threshold: [1, nan], expected a"),
        (roicy.resize_masks, MASKS, {"masks": (MASKS["masks"], 2, 3)}, "masks[0]: dtype float64"),
        (roicy.resize_masks, MASKS, {"masks": (1, 2)}, "masks: a tuple of 2, expected"),
        (roicy.resize_masks, MASKS, {"masks": (np.ones((2, 2), "i1"), np.inf, 0)}, "masks[1:]: i"),
        (roicy.paint_masks, MASKS, {"masks": np.ones((3, 4))}, "masks: shape (3, 4), expected"),
        (roicy.paint_masks, MASKS, {"labels": [1]}, "labels: [1], expected 2 integers"),
        (roicy.paint_masks, MASKS, {"background": 1.5}, "background: 1.5, expected an integer"),
        (roicy.paint_masks, MASKS, {"dtype": np.int8, "background": 200}, "dtype: int8, expected"),
        (roicy.label_map, {"maps": MASKS["masks"], "size": (6, 7)}, {"mode": ("nearest",)},
         "mode: ('nearest',), expected one mode, or 2"),
    ],
)  # fmt: skip
def test_wrong_arguments(function, right, wrong, message):
    assert_refused(function, right, wrong, "^" + re.escape(message))
