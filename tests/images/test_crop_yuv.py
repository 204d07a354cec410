"""roicy.crop of frames of YCbCr."""

import itertools
import re

import numpy as np
import pytest
import reference_images as reference
from conftest import ISAS, assert_refused, pairs
from fences import fenced, needs_fences
from frames import BOXES, CORNERS
from protocols import WithArray

import roicy

OF_420 = ["nv12", "nv21", "i420", "yv12", "p010"]
PACKED = ["yuyv", "yuy2", "yvyu", "uyvy", "vyuy", "y210"]
OF_444 = ["nv24", "nv42", "i444", "p410"]
COLORS = [*OF_420, *PACKED, *OF_444, "nv16", "nv61", "i422", "p210"]
WIDE = ["p010", "p210", "p410", "y210"]
V_FIRST = ["nv21", "nv61", "nv42", "yv12", "yvyu", "vyuy"]
# A byte is rounded, and what is lost in three products and their scales is less than 0.07.
ROUNDED = {"rtol": 0, "atol": 0.57}


def planes_of(color, height=22, width=38, seed=0):
    """Return random Y, U and V, and how many bits they have."""
    bits = 10 if color in WIDE else 8
    rng = np.random.default_rng(seed)
    rows = (height + 1) // 2 if color in OF_420 else height
    columns = width if color in OF_444 else (width + 1) // 2
    shapes = [(height, width), *[(rows, columns)] * 2]
    return [rng.integers(0, 2**bits, shape, dtype=np.uint16) for shape in shapes], bits


def stored(color, planes):
    """Return planes as the tuple that a camera gives, or None, and as one array, or None."""
    y, u, v = planes
    u, v = (v, u) if color in V_FIRST else (u, v)
    dtype, shift = (np.uint16, 6) if color in WIDE else (np.uint8, 0)
    y, u, v = ((plane << shift).astype(dtype) for plane in (y, u, v))
    even = y.shape[1] % 2 == 0 or color in OF_444
    if color in PACKED and not even:
        return None, None
    if color in PACKED:
        both = np.stack([u, v], -1).reshape(y.shape)
        pairs_of = [both, y] if color in ("uyvy", "vyuy") else [y, both]
        return None, np.stack(pairs_of, -1)
    if color in ("i420", "yv12", "i422", "i444"):
        flat = np.concatenate([plane.reshape(-1) for plane in (y, u, v)])
        return (y, u, v), flat.reshape(-1, y.shape[1]) if even else None
    both = np.stack([u, v], -1)
    return (y, both), np.concatenate([y, both.reshape(-1, y.shape[1])]) if even else None


def dirty(array):
    """Return numbers of 16 bits whose last six, which do not count, hold what a device left."""
    noise = np.random.default_rng(3).integers(0, 64, array.shape, np.uint16)
    return array | noise if array.dtype == np.uint16 else array


def padded(array):
    """Return the same numbers in the midst of others."""
    shape = [extent + 3 for extent in array.shape]
    memory = np.full((shape[0], shape[1] + 4, *array.shape[2:]), 99, array.dtype)
    view = memory[2 : 2 + len(array), 3 : 3 + array.shape[1]]
    view[...] = array
    return view


@pairs(
    color=COLORS,
    color_range=["video", "full"],
    color_matrix=["bt601", "bt709", "bt2020"],
    isa=ISAS,
)
def test_every_pixel(color, color_range, color_matrix, isa):
    """A box of the frame's size shows the bytes that its pixels become."""
    options = {
        "color": color, "color_range": color_range, "color_matrix": color_matrix,
        "channels": "last",
    }  # fmt: skip
    for height, width in ((22, 38), (23, 150), (7, 1), (1, 67), (6, 129)):
        planes, bits = planes_of(color, height, width)
        want = reference.rgb_of_yuv(planes, color_range, color_matrix, bits)
        parts, array = stored(color, planes)
        given = [] if array is None else [array, dirty(array)]
        for change in (np.array, padded, dirty, lambda part: dirty(part)[:, ::-1].copy()[:, ::-1]):
            given += [] if parts is None else [tuple(map(change, parts))]
        box, size = [(0, 0, width, height)], (height, width)
        results = [roicy.crop(frames, box, size, **options)[0] for frames in given]
        for got in results:
            np.testing.assert_array_equal(got, np.rint(got))
            np.testing.assert_array_equal(got, results[0])
            np.testing.assert_allclose(got, want, **ROUNDED)


