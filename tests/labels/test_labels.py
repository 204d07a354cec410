"""label_map gives the labels that all values would give, whatever its arguments are."""

import functools
import re
import tracemalloc
import zlib

import numpy as np
import pytest
import reference_labels as reference
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    assert_refused,
    assert_same_bits,
    fuses,
    pairs,
    to_layout,
)
from reference_images import run_lengths

import roicy
from roicy._machine import _dispatch, _limits

HOW = {"half": {}, "aligned": {"align_corners": True}, "nearest": {"mode": "nearest"}}
SIZES = [  # of maps and of the picture: larger, both ways, smaller, one row, one column, one number
    ((9, 7), (50, 61)),
    ((5, 40), (31, 37)),
    ((40, 45), (13, 9)),
    ((1, 6), (8, 25)),
    ((6, 1), (1, 9)),
    ((1, 1), (3, 4)),
    ((3, 4), (1, 1)),
    ((2, 3), (30, 260)),
    ((9, 90), (9, 90)),
    ((9, 70), (60, 70)),
    ((60, 90), (60, 100)),
    ((7, 200), (9, 120)),
]
KINDS = ["noise", "smooth", "ties", "plateaus", "constant", "infinite", "huge"]


def some_maps(kind, shape, dtype, rng):
    """Return maps (N, C, h, w)."""
    maps = rng.standard_normal(shape)
    if kind == "smooth":
        places = [np.arange(extent) * 0.4 for extent in shape[2:]]
        maps = np.sin(maps[..., :1, :1] * 9 + places[0][:, None]) + np.cos(places[1])
    elif kind == "ties":
        maps = maps.round()
    elif kind == "plateaus":
        maps = 1.25 + (maps > 1)
    elif kind == "constant":
        maps = np.ones(shape)
    elif kind == "infinite":
        few = rng.random(shape) < 0.02
        maps[few] = rng.choice([np.nan, np.inf, -np.inf], few.sum())
    elif kind == "huge":
        maps = maps.clip(-1, 1) * float(np.finfo(dtype).max) / rng.choice([1, 2, 1e30], shape)
    with np.errstate(over="ignore"):
        return maps.astype(dtype)


def check(labels, winners, maps, isa, *given, **more):
    """Check labels, and the values of winners, by all values."""
    expected, values = reference.label_map(maps, *given, once=fuses(isa), **more)
    exact = maps.dtype == np.float32 or not fuses(isa)
    if not exact:  # values of float64 are rounded twice by the reference
        largest = np.take_along_axis(values, labels.astype(int)[:, None], 1)[:, 0]
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(winners, values.max(1), rtol=1e-14, atol=1e-14)
            np.testing.assert_allclose(largest, values.max(1), rtol=1e-14, atol=1e-14)
        return
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(winners, values.max(1))


@pairs(sizes=SIZES, rule=HOW, kind=KINDS, classes=[1, 2, 19, 260], dtype=DTYPES,
       layout=LAYOUTS, isa=ISAS)  # fmt: skip
def test_definition(sizes, rule, kind, classes, dtype, layout, isa, rng):
    maps = some_maps(kind, (2, classes, *sizes[0]), dtype, rng)
    given = to_layout(maps, layout)
    labels = roicy.label_map(given, sizes[1], layout=layout, **HOW[rule])
    again, winners = roicy.label_map(given, sizes[1], layout=layout, values=True, **HOW[rule])
    assert labels.dtype == (np.uint8 if classes < 257 else np.uint16)
    assert (labels.shape, winners.dtype) == ((2, *sizes[1]), dtype)
    assert_same_bits(again, labels)
    check(labels, winners, maps, isa, sizes[1], rule)


@pairs(
    via=[None, (23, 31), (9, 40)],
    box=[None, (1, 2, 6, 9), (0.75, 2.5, 6.25, 8.0), (2.25, 3.25, 2.5, 3.75)],
    rule=["half", "aligned"],
    dtype=DTYPES,
    isa=ISAS,
)
def test_letterboxes(via, box, rule, dtype, isa, rng):
    """Padding is cut, before the only enlargement or before the second one."""
    maps = some_maps("noise", (2, 5, 9, 7), dtype, rng)
    given = {"via": via, "box": box} | HOW[rule]
    labels, winners = roicy.label_map(maps, (60, 41), values=True, **given)
    check(labels, winners, maps, isa, (60, 41), rule, via=via, box=box)
    if box == (1, 2, 6, 9) and via is None:
        assert_same_bits(labels, roicy.label_map(maps[..., 2:, 1:6], (60, 41), **HOW[rule]))


