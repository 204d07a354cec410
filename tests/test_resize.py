"""roicy.resize against its definition, against Pillow, and against what Pillow made before."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import reference_resize
from conftest import ISAS, pairs

import roicy
from roicy._checks import _arguments
from roicy.cropping import filters

FILTERS = {"box": 4, "bilinear": 2, "hamming": 5, "bicubic": 3, "lanczos": 1}  # Pillow's numbers
BYTES = {"channels": "last", "dtype": np.uint8}
NUMBERS = {"mean": (0.48, 0.46, 0.41), "std": (0.27, 0.26, 0.28), "scale": 1 / 255}
with np.load(Path(__file__).with_name("data") / "resizes.npz") as file:
    RECORDED = dict(file)


def frame_of(height, width, channels=3, seed=0):
    """Return noise, of which a part has only the lowest and the highest byte."""
    frame = np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)
    frame[: height // 3] = (frame[: height // 3] > 127) * np.uint8(255)
    return frame


def normalised(frame):
    """Return what NUMBERS make of bytes (..., 3)."""
    scaled = (frame.astype(np.float64) * NUMBERS["scale"]).astype(np.float32)
    return (scaled - np.float32(NUMBERS["mean"])) / np.float32(NUMBERS["std"])


@pairs(
    filter=list(FILTERS),
    size=[(23, 12), (9, 37), (23, 37), (40, 51), (3, 90), (1, 1), (90, 2)],
    box=[None, (0, 0, 37, 23), (3, 2, 20, 19), (0.3, 1.7, 36.9, 22.2), (5.5, 0, 5.5, 23)],
    channels=[1, 2, 3, 4],
    isa=ISAS,
)
def test_definition(filter, size, box, channels, isa):
    frame = frame_of(23, 37, channels)
    boxes = None if box is None else [box]
    for threads in (1, 2):
        got = roicy.resize(frame, size, boxes, filter=filter, num_threads=threads, **BYTES)
        np.testing.assert_array_equal(
            got[0], reference_resize.pillow_resize(frame, size, filter, box)
        )


@pairs(
    filter=list(FILTERS),
    extent=[(200, 30), (700, 5), (1500, 200)],
    size=[(20, 30), (7, 20), (30, 300), (60, 1)],
    isa=ISAS,
)
def test_y_first(filter, extent, size, isa):
    """Pillow resizes along y first what shrinks most along y; its version says when."""
    frame = frame_of(*extent)
    for pillow in (12, 13):
        got = roicy.resize(frame, size, filter=filter, pillow=pillow, num_threads=2, **BYTES)
        want = reference_resize.pillow_resize(frame, size, filter, pillow=pillow)
        np.testing.assert_array_equal(got[0], want)


@pytest.mark.parametrize("extent, size", [((70, 4000), (40, 3)), ((4000, 70), (3, 40))])
@pytest.mark.parametrize("pillow", [12, 13])
def test_many_taps(extent, size, pillow, isa):
    """A window that is too large to be transposed is summed row by row."""
    frame = frame_of(*extent)
    for channels in (1, 3):
        got = roicy.resize(frame[..., :channels], size, filter="lanczos", pillow=pillow, **BYTES)
        want = reference_resize.pillow_resize(frame[..., :channels], size, "lanczos", pillow=pillow)
        np.testing.assert_array_equal(got[0], want)


@pytest.mark.parametrize("name", [name for name in RECORDED if "_" in name])
def test_recorded(name, isa):
    version, picture, filter, height, width, *box = name.split("_")
    frame = RECORDED[picture]
    for pillow in (12, 13) if version == "both" else (int(version),):
        boxes = [(0.75, 2.5, frame.shape[1] - 0.25, frame.shape[0] - 4)] if box else None
        got = roicy.resize(
            frame, (int(height), int(width)), boxes, filter=filter, pillow=pillow,
            alpha="pillow" if frame.shape[2] == 4 else None, **BYTES,
        )[0]  # fmt: skip
        np.testing.assert_array_equal(got.reshape(RECORDED[name].shape), RECORDED[name])


def test_pillow(isa):
    """Random calls of Pillow itself: whole pictures, resize(box=...) and crop().resize()."""
    image = pytest.importorskip("PIL.Image")
    version = int(pytest.importorskip("PIL").__version__.split(".")[0])
    rng = np.random.default_rng(ISAS.index(isa))
    for _ in range(250):
        height, width, *size = np.exp(rng.uniform(0, [6, 6, 5.5, 5.5])).astype(int).tolist()
        size = [(height, width)[i] if rng.random() < 0.15 else size[i] for i in (0, 1)]
        channels = int(rng.choice([1, 3, 4]))
        frame = frame_of(height, width, channels, rng.integers(1000))
        mode = {1: "L", 3: "RGB", 4: "CMYK"}[channels]
        picture = image.frombytes(mode, (width, height), frame.tobytes())
        filter, boxes, options = str(rng.choice(list(FILTERS))), None, {}
        given = size[::-1], FILTERS[filter]
        x, y = np.sort(rng.uniform(0, width, 2)), np.sort(rng.uniform(0, height, 2))
        way = rng.choice(["whole", "box", "whole numbers", "crop"])
        if way in ("whole numbers", "crop"):
            x, y = np.round(x), np.round(y)
        if x[1] <= 1 and y[1] <= 1:
            way = "whole"  # since such boxes bring a warning
        if way == "crop" and x[0] < x[1] and y[0] < y[1]:
            boxes, options = [[x[0], y[0], x[1], y[1]]], {"border": "crop"}
            want = picture.crop(boxes[0]).resize(*given)
        elif way in ("box", "whole numbers"):
            boxes = [[float(x[0]), float(y[0]), float(x[1]), float(y[1])]]
            want = picture.resize(*given, box=boxes[0])
        else:
            want = picture.resize(*given)
        got = roicy.resize(
            frame, size, boxes, filter=filter, pillow=version, num_threads=2, **options, **BYTES
        )
        np.testing.assert_array_equal(got[0], np.asarray(want).reshape(got.shape[1:]))


@pytest.mark.parametrize("size", [(40, 50), (90, 70), (60, 80), (60, 30), (30, 80)])
def test_alpha(size, isa):
    """Colours are weighed by alpha, as Pillow does; or alpha is not read."""
    frame = frame_of(60, 80, 4)
    frame[20:, ..., 3] = 77
    frame[:7, ..., 3] = 0
    dropped = roicy.resize(frame, size, alpha="drop", **BYTES)
    np.testing.assert_array_equal(dropped, roicy.resize(frame[..., :3].copy(), size, **BYTES))
    image = pytest.importorskip("PIL.Image")
    version = int(pytest.importorskip("PIL").__version__.split(".")[0])
    options = {"alpha": "pillow", "pillow": version, **BYTES}
    for given, mode in ((frame, "RGBA"), (frame[..., 2:], "LA")):
        picture = image.frombytes(mode, (80, 60), given.tobytes())
        for box in ((0, 0, 80, 60), (2, 3, 72, 33), (0.5, 1.5, 79.25, 50)):
            got = roicy.resize(given, size, [box], **options)[0]
            np.testing.assert_array_equal(got, picture.resize(size[::-1], 3, box=box))
        backwards = roicy.resize(np.ascontiguousarray(given[..., ::-1])[..., ::-1], size, **options)
        np.testing.assert_array_equal(backwards[0], picture.resize(size[::-1], 3))


def test_strides(isa):
    """Planes, padded rows, mirrors, views of some channels, and BGR are read as they are."""
    frame, size = frame_of(50, 41), (30, 17)
    want = roicy.resize(frame, size, **BYTES)
    padded = np.zeros((50, 64, 3), np.uint8)
    padded[:, :41] = frame
    views = [
        np.ascontiguousarray(frame.transpose(2, 0, 1)).transpose(1, 2, 0),
        padded[:, :41],
        np.ascontiguousarray(frame[::-1])[::-1],
        np.ascontiguousarray(frame[:, ::-1])[:, ::-1],
        np.ascontiguousarray(frame[..., ::-1])[..., ::-1],
        np.concatenate([frame, frame[..., :1]], axis=2)[..., :3],
        np.repeat(frame, 2, axis=1)[:, ::2],
    ]
    for view in views:
        np.testing.assert_array_equal(roicy.resize(view, size, **BYTES), want)
        first = roicy.resize(view, size, dtype=np.uint8)
        np.testing.assert_array_equal(first, want.transpose(0, 3, 1, 2))
    swapped = roicy.resize(frame[..., ::-1], size, swap_channels=True, **BYTES)
    np.testing.assert_array_equal(swapped, want)
    out = np.zeros((1, 30, 17, 2, 3), np.uint8)[..., ::-1, :][..., 0, :]
    assert roicy.resize(frame, size, out=out, **BYTES) is out
    np.testing.assert_array_equal(out, want)


def test_frames_and_boxes(isa):
    """Several frames and boxes give what each gives alone, with any number of threads."""
    frames = [frame_of(40, 60), frame_of(90, 30, seed=1)]
    boxes = [[(0, 0, 60, 40), (3, 4, 50.5, 20)], [(1, 1, 30, 90)]]
    size = (37, 21)
    alone = [
        roicy.resize(frame, size, [box], **BYTES)
        for frame, some in zip(frames, boxes, strict=True)
        for box in some
    ]
    for threads in (1, 2, 3):
        got = roicy.resize(frames, size, boxes, num_threads=threads, **BYTES)
        np.testing.assert_array_equal(got, np.concatenate(alone))
    rows = [(n, *box) for n, some in enumerate(boxes) for box in some]
    np.testing.assert_array_equal(roicy.resize(frames, size, rows, **BYTES), got)
    whole = roicy.resize(frames, size, **BYTES)
    np.testing.assert_array_equal(whole[0], alone[0][0])
    assert len(whole) == 2
    assert roicy.resize(frames, size, np.zeros((0, 5)), **BYTES).shape == (0, *size, 3)


@pytest.mark.parametrize("color", ["nv12", "i420", "yuyv", "rgb565"])
def test_ycbcr(color, isa):
    """Frames are converted as by crop, and then resized."""
    rng = np.random.default_rng(5)
    shape = {"nv12": (90, 80), "i420": (90, 80), "yuyv": (60, 80, 2), "rgb565": (60, 80, 2)}[color]
    frame = rng.integers(0, 256, shape, np.uint8)
    whole = [(0, 0, 80, 60)]
    converted = roicy.crop(frame, whole, (60, 80), color=color, antialias="nearest", **BYTES)[0]
    for boxes, border in ((None, "image"), ([(3, 5, 33, 25), (20.5, 30, 80, 60)], "image")):
        for threads in (1, 2):
            options = {"border": border, "num_threads": threads, **BYTES}
            got = roicy.resize(frame, (20, 31), boxes, color=color, **options)
            want = roicy.resize(converted, (20, 31), boxes, **options)
            np.testing.assert_array_equal(got, want)


def test_numbers(isa):
    """A byte becomes (byte * scale - mean) / std, each step rounded to float32, in any type."""
    frame = np.arange(768, dtype=np.uint8).reshape(16, 16, 3)
    want = normalised(frame)
    for last in (True, False):
        options = {"channels": "last" if last else "first", **NUMBERS}
        got = roicy.resize(frame, (16, 16), **options)[0]
        np.testing.assert_array_equal(got, want if last else want.transpose(2, 0, 1))
    got = roicy.resize(frame, (16, 16), channels="last", dtype="float16", **NUMBERS)[0]
    np.testing.assert_array_equal(got, want.astype(np.float16))
    for dtype, zero in (("int8", -5), ("uint8", 117)):
        got = roicy.resize(
            frame, (16, 16), channels="last", dtype=dtype, quantization=(0.02, zero), **NUMBERS
        )[0]
        steps, limits = np.rint(want / np.float32(0.02)) + zero, np.iinfo(dtype)
        np.testing.assert_array_equal(got, np.clip(steps, limits.min, limits.max))
    swapped = roicy.resize(frame, (16, 16), channels="last", swap_channels=True, **NUMBERS)[0]
    np.testing.assert_array_equal(swapped, normalised(frame[..., ::-1]))


def test_content(isa):
    """What is resized may lie anywhere: in the middle of padding, or cut to its middle."""
    frame = frame_of(108, 192)
    full = roicy.resize(frame, (56, 99), **BYTES)[0]
    got = roicy.resize(frame, (40, 40), content=(-8, -29, 56, 99), **BYTES)[0]
    np.testing.assert_array_equal(got, full[8:48, 29:69])
    got = roicy.resize(
        frame, (60, 40), content=[(2, -29, 56, 99), (70, 0, 5, 5)], pad_value=(1, 2, 3),
        boxes=[(0, 0, 192, 108)] * 2, num_threads=2, **BYTES,
    )  # fmt: skip
    want = np.full((2, 60, 40, 3), (1, 2, 3), np.uint8)
    want[0, 2:58] = full[:, 29:69]
    np.testing.assert_array_equal(got, want)


def test_content_anywhere(isa):
    """It may lie off the result on any side, by any number of pixels."""
    frame, size = frame_of(12, 19), (9, 8)
    full = roicy.resize(frame, (6, 7), **BYTES)[0]
    for top, left in itertools.product((-7, -6, -5, 0, 2, 8, 9, 12), (-8, -7, -6, 0, 3, 7, 8, 11)):
        want = np.full((30, 30, 3), 9, np.uint8)
        want[10 + top : 16 + top, 10 + left : 17 + left] = full
        guarded = np.zeros((3, *size, 3), np.uint8)
        given = {"content": (top, left, 6, 7), "pad_value": 9, "out": guarded[1:2]}
        roicy.resize(frame, size, **given, **BYTES)
        np.testing.assert_array_equal(guarded[1], want[10:19, 10:18])
        assert not guarded[::2].any()


@pytest.mark.parametrize("size", [(50, 50), (20, 90), (90, 21), (7, 300), (33, 58)])
def test_letterbox(size, isa):
    operations = pytest.importorskip("PIL.ImageOps")
    image = pytest.importorskip("PIL.Image")
    version = int(pytest.importorskip("PIL").__version__.split(".")[0])
    frame = frame_of(57, 91)
    got = roicy.resize(
        frame, size, fit="letterbox", pad_value=(9, 8, 7), pillow=version, **BYTES
    )[0]  # fmt: skip
    want = operations.pad(image.fromarray(frame), size[::-1], 3, (9, 8, 7))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("merge, repeat", [(1, 1), (2, 2), (3, 1), (1, 3)])
def test_patches(last, merge, repeat, isa):
    """Patches of merge x merge follow each other, and each is repeated."""
    frame, side = frame_of(130, 150), 6
    size = (side * 6, side * 12)
    whole = normalised(roicy.resize(frame, size, **BYTES)[0])
    rows, columns = size[0] // side // merge, size[1] // side // merge
    split = whole.reshape(rows, merge, side, columns, merge, side, 3)
    axes = (0, 3, 1, 4, 2, 5, 6) if last else (0, 3, 1, 4, 6, 2, 5)
    patches = split.transpose(axes).reshape(
        rows * columns * merge**2, *((-1,) if last else (3, -1))
    )
    want = np.concatenate([patches] * repeat, axis=-1).reshape(len(patches), -1)
    for threads in (1, 3):
        got = roicy.resize(
            frame, size, patch=side, merge=merge, repeat=repeat, num_threads=threads,
            channels="last" if last else "first", **NUMBERS,
        )  # fmt: skip
        np.testing.assert_array_equal(got[0], want)
    out = np.zeros((1, *want.shape, 2), np.float32)[..., 0]
    options = {"patch": side, "merge": merge, "repeat": repeat, "out": out}
    roicy.resize(frame, size, channels="last" if last else "first", **options, **NUMBERS)
    np.testing.assert_array_equal(out[0], want)


def test_tiles(isa):
    frame = frame_of(108, 192)
    grid = roicy.resize(frame, (64, 144), **BYTES)[0]
    tiles = [
        grid[32 * y : 32 * y + 32, 48 * x : 48 * x + 48]
        for y, x in itertools.product((0, 1), (0, 1, 2))
    ]
    small = roicy.resize(frame, (32, 48), **BYTES)[0]
    for overview, want in ((None, tiles), ("first", [small, *tiles]), ("last", [*tiles, small])):
        got = roicy.resize(frame, (32, 48), tiles=(2, 3), overview=overview, **BYTES)[0]
        np.testing.assert_array_equal(got, want)
        got = roicy.resize(frame, (32, 48), tiles=(2, 3), overview=overview, dtype=np.uint8)[0]
        np.testing.assert_array_equal(got, np.transpose(want, (0, 3, 1, 2)))
    place = {"content": (0, 10, 64, 114)}
    got = roicy.resize(frame, (32, 48), tiles=(2, 3), overview="last", **place, **BYTES)[0]
    grid = roicy.resize(frame, (64, 144), **place, **BYTES)[0]
    np.testing.assert_array_equal(got[4], grid[32:, 48:96])
    np.testing.assert_array_equal(got[6], small)


def test_taps_are_kept():
    """Taps of sizes that were seen before are not computed again; no more than some are kept."""
    frame = frame_of(40, 50)
    filters._kept.cache_clear()
    for _ in range(3):
        roicy.resize(frame, (20, 30))
    assert filters._kept.cache_info().misses == 2
    for size in range(1, 2 * filters.KEPT):
        roicy.resize(frame, size)
    assert filters._kept.cache_info().currsize == filters.KEPT
    before = filters._kept.cache_info().misses
    roicy.resize(frame, (40, filters.MOST_TAPS))  # of which the longer axis is not kept
    assert filters._kept.cache_info().misses == before


@pytest.mark.parametrize(
    "options, message",
    [
        ({"frames": np.zeros((8, 9), np.float32)}, "frames: dtype float32, expected uint8"),
        ({"frames": np.zeros((8, 9), np.uint16)}, "frames: dtype uint16, expected uint8"),
        ({"frames": np.zeros((0, 9), np.uint8)}, "boxes[0]: (0.0, 0.0, 9.0, 0.0), expected one"),
        ({"size": 0}, "size: 0, expected an integer from 1"),
        ({"boxes": [(0, 0, 10, 8)]}, "boxes[0]: (0.0, 0.0, 10.0, 8.0), expected one that lies on"),
        ({"boxes": [(-1, 0, 9, 8)]}, "boxes[0]: (-1.0, 0.0, 9.0, 8.0), expected one that lies on"),
        ({"boxes": [(5, 0, 4, 8)]}, "boxes[0]: (5.0, 0.0, 4.0, 8.0), expected one that lies on"),
        ({"boxes": [(5, 1, 5.2, 8)], "border": "crop"}, "boxes[0]: (5.0, 1.0, 5.2, 8.0), "),
        ({"boxes": [(5, 5, 5, 5, 0.1)], "boxes_num": [1]}, "boxes: of kind 'rotated', expected up"),
        ({"filter": "nearest"}, "filter: 'nearest', expected 'box', 'bilinear'"),
        ({"fit": "cover"}, "fit: 'cover', expected 'stretch' or 'letterbox'"),
        ({"border": "constant"}, "border: 'constant', expected 'image' or 'crop'"),
        ({"alpha": "keep"}, "alpha: 'keep', expected 'drop' or 'pillow'"),
        ({"alpha": "drop"}, "alpha: 'drop', expected None for frames of 1 channel"),
        ({"content": (0, 0, 8)}, "content: shape (3,) of int64, expected whole numbers (top, left"),
        ({"content": (0, 0, 8, 0)}, "content: 0, expected sides from 1"),
        ({"content": (0, 0, 8, 2**25)}, "content: 33554432, expected sides from 1"),
        ({"content": (0, 0, 8, 8), "fit": "letterbox"}, "fit: 'letterbox', expected 'stretch'"),
        ({"patch": 3}, "size: (4, 4), expected multiples of patch * merge, 3"),
        ({"patch": 2, "merge": 4}, "size: (4, 4), expected multiples of patch * merge, 8"),
        ({"merge": 2}, "merge, repeat: 2, 1, expected 1 without patch"),
        ({"tiles": (2, 2), "patch": 2}, "patch: 2, expected None beside tiles"),
        ({"tiles": (2, 0)}, "tiles: 0, expected an integer from 1"),
        ({"tiles": (2**23, 1)}, "tiles: (8388608, 1) of (4, 4), expected at most"),
        ({"overview": "first"}, "overview: 'first', expected None without tiles"),
        ({"tiles": (1, 1), "overview": "both"}, "overview: 'both', expected 'first' or 'last'"),
        ({"pillow": 0}, "pillow: 0, expected an integer from 1"),
        ({"out": np.zeros((1, 1, 4, 5), np.float32)}, "out: shape (1, 1, 4, 5), expected (1, 1, "),
    ],
)  # fmt: skip
def test_errors(options, message):
    given = {"frames": np.zeros((8, 9), np.uint8), "size": 4, **options}
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}"):
        roicy.resize(**given)


def test_far_content():
    """Sizes of strangers overflow nothing."""
    frame, most = frame_of(8, 9), _arguments.MOST_BINS
    got = roicy.resize(frame, 4, content=(-most, -most, 1, 1), pad_value=3, **BYTES)
    assert (got == 3).all()
    got = roicy.resize(frame, 4, content=(-most + 4, 0, most, 4), filter="box", **BYTES)
    np.testing.assert_array_equal(
        got[0, -1], roicy.resize(frame, (8, 4), filter="box", **BYTES)[0, -1]
    )