def converted(color, height, width):
    """Return a frame, and the bytes that its pixels become."""
    frame = np.random.default_rng(0).integers(0, 2**16, (height, width), np.uint16)
    if color != "rgb565":
        _, frame = stored(color, planes_of(color, height, width)[0])
    options = {"color": color, "dtype": np.uint8, "channels": "last"}
    rgb = roicy.crop(frame, [(0, 0, width, height)], (height, width), **options)[0]
    return frame if color == "rgb565" else dirty(frame), rgb


@pairs(
    color=["nv12", "i420", "yuyv", "p010", "nv24", "i422", "i444", "p410", "y210", "rgb565"],
    isa=ISAS,
)
def test_same_as_of_the_converted_frame(color, isa):
    """In every way to read a frame: strips, rows, regions of frames and of boxes."""
    frame, rgb = converted(color, 130, 210)
    whole = [(0, 0, 210, 130)]
    many = [(x, y, x + 150, y + 90) for x in range(0, 60, 7) for y in range(0, 40, 9)]
    for boxes, size in (
        (BOXES, (7, 5)),
        (BOXES, (60, 70)),
        (whole, (40, 64)),
        ([(0, 0, 210, 130), (210, 130, 0, 0)], (1, 300)),
        (many, (8, 9)),
        (CORNERS, (6, 9)),
        ([(0, 20, 30, 90, 80, 0.3), (0, 100, 60, 500, 60, -2)], (33, 21)),
        ([[[0.2, 0.1, 3], [-0.1, 0.2, 4]]], (20, 30)),
    ):
        upright = np.shape(boxes)[1:] == (4,)
        for antialias in (True, False, "nearest"):
            for border in ("image", "constant", *(["crop"] if upright else [])):
                options = {
                    "antialias": antialias, "border": border, "pad_value": 7, "scale": 0.5,
                    "swap_channels": True,
                }  # fmt: skip
                want = roicy.crop(rgb, boxes, size, **options)
                for threads in (1, 2):
                    options["num_threads"] = threads
                    got = roicy.crop(frame, boxes, size, color=color, **options)
                    assert got.tobytes() == want.tobytes(), (size, antialias, border)


def test_tall_boxes_do_not_fit_a_strip(isa):
    """So many rows of an output row, or of 16, that a strip does not hold them."""
    frame, rgb = converted("nv12", 2000, 36)
    for box, rows in itertools.product([(3, 0, 30, 2000), (30, 1990, 3, 10)], (1, 8, 50)):
        got = roicy.crop(frame, [box], (rows, 20), color="nv12")
        assert got.tobytes() == roicy.crop(rgb, [box], (rows, 20)).tobytes(), rows


@pairs(color=["nv12", "y210", "rgb565"], size=[224, 300], upright=[True, False], isa=ISAS)
def test_nothing_beside_a_converted_region_is_read(color, size, upright, isa):
    """Rows of boxes of whole numbers lie where rounding may reach the next pixel, whose weight is
    then nearly 0.  Black pixels sum to 0 exactly unless this pixel is one of the white frames,
    which are converted to the memory before and after each black one.
    """
    shapes = [plane.shape for plane in planes_of(color, 706, 4)[0]]
    more = 2 if color in WIDE else 0  # bits

    def filled(luma):
        if color == "rgb565":
            return np.full((706, 4), 0 if luma == 16 else 0xFFFF, np.uint16)
        numbers = zip(shapes, (luma, 128, 128), strict=True)
        return stored(color, [np.full(shape, number << more) for shape, number in numbers])[1]

    black, white = filled(16), filled(235)
    for first in (0, 5):
        boxes = [(0, first, 4, stop) if upright else (0, stop, 4, first)
                 for stop in range(first + 1, first + 700)]  # fmt: skip
        frames, rows = [white], [boxes[:1]]
        for box in boxes:
            frames += [black, white]
            rows += [[box], [(0, 0, 4, 1)]]
        got = roicy.crop(frames, rows, (size, 1), color=color, num_threads=1)[1::2]
        wrong = got.reshape(len(boxes), -1).any(1)
        assert not wrong.any(), [box for box, one in zip(boxes, wrong, strict=True) if one]