@pairs(classes=[2, 3, 9], scale=[1, 1e-30, -1], weighted=[False, True], isa=ISAS)
def test_margin(classes, scale, weighted, isa, rng):
    """Numbers, or their products with weights, that are a few units in the last place apart:
    rounding decides between classes.
    """
    weights, given = np.float32([1] * classes), {}
    if weighted:
        weights = (0.75 + rng.integers(0, 3, classes) * 2.0**-24).astype(np.float32)
        given = {"weights": weights}
    steps = rng.integers(0, 4, (150, classes, 2, 2))
    maps = ((1 + steps * 2.0**-23) * scale / weights[:, None, None]).astype(np.float32)
    labels, winners = roicy.label_map(maps, (37, 41), values=True, **given)
    assert_same_bits(roicy.label_map(maps, (37, 41), **given), labels)
    check(labels, winners, maps, isa, (37, 41), **given)


@pairs(kind=KINDS, classes=[1, 3, 19], rule=HOW, threshold=[False, True], dtype=DTYPES, isa=ISAS)
def test_weights(kind, classes, rule, threshold, dtype, isa, rng):
    """Enlarged maps are multiplied by weights; some are equal, and some are 0 or very small."""
    maps = some_maps(kind, (2, classes, 9, 7), dtype, rng)
    weights = rng.choice([0, 1e-42, 1e-3, 1 / 3, 0.7, 1], classes)
    given = {"weights": weights, **HOW[rule]}
    labels, winners = roicy.label_map(maps, (60, 41), values=True, **given)
    assert_same_bits(roicy.label_map(maps, (60, 41), **given), labels)
    check(labels, winners, maps, isa, (60, 41), rule, weights=weights)
    if threshold:
        least = float(np.nanmedian(winners.clip(-1, 1)))
        below = ~(winners >= dtype(least))
        labels[below] = 77
        found = roicy.label_map(maps, (60, 41), threshold=least, below=77, **given)
        assert_same_bits(found, labels)
        segments = roicy.label_segments(maps, (60, 41), threshold=least, below=77, **given)[1]
        areas = np.unique(labels[0], return_counts=True)[1]
        assert [one["area"] for one in segments[0]] == areas.tolist()


