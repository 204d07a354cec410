"""roicy.resize against its definition, against Pillow, and against what Pillow made before."""

import itertools
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import reference_resize
from conftest import ISAS, assert_refused, pairs
from frames import views_of

import roicy
from roicy._checks import _arguments

FILTERS = {"box": 4, "bilinear": 2, "hamming": 5, "bicubic": 3, "lanczos": 1}  # Pillow's numbers
BYTES = {"channels": "last", "dtype": np.uint8}
NUMBERS = {"mean": (0.48, 0.46, 0.41), "std": (0.27, 0.26, 0.28), "scale": 1 / 255}
with np.load(Path(__file__).parents[1] / "data" / "resizes.npz") as file:
    RECORDED = dict(file)
with np.load(Path(__file__).parents[1] / "data" / "resizes_of_torch.npz") as file:
    TORCH = dict(file)
TORCH_NAMES = [name for name in TORCH if "_" in name]


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
    filter=FILTERS,
    size=[(23, 12), (9, 37), (23, 37), (40, 51), (3, 90), (1, 1), (90, 2)],
    box=[None, (0, 0, 37, 23), (3, 2, 20, 19), (0.3, 1.7, 36.9, 22.2), (5.5, 0, 5.5, 23)],
    channels=[1, 2, 3, 4],
    isa=ISAS,
)
def test_definition(filter, size, box, channels, isa):
    frame = frame_of(23, 37, channels)
    boxes = None if box is None else [box]
    want = reference_resize.pillow_resize(frame, size, filter, box)
    for threads in (1, 2):
        got = roicy.resize(frame, size, boxes, filter=filter, num_threads=threads, **BYTES)
        np.testing.assert_array_equal(got[0], want)


@pairs(
    filter=list(FILTERS),
    extent=[(200, 30), (700, 5), (600, 100)],
    size=[(20, 30), (7, 20), (30, 150), (60, 1)],
    isa=ISAS,
)
def test_y_first(filter, extent, size, isa):
    """Pillow resizes along y first what shrinks most along y; its version says when."""
    check_versions(frame_of(*extent), size, filter)


@pytest.mark.parametrize("extent, size", [((70, 4000), (40, 3)), ((4000, 70), (3, 40))])
@pytest.mark.parametrize("channels", [1, 3])
def test_many_taps(extent, size, channels, isa):
    """A window that is too large to be transposed is summed row by row."""
    check_versions(frame_of(*extent, channels), size, "lanczos")


def check_versions(frame, size, filter):
    """Check a resize as two versions of Pillow do it."""
    for pillow in (12, 13):
        got = roicy.resize(frame, size, filter=filter, pillow=pillow, num_threads=2, **BYTES)
        want = reference_resize.pillow_resize(frame, size, filter, pillow=pillow)
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


TORCHES = [
    (size, extent)
    for size in [(23, 12), (9, 37), (40, 51), (3, 90), (1, 1), (23, 2)]
    for extent in [(23, 37), (300, 40), (1, 1), (23, 700)]
]


@pairs(filter=["bilinear", "bicubic", "lanczos"], sizes=TORCHES, channels=[1, 2, 3, 4], isa=ISAS)
def test_torch_definition(filter, sizes, channels, isa):
    size, extent = sizes
    frame = frame_of(*extent, channels)
    want = reference_resize.torch_resize(frame, size, filter)
    for threads in (1, 2):
        got = roicy.resize(
            frame, size, filter=filter, arithmetic="torch", num_threads=threads, **BYTES
        )
        np.testing.assert_array_equal(got[0], want)


@pytest.mark.parametrize("name", TORCH_NAMES)
def test_recorded_of_torch(name, isa):
    filter, height, width = name.split("_")[1:]
    frame = TORCH[name.split("_")[0]]
    got = roicy.resize(frame, (int(height), int(width)), filter=filter, arithmetic="torch", **BYTES)
    np.testing.assert_array_equal(got[0], TORCH[name])


