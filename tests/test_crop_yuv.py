"""roicy.crop of frames of YCbCr 4:2:0."""

import numpy as np
import pytest
import reference
from conftest import ISAS, pairs
from test_crop import BOXES
from test_crop_warp import CORNERS

import roicy

COLORS = [("nv12", "video", "bt601"), ("i420", "full", "bt709"), ("nv12", "full", "bt601"),
          ("i420", "video", "bt601")]  # fmt: skip
CLOSE = {"rtol": 0, "atol": 80 * 2.0**-24 * 600}  # some dozen roundings of numbers up to 600


def frame_of(height=22, width=38, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height * 3 // 2, width), dtype=np.uint8)


# Planes of I420 begin amid a row, or with one.
@pairs(color=COLORS, height=[22, 24], isa=ISAS)
def test_definition(color, height, isa):
    frame = frame_of(height)
    names = dict(zip(("color", "color_range", "color_matrix"), color, strict=True))
    rgb = reference.rgb_of_yuv(frame, *color)
    assert (rgb == 0).any()
    assert (rgb == 255).any()
    for size, antialias, border in (((7, 5), True, "image"), ((33, 41), False, "constant")):
        got = roicy.crop(
            frame, BOXES, size, antialias=antialias, border=border, channels="last", **names
        )
        want = [reference.crop(rgb, box, size, antialias, border) for box in BOXES]
        np.testing.assert_allclose(got, want, **CLOSE)
    got = roicy.crop(frame, CORNERS, (6, 9), antialias=False, channels="last", **names)
    for k, corners in enumerate(CORNERS):
        want = reference.warp(rgb, reference.corner_points(corners, (6, 9)), (6, 9))
        np.testing.assert_allclose(got[k], want, rtol=0, atol=3e-3)


@pytest.mark.parametrize("color", ["nv12", "i420"])
def test_strides_threads_and_frames_change_no_bit(isa, color):
    frame = frame_of()
    options = {"color": color, "swap_channels": True, "scale": 0.5}
    want = roicy.crop(frame, BOXES, (120, 140), num_threads=1, **options)
    rows = np.zeros((frame.shape[0] * 2, frame.shape[1] + 10), np.uint8)[::-2, 3:-7]
    rows[...] = frame
    columns = np.zeros((frame.shape[0], frame.shape[1] * 3), np.uint8)[:, ::-3]
    columns[...] = frame
    for view in (rows, columns, frame[None], [frame]):
        boxes = [BOXES] if isinstance(view, list) else BOXES
        got = roicy.crop(view, boxes, (120, 140), num_threads=2, **options)
        assert got.tobytes() == want.tobytes()
    other = frame_of(8, 20, seed=1)
    got = roicy.crop([other, frame], [BOXES, BOXES], (120, 140), **options)
    assert got[len(BOXES) :].tobytes() == want.tobytes()


def test_opencv():
    """OpenCV rounds to whole numbers, in fixed point, and takes Y below 16 for 16."""
    cv2 = pytest.importorskip("cv2")
    frame = frame_of(40, 60)
    np.maximum(frame[:40], 16, out=frame[:40])
    for color, code in (("nv12", cv2.COLOR_YUV2RGB_NV12), ("i420", cv2.COLOR_YUV2RGB_I420)):
        want = cv2.cvtColor(frame, code)
        got = roicy.crop(frame, [(0, 0, 60, 40)], (40, 60), channels="last", color=color)[0]
        np.testing.assert_allclose(got, want, rtol=0, atol=1.5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"color": "yuyv"}, ValueError, "color: 'yuyv', expected 'nv12' or 'i420'"),
        ({"color_range": "tv"}, ValueError, "color_range: 'tv', expected 'video' or 'full'"),
        ({"color_matrix": "bt2020"}, ValueError, "color_matrix: 'bt2020', expected 'bt601' or"),
        ({"frames": np.zeros((30, 20, 3), np.uint8)}, ValueError, r"frames: shape \(30, 20, 3\)"),
        ({"frames": np.zeros((31, 20), np.uint8)}, ValueError, r"frames: shape .*even H and W"),
        ({"frames": np.zeros((30, 21), np.uint8)}, ValueError, r"frames: shape .*even H and W"),
        ({"frames": np.zeros((30, 20), np.uint16)}, TypeError, "frames: dtype uint16, expected"),
        ({"frames": []}, ValueError, "frames: an empty list"),
        ({"pad_value": (1, 2)}, ValueError, "pad_value: .*expected a number or 3"),
    ],
    ids=lambda v: str(v)[:30],
)
def test_errors_name_the_argument(arguments, error, message):
    given = {"frames": frame_of(), "boxes": BOXES, "size": 4, "color": "nv12"} | arguments
    with pytest.raises(error, match=message):
        roicy.crop(**given)


def test_frames_without_pixels():
    for shape in ((0, 4), (6, 0)):
        got = roicy.crop(np.empty(shape, np.uint8), BOXES, 3, color="i420", pad_value=5)
        np.testing.assert_array_equal(got, np.full((len(BOXES), 3, 3, 3), 5))