@needs_fences
@pairs(color=[*COLORS, "rgb565"], at_end=[False, True], isa=ISAS)
def test_nothing_beyond_frames_is_touched(color, at_end, isa):
    """Of boxes of whole numbers, upright ones and corners, that end where the frame does."""
    for height, width in ((2, 300), (300, 2), (22, 38), (65, 64), (6, 130)):
        parts, frame = stored(color, planes_of(color, height, width)[0])
        if color == "rgb565":
            parts, frame = None, np.arange(height * width, dtype=np.uint16).reshape(height, width)
        for given in filter(lambda one: one is not None, (parts, frame)):
            held = tuple(fenced(part, at_end) for part in (given if parts is given else [given]))
            first = np.array([0, 1, 2, 14, 30, 31, 61, 62, 63, 64, 65])[:, None]
            low = np.maximum([width - 1, height - 1] - first, 0)
            boxes = np.c_[low, low * 0 + [width, height]]
            corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
            size = min(height, 20), min(width, 20)
            for box in (*boxes, *corners):  # alone, since what several read is converted together
                options = {"boxes": [box], "size": size, "color": color, "num_threads": 1}
                want = roicy.crop(given, **options)
                got = roicy.crop(held if parts is given else held[0], **options)
                assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("color", COLORS)
def test_several_frames(color):
    many = [stored(color, planes_of(color, seed=seed)[0]) for seed in range(3)]
    tuples, arrays = map(list, zip(*many, strict=True))
    want = np.concatenate([roicy.crop(array, BOXES, 9, color=color) for array in arrays])
    for frames in (arrays, np.stack(arrays), *([tuples] if tuples[0] else [])):
        got = roicy.crop(frames, [BOXES] * 3, 9, color=color)
        np.testing.assert_array_equal(got, want)


def test_strides_change_no_bit(isa):
    _, frame = stored("nv12", planes_of("nv12")[0])
    want = roicy.crop(frame, BOXES, (20, 30), color="nv12")
    rows = frame[::-1].repeat(2, axis=0)[::-2]
    columns = frame[:, ::-1].repeat(3, axis=1)[:, ::-3]
    for view in (padded(rows), columns, frame[None]):
        np.testing.assert_array_equal(roicy.crop(view, BOXES, (20, 30), color="nv12"), want)


def test_padded_rows_of_a_camera():
    """A buffer whose height is aligned to 16 and whose rows are aligned to 64 bytes."""
    planes, _ = planes_of("nv12", 24, 38)
    (y, uv), _ = stored("nv12", planes)
    buffer = np.full(64 * (32 + 12), 99, np.uint8)
    luma = np.ndarray((24, 38), np.uint8, buffer, 0, (64, 1))
    chroma = np.ndarray((12, 19, 2), np.uint8, buffer, 64 * 32, (64, 2, 1))
    luma[...], chroma[...] = y, uv
    want = roicy.crop((y, uv), BOXES, 9, color="nv12")
    np.testing.assert_array_equal(roicy.crop((luma, chroma), BOXES, 9, color="nv12"), want)
    # Android's planes of a camera: U and V have a pixel stride of 2.
    planes = (luma, chroma[..., 0], chroma[..., 1])
    np.testing.assert_array_equal(roicy.crop(planes, BOXES, 9, color="i420"), want)