@pytest.mark.parametrize("name", ["both", "scaled", "moved"])
def test_numbers_of_torch(name, isa):
    """Mean and std are divided by the scale first, and rounded to float32."""
    frame = np.arange(768, dtype=np.uint8).reshape(16, 16, 3)
    options = {"both": NUMBERS, "scaled": {"scale": 1 / 255}, "moved": {"mean": 120, "std": 33.3}}
    got = roicy.resize(frame, 16, arithmetic="torch", channels="last", **options[name])
    np.testing.assert_array_equal(got[0, :, :, 0].reshape(-1)[[0, 5, 170]], TORCH[f"of {name}"])
    arrays = {key: np.array(value) for key, value in options[name].items()}
    same = roicy.resize(frame, 16, arithmetic="torch", channels="last", **arrays)
    np.testing.assert_array_equal(same, got)


def test_kept_tables():
    """What bytes become is kept, and a mean of 0.0 is not taken for one of -0.0."""
    frame = np.zeros((4, 4), np.uint8)
    for mean, negative in ((0.0, True), (-0.0, False), (0.0, True)):
        got = roicy.resize(frame, 4, scale=-1, mean=mean)
        assert np.signbit(got).all() == negative


def test_torch(isa):
    """Random calls of torchvision itself."""
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    modes = pytest.importorskip("torchvision.transforms").InterpolationMode
    rng = np.random.default_rng(100 + ISAS.index(isa))
    for _ in range(60):
        height, width, *size = np.exp(rng.uniform(0, [6, 6, 5.5, 5.5])).astype(int).tolist()
        size = [(height, width)[i] if rng.random() < 0.15 else size[i] for i in (0, 1)]
        frame = frame_of(height, width, int(rng.choice([1, 3, 4])), rng.integers(1000))
        filter = str(rng.choice(["bilinear", "bicubic", "lanczos"]))
        given = torch.from_numpy(frame).permute(2, 0, 1)
        if filter == "bilinear":  # which torchvision computes otherwise on some processors
            want = torch.nn.functional.interpolate(
                given[None], size, mode=filter, antialias=True, align_corners=False
            )[0]
        else:
            want = functional.resize(given, size, interpolation=modes(filter))
        got = roicy.resize(
            frame, size, filter=filter, arithmetic="torch", dtype=np.uint8, num_threads=2
        )[0]
        np.testing.assert_array_equal(got, want)


@pytest.fixture
def pillow():
    """Return the module of pictures of Pillow, and its version."""
    image = pytest.importorskip("PIL.Image")
    return image, int(image.__version__.split(".")[0])


def test_pillow(pillow, isa):
    """Random calls of Pillow itself: whole pictures, resize(box=...) and crop().resize()."""
    image, version = pillow
    rng = np.random.default_rng(ISAS.index(isa))
    for _ in range(250):
        height, width, *size = np.exp(rng.uniform(0, [6, 6, 5.5, 5.5])).astype(int).tolist()
        size = [(height, width)[i] if rng.random() < 0.15 else size[i] for i in (0, 1)]
        channels = int(rng.choice([1, 3, 4]))
        frame = frame_of(height, width, channels, rng.integers(1000))
        mode = {1: "L", 3: "RGB", 4: "CMYK"}[channels]
        picture = image.frombytes(mode, (width, height), frame.tobytes())
        filter = str(rng.choice(list(FILTERS)))
        options = {"filter": filter, "pillow": version, "num_threads": 2}
        given = size[::-1], FILTERS[filter]
        x, y = np.sort(rng.uniform(0, width, 2)), np.sort(rng.uniform(0, height, 2))
        way = rng.choice(["whole", "box", "whole numbers", "crop"])
        if way in ("whole numbers", "crop"):
            x, y = np.round(x), np.round(y)
        box = [x[0], y[0], x[1], y[1]]
        if x[1] <= 1 and y[1] <= 1:  # since such boxes bring a warning
            way = "whole"
        if way == "whole":
            want = picture.resize(*given)
        elif way == "crop" and x[0] < x[1] and y[0] < y[1]:
            options |= {"boxes": [box], "border": "crop"}
            want = picture.crop(box).resize(*given)
        else:
            options["boxes"] = [box]
            want = picture.resize(*given, box=box)
        got = roicy.resize(frame, size, **options, **BYTES)[0]
        np.testing.assert_array_equal(got, np.asarray(want).reshape(got.shape))