def test_what_pytorch_gave(isa):
    """Checksums of what PyTorch 2.13.0 gave by interpolate and argmax.

    The weights are sixteenths and eighths, so that nothing is rounded, and equal values are equal.
    """
    maps = ((np.arange(8 * 9 * 17) * 7919 % 1009 // 40) / 8).astype(np.float32)
    maps = maps.reshape(8, 9, 17)
    for size, rule, expected in (
        ((72, 136), "half", 2678917688),
        ((65, 129), "aligned", 3263470196),
        ((100, 60), "nearest", 2950465499),
    ):
        assert zlib.crc32(roicy.label_map(maps, size, **HOW[rule])) == expected


@pytest.mark.skipif(not fuses(_dispatch.ISA), reason="PyTorch rounds fused products")
@pairs(kind=KINDS, rule=HOW, sizes=[((9, 7), (100, 61)), ((40, 45), (90, 70))], dtype=DTYPES)
def test_pytorch(kind, rule, sizes, dtype, rng):
    """Labels, values and masks have the bits of PyTorch's on contiguous maps."""
    torch = pytest.importorskip("torch")
    if rule == "aligned":  # PyTorch takes the floor of such positions of float64 as float32
        dtype = np.float32
    maps = some_maps(kind, (2, 7, *sizes[0]), dtype, rng)
    given = {"mode": "bilinear"} | ({} if rule == "nearest" else {"align_corners": False})
    enlarge = functools.partial(torch.nn.functional.interpolate, **(given | HOW[rule]))
    enlarged = enlarge(torch.from_numpy(maps), sizes[1])
    labels, values = roicy.label_map(maps, sizes[1], values=True, **HOW[rule])
    np.testing.assert_array_equal(labels, enlarged.argmax(1).numpy())
    np.testing.assert_array_equal(values, enlarged.amax(1).numpy())
    if rule != "nearest":
        twice = enlarge(enlarged[..., :88, 3:], (170, 190)).numpy()
        more = {"via": sizes[1], "box": (3, 0, sizes[1][1], 88)} | HOW[rule]
        masks = roicy.resize_masks(maps, (170, 190), threshold=0.25, **more)
        np.testing.assert_array_equal(masks, twice > dtype(0.25))


@pairs(kind=["noise", "smooth", "infinite"], dtype=[*DTYPES, np.float16, "bfloat16"], isa=ISAS)
def test_threads_and_strides(kind, dtype, isa, rng):
    """Any threads, strides and batch give the same bits, and nothing beside `out` is written."""
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    maps = some_maps(kind, (3, 21, 30, 44), np.float32, rng).astype(dtype)
    size = (201, 317)
    plain, values = roicy.label_map(maps, size, values=True, num_threads=1)
    computed = dtype if dtype in DTYPES else np.float32
    assert_same_bits(plain, roicy.label_map(maps.astype(computed), size))
    memory = np.zeros((44, 3, 60, 21), dtype)
    strided = memory.transpose(1, 3, 2, 0)[:, ::-1, 1::2, ::-1]
    strided[...] = maps
    for threads in (2, 5):
        assert_same_bits(roicy.label_map(strided, size, num_threads=threads), plain)
        again = roicy.label_map(strided, size, values=True, num_threads=threads)
        assert_same_bits(again[1], values)
    for n in range(3):
        assert_same_bits(roicy.label_map(maps[n], size), plain[n])
    for integers in (np.uint8, np.int16, np.uint32, np.int64):
        wide = np.full((317, 3, 410), 77, integers)
        out = wide.transpose(1, 2, 0)[:, 407:5:-2]
        assert roicy.label_map(maps, size, out=out, num_threads=2) is out
        np.testing.assert_array_equal(out, plain)
        assert (wide[:, :, :6] == 77).all()
        assert (wide[:, :, 8::2] == 77).all()


@pairs(threshold=[0.5, -1, 1.0, 3e38, np.inf], kind=KINDS, classes=[1, 4], isa=ISAS)
def test_threshold_and_names(threshold, kind, classes, isa, rng):
    """What is below the threshold has a label of its own; a mask is one class with a threshold."""
    maps = some_maps(kind, (2, classes, 8, 9), np.float32, rng)
    size = (90, 70)
    names = np.array([7, 300, -5, 7])[:classes]
    winners, values = roicy.label_map(maps, size, values=True)
    expected = np.where(values >= np.float32(threshold), names[winners], 9)
    given = {"labels": names, "threshold": threshold, "below": 9}
    labels = roicy.label_map(maps, size, dtype=np.int16, **given)
    assert_same_bits(labels, expected.astype(np.int16))
    again = roicy.label_map(maps, size, dtype="int64", values=True, **given)
    np.testing.assert_array_equal(again[0], expected)
    assert_same_bits(again[1], values)
    assert roicy.label_map(maps, size, labels=names.tolist()).dtype == (
        np.int32 if classes > 1 else np.uint8
    )
    assert (roicy.label_map(maps, size, threshold=np.inf)[values < np.inf] == 255).all()


@pairs(size=[(9, 90), (9, 300), (60, 90), (9, 130), (13, 90)], ninf=[-np.inf, np.nan],
       dtype=DTYPES, isa=ISAS)  # fmt: skip
def test_axes_that_stay(size, ninf, dtype, isa):
    """What is masked by -inf wins nowhere beside: an axis that keeps its size has no neighbours."""
    maps = np.zeros((2, 9, 90), dtype)
    maps[1] = 1
    maps[1, 4, 30] = ninf
    labels, values = roicy.label_map(maps, size, values=True)
    assert_same_bits(roicy.label_map(maps, size), labels)
    check(labels[None], values[None], maps[None], isa, size)
    reach = [np.ptp(where) + 1 for where in np.nonzero(~np.isfinite(values) | (values < 1))]
    for extent, pixels, reached in zip((9, 90), size, reach, strict=True):
        assert reached == 1 if extent == pixels else reached > 1


def test_many_classes(isa, rng):
    """Tiles of few columns, and labels beyond two bytes."""
    maps = rng.standard_normal((70000, 2, 4)).astype(np.float32)
    labels, values = roicy.label_map(maps, (5, 9), values=True)
    assert labels.dtype == np.int32
    check(labels[None], values[None], maps[None], isa, (5, 9))


@pairs(kind=["noise", "smooth", "infinite", "constant"], size=[(57, 83), (70, 5), (1, 9), (9, 1)],
       dtype=[None, np.uint16, np.int64], threads=[1, 3], isa=ISAS)  # fmt: skip
def test_segments(kind, size, dtype, threads, isa, rng):
    """Areas, boxes and codes are those of each label alone."""
    maps = some_maps(kind, (2, 7, 9, 11), np.float32, rng)
    names = [4, 250, 0, 4, 9, 1, 17]
    given = {"labels": names, "threshold": -0.25, "below": 2, "dtype": dtype}
    expected = roicy.label_map(maps, size, **given)
    wide = np.zeros((2, size[0], 2 * size[1]), expected.dtype)[..., ::2]
    for out in (None, wide):
        arguments = given | {"codes": True, "out": out, "num_threads": threads}
        labels, segments = roicy.label_segments(maps, size, **arguments)
        assert_same_bits(np.ascontiguousarray(labels), expected)
        for image, found in zip(expected, segments, strict=True):
            assert [one["id"] for one in found] == np.unique(image).tolist()
            for one in found:
                mask = image == one["id"]
                rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
                x, y, width, height = one["bbox"]
                assert (x, y) == (columns[0], rows[0])
                assert (x + width - 1, y + height - 1) == (columns[-1], rows[-1])
                assert one["area"] == mask.sum()
                assert one["segmentation"]["size"] == [*size]
                assert one["segmentation"]["counts"] == run_lengths(mask)
    alone = roicy.label_segments(maps[1], size, **given)[1]
    assert alone == [one | {"segmentation": None} for one in segments[1]]


@pairs(
    kind=["noise", "smooth", "ties", "infinite", "constant"],
    sizes=[*SIZES, ((7, 9), (300, 201))],
    via=[False, True],
    threshold=[0, 0.5, -0.25],
    dtype=[*DTYPES, np.float16],
    isa=ISAS,
)
def test_masks(kind, sizes, via, threshold, dtype, isa, rng):
    """Masks, and their codes, are all values compared with the threshold."""
    computed = np.float64 if dtype == np.float64 else np.float32
    masks = some_maps(kind, (3, 2, *sizes[0]), dtype, rng)
    between = (sizes[0][0] + 3, 2 * sizes[0][1]) if via else None
    _, values = reference.label_map(masks.astype(computed), sizes[1], once=fuses(isa), via=between)
    given = {"threshold": threshold, "via": between}
    found = roicy.resize_masks(masks, sizes[1], **given)
    assert (found.dtype, found.shape) == (bool, values.shape)
    near = computed == np.float64 and fuses(isa)  # the reference rounds these twice
    far = np.abs(values - threshold) > 1e-14 if near else np.full(values.shape, True)
    np.testing.assert_array_equal(found[far], (values > computed(threshold))[far])
    wide = np.zeros((2, sizes[1][1], 3, sizes[1][0]), np.uint8).transpose(2, 0, 3, 1)
    for out in (wide, wide[:, 0]):
        some = masks if out.ndim == 4 else masks[:, 0]
        assert roicy.resize_masks(some, sizes[1], out=out, num_threads=2, **given) is out
        np.testing.assert_array_equal(out, found if out.ndim == 4 else found[:, 0])
    codes = roicy.resize_masks(masks, sizes[1], format="rle", num_threads=2, **given)
    for one, code in zip(found.reshape(6, *sizes[1]), codes, strict=True):
        assert code == {"size": [*sizes[1]], "counts": run_lengths(one)}


VOLUMES = [  # larger, both ways, smaller, one slice, one number
    ((3, 4, 5), (9, 11, 12)),
    ((4, 1, 3), (2, 5, 70)),
    ((5, 9, 7), (4, 4, 30)),
    ((1, 2, 2), (3, 9, 9)),
    ((2, 3, 4), (1, 1, 1)),
]


@pairs(sizes=VOLUMES, rule=HOW, kind=KINDS, classes=[1, 2, 19], layout=LAYOUTS,
       dtype=[*DTYPES, np.float16], threads=[1, 3], isa=ISAS)  # fmt: skip
def test_volumes(sizes, rule, kind, classes, layout, dtype, threads, isa, rng):
    (depth, height, width), size = sizes
    maps = some_maps(kind, (2, classes, depth * height, width), dtype, rng)
    maps = maps.reshape(2, classes, depth, height, width)
    given = {"layout": layout, "num_threads": threads} | HOW[rule]
    last = np.ascontiguousarray(np.moveaxis(maps, 1, -1))
    seen = maps[:, :, ::-1].copy()[:, :, ::-1] if layout == "NCHW" else last
    labels, winners = roicy.label_map(seen, size, values=True, **given)
    assert labels.shape == winners.shape == (2, *size)
    computed = maps if dtype in DTYPES else maps.astype(np.float32)
    check(labels, winners, computed, isa, size, rule)
    assert_same_bits(roicy.label_map(seen[1], size, **given), labels[1])
    wide = np.full((size[2], 2, size[0], 3, size[1]), 77, np.int16)
    out = wide.transpose(1, 2, 4, 3, 0)[:, ::-1, :, 1]
    assert roicy.label_map(seen, size, out=out, **given) is out
    np.testing.assert_array_equal(out, labels)
    assert (wide[:, :, :, ::2] == 77).all()


@pairs(kind=["noise", "smooth"], rule=["half", "aligned"], dtype=DTYPES)
def test_volumes_of_pytorch(kind, rule, dtype, rng):
    """Values are those of PyTorch, but for the order of sums; so are labels that do not tie."""
    torch = pytest.importorskip("torch")
    maps = some_maps(kind, (2, 7, 6 * 9, 7), dtype, rng).reshape(2, 7, 6, 9, 7)
    size = (20, 31, 40)
    given = {"mode": "trilinear", "align_corners": False} | HOW[rule]
    enlarged = torch.nn.functional.interpolate(torch.from_numpy(maps), size, **given).numpy()
    labels, values = roicy.label_map(maps, size, values=True, **HOW[rule])
    # Positions have the error of the type, and so has each of three sums.
    bound = 20 * np.finfo(dtype).eps * np.abs(maps).max()
    if rule == "aligned":  # PyTorch computes such weights of float64 as float32
        bound = max(bound, 50 * np.finfo(np.float32).eps)
    np.testing.assert_allclose(values, enlarged.max(1), rtol=0, atol=bound)
    low, high = np.sort(enlarged, axis=1)[:, -2:].transpose(1, 0, 2, 3, 4)
    clear = high - low > 2 * bound
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(labels[clear], enlarged.argmax(1)[clear])


def test_nothing_to_label():
    assert roicy.label_map(np.ones((2, 3, 4, 5)), (0, 6, 7)).shape == (0, 6, 7)
    assert roicy.label_map(np.ones((0, 2, 3, 4, 5)), (5, 6, 7)).shape == (0, 5, 6, 7)
    assert roicy.resize_masks(np.ones((0, 4, 5)), (6, 7)).shape == (0, 6, 7)
    assert roicy.resize_masks(np.ones((0, 4, 5)), (6, 7), format="rle") == []
    assert roicy.resize_masks(np.ones((4, 5)), (6, 0), format="rle")[0]["counts"] == b"0"
    assert roicy.label_segments(np.ones((2, 3, 4, 5)), (0, 5), codes=True)[1] == [[], []]
    maps = np.ones((0, 3, 4, 5), np.float32)
    assert roicy.label_map(maps, (6, 7)).shape == (0, 6, 7)
    for size in ((0, 3), (3, 0), (0, 0)):
        assert roicy.label_map(np.ones((3, 4, 5)), size).shape == size


MAPS = np.ones((3, 4, 5))
VOLUME = {"maps": MAPS[None], "size": (1, 2, 3)}
WRONG_MAPS = {
    "maps: builtins.list, expected a numpy.ndarray": {"maps": [[[1.0]]]},
    "maps: dtype int32, expected float32": {"maps": np.ones((3, 4, 5), np.int32)},
    "maps: shape (4, 5), expected (C, h, w) or (N, C, h, w)": {"maps": MAPS[0]},
    "maps: shape (4, 5), expected (h, w, C) or": {"maps": MAPS[0], "layout": "NHWC"},
    "maps: shape (0, 4, 5), expected at least one class": {"maps": MAPS[:0]},
    "maps: shape (3, 0, 5), expected at least one class": {"maps": MAPS[:, :0]},
    "layout: 'HWC', expected": {"layout": "HWC"},
    "size: 5, expected two integers": {"size": 5},
    "size: (1, 2, 3, 4), expected two integers": {"size": (1, 2, 3, 4)},
    "maps: shape (3, 4, 5), expected (C, d, h, w) or (N, C, d, h, w)": {"size": (1, 2, 3)},
    "maps: shape (3, 4, 5), expected (d, h, w, C) or (N, d, h, w, C)": {
        "size": (1, 2, 3), "layout": "NHWC",
    },
    "maps: shape (2, 0, 3, 4), expected at least one class": VOLUME | {
        "maps": np.ones((2, 0, 3, 4)),
    },
    "via: (9, 9), expected None for a volume": VOLUME | {"via": (9, 9)},
    "box: (0, 0, 1, 1), expected None for a volume": VOLUME | {"box": (0, 0, 1, 1)},
    "size: -2, expected an integer from 0": {"maps": MAPS[None], "size": (-2, 2, 3)},
    "out: shape (2, 3), expected (1, 2, 3)": VOLUME | {"out": np.zeros((2, 3), np.uint8)},
    "size: -1, expected an integer from 0": {"size": (-1, 5)},
    "size: 5.5, expected an integer": {"size": (5, 5.5)},
    "mode: 'bicubic', expected 'bilinear' or 'nearest'": {"mode": "bicubic"},
    "align_corners: 1, expected True or False": {"align_corners": 1},
    "align_corners: True, expected mode 'bilinear'": {"align_corners": True, "mode": "nearest"},
    "via: (8, 8), expected mode 'bilinear'": {"via": (8, 8), "mode": "nearest"},
    "via: (3, 9), expected at least the (4, 5)": {"via": (3, 9)},
    "box: (1, 2, 3), expected four numbers": {"box": (1, 2, 3)},
    "box: (1, 2, 1, 3), expected corners": {"box": (1, 2, 1, 3)},
    "box: (0, 0, 5.5, 4), expected corners": {"box": (0, 0, 5.5, 4)},
    "box: (nan, 0, 5, 4), expected corners": {"box": (np.nan, 0, 5, 4)},
    "weights: [1, 1], expected 3 numbers, one for each": {"weights": [1, 1]},
    "weights: 1, expected 3 numbers, one for each": {"weights": 1},
    "weights[1]: 1.5, expected a number from 0 to 1": {"weights": [1, 1.5, 0]},
    "weights[2]: nan, expected a number from 0 to 1": {"weights": np.array([1, 0, np.nan])},
    "weights[0]: -0.1, expected a number from 0 to 1": {"weights": [-0.1, 1, 1]},
    "weights[0]: 'a', expected a number": {"weights": ["a", 1, 1]},
    "labels: [1, 2], expected 3 integers, one for each": {"labels": [1, 2]},
    "labels: 3, expected 3 integers, one for each": {"labels": 3},
    "labels[1]: 1.5, expected an integer": {"labels": [1, 1.5, 2]},
    "labels[0]: 1.0, expected an integer": {"labels": np.ones(3)},
    "threshold: nan, expected a number": {"threshold": np.nan},
    "threshold: '1', expected a number": {"threshold": "1"},
    "below: 3, expected a threshold": {"below": 3},
    "below: 1.5, expected an integer": {"below": 1.5, "threshold": 1},
    "dtype: dtype('float32'), expected a type of integers": {"dtype": np.dtype("float32")},
    "dtype: 'bool', expected a type of integers": {"dtype": "bool"},
    "dtype: 'what', expected a type of integers": {"dtype": "what"},
    "dtype: int8, expected a type that has room for 0 to 255": {"dtype": np.int8, "threshold": 1},
    "out: uint8, expected a type that has room for 0 to 300": {
        "labels": [0, 1, 300], "out": np.zeros((6, 7), np.uint8),
    },
    "out: dtype float32, expected": {"out": np.zeros((6, 7), np.float32)},
    "out: dtype uint8, expected int64": {"out": np.zeros((6, 7), np.uint8), "dtype": np.int64},
    "out: shape (7, 6), expected (6, 7)": {"out": np.zeros((7, 6), np.uint8)},
    "values: 1, expected True or False": {"values": 1},
    "num_threads: 0, expected": {"num_threads": 0},
}  # fmt: skip
WRONG_MASKS = [
    ({"masks": np.ones(5)}, "masks: shape (5,), expected (..., h, w) with at least one"),
    ({"masks": np.ones((3, 0, 5))}, "masks: shape (3, 0, 5), expected (..., h, w)"),
    ({"masks": np.ones((3, 4), int)}, "masks: dtype int64, expected float32"),
    ({"threshold": None}, "threshold: None, expected a number"),
    ({"threshold": np.inf}, "threshold: inf, expected a finite float64"),
    ({"format": "png"}, "format: 'png', expected 'image' or 'rle'"),
    ({"out": np.zeros((6, 7), np.int8)}, "out: dtype int8, expected bool or uint8"),
    ({"out": np.zeros((6, 7), bool), "format": "rle"}, "out: an array, expected None"),
    ({"size": (2**16, 2**16), "format": "rle"}, "size: (65536, 65536), expected less"),
]
WRONG_SEGMENTS = [
    ({"size": (2, 3, 4)}, "size: (2, 3, 4), expected two integers"),
    ({"labels": [0, -1, 2]}, "labels: from -1 to 2, expected 0 to 65535"),
    ({"threshold": 1, "below": 2**16}, "labels: from 0 to 65536, expected 0 to 65535"),
    ({"codes": 1}, "codes: 1, expected True or False"),
    ({"codes": True, "size": (2**16, 2**16)}, "size: (65536, 65536), expected less than 2**32"),
]
LABELS, MASKS = {"maps": MAPS, "size": (6, 7)}, {"masks": MAPS[0], "size": (6, 7)}


@pytest.mark.parametrize(
    ("function", "right", "wrong", "message"),
    [
        *((roicy.label_map, LABELS, wrong, message) for message, wrong in WRONG_MAPS.items()),
        *((roicy.resize_masks, MASKS, wrong, message) for wrong, message in WRONG_MASKS),
        *((roicy.label_segments, LABELS, wrong, message) for wrong, message in WRONG_SEGMENTS),
    ],
)
def test_wrong_arguments(function, right, wrong, message):
    assert_refused(function, right, wrong, "^" + re.escape(message))


def test_the_largest_label_of_many_pictures():
    """Pictures are counted some at a time, so that labels that none of them has take no memory."""
    maps = np.random.default_rng(0).standard_normal((40, 2, 3, 4), np.float32)
    tracemalloc.start()
    found, segments = roicy.label_segments(maps, (5, 6), labels=[3, 65535])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * roicy.labels.COUNTED * 40 < 40 * 65536 * 40
    for k, one in enumerate(maps):
        expected = roicy.label_segments(one, (5, 6), labels=[3, 65535])
        np.testing.assert_array_equal(found[k], expected[0])
        assert segments[k] == expected[1]


@pytest.mark.parametrize("name", ["size", "via"])
def test_rows_and_columns_that_lack_memory(name, monkeypatch):
    """The error comes before memory is taken, and names the argument."""
    monkeypatch.setattr(_limits, "memory", lambda: 1e9)
    extents = {"size": (2, 2), "via": (2, 2)} | {name: (2, 2**27)}
    maps = np.zeros((1, 2, 2), np.float32)
    with pytest.raises(MemoryError, match=rf"^{name}: \(2, 134217728\), whose weights take "):
        roicy.resize_masks(maps, **extents, format="rle")
    with pytest.raises(MemoryError, match=rf"^{name}: \(2, 134217728\), whose weights take "):
        roicy.label_map(maps, **extents)


def test_below_that_is_a_class():
    maps = np.zeros((256, 2, 2), np.float32)
    with pytest.warns(UserWarning, match="^below: 255 by default, which is the label of a class"):
        roicy.label_map(maps, (2, 2), threshold=0.5)
    roicy.label_map(maps, (2, 2), threshold=0.5, below=255)  # as somebody may mean it
    roicy.label_map(maps[:255], (2, 2), threshold=0.5)