@pytest.mark.parametrize("color", ["nv12", "nv21", "i420", "yv12", "yuy2", "uyvy"])
def test_opencv(color):
    """OpenCV rounds as well, takes Y below 16 for 16, and has scales of three digits."""
    cv2 = pytest.importorskip("cv2")
    planes, _ = planes_of(color, 40, 60)
    np.maximum(planes[0], 16, out=planes[0])
    _, frame = stored(color, planes)
    want = cv2.cvtColor(frame, getattr(cv2, f"COLOR_YUV2RGB_{color.upper()}"))
    options = {"channels": "last", "color": color, "dtype": np.uint8}
    got = roicy.crop(frame, [(0, 0, 60, 40)], (40, 60), **options)[0]
    np.testing.assert_allclose(got.astype(int), want, rtol=0, atol=1)


def test_rgb565(isa):
    """All numbers of 16 bits, as FFmpeg and others widen them: high bits are repeated.

    Its page says how far this is from exact numbers, and how many OpenCV writes in their place.
    """
    frame = np.arange(2**16, dtype=np.uint16).reshape(256, 256)
    red, green, blue = frame >> 11, frame >> 5 & 63, frame & 31
    want = np.stack([red << 3 | red >> 2, green << 2 | green >> 4, blue << 3 | blue >> 2], -1)
    options = {"color": "rgb565", "channels": "last", "dtype": np.uint8}
    wide = np.zeros((512, 600), np.uint16)[1::2, 300:44:-1]
    wide[...] = frame
    of_bytes = frame.view(np.uint8).reshape(256, 256, 2)
    memory = np.frombuffer(b"x" + frame.tobytes() + b"xxx", np.uint8)
    odd = np.ndarray((256, 256, 2), np.uint8, memory, 1, (512, 2, 1))
    padded_rows = np.zeros((256, 600), np.uint8)[:, 3:515]
    padded_rows[...] = of_bytes.reshape(256, 512)
    for given in (
        frame, frame[None], wide, of_bytes, of_bytes[None], of_bytes.reshape(256, 512), odd,
        of_bytes.reshape(1, 256, 512), np.asfortranarray(of_bytes), memoryview(of_bytes),
        WithArray(of_bytes), WithArray(frame), padded_rows, of_bytes[..., ::-1].copy()[..., ::-1],
    ):  # fmt: skip
        got = roicy.crop(given, [(0, 0, 256, 256)], (256, 256), **options)[0]
        np.testing.assert_array_equal(got, want)
    exact = np.stack([red / 31, green / 63, blue / 31], -1) * 255
    assert 0.71 < np.abs(want - exact).max() < 0.72
    with pytest.raises(TypeError, match="frames: a masked array, whose mask would be lost"):
        roicy.crop(np.ma.masked_array(of_bytes), BOXES, 4, color="rgb565")
    for width in (1, 2, 67):
        got = roicy.crop(frame[:3, :width], [(0, 0, width, 3)], (3, width), **options)[0]
        np.testing.assert_array_equal(got, want[:3, :width])


def test_rgb565_of_others():
    """OpenCV has the high bits, and zeros below them; Pillow rounds down."""
    cv2, image = pytest.importorskip("cv2"), pytest.importorskip("PIL.Image")
    frame = np.arange(2**16, dtype=np.uint16).reshape(256, 256)
    options = {"color": "rgb565", "channels": "last", "dtype": np.uint8}
    got = roicy.crop(frame, [(0, 0, 256, 256)], (256, 256), **options)[0]
    of_opencv = cv2.cvtColor(frame.view(np.uint8).reshape(256, 256, 2), cv2.COLOR_BGR5652RGB)
    np.testing.assert_array_equal(got & np.uint8([248, 252, 248]), of_opencv)
    of_pillow = np.asarray(image.frombytes("RGB", (256, 256), frame.tobytes(), "raw", "BGR;16"))
    np.testing.assert_allclose(got.astype(int), of_pillow, rtol=0, atol=1)


@pytest.mark.parametrize("apart", [0, 7, 200])
def test_planes_with_a_stride_of_packed_ones(apart, isa):
    """Y in each second byte, and U and V in each fourth, wherever they lie."""
    planes, _ = planes_of("i422", 4, 200)
    memory = np.zeros((3, 4, 800 + apart), np.uint8)
    given = (memory[2, :, :400:2], memory[apart % 2, :, apart : 800 + apart : 4][:, :100],
             memory[1, :, 1:801:4][:, :100])  # fmt: skip
    for plane, values in zip(given, planes, strict=True):
        plane[...] = values
    want = roicy.crop(tuple(plane.astype(np.uint8) for plane in planes), BOXES, 9, color="i422")
    np.testing.assert_array_equal(roicy.crop(given, BOXES, 9, color="i422"), want)