@pytest.mark.parametrize("size", [(50, 50), (20, 90), (90, 21), (7, 300), (33, 58)])
def test_letterbox(size, pillow, isa):
    operations = pytest.importorskip("PIL.ImageOps")
    image, version = pillow
    frame, options = frame_of(57, 91), {"pad_value": (9, 8, 7), "pillow": version}
    got = roicy.resize(frame, size, fit="letterbox", **options, **BYTES)[0]
    want = operations.pad(image.fromarray(frame), size[::-1], 3, (9, 8, 7))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("first", [0, 2])
def test_alpha_of_many_pixels(first):
    """Rows are multiplied by alpha a few at a time."""
    frame = frame_of(200, 300, 4)[..., first:].copy()
    whole = roicy.resize(frame, (200, 70), alpha="pillow", **BYTES)[0]
    parts = [
        roicy.resize(rows, (len(rows), 70), alpha="pillow", **BYTES)[0]
        for rows in np.array_split(frame, [3, 50, 120])
    ]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("size", [(40, 50), (90, 70), (60, 80), (60, 30), (30, 80)])
def test_alpha(size, pillow, isa):
    """Colours are weighed by alpha, as Pillow does; or alpha is not read."""
    frame = frame_of(60, 80, 4)
    frame[20:, ..., 3] = 77
    frame[:7, ..., 3] = 0
    dropped = roicy.resize(frame, size, alpha="drop", **BYTES)
    np.testing.assert_array_equal(dropped, roicy.resize(frame[..., :3].copy(), size, **BYTES))
    image, version = pillow
    options = {"alpha": "pillow", "pillow": version, **BYTES}
    for given, mode in ((frame, "RGBA"), (frame[..., 2:], "LA")):
        picture = image.frombytes(mode, (80, 60), given.tobytes())
        ends = 80 - size[1] % 80, 60 - size[0] % 60, 80, 60  # also where this keeps the size
        for box in ((0, 0, 80, 60), (2, 3, 72, 33), (0.5, 1.5, 79.25, 50), ends):
            got = roicy.resize(given, size, [box], **options)[0]
            np.testing.assert_array_equal(got, picture.resize(size[::-1], 3, box=box))
        backwards = np.ascontiguousarray(given[..., ::-1])[..., ::-1]
        got = roicy.resize(backwards, size, **options)[0]
        np.testing.assert_array_equal(got, picture.resize(size[::-1], 3))


def test_strides(isa):
    """Frames are read as they lie, and results are written where they are to be."""
    frame, size = frame_of(50, 41), (30, 17)
    want = roicy.resize(frame, size, **BYTES)
    for view in views_of(frame):
        np.testing.assert_array_equal(roicy.resize(view, size, **BYTES), want)
        first = roicy.resize(view, size, dtype=np.uint8)
        np.testing.assert_array_equal(first, want.transpose(0, 3, 1, 2))
    swapped = roicy.resize(frame[..., ::-1], size, swap_channels=True, **BYTES)
    np.testing.assert_array_equal(swapped, want)
    out = np.zeros((1, 30, 17, 2, 3), np.uint8)[..., ::-1, :][..., 0, :]
    assert roicy.resize(frame, size, out=out, **BYTES) is out
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("color", ["nv12", "i420", "yuyv", "rgb565"])
def test_ycbcr(color, isa):
    """Frames are converted as by crop, and then resized."""
    shape = (90, 80) if color in ("nv12", "i420") else (60, 80, 2)
    frame = np.random.default_rng(5).integers(0, 256, shape, np.uint8)
    whole = [(0, 0, 80, 60)]
    converted = roicy.crop(frame, whole, (60, 80), color=color, antialias="nearest", **BYTES)[0]
    for boxes in (None, [(3, 5, 33, 25), (20.5, 30, 80, 60)]):
        want = roicy.resize(converted, (20, 31), boxes, **BYTES)
        for threads in (1, 2):
            got = roicy.resize(frame, (20, 31), boxes, color=color, num_threads=threads, **BYTES)
            np.testing.assert_array_equal(got, want)


