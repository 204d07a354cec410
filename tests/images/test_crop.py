"""roicy.crop against its definition, its guarantees and its errors."""

import itertools
import re
import warnings

import numpy as np
import pytest
import reference_images as reference
from conftest import ISAS, assert_refused, pairs
from frames import BOXES, CORNERS, frame_of, views_of
from protocols import WithArray

import roicy

ml_dtypes = pytest.importorskip("ml_dtypes")


def bound(frame):
    """Return how much a result may be off: some dozen roundings of float32, also of the weights, of
    numbers as large as pixels.
    """
    return 40 * 2.0**-24 * float(np.abs(frame.astype(np.float64)).max(initial=1))


def expected(frame, boxes, size, antialias=True, border="image", **options):
    return np.stack([reference.crop(frame, b, size, antialias, border, **options) for b in boxes])


@pairs(
    dtype=["uint8", "uint16", "float16", "float32"],
    antialias=[True, False],
    border=["image", "crop", "constant"],
    isa=ISAS,
)
def test_definition(dtype, antialias, border, isa):
    for channels, size in ((3, (7, 5)), (1, (20, 18)), (4, (3, 33)), (2, (1, 1))):
        frame = frame_of(dtype, channels)
        got = roicy.crop(
            frame, BOXES, size, antialias=antialias, border=border, channels="last", pad_value=9
        )
        want = expected(frame, BOXES, size, antialias, border, pad=9)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=0, atol=bound(frame))


@pairs(fit=["letterbox", "cover"], antialias=[True, False], isa=ISAS)
def test_fit(fit, antialias, isa):
    frame = frame_of("uint8")
    for size in ((9, 20), (16, 16), (40, 5)):
        got = roicy.crop(frame, BOXES, size, antialias=antialias, fit=fit, pad_value=(1, 2, 3))
        want = expected(frame, BOXES, size, antialias, fit=fit, pad=(1, 2, 3))
        np.testing.assert_allclose(
            got, want.transpose(0, 3, 1, 2), rtol=0, atol=bound(frame), err_msg=str(size)
        )


def test_large_outputs_and_windows(isa):
    """More columns than spans are made at once, and windows that do not fit a strip."""
    for channels, extent, sizes in ((1, (3, 700), [(1, 2100)]), (3, (3, 900), [(3, 7), (2, 40)])):
        wide = frame_of("uint8", channels, extent)
        boxes = [(1.5, 0, extent[1] - 1, 3)]
        for size in sizes:
            got = roicy.crop(wide, boxes, size, channels="last")
            np.testing.assert_allclose(
                got, expected(wide, boxes, size), rtol=0, atol=4 * bound(wide)
            )


def test_scale_mean_std(isa):
    frame, size = frame_of("uint8"), (6, 18)
    mean, std, scale = (0.4, 0.5, 0.6), np.array([0.2, 0.3, 0.25], np.float32), 1 / 255
    given = {"fit": "letterbox", "pad_value": (10, 20, 30)}
    plain = roicy.crop(frame, BOXES[:3], size, channels="last", **given)
    given |= {"pad_value": (30, 20, 10), "mean": mean, "std": std, "scale": scale}
    got = roicy.crop(frame, BOXES[:3], size, swap_channels=True, **given)
    want = (plain[..., ::-1].astype(np.float64) * scale - mean) / std
    np.testing.assert_allclose(got, want.transpose(0, 3, 1, 2), rtol=0, atol=2e-6)
    four = frame_of("uint8", 4)
    np.testing.assert_array_equal(
        roicy.crop(four, BOXES, size, swap_channels=True),
        roicy.crop(four[..., [2, 1, 0, 3]], BOXES, size),
    )


@pairs(channels=["first", "last"], dtype=[np.uint8, np.float16, ml_dtypes.bfloat16], isa=ISAS)
def test_dtypes(channels, dtype, isa):
    """A result of a smaller type is that of float32, rounded."""
    frame = frame_of("float32") * 1.2 - 20  # beyond what bytes hold
    if dtype == np.uint8:  # which has no infinity, and 0 for NaN
        frame[:2, :3] = np.inf
        frame[4:6, 20:22] = -np.inf
        frame[12, 9] = np.nan
    for size in ((16, 16), (5, 21), (18, 3)):
        wide = roicy.crop(frame, BOXES, size, channels=channels)
        got = roicy.crop(frame, BOXES, size, channels=channels, dtype=dtype)
        if dtype == np.uint8:
            wide = np.nan_to_num(np.rint(wide), nan=0).clip(0, 255)
        want = wide.astype(dtype)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("classes", [0, 1])
