"""roicy.crop agrees with others on small pictures: with FFmpeg on YCbCr frames that GStreamer made,
and with the code that training pipelines run.  data/README.md says how the numbers were recorded.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import roicy

with np.load(Path(__file__).parents[1] / "data" / "crops.npz") as file:
    RECORDED = dict(file)
FRAMES = [name.removesuffix("_rgb") for name in RECORDED if name.endswith("_rgb")]
with np.load(Path(__file__).parents[1] / "data" / "frames.npz") as file:
    OF_FFMPEG = dict(file)
HEIGHT, WIDTH = 5, 35
IMAGE = RECORDED["image"]
WHOLE = [(0, 0, IMAGE.shape[1], IMAGE.shape[0])]
# OpenCV rounds a result to a byte, and computes it with two weights of 11 bits.
OPENCV = 0.5 + 4 * 255 / 2**11


def multiple(number, of):
    return -(-number // of) * of


def frame_of(color, buffer):
    """Return the planes of a frame, or the array, where GStreamer puts them.

    Rows begin at multiples of 4 bytes, and the planes have room for an even number of rows.
    """
    kind = np.uint16 if color == "p010" else np.uint8
    size, rows = np.dtype(kind).itemsize, multiple(HEIGHT, 2)
    half = (rows // 2, multiple(WIDTH, 2) // 2)
    if color in ("yuyv", "uyvy"):
        stride = multiple(2 * WIDTH, 4)
        return np.ndarray((HEIGHT, 2 * half[1], 2), kind, buffer, 0, (stride, 2, 1))
    stride = multiple(WIDTH * size, 4)
    luma = np.ndarray((HEIGHT, WIDTH), kind, buffer, 0, (stride, size))
    start = rows * stride
    if color in ("i420", "yv12"):
        stride = multiple(half[1], 4)
        starts = (start, start + half[0] * stride)
        return luma, *(np.ndarray(half, kind, buffer, at, (stride, 1)) for at in starts)
    return luma, np.ndarray((*half, 2), kind, buffer, start, (stride, 2 * size, size))


@pytest.mark.parametrize("name", [name for name in OF_FFMPEG if not name.endswith("_rgb")])
def test_frames_of_ffmpeg(name, isa):
    """Each byte is within one level of swscale's."""
    color, matrix, span = name.split("_")
    options = {"color": color, "color_matrix": matrix, "color_range": span, "channels": "last"}
    rgb = OF_FFMPEG[name + "_rgb"]
    got = roicy.crop(OF_FFMPEG[name], [(0, 0, 34, 6)], (6, 34), **options)[0]
    apart = np.abs(got - rgb)
    assert apart.max() <= (0 if color == "rgb565" else 1)
    assert apart.mean() < 0.1  # neither rounds exactly


@pytest.mark.parametrize("name", FRAMES)
def test_frames_of_gstreamer(name, isa):
    """Each byte is within one level of swscale's, and so are crops of any box."""
    color, matrix, span = name.split("_")
    options = {"color": color, "color_matrix": matrix, "color_range": span, "channels": "last"}
    frame, rgb = frame_of(color, RECORDED[name]), RECORDED[name + "_rgb"]
    whole = roicy.crop(frame, [(0, 0, WIDTH, HEIGHT)], (HEIGHT, WIDTH), **options)[0]
    apart = np.abs(whole - rgb)
    assert apart.max() <= 1
    # Of ten bits in full range, swscale takes 1020 for white, where H.273 has 1023.
    assert apart.mean() < (0.4 if (color, span) == ("p010", "full") else 0.03)
    del options["channels"]
    for boxes in ([(0.5, 1, 30, 4.5), (34, 5, 3, 0)], [(0, 17, 2.5, 20, 4, 0.1)]):
        for antialias in (True, False):
            got = roicy.crop(frame, boxes, (4, 9), antialias=antialias, **options)
            want = roicy.crop(rgb, boxes, (4, 9), antialias=antialias)
            np.testing.assert_allclose(got, want, rtol=0, atol=1.001)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ultralytics", {"fit": "letterbox", "pad_value": 114}),
        ("yolox", {"fit": "letterbox_top_left", "pad_value": 114}),
        ("mmdet", {}),
    ],
)
def test_detectors(name, options, isa):
    want = RECORDED[name]
    got = roicy.crop(IMAGE, WHOLE, want.shape[:2], antialias=False, channels="last", **options)[0]
    np.testing.assert_allclose(got, want, rtol=0, atol=OPENCV)
    if "fit" in options:
        np.testing.assert_array_equal((got == 114).all(axis=-1), (want == 114).all(axis=-1))


