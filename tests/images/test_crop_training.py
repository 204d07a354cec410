"""roicy.crop beside the preprocessing with which networks are trained."""

import itertools
import math

import numpy as np
import pytest
from conftest import ISAS, assert_refused, pairs
from frames import BOXES, frame_of

import roicy


def pillow_weights(low, high, bins, extent, touched, constant):
    """Weigh the pixels of an axis: a triangle at the middles of pixels, of which some are left."""
    scale = (high - low) / bins
    reach = max(abs(scale), 1)
    first, stop = touched
    for p in range(bins):
        middle = low + (p + 0.5) * scale
        weights = np.maximum(1 - np.abs(np.arange(extent) + 0.5 - middle) / reach, 0)
        weights[:first] = weights[stop:] = 0
        total = weights.sum()
        if constant:
            t = np.linspace(-1, 1, 20001)
            beyond = (middle + t * reach < first) | (middle + t * reach > stop)
            total += reach * ((1 - np.abs(t)) * beyond).sum() * (t[1] - t[0])
        elif not total:
            weights[min(max(int(np.floor(middle)), first), stop - 1)] = total = 1
        yield weights / total if total else weights


@pairs(dtype=["uint8", "float32"], border=["image", "crop", "constant"], isa=ISAS)
def test_pillow_is_a_triangle(dtype, border, isa):
    frame = frame_of(dtype)
    height, width = frame.shape[:2]
    for size in ((7, 5), (30, 41), (2, 3)):
        got = roicy.crop(
            frame, BOXES, size, antialias="pillow", border=border, channels="last", pad_value=9
        )
        for k, (x1, y1, x2, y2) in enumerate(BOXES):
            axes = []
            for low, high, bins, extent in ((y1, y2, size[0], height), (x1, x2, size[1], width)):
                touched = (0, extent)
                if border == "crop":
                    first = min(max(int(np.floor(min(low, high))), 0), extent - 1)
                    touched = (first, max(min(int(np.ceil(max(low, high))), extent), first + 1))
                constant = border == "constant"
                axes.append([*pillow_weights(low, high, bins, extent, touched, constant)])
            axes = [np.array(weights) for weights in axes]
            want = np.einsum("py,qx,yxc->pqc", *axes, frame.astype(np.float64))
            want += 9 * (1 - axes[0].sum(1)[:, None] * axes[1].sum(1))[..., None]
            np.testing.assert_allclose(got[k], want, rtol=0, atol=0.01 if constant else 1e-3)


def beside_pillow(seed, shape, count, filter, **options):
    """Yield random boxes, sizes, what crop makes of bytes, and what Pillow does."""
    pillow = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(seed)
    frame = rng.integers(0, 256, (*shape, 3), dtype=np.uint8)
    picture = pillow.fromarray(frame)
    for _ in range(count):
        low = rng.uniform(0, np.array(shape[::-1]) - 16)
        box = (*low, *np.minimum(low + np.exp(rng.uniform(1, 6, 2)), shape[::-1]))
        size = tuple(rng.integers(1, 120, 2).tolist())
        want = np.asarray(picture.resize(size[::-1], pillow.Resampling[filter], box=box))
        got = roicy.crop(frame, [box], size, channels="last", **options)[0]
        yield frame, box, size, got, want


def test_pillow_on_bytes(isa):
    """Within one level of Pillow, which rounds after each axis, on random boxes and sizes."""
    for *_, got, want in beside_pillow(
        ISAS.index(isa), (211, 307), 400, "BILINEAR", antialias="pillow", dtype=np.uint8
    ):
        assert np.abs(got.astype(int) - want).max() <= 1


def test_nearest(isa):
    """The pixel around the middle of an output pixel, or the outermost one."""
    frame, size = frame_of("uint8"), (7, 16)
    found = roicy.crop(frame, BOXES, size, antialias="nearest", channels="last")
    for box, got in zip(BOXES, found, strict=True):
        at = []
        for axis, bins in ((1, size[0]), (0, size[1])):
            step = (box[axis + 2] - box[axis]) / bins
            middles = np.floor(box[axis] + (np.arange(bins) + 0.5) * step)
            at.append(middles.clip(0, frame.shape[1 - axis] - 1).astype(int))
        np.testing.assert_array_equal(got, frame[at[0]][:, at[1]])


def test_nearest_beside_pillow(isa):
    for frame, box, size, got, want in beside_pillow(
        4, (60, 90), 100, "NEAREST", antialias="nearest"
    ):
        np.testing.assert_array_equal(got, want)
        corners = [[(box[0], box[1]), (box[2], box[1]), (box[2], box[3]), (box[0], box[3])]]
        turned = roicy.crop(frame, corners, size, antialias="nearest", channels="last")[0]
        assert (turned != want).any(axis=-1).mean() < 0.01  # positions are rounded in float32
    outside = roicy.crop(frame, [(-10, 0, 90, 60)], (6, 10), antialias="nearest",
                         border="constant", pad_value=7)  # fmt: skip
    assert (outside[0, :, :, 0] == 7).all()
    assert (outside[0, :, :, 1] == frame[5::10, 5].T).all()