def test_rows_of_a_detector(classes):
    """Rows that end with scores are read as they are, where the frame is one, and warned of."""
    frame, rows = np.zeros((60, 80, 3), np.uint8), np.array([[0, 10, 40, 50, 0.9, 2]] * 3)
    with pytest.warns(UserWarning, match=r"score.*score\] pass boxes\[:, :4\]|score, class\] pass"):
        roicy.crop(frame, rows[:, : 5 + classes], 4)
    rows[0, 4] = 20  # no score
    roicy.crop(frame, rows[:, : 5 + classes], 4)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32"])
def test_strides_change_no_bit(isa, dtype):
    for channels in (1, 3, 4):
        frame = frame_of(dtype, channels)
        for size, border in itertools.product(((5, 7), (19, 40)), ("image", "constant")):
            want = roicy.crop(frame, BOXES, size, border=border)
            for view in views_of(frame):
                got = roicy.crop(view, BOXES, size, border=border)
                assert got.tobytes() == want.tobytes(), view.strides


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_out(isa, dtype):
    """Any memory of the right shape takes the same bits, and nothing beside it is written."""
    frame, size = frame_of("uint8"), (18, 21)
    for channels, swap in itertools.product(("first", "last"), (False, True)):
        options = {"channels": channels, "dtype": dtype, "swap_channels": swap}
        want = roicy.crop(frame, BOXES, size, **options)
        for order in itertools.permutations(range(4)):
            shape = [want.shape[i] for i in order]
            for steps in ((1, 1, 1, 1), (1, 2, 1, 2)):
                memory = np.full(np.multiply(shape, steps), 77, dtype)
                part = memory[tuple(slice(None, None, step) for step in steps)]
                out = part.transpose(np.argsort(order))
                assert roicy.crop(frame, BOXES, size, out=out, **options) is out
                np.testing.assert_array_equal(out, want)
                part[...] = 77
                assert (memory == 77).all()


def test_threads_change_no_bit(isa):
    frames = frame_of("uint8", 3, (200, 300))[None].repeat(2, axis=0)
    rng = np.random.default_rng(1)
    low = rng.uniform(-20, 200, (9, 2))
    boxes = np.concatenate([rng.integers(0, 2, (9, 1)), low, low + rng.uniform(1, 150, (9, 2))], 1)
    for count in (1, 9):
        size = (320, 280) if count == 1 else (100, 120)  # too much for one thread alone
        one = roicy.crop(frames, boxes[:count], size, num_threads=1)
        for threads in (2, 3):
            other = roicy.crop(frames, boxes[:count], size, num_threads=threads)
            assert one.tobytes() == other.tobytes()


def test_formats_of_boxes():
    frames = np.stack([frame_of("uint8", seed=i) for i in range(3)])
    rows = [[0, *BOXES[0]], [2, *BOXES[1]], [2, *BOXES[2]]]
    want = roicy.crop(frames, np.array(rows), 4)
    of_each = [[BOXES[0]], [], [BOXES[1], BOXES[2]]]
    for boxes, counts in (
        (rows, None),
        (np.array(rows, np.float32), None),
        ([row[1:] for row in rows], [1, 0, 2]),
        (np.array(rows)[:, 1:], np.array([1, 0, 2])),
        (of_each, None),
        ([np.array(part).reshape(-1, 4) for part in of_each], None),
        (tuple(np.array(part, np.float32).reshape(-1, 4) for part in of_each), None),
    ):
        np.testing.assert_array_equal(roicy.crop(frames, boxes, 4, boxes_num=counts), want)
    one = roicy.crop(frames[0], [BOXES[0]], 4)
    np.testing.assert_array_equal(one, want[:1])
    np.testing.assert_array_equal(roicy.crop(frames[:1], [BOXES[0]], 4), one)
    np.testing.assert_array_equal(roicy.crop(frames[0], [[BOXES[0]]], 4), one)
    np.testing.assert_array_equal(roicy.crop(frames[0], [[0, *BOXES[0]]], 4), one)
    box = np.array([BOXES[0]], np.uint8)
    unaligned = np.zeros(1 + 32, np.uint8)[1:].view(np.float64).reshape(1, 4)
    unaligned[:] = box
    fixed = np.array([BOXES[0]])
    fixed.flags.writeable = False
    for given in (box, unaligned, fixed, box.astype(">f8"), box.astype("<f8")):
        np.testing.assert_array_equal(roicy.crop(frames[0], given, 4), one)