def test_numbers(isa):
    """A byte becomes (byte * scale - mean) / std, each step rounded to float32, in any type."""
    frame, size = np.arange(768, dtype=np.uint8).reshape(16, 16, 3), (16, 16)
    want, options = normalised(frame), {"channels": "last", **NUMBERS}
    np.testing.assert_array_equal(roicy.resize(frame, size, **options)[0], want)
    first = roicy.resize(frame, size, **NUMBERS)[0]
    np.testing.assert_array_equal(first, want.transpose(2, 0, 1))
    got = roicy.resize(frame, size, dtype="float16", **options)[0]
    np.testing.assert_array_equal(got, want.astype(np.float16))
    for dtype, zero in (("int8", -5), ("uint8", 117)):
        got = roicy.resize(frame, size, dtype=dtype, quantization=(0.02, zero), **options)[0]
        steps, limits = np.rint(want / np.float32(0.02)) + zero, np.iinfo(dtype)
        np.testing.assert_array_equal(got, np.clip(steps, limits.min, limits.max))
    swapped = roicy.resize(frame, size, swap_channels=True, **options)[0]
    np.testing.assert_array_equal(swapped, normalised(frame[..., ::-1]))


def test_frames_and_boxes(isa):
    """Several frames and boxes give what each gives alone, with any number of threads."""
    frames = [frame_of(40, 60), frame_of(90, 30, seed=1)]
    boxes = [[(0, 0, 60, 40), (3, 4, 50.5, 20)], [(1, 1, 30, 90)]]
    size = (37, 21)
    each = [(frames[0], boxes[0][0]), (frames[0], boxes[0][1]), (frames[1], boxes[1][0])]
    alone = [roicy.resize(frame, size, [box], **BYTES) for frame, box in each]
    for threads in (1, 2, 3):
        got = roicy.resize(frames, size, boxes, num_threads=threads, **BYTES)
        np.testing.assert_array_equal(got, np.concatenate(alone))
    rows = [(n, *box) for n, some in enumerate(boxes) for box in some]
    np.testing.assert_array_equal(roicy.resize(frames, size, rows, **BYTES), got)
    whole = roicy.resize(frames, size, **BYTES)
    np.testing.assert_array_equal(whole[0], alone[0][0])
    assert len(whole) == 2
    assert roicy.resize(frames, size, np.zeros((0, 5)), **BYTES).shape == (0, *size, 3)


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


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("merge, repeat", [(1, 1), (2, 2), (3, 1), (1, 3)])
def test_patches(last, merge, repeat, isa):
    """Patches of merge x merge follow each other, and each is repeated."""
    channels = "last" if last else "first"
    frame, side = frame_of(130, 150), 6
    size = (side * 6, side * 12)
    whole = normalised(roicy.resize(frame, size, **BYTES)[0])
    rows, columns = size[0] // side // merge, size[1] // side // merge
    split = whole.reshape(rows, merge, side, columns, merge, side, 3)
    axes = (0, 3, 1, 4, 2, 5, 6) if last else (0, 3, 1, 4, 6, 2, 5)
    count, pixels = rows * columns * merge**2, (-1,) if last else (3, -1)
    patches = split.transpose(axes).reshape(count, *pixels)
    want = np.concatenate([patches] * repeat, axis=-1).reshape(len(patches), -1)
    options = {"patch": side, "merge": merge, "repeat": repeat, "channels": channels, **NUMBERS}
    for threads in (1, 3):
        got = roicy.resize(frame, size, num_threads=threads, **options)
        np.testing.assert_array_equal(got[0], want)
    out = np.zeros((1, *want.shape, 2), np.float32)[..., 0]
    roicy.resize(frame, size, out=out, **options)
    np.testing.assert_array_equal(out[0], want)