def test_insightface(isa):
    """The matrix takes landmarks of a face to their places in a picture of 112 x 112 pixels."""
    got = roicy.crop(
        IMAGE, [RECORDED["insightface_matrix"]], 112, antialias=False, border="constant",
        channels="last",
    )  # fmt: skip
    want = RECORDED["insightface"]  # rows 30.. and columns 30.. of it
    got = got[0, 30 : 30 + want.shape[0], 30 : 30 + want.shape[1]]
    np.testing.assert_allclose(got, want, rtol=0, atol=0.51)


def test_paddleocr(isa):
    """Lines of three aspects, of which one is cut off and one is padded."""
    boxes = [(2, 3, 26, 9), (0, 1, 29, 8), (5, 2, 13, 16)]
    got, widths = roicy.crop_lines(
        IMAGE, boxes, 8, int(8 * 29 / 7), border="crop", antialias=False, pad_value=127.5,
        scale=1 / 255, mean=0.5, std=0.5,
    )  # fmt: skip
    want = RECORDED["paddleocr"].astype(np.float64)  # in levels, of which 127.5 is padding
    assert widths.tolist() == [32, 33, 5]
    assert got.shape == want.shape
    np.testing.assert_allclose(127.5 * got + 127.5, want, rtol=0, atol=OPENCV)
    np.testing.assert_allclose(got[2, :, :, 5:], 0, atol=1e-6)


def test_torchvision(isa):
    """Resize of a Pillow image, and of a tensor of floats."""
    want = RECORDED["torchvision_pillow"].transpose(2, 0, 1)
    options = {"size": want.shape[1:], "antialias": "pillow"}
    got = roicy.crop(IMAGE, WHOLE, dtype=np.uint8, **options)[0]
    assert np.abs(got.astype(int) - want).max() <= 1
    got = roicy.crop(IMAGE, WHOLE, **options)[0]
    np.testing.assert_allclose(got, RECORDED["torchvision_tensor"], rtol=0, atol=2e-4)


def test_boxes_of_detectors():
    """Each line of the table of docs/boards.md makes the same boxes of what detectors give."""
    page = (Path(__file__).parents[2] / "docs/boards.md").read_text()
    table = page[page.index("| boxes | become |") :].splitlines()[2:]
    rows = [re.match(r"\| (\S+) .*\| `(.*)` \|$", line) for line in table]
    lines = dict(row.groups() for row in rows if row)
    height, width = IMAGE.shape[:2]
    boxes, shares = np.array([[5.0, 2, 25, 16], [3, 4, 13, 9]]), np.array([width, height] * 2)
    middles, sides = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    given = {
        "Ultralytics'": np.c_[boxes, [0.9, 0.8], [0, 1]],
        "mmdet's": np.c_[boxes, [0.9, 0.8]],
        "COCO's": np.c_[boxes[:, :2], sides],
        "YOLO's": np.c_[middles, sides] / shares,
        "TFLite's": (boxes / shares)[:, [1, 0, 3, 2]],
    }
    for name, rows in given.items():
        made = eval(lines.pop(name), {"np": np, "boxes": rows, "W": width, "H": height})
        np.testing.assert_allclose(made, boxes, rtol=0, atol=1e-12)
    (cx, cy), (w, h), degrees = (14, 8), (12, 6), 20
    (name, line), turn = lines.popitem(), np.radians(degrees)
    made = eval(line, {"np": np, "cx": cx, "cy": cy, "w": w, "h": h, "degrees": degrees})
    along = w / 2 * np.array([np.cos(turn), np.sin(turn)])  # clockwise, since y is down
    down = h / 2 * np.array([-np.sin(turn), np.cos(turn)])
    corners = [(cx, cy) + i * along + j * down for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    assert "minAreaRect" in name and not lines
    np.testing.assert_allclose(
        roicy.crop(IMAGE, made, (6, 12)), roicy.crop(IMAGE, [corners], (6, 12)), rtol=0, atol=1e-2
    )