def test_objects_that_numpy_can_read():
    frame = frame_of("uint8")
    want = roicy.crop(frame, BOXES[:2], 4)
    boxes = np.array(BOXES[:2])
    for given in (WithArray(boxes), [WithArray(boxes)], [WithArray(box) for box in boxes]):
        np.testing.assert_array_equal(roicy.crop(WithArray(frame), given, 4), want)
    np.testing.assert_array_equal(roicy.crop([memoryview(frame)], BOXES[:2], 4), want)


def test_frames_of_different_sizes(isa):
    frames = [frame_of("uint8"), frame_of("uint8", extent=(9, 50), seed=1)]
    got = roicy.crop(frames, [BOXES[:2], BOXES[2:]], (8, 9))
    for k, box in enumerate(BOXES):
        np.testing.assert_array_equal(got[k : k + 1], roicy.crop(frames[k > 1], [box], (8, 9)))
    grey = [frame[..., 0] for frame in frames]
    np.testing.assert_array_equal(roicy.crop(grey, [BOXES[:2], BOXES[2:]], (8, 9))[:, 0], got[:, 0])


@pytest.mark.parametrize("boxes", [[(0, 0, 8, 8)], [[(0, 0), (8, 0), (8, 8), (0, 8)]]])
def test_nan_spreads_to_its_pixels_only(boxes):
    """A pixel is read only with a weight, of an upright box and of corners."""
    frame = np.ones((8, 8, 1), np.float32)
    frame[3, 5] = np.nan
    for size, pixel in ((4, [1, 2]), (8, [3, 5])):
        got = roicy.crop(frame, boxes, size)[0, 0]
        assert np.argwhere(np.isnan(got)).tolist() == [pixel]


def test_frames_without_pixels():
    """All is padding then, of upright boxes and of others."""
    for shape, boxes in itertools.product(((0, 6), (6, 0), (0, 0)), (BOXES, CORNERS)):
        frame, size = np.empty((*shape, 3), np.uint8), (5, 5)
        want = np.full((len(boxes), 3, *size), 4)
        for border in ("image", "constant", *(["crop"] if boxes is BOXES else [])):
            got = roicy.crop(frame, boxes, size, border=border, pad_value=4)
            np.testing.assert_array_equal(got, want)
        got = roicy.crop(frame[..., 0], boxes, size, color="i420", pad_value=4)
        np.testing.assert_array_equal(got, want)
    assert roicy.crop(np.empty((0, 4, 4, 3), np.uint8), [], 2).shape == (0, 3, 2, 2)


@pytest.mark.parametrize(
    "box",
    [
        (-1e300, -1e300, 1e300, 1e300), (1e15, 1e15, 1e15 + 4, 1e18), (0, 0, 1e-300, 1),
        (0, 1e300, -1e300, 1e300, 1e300, 1e300), (0, 5, 5, 1e12, 1e-300, 0.1),
        [(0, 0), (1e200, 0), (1e200, 1e200), (0, 1e200)], [(1e-9, 0, 0), (0, 1e9, 0)],
    ],
    ids=str,
)  # fmt: skip
def test_huge_boxes_cost_no_more_than_the_frame(box):
    upright = np.shape(box) == (4,)
    borders = ("image", "constant", "crop") if upright else ("image", "constant")
    fits = ("stretch", "cover") if upright else ("stretch",)
    for border, fit in itertools.product(borders, fits):
        got = roicy.crop(frame_of("uint8"), [box], 5, border=border, fit=fit, pad_value=3)
        assert np.isfinite(got).all()
        assert 0 <= got.min() <= got.max() <= 255.01