@pytest.mark.parametrize(
    ("name", "like"),
    [("yuv420p10le", "p010"), ("I010", "p010"), ("yuv422p10", "p210"), ("yuv444p12le", "p410")],
)
def test_low_bits(name, like):
    """The line that an error names makes a format of them that is taken."""
    planes, bits = planes_of(like)
    y, u, v = (plane << (2 if "12" in name else 0) for plane in planes)
    with pytest.raises(ValueError, match=f"color: '{name}', expected one of nv12, ") as caught:
        roicy.crop((y, u, v), BOXES, 9, color=name)
    assert str(caught.value).endswith(f"{like!r}")
    line, color = re.search(r"pass (.*) and color='(.*)'$", str(caught.value)).groups()
    made = eval(line, {"y": y, "u": u, "v": v, "numpy": np})
    got = roicy.crop(made, [(0, 0, 38, 22)], (22, 38), color=color, channels="last")[0]
    want = reference.rgb_of_yuv(planes, "video", "bt601", bits)
    np.testing.assert_allclose(got, want, **ROUNDED)


@needs_fences
@pairs(color=["i422", "i444"], at_end=[False, True], same=[False, True], isa=ISAS)
def test_planes_of_one_memory(color, at_end, same, isa):
    """Planes may be the same memory, or take turns in it.  No byte of none of them is read."""
    memory = np.arange(255, dtype=np.uint8)[None]
    y, u, v = memory[:, ::2], memory[:, 1::4], memory[:, 1::4] if same else memory[:, 3::4]
    width = y.shape[1] // 2 * 2 - 2
    if color == "i444":
        u, v = memory[:, 1::2], memory[:, (1 if same else 0) :: 2]
    columns = width if color == "i444" else width // 2
    planes = [y[:, :width], u[:, :columns], v[:, :columns]]
    want = roicy.crop(tuple(one.copy() for one in planes), [[0, 0, width, 1]], 9, color=color)
    last = max(one.ctypes.data + one.strides[1] * (one.shape[1] - 1) for one in planes)
    used = fenced(memory[0, : last + 1 - memory.ctypes.data], at_end)
    moved = tuple(
        np.ndarray(one.shape, np.uint8, used, one.ctypes.data - memory.ctypes.data, one.strides)
        for one in planes
    )
    got = roicy.crop(moved, [[0, 0, width, 1]], 9, color=color)
    np.testing.assert_array_equal(got, want)