def test_tiles(isa):
    frame = frame_of(108, 192)
    grid = roicy.resize(frame, (64, 144), **BYTES)[0]
    tiles = [*grid.reshape(2, 32, 3, 48, 3).swapaxes(1, 2).reshape(6, 32, 48, 3)]
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
        ({"border": "wrap"}, "border: 'wrap', expected 'image', 'crop' or 'constant'"),
        ({"border": "constant", "boxes": [(3, 3, 3, 5)]}, "boxes[0]: (3.0, 3.0, 3.0, 5.0), expect"),
        ({"border": "constant", "pad_value": 0.5}, "pad_value: 0.5, expected whole numbers from 0"),
        ({"size": {"shortest_edge": 4}}, "size: {'shortest_edge': 4}, expected height and width"),
        ({"temporal": 2}, "temporal: 2, expected 1 without patch"),
        ({"temporal": 2, "patch": 2}, "temporal: 2, expected a divisor of 1 boxes"),
        ({"frames": np.zeros((8, 9, 17), np.uint8)}, "frames: shape (8, 9, 17), expected"),
        ({"frames": np.zeros((8, 9, 5), np.uint8), "rgb": True}, "rgb: True, expected False"),
        ({"alpha": "keep"}, "alpha: 'keep', expected 'drop' or 'pillow'"),
        ({"alpha": "drop"}, "alpha: 'drop', expected None for frames of 1 channel"),
        ({"content": (0, 0, 8)}, "content: shape (3,) of int64, expected whole numbers (top, left"),
        ({"content": 5}, "content: shape () of int64, expected whole numbers (top, left"),
        ({"content": [(), 1]}, "content: [(), 1], expected rows (top, left, height, width)"),
        ({"frames": np.zeros((), np.uint8), "color": "nv12"}, "frames: shape (), expected a frame"),
        ({"content": (0, 0, 8, 0)}, "content: 0, expected sides from 1"),
        ({"content": (0, 0, 8, 2**25)}, "content: 33554432, expected sides from 1"),
        ({"content": (0, 0, 8, 8), "fit": "letterbox"}, "fit: 'letterbox', expected 'stretch'"),
        ({"patch": 3}, "size: (4, 4), expected multiples of patch * merge, 3"),
        ({"patch": 2, "merge": 4}, "size: (4, 4), expected multiples of patch * merge, 8"),
        ({"merge": 2}, "merge, repeat: 2, 1, expected 1 without patch"),
        ({"repeat": 2}, "merge, repeat: 1, 2, expected 1 without patch"),
        ({"tiles": (2, 2), "patch": 2}, "patch: 2, expected None beside tiles"),
        ({"tiles": (2, 0)}, "tiles: 0, expected an integer from 1"),
        ({"tiles": (2**23, 1)}, "tiles: (8388608, 1) of (4, 4), expected at most"),
        ({"overview": "first"}, "overview: 'first', expected None without tiles"),
        ({"tiles": (1, 1), "overview": "both"}, "overview: 'both', expected 'first' or 'last'"),
        ({"pillow": 0}, "pillow: 0, expected an integer from 1"),
        ({"filter": 0}, "filter: 0, expected 'box', 'bilinear'"),
        ({"arithmetic": "aten"}, "arithmetic: 'aten', expected 'pillow' or 'torch'"),
        ({"arithmetic": "torch", "filter": "box"}, "filter: 'box', expected 'bilinear'"),
        ({"arithmetic": "torch", "mean": -1, "scale": 0}, "scale: 0, expected numbers other than"),
        ({"out": np.zeros((1, 1, 4, 5), np.float32)}, "out: shape (1, 1, 4, 5), expected (1, 1, "),
    ],
)  # fmt: skip
def test_errors(options, message):
    given = {"frames": np.zeros((8, 9), np.uint8), "size": 4}
    assert_refused(roicy.resize, given, options, "^" + re.escape(message))


def test_far_content():
    """Sizes of strangers overflow nothing."""
    frame, most = frame_of(8, 9), _arguments.MOST_BINS
    got = roicy.resize(frame, 4, content=(-most, -most, 1, 1), pad_value=3, **BYTES)
    assert (got == 3).all()
    got = roicy.resize(frame, 4, content=(-most + 4, 0, most, 4), filter="box", **BYTES)
    want = roicy.resize(frame, (8, 4), filter="box", **BYTES)
    np.testing.assert_array_equal(got[0, -1], want[0, -1])