FRAMES = np.zeros((8, 9, 3), np.uint8)
BOX = [[0, 0, 4, 4]]
WRONG = [
    ({"frames": FRAMES.astype(np.float64)}, TypeError, "frames: dtype float64, expected uint8"),
    ({"frames": FRAMES.astype(">f4")}, TypeError, "frames: dtype float32 in foreign byte order"),
    ({"frames": "frame"}, TypeError, "frames: 'frame', expected an array; .* not its path"),
    ({"frames": None}, TypeError, "frames: None, expected an array; cv2.imread returns None"),
    ({"frames": [FRAMES, None]}, TypeError, r"frames\[1\]: .* a file that it cannot read"),
    ({"frames": (True, FRAMES)}, TypeError, r"frames\[0\]: .* of capture.read\(\) pass the"),
    ({"frames": FRAMES.transpose(2, 0, 1)}, ValueError,
     r"it seems to be \(C, .* pass frame.transpose\(1, 2, 0\)"),
    ({"frames": FRAMES.transpose(2, 0, 1)[None]}, ValueError,
     r"\(N, C, H, W\): pass frame.transpose\(0, 2, 3, 1\)"),
    ({"frames": FRAMES / 255}, TypeError, r"frames: .* pass its astype\(numpy.float32\)"),
    ({"frames": FRAMES[0, 0]}, ValueError, r"frames: shape \(3,\), expected \(H, W\)"),
    ({"frames": np.zeros((8, 9, 5), np.uint8)}, ValueError, r"frames: shape \(8, 9, 5\)"),
    ({"frames": []}, ValueError, "frames: an empty list"),
    ({"frames": [FRAMES, FRAMES[..., :1]]}, ValueError, r"frames\[1\]: 1 channels of dtype uint8"),
    ({"frames": [FRAMES[None]]}, ValueError, r"frames\[0\]: shape \(1, 8, 9, 3\)"),
    ({"boxes": BOX[0]}, ValueError, r"boxes: shape \(4,\), .*; of one box pass \[box\]"),
    ({"boxes": [[0, 0, 4]]}, ValueError, r"boxes: shape \(1, 3\), expected \(K, 4\)"),
    ({"boxes": [[0, 0, 4, 4], [1]]}, ValueError, r"boxes\[1\]: 1 numbers, expected 4"),
    ({"boxes": [["a", 0, 4, 4]]}, TypeError, r"boxes\[0\]\[0\]: builtins.str, expected a num"),
    ({"boxes": np.zeros((1, 4), complex)}, TypeError, "boxes: dtype complex128"),
    ({"boxes": [[0, 0, 0, np.nan, 4]]}, ValueError, r"boxes\[0\]: .*nan.*, expected finite"),
    ({"boxes": [[0, 0, 1, 1], [0, 0, np.inf, 4]]}, ValueError, r"boxes\[1\]: .*inf.*finite"),
    ({"boxes": [[-1.7e308, 0, 1.7e308, 4]]}, ValueError, r"boxes\[0\]: .*finite .* sides"),
    ({"boxes": [[1, 0, 0, 4, 4]]}, ValueError, r"boxes\[0\]: frame index 1 .* the 1 frames$"),
    ({"boxes": [[1, 0, 4, 4, 0.5]]}, ValueError, r"1 frames; 5 columns are \[frame_index, x1"),
    ({"boxes": [[0.5, 0, 0, 4, 4]]}, ValueError, r"boxes\[0\]: frame index 0.5, expected a whole"),
    ({"boxes": [[np.nan, 0, 0, 4, 4]]}, ValueError, r"boxes\[0\]: frame index nan"),
    ({"frames": FRAMES[None].repeat(2, 0)}, ValueError, r"boxes: shape \(1, 4\) for 2 frames"),
    ({"boxes": [BOX, BOX]}, ValueError, "boxes: a list of 2 arrays, expected one for each of 1"),
    ({"boxes": [BOX], "boxes_num": [1]}, ValueError, "boxes_num: expected None"),
    ({"boxes_num": [2]}, ValueError, "boxes_num: counts that sum to 2, expected the 1 rows"),
    ({"size": 0}, ValueError, "size: 0, expected an integer from 1"),
    ({"size": (4, 4.5)}, TypeError, "size: 4.5, expected an integer"),
    ({"mean": (1, 2)}, ValueError, r"mean: \(1, 2\), expected a number or 3, one a channel"),
    ({"mean": "1"}, TypeError, "mean: '1', expected a number or 3"),
    ({"std": (1, 0, 1)}, ValueError, "std: .*, expected numbers other than 0"),
    ({"std": np.nan}, ValueError, "std: nan, expected finite numbers"),
    ({"std": 1e-300}, ValueError, "std: 1e-300, expected numbers whose inverse"),
    ({"scale": np.inf}, ValueError, "scale: inf, expected finite"),
    ({"pad_value": None}, TypeError, "pad_value: None, expected a number or 3"),
    ({"swap_channels": 1}, TypeError, "swap_channels: 1, expected True or False"),
    ({"frames": FRAMES[..., 0], "swap_channels": True}, ValueError, "swap_channels: True, expect"),
    ({"fit": "contain"}, ValueError, "fit: 'contain', expected 'stretch', 'letterbox', 'let"),
    ({"antialias": None}, TypeError, "antialias: None, expected True or False"),
    ({"border": "reflect"}, ValueError, "border: 'reflect', expected 'image', 'crop' or 'const"),
    ({"channels": "middle"}, ValueError, "channels: 'middle', expected 'first' or 'last'"),
    ({"dtype": np.float64}, TypeError,
     "dtype: float64, expected float32, float16, bfloat16, uint8"),
    ({"dtype": "no such"}, TypeError, "dtype: 'no such', expected a dtype"),
    ({"num_threads": 0}, ValueError, "num_threads: 0"),
    ({"return_matrices": 0}, TypeError, "return_matrices: 0, expected True or False"),
    ({"out": np.zeros((1, 3, 4, 5), np.float32)}, ValueError, r"out: shape \(1, 3, 4, 5\), expec"),
    ({"out": np.zeros((1, 3, 4, 4))}, TypeError, "out: dtype float64, expected float32"),
    ({"size": 2**24}, MemoryError, "the result of shape"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG, ids=lambda v: str(v)[:40])
def test_errors_name_the_argument(arguments, error, message):
    given = {"frames": FRAMES, "boxes": BOX, "size": 4}
    assert_refused(roicy.crop, given, arguments, message, error)


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PIXELS = np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)
SHARES = PIXELS.astype(np.float32) / 255
NOT_SCALED = "mean, std: numbers of 0..1, but pixels of 0..%d are not scaled; pass scale=1 / %d"
SUSPICIOUS = [
    (PIXELS, {"mean": MEAN, "std": STD}, NOT_SCALED % (255, 255)),
    (PIXELS, {"std": 0.5}, NOT_SCALED % (255, 255)),
    (PIXELS.astype(np.float32), {"mean": 0.5}, NOT_SCALED % (255, 255)),
    (PIXELS.astype(np.uint16), {"mean": MEAN}, NOT_SCALED % (65535, 65535)),
    (SHARES, {"scale": 1 / 255}, "scale: 0.003922, but pixels are of 0..1 already; leave scale"),
    (SHARES.astype(np.float16), {"scale": [1 / 255] * 3}, "scale: .* already; leave scale out"),
    (SHARES, {"mean": 128}, "mean: 128, but pixels of 0..1 times scale are at most 1; the mean"),
    (PIXELS, {"mean": 128, "std": 58, "scale": 1 / 255}, "mean: 128, but pixels of 0..255 times"),
]