def test_letterbox_at_the_top_left(isa):
    """As YOLOX: the scale is the smaller one, and sides are rounded down."""
    rng = np.random.default_rng(5)
    frame = rng.integers(0, 256, (200, 300, 3), dtype=np.uint8)
    for _ in range(50):
        h, w = rng.integers(2, 200, 2).tolist()
        size = tuple(rng.integers(8, 64, 2).tolist())
        ratio = min(size[0] / h, size[1] / w)
        rows, columns = max(int(h * ratio), 1), max(int(w * ratio), 1)
        want = np.full((3, *size), 114, np.float32)
        want[:, :rows, :columns] = roicy.crop(frame, [(0, 0, w, h)], (rows, columns))[0]
        got, matrices = roicy.crop(
            frame, [(0, 0, w, h)], size, fit="letterbox_top_left", pad_value=114,
            return_matrices=True,
        )  # fmt: skip
        np.testing.assert_array_equal(got[0], want)
        np.testing.assert_allclose(matrices[0, 0, 0], w / columns)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantized(dtype, isa):
    """As ONNX's QuantizeLinear: divided, rounded to the even one, moved, saturated."""
    frame = np.arange(256, dtype=np.uint8).reshape(8, 32)
    limits, box, size = np.iinfo(dtype), (0, 0, 32, 8), (8, 32)
    outs = {}, {"channels": "last"}, {"out": np.zeros((1, 1, 32, 8), dtype).mT}
    calls = [*itertools.product([box], outs), ([[1, 0, 0], [0, 1, 0]], {})]
    for scale, zero in ((2.0, 3), (0.5, limits.min), (1 / 64, limits.max), (4.0, 1)):
        for std, mean in ((1.0, 128.0), (2.0, 100.0)):
            exact = (frame.astype(np.float64) - mean) / std / scale
            want = np.clip(np.rint(exact) + zero, limits.min, limits.max)
            given = {"mean": mean, "std": std, "dtype": dtype, "quantization": (scale, zero)}
            for one, options in calls:
                got = roicy.crop(frame, [one], size, **given, **options)
                assert got.dtype == dtype
                np.testing.assert_array_equal(got.reshape(size), want)
    got = roicy.crop(frame, [box], size, dtype="int8")[0, 0]
    np.testing.assert_array_equal(got, np.minimum(frame, 127))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"antialias": "lanczos"}, ValueError, "antialias: 'lanczos', expected .* 'pillow' or"),
        ({"antialias": "pillow", "boxes": np.ones((1, 2, 3))}, ValueError, "antialias: 'pillow'"),
        ({"quantization": (0.5, 0)}, ValueError, "quantization: .*, expected None for dtype='fl"),
        ({"quantization": (0, 0), "dtype": "int8"}, ValueError, "quantization: scale 0, expected"),
        ({"quantization": (np.nan, 0), "dtype": "int8"}, ValueError, "quantization: scale nan, e"),
        ({"quantization": (1e-320, 0), "dtype": "int8"}, ValueError, "1e-320, .* float32 can hold"),
        ({"quantization": (1, 128), "dtype": "int8"}, ValueError, "quantization: 128, expected"),
        ({"quantization": 0.5, "dtype": "uint8"}, ValueError, "quantization: 0.5, expected .scale"),
        ({"quantization": ("a", 0), "dtype": "uint8"}, TypeError, "quantization: 'a', expected"),
    ],
    ids=lambda v: str(v)[:30],
)
def test_errors_name_the_argument(arguments, error, message):
    given = {"frames": np.zeros((8, 9, 3), np.uint8), "boxes": [[0, 0, 4, 4]], "size": 4}
    assert_refused(roicy.crop, given, arguments, message, error)


def test_lines_of_text(isa):
    """Widths and padding as PaddleOCR's recogniser: ceil(height * w / h), at most the width."""
    frame = np.random.default_rng(6).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    boxes = [(10, 20, 210, 50), (5, 5, 45, 41), (0, 100, 390, 118)]
    corners = [[(10, 20), (210, 30), (205, 60), (8, 50)], [(50, 9), (90, 12), (88, 40), (49, 33)]]
    sides = [(x2 - x1, y2 - y1) for x1, y1, x2, y2 in boxes]
    for given, lengths in ((boxes, sides), (corners, [(200, 30), (40, 28)])):
        wide = [math.ceil(48 * w / h) for w, h in lengths]
        for width in (None, 320):
            got, widths = roicy.crop_lines(frame, given, 48, width, pad_value=127.5)
            widest = width or max(wide)
            assert got.shape == (len(given), 3, 48, widest)
            assert widths.tolist() == [min(one, widest) for one in wide]
            for k, shown in enumerate(widths.tolist()):
                one = roicy.crop(frame, [given[k]], (48, shown))[0]
                np.testing.assert_array_equal(got[k, :, :, :shown], one)
                assert (got[k, :, :, shown:] == 127.5).all()
    square = np.array([[(0, 0), (1, 0), (1, 1), (0, 1)]])
    for box in ([(0, 0, 1e-200, 1e-310)], square * 1e-200, square * 1e200, square * 3e307):
        with np.errstate(all="raise"):
            assert roicy.crop_lines(frame, box, 48, 64)[1] in (48, 64)
    tall = np.array([[(5, 5), (9, 5), (9, 40), (5, 40)]])
    with pytest.warns(UserWarning, match=r"^boxes\[1\]: a line of 6 columns, 5 times as high"):
        roicy.crop_lines(frame, np.concatenate([50 * square, tall]), 48)
    assert roicy.crop_lines(frame, np.roll(tall, 1, axis=1), 48)[1] == 420  # without a warning
    with pytest.raises(ValueError, match="boxes: matrices"):
        roicy.crop_lines(frame, np.ones((1, 2, 3)), 48)
    with pytest.raises(TypeError, match="unexpected keyword argument 'fit'"):
        roicy.crop_lines(frame, boxes, 48, fit="cover")