FRAME = np.zeros((30, 20), np.uint8)
PADDED = np.zeros((30, 24), np.uint8)[:, :20]
PLANES = (np.zeros((20, 20), np.uint8), np.zeros((10, 20), np.uint8))
PLANES_OF_PAIRS = (PLANES[0], PLANES[1].reshape(10, 10, 2))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"color": "rgb"}, ValueError, "color: 'rgb', expected 'nv12', 'nv21', 'nv16'"),
        ({"color_range": "tv"}, ValueError, "color_range: 'tv', expected 'video' or 'full'"),
        ({"color_matrix": "bt470"}, ValueError, "color_matrix: 'bt470', expected 'bt601', 'bt709'"),
        ({"frames": np.zeros((30, 20, 3), np.uint8)}, ValueError, r"frames: shape \(30, 20, 3\)"),
        ({"frames": np.zeros((31, 20), np.uint8)}, ValueError, r"frames: shape .*an even W"),
        ({"frames": np.zeros((30, 21), np.uint8)}, ValueError, r"frames: shape .*an even W"),
        ({"frames": FRAME.astype(np.uint16)}, TypeError, "frames: dtype uint16, expected uint8"),
        ({"color": "p010"}, TypeError,
         r"frames: dtype uint8, expected uint16 for color='p010'; of .* view\(numpy.uint16\)$"),
        ({"frames": FRAME.astype(">u2"), "color": "p010"}, TypeError, "uint16 in foreign byte"),
        ({"frames": PLANES_OF_PAIRS, "color": None}, ValueError, "frames.1.: .*planes .* need col"),
        ({"frames": []}, ValueError, "frames: an empty list"),
        ({"frames": [np.zeros((2, 30, 20), np.uint8)]}, ValueError, r"frames\[0\]: shape \(2, 30"),
        ({"frames": PADDED, "color": "i420"}, ValueError,
         "frames: rows 24 bytes apart, expected .*pass its planes"),
        ({"frames": FRAME[:, ::-1], "color": "yv12"}, ValueError, "20 bytes apart, expected -20"),
        ({"frames": PLANES, "color": "i420"}, ValueError, r"frames: a tuple of 2, .*\(y, u, v\)"),
        ({"frames": PLANES, "color": "uyvy"}, ValueError, "frames: a tuple, expected one array"),
        ({"frames": (FRAME, FRAME)}, ValueError, r"frames\[1\]: shape \(30, 20\), expected \(15, "),
        ({"frames": (FRAME[0], FRAME)}, ValueError, r"frames\[0\]: shape \(20,\), expected \(H, W"),
        ({"frames": np.zeros((3, 3), np.uint8), "color": "yuyv"}, ValueError, "frames: shape .*ev"),
        ({"frames": np.zeros((3, 3, 2), np.uint8), "color": "uyvy"}, ValueError, "an even W"),
        ({"frames": np.zeros((31, 20), np.uint8), "color": "nv16"}, ValueError, r"\(2 \* H, W\)"),
        ({"frames": np.zeros((30, 21), np.uint8), "color": "i422"}, ValueError, "with an even W"),
        ({"frames": np.zeros((31, 20), np.uint8), "color": "nv24"}, ValueError, r"\(3 \* H"),
        ({"frames": PADDED, "color": "nv24"}, ValueError, "frames: rows 24 bytes apart, expected"),
        ({"frames": PLANES, "color": "nv24"}, ValueError, r".*expected \(20, 40\)"),
        ({"frames": PLANES, "color": "i422"}, ValueError, r"frames: a tuple of 2, .*\(y, u, v\)"),
        ({"frames": PLANES, "color": "rgb565"}, ValueError, "frames: a tuple, expected one array"),
        ({"frames": FRAME.astype(np.int16), "color": "rgb565"}, TypeError,
         r"frames: dtype int16, expected uint16, or uint8 of its bytes, for color='rgb565'"),
        ({"frames": np.zeros((4, 5), np.uint8), "color": "rgb565"}, ValueError,
         r"frames: shape \(4, 5\), expected \(H, W\) .* uint16, or of its bytes \(H, W, 2\) or"),
        ({"frames": np.zeros((4, 6, 3), np.uint8), "color": "rgb565"}, ValueError, r"\(H, W, 2\)"),
        ({"frames": np.zeros(4, np.uint16), "color": "rgb565"}, ValueError, r"expected \(H, W"),
        ({"color": "NV12"}, ValueError, "color: 'NV12', .*; pass color='nv12'$"),
        ({"color": "p016le"}, ValueError, "color: 'p016le', .*; pass color='p010'$"),
        ({"color": "yuvj444p"}, ValueError, "; pass color='i444', color_range='full'$"),
        ({"color": "GRAY10"}, ValueError, r"; frames of grey have no color: .* scale=1 / \(2\*\*N"),
        ({"color": b"nv12"}, ValueError, "color: b'nv12', expected 'nv12', 'nv21'"),
        ({"pad_value": (1, 2)}, ValueError, "pad_value: .*expected a number or 3"),
    ],
    ids=lambda v: str(v)[:30],
)  # fmt: skip
def test_errors_name_the_argument(arguments, error, message):
    given = {"frames": FRAME, "boxes": BOXES, "size": 4, "color": "nv12"}
    assert_refused(roicy.crop, given, arguments, message, error)