def test_boxes_that_are_shares(recwarn):
    roicy.crop(FRAMES, [[0, 0, 1, 1], [0.5, 0, 2, 1], [0.5, 0.5, 0.2, 1]], 4)
    assert not recwarn.list
    with pytest.warns(UserWarning, match="boxes: all coordinates are of 0..1, and read as pixels"):
        roicy.crop(FRAMES, [[0.1, 0.2, 0.5, 1], [0, 0, 0.5, 1]], 4)


COCO = np.array([[100, 200, 50, 80], [10, 20, 300, 200], [300, 10, 40, 90.5]])


@pytest.mark.parametrize(
    ("boxes", "warned"),
    [
        (COCO, True), (COCO[:1], True), (np.insert(COCO, 0, 0, axis=1), True), ([COCO], True),
        (COCO[[2, 2, 2]], True), (COCO[2:], False), (COCO[[1, 2]], False),
        ([[640, 0, 0, 480]], False), ([[640, 480, 0, 0]], False), ([[600, 470, 7, 9]], False),
        ([[500, 400, 300, 100]], False), ([[100, 200, 50, 0.5]], False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("color", [None, "nv12"])
def test_boxes_of_coco(boxes, warned, color, recwarn):
    """Rows x, y, w, h are warned of; boxes that are mirrored on purpose mostly are not."""
    frame = np.zeros((720, 640) if color else (480, 640, 3), np.uint8)
    roicy.crop(frame, boxes, 4, color=color)
    found = [(str(warning.message), warning.filename) for warning in recwarn]
    assert len(found) == warned
    if warned:
        assert re.match(r"boxes: x2 < x1 or y2 < y1, .* \[x, y, x \+ w, y \+ h\]$", found[0][0])
        assert found[0][1] == __file__


@pytest.mark.parametrize(
    ("shape", "boxes", "height"),
    [
        ((1620, 1920), [[0, 0, 1920, 1080]], 1080), ((720, 640), [[1, 2, 30, 40]], 480),
        ((1632, 1920), [[0, 5, 6, 7, 8, 0.1]], 1088),
        ((1920, 720), [[[0.5, 0, 3], [0, 1, 4]]], 1280),
        ((1200, 1280), [[[0, 0], [9, 0], [9, 9], [0, 9]]], 800), ((432, 352), [[0, 0, 9, 9]], 288),
        ((1620, 1920), [[0, 0, 1920, 1081]], None), ((1080, 1920), [[0, 0, 9, 9]], None),
        ((480, 640), [[0, 0, 9, 9]], None), ((720, 720), [[0, 0, 9, 9]], None),
        ((90, 80), [[0, 0, 9, 9]], None), ((720, 640), np.empty((0, 4)), None),
        ((1620, 1920, 1), [[0, 0, 9, 9]], None),
    ],
)  # fmt: skip
def test_frames_that_lack_a_color(shape, boxes, height, recwarn):
    """A frame of one channel with the rows of NV12, whose boxes end where Y does, is warned of."""
    warnings.simplefilter("always")
    for dtype in (np.uint8, np.uint16, np.float32):
        frame, warned = np.zeros(shape, dtype), height is not None and dtype != np.float32
        roicy.crop(frame, boxes, 4)
        roicy.crop([frame], [np.array(boxes)[:, 1:] if np.shape(boxes)[1:] == (6,) else boxes], 4)
        found = [str(warning.message) for warning in recwarn]
        assert len(found) == 2 * warned
        expected = f"frames: {shape[0]} x {shape[1]} of one channel, as a frame of {height} x "
        assert all(one.startswith(expected) for one in found)
        recwarn.clear()


@pytest.mark.parametrize(("frame", "given", "message"), SUSPICIOUS)
def test_numbers_for_other_pixels(frame, given, message):
    """What is meant for pixels of another range brings a warning at the line of the call."""
    with pytest.warns(UserWarning, match=message) as warned:
        roicy.crop(frame, BOX, 4, **given)
    assert [warning.filename for warning in warned] == [__file__]


def test_numbers_for_these_pixels(recwarn):
    large = {"mean": 128, "std": 58}
    for given in ({"mean": MEAN, "scale": 1 / 255}, large, {"scale": 2 / 255, "mean": 1}):
        roicy.crop(PIXELS, BOX, 4, **given)
        roicy.crop(PIXELS.astype(np.float32), BOX, 4, **given)
    for frame in (SHARES, 0 * SHARES, SHARES - 0.5):
        roicy.crop(frame, BOX, 4, mean=MEAN, std=STD)
    for frame in (0 * SHARES, 1000 * SHARES, SHARES[:0]):  # nobody can tell
        roicy.crop(frame, BOX, 4, **large)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dark_images_may_be_bytes(dtype, recwarn):
    """Of whole numbers 0 and 1 nobody can tell the range, nor of those that are just above 1."""
    dark = (PIXELS % 2).astype(dtype)
    for frame in (dark, dark[..., 0], dark[None].repeat(2, 0)[:1], 0 * dark + 1, dark + 0.25):
        for given in ({"scale": 1 / 255}, {"mean": 128, "std": 58}, {"mean": 0.5}):
            roicy.crop(frame, BOX, 4, **given)
    assert not recwarn.list
    dark[2, 3] = 0.5  # which is no byte
    with pytest.warns(UserWarning, match="scale: 0.003922, but pixels are of 0..1 already"):
        roicy.crop(dark, BOX, 4, scale=1 / 255)


@pytest.mark.parametrize("mode", ["P", "1", "CMYK", "HSV"])
def test_images_of_other_colours(mode):
    """The numbers of such images are no pixels, but places in a palette, or other colours."""
    image = pytest.importorskip("PIL.Image").fromarray(PIXELS).convert(mode)
    for frames, boxes in ((image, BOX), ([image], [BOX])):
        with pytest.raises(TypeError, match=rf"frames.*: a PIL image of mode '{mode}', .* convert"):
            roicy.crop(frames, boxes, 4)


@pytest.mark.parametrize(("channels", "words"), [
    (4, r"alpha: pass frames\[..., :3\], convert\('RGB'\) of a picture, or alpha='drop'"),
    (2, r"grey and alpha: pass convert\('RGB'\)"),
    (1, r"grey: pass convert\('RGB'\) of a picture, or rgb=True"),
])  # fmt: skip
def test_three_numbers_for_other_frames(channels, words):
    """The error says how frames get three channels, since the numbers are right."""
    frame, imagenet = np.zeros((8, 9, channels), np.uint8), (0.485, 0.456, 0.406)
    for call in (lambda: roicy.crop(frame, BOX, 4, mean=imagenet),
                 lambda: roicy.resize(frame, 4, std=imagenet)):  # fmt: skip
        with pytest.raises(ValueError, match=f"{channels}, one a channel; frames .*{words}"):
            call()
    with pytest.raises(ValueError, match="one a channel$"):
        roicy.crop(frame, BOX, 4, mean=(1,) * 5)


def test_turned_images(recwarn):
    """A picture that EXIF turns is read as it is stored, with a warning that says so."""
    pil = pytest.importorskip("PIL.Image")
    ops = pytest.importorskip("PIL.ImageOps")
    for orientation in (1, 6, 9):
        image, exif = pil.fromarray(PIXELS), pil.Exif()
        exif[0x0112] = orientation
        image.info["exif"] = exif.tobytes()
        calls = (lambda x: roicy.crop([x], [BOX], 4), lambda x: roicy.resize(x, 4),
                 lambda x: roicy.crop_lines(x, BOX, 4))  # fmt: skip
        for call in calls:
            call(ops.exif_transpose(image))
            assert not recwarn.list
            call(image)
            assert len(recwarn.list) == (orientation == 6)
            if orientation == 6:
                said = str(recwarn.pop(UserWarning).message)
                assert "a PIL image of EXIF orientation 6" in said
                assert "PIL.ImageOps.exif_transpose(image)" in said
    image.info["exif"] = b"Exif\0\0nothing"
    roicy.crop(image, BOX, 4)


def test_out_must_not_overlap():
    memory = np.zeros((1, 3, 8, 9), np.float32)
    with pytest.raises(ValueError, match="out: overlaps memory that the call reads"):
        roicy.crop(memory[0].transpose(1, 2, 0), BOX, (8, 9), out=memory)
    with pytest.raises(ValueError, match="out: strides .* make its elements share memory"):
        out = np.broadcast_to(np.zeros(4, np.float32), (1, 3, 4, 4))
        out = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), out.shape, out.strides)
        roicy.crop(FRAMES, BOX, 4, out=out)