def test_constant_border(isa):
    """A box may leave its frame, which a constant surrounds."""
    frame, pad = frame_of(30, 41), (9, 200, 31)
    padded = np.full((90, 101, 3), pad, np.uint8)
    padded[30:60, 30:71] = frame
    boxes = [(-10, -3, 51, 58), (5, 6, 20, 21), (-20, 4, -10, 9), (30.4, 20.6, 60, 42)]
    whole = [(20, 27, 81, 88), (35, 36, 50, 51), (10, 34, 20, 39), (60, 51, 90, 72)]
    want = roicy.resize(padded, (21, 17), whole, border="crop", **BYTES)
    options = {"border": "constant", "pad_value": pad, **BYTES}
    for given in (frame, np.asfortranarray(frame), np.stack([frame, frame])[1]):
        got = roicy.resize(given, (21, 17), boxes, num_threads=2, **options)
        np.testing.assert_array_equal(got, want)
    options["pad_value"] = pad[::-1]
    got = roicy.resize(frame, (21, 17), boxes, swap_channels=True, **options)
    np.testing.assert_array_equal(got, want[..., ::-1])


def test_temporal(isa):
    """Frames of a video share patches."""
    frames = [frame_of(50, 70, seed=seed) for seed in range(4)]
    options = {"patch": 4, "merge": 2, **NUMBERS}
    for channels in ("first", "last"):
        each = roicy.resize(frames, (16, 24), channels=channels, **options)
        split = each.reshape(2, 2, 24, *((3, 16) if channels == "first" else (1, 48)))
        want = np.moveaxis(split, 1, 3).reshape(2, 24, 96)
        for threads in (1, 2):
            got = roicy.resize(
                frames, (16, 24), temporal=2, channels=channels, num_threads=threads, **options
            )
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("count", [5, 7, 8, 11, 16])
def test_many_channels(count, isa):
    """Each channel is resized as it is alone."""
    frame, size = frame_of(40, 33, count), (17, 20)
    alone = [roicy.resize(frame[..., c], size, **BYTES)[0, ..., 0] for c in range(count)]
    for given in (frame, np.ascontiguousarray(np.moveaxis(frame, 2, 0)).transpose(1, 2, 0)):
        got = roicy.resize(given, size, num_threads=2, **BYTES)[0]
        np.testing.assert_array_equal(got, np.stack(alone, axis=-1))
    mean = np.arange(count)
    got = roicy.resize(frame, (18, 20), patch=2, mean=mean)[0].reshape(90, count, 4)
    small = [roicy.resize(frame[..., c], (18, 20), patch=2, mean=c)[0] for c in range(count)]
    np.testing.assert_array_equal(got, np.stack(small, axis=1))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_rgb(channels, isa):
    """Grey is repeated, and alpha is not read."""
    frame, options = frame_of(40, 33, channels), {"channels": "last", **NUMBERS}
    three = np.repeat(frame[..., :1], 3, axis=-1) if channels < 3 else frame[..., :3]
    want = roicy.resize(np.ascontiguousarray(three), (17, 20), **options)
    for given in (frame, np.ascontiguousarray(frame[..., ::-1])[..., ::-1], frame[::-1][::-1]):
        np.testing.assert_array_equal(roicy.resize(given, (17, 20), rgb=True, **options), want)


def test_sizes_and_numbers_of_others():
    """Sizes may be dicts, and filters Pillow's numbers."""
    frame = frame_of(40, 33)
    for name, number in FILTERS.items():
        want = roicy.resize(frame, (17, 20), filter=name)
        got = roicy.resize(frame, {"width": 20, "height": 17}, filter=number)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("of_frames", [False, True])
def test_memory_of_many_boxes(of_frames):
    """Numbers of Python would take ten times as much as those of arrays."""
    count = 20_000
    frames = np.zeros((count, 1, 1, 1), np.uint8) if of_frames else np.zeros((9, 9, 1), np.uint8)
    boxes = None if of_frames else np.broadcast_to([0.0, 0, 9, 1], (count, 4))
    roicy.resize(frames[:1] if of_frames else frames, 1)
    tracemalloc.start()
    try:
        roicy.resize(frames, 1, boxes, dtype="uint8")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (64 + 320 + 130 * of_frames) * count + 2**21  # docs/guarantees.md
