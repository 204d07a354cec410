"""roicy.crop of boxes that are not upright: rotated boxes, corners and matrices."""

import numpy as np
import pytest
import reference_images as reference
from conftest import ISAS, assert_refused, pairs
from frames import CORNERS, frame_of, views_of

import roicy

SIZE = (9, 21)
ROTATED = [
    (15, 11, 12, 8, 0.3),
    (18.25, 10.5, 20, 9.5, -2),
    (2, 3, 14, 14, 0.75),  # partly off the frame
    (90, 50, 10, 8, 1),  # off the frame
    (10, 10, 0, 0, 0.5),  # no area
    (16, 12, -10, 6, 0.2),  # mirrored
]
MATRICES = [
    [(1.2, -0.4, -5), (0.4, 1.2, -8)],
    [(0.7, 0, 2), (0, 0.8, -1)],
    [(-1, 0.2, 30), (0.1, 1.5, -10)],
]
# Boxes, and what makes of a box the point of the frame that an output pixel shows.
KINDS = {
    "rotated": (
        [(0, *box) for box in ROTATED],
        lambda box: reference.rotated_points(box[1:], SIZE),
    ),
    "corners": (CORNERS, lambda box: reference.corner_points(box, SIZE)),
    "matrices": (MATRICES, reference.matrix_points),
}


def bound(frame):
    """Return how much a result may be off: positions in float32 relative to one in a row of 16, and
    some dozen roundings, of numbers as large as pixels.
    """
    return 16 * 8 * 2.0**-24 * float(np.abs(frame.astype(np.float64)).max(initial=1))


@pairs(
    dtype=["uint8", "uint16", "float16", "float32"],
    kind=KINDS,
    border=["image", "constant"],
    isa=ISAS,
)
def test_points(dtype, kind, border, isa):
    boxes, point_of = KINDS[kind]
    for channels in (3, 1) if dtype == "uint8" else (2,):
        frame = frame_of(dtype, channels)
        got = roicy.crop(
            frame, boxes, SIZE, antialias=False, border=border, pad_value=9, channels="last"
        )
        for k, box in enumerate(boxes):
            want = reference.warp(frame, point_of(box), SIZE, border=border, pad=9)
            np.testing.assert_allclose(got[k], want, rtol=0, atol=bound(frame), err_msg=str(box))


def test_samples(isa):
    """As many samples as an output pixel has pixels of the frame, rounded up, and at most 8."""
    frame, size = frame_of("uint8"), (4, 5)
    for width, height, samples in ((5, 4, (1, 1)), (5.04, 4.03, (1, 1)), (11, 7, (2, 3)),
                                   (3, 30, (8, 1)), (900, 12.2, (4, 8))):  # fmt: skip
        box = (17.5, 11.25, width, height, 0.4)
        got = roicy.crop(frame, [(0, *box)], size, channels="last")
        want = reference.warp(frame, reference.rotated_points(box, size), size, samples)
        np.testing.assert_allclose(got[0], want, rtol=0, atol=2 * bound(frame))


def test_upright_boxes_agree(isa):
    """A box means the same in each format."""
    frame = frame_of("uint8")
    x1, y1, x2, y2 = box = (3.5, 2.25, 30, 19.5)
    want = roicy.crop(frame, [box], SIZE, antialias=False)
    bw, bh = (x2 - x1) / SIZE[1], (y2 - y1) / SIZE[0]
    for other in (
        (0, (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, 0),
        [(x1, y1), (x2, y1), (x2, y2), (x1, y2)],
        [(1 / bw, 0, (0.5 - x1) / bw - 0.5), (0, 1 / bh, (0.5 - y1) / bh - 0.5)],
    ):
        got = roicy.crop(frame, [other], SIZE, antialias=False)
        np.testing.assert_allclose(got, want, rtol=0, atol=bound(frame))


@pytest.mark.parametrize("fit", ["letterbox", "cover"])
def test_fit_of_rotated_boxes(fit):
    frame = frame_of("uint8")
    got = roicy.crop(frame, KINDS["rotated"][0][:4], SIZE, fit=fit, pad_value=7, antialias=False)
    for k, (cx, cy, width, height, angle) in enumerate(ROTATED[:4]):
        half = (width / 2, height / 2)
        area = reference.crop_area((-half[0], -half[1], *half), SIZE, fit)
        (x1, y1, x2, y2), rows, columns = area
        point = reference.rotated_points((cx, cy, x2 - x1, y2 - y1, angle), SIZE, (rows, columns))
        want = reference.warp(frame, point, SIZE)
        shown = np.zeros((*SIZE, 1), bool)
        shown[rows[0] : rows[1], columns[0] : columns[1]] = True
        want = np.where(shown, want, 7).transpose(2, 0, 1)
        np.testing.assert_allclose(got[k], want, rtol=0, atol=bound(frame))


UPRIGHT = (10, 12, 50, 33.5)


@pytest.mark.parametrize(
    ("box", "fit"),
    [
        (UPRIGHT, "stretch"), (UPRIGHT, "letterbox"), (UPRIGHT, "cover"),
        ((60.25, 5, 20, 45), "letterbox"), ((60.25, 5, 20, 45), "cover"),
        ((0, 40, 30, 20, 25, 0.6), "stretch"),
        ([(20, 10), (60, 15), (55, 45), (22, 40)], "stretch"),
        ([(0.9, 0.3, -20), (-0.3, 0.9, 0)], "stretch"),
    ],
    ids=str,
)  # fmt: skip
def test_matrices(box, fit):
    """A matrix takes the middle of an output pixel to what the pixel shows: of ramps, itself."""
    y, x = np.mgrid[:60, :80].astype(np.float32)
    got, (matrix,) = roicy.crop(
        np.stack([x, y], -1), [box], SIZE, fit=fit, pad_value=-1, antialias=False,
        return_matrices=True,
    )  # fmt: skip
    q, p = np.meshgrid(np.arange(SIZE[1]), np.arange(SIZE[0]))
    points = matrix @ np.stack([q, p, np.ones_like(p)]).reshape(3, -1)
    crop = got.reshape(2, -1)
    shown = crop[0] >= 0
    assert shown.sum() > (40 if fit == "letterbox" else shown.size - 1)
    np.testing.assert_allclose(points[:2, shown] / points[2, shown], crop[:, shown], atol=2e-5)
    if np.shape(box) == (2, 3):
        np.testing.assert_allclose(np.linalg.inv(matrix)[:2], box, atol=1e-12)


def test_pixels_beyond_the_horizon_are_padding():
    """Corners that cross have a line of no return inside, and what is behind it is not shown."""
    got, m = roicy.crop(
        frame_of("uint8"), [CORNERS[3]], SIZE, pad_value=300, antialias=False, return_matrices=True
    )
    q, p = np.meshgrid(np.arange(SIZE[1]), np.arange(SIZE[0]))
    behind = m[0, 2, 0] * q + m[0, 2, 1] * p + m[0, 2, 2] <= 0
    assert 20 < behind.sum() < behind.size - 20
    np.testing.assert_array_equal(got[0] == 300, np.broadcast_to(behind, got[0].shape))


@pytest.mark.parametrize(
    "box", [(0, 90, 70, 130, 80, 0.5), [(10, 5), (150, 20), (180, 140), (-20, 120)]], ids=str
)
def test_threads_strides_and_outs_change_no_bit(box, isa):
    frame = frame_of("uint8", extent=(150, 200))
    given = {"boxes": [box], "size": (170, 183), "swap_channels": True, "scale": 0.5}
    want = roicy.crop(frame, **given, num_threads=1)  # too much for one thread alone
    for view in views_of(frame):
        np.testing.assert_array_equal(roicy.crop(view, **given, num_threads=2), want)
    for dtype, expected in ((np.float32, want), (np.uint8, np.rint(want).astype(np.uint8))):
        got = roicy.crop(frame, **given, num_threads=2, dtype=dtype, channels="last")
        np.testing.assert_array_equal(got.transpose(0, 3, 1, 2), expected)


def test_rows_gigabytes_apart(isa, tmp_path):
    """The rows of a sparse file, farther apart than numbers of 32 bits can say."""
    path = tmp_path / "frame"
    near = frame_of("uint8", extent=(9, 40))
    with path.open("wb") as file:
        for y in range(9):
            file.seek(y << 29)
            file.write(near[y].tobytes())
    far = np.memmap(path, np.uint8, "r")
    strides = (1 << 29, 3, 1)
    frame = np.lib.stride_tricks.as_strided(far, (9, 40, 3), strides, writeable=False)
    boxes = [(0, 20, 4, 18, 5, 0.2)]
    assert roicy.crop(frame, boxes, 20).tobytes() == roicy.crop(near, boxes, 20).tobytes()


@pytest.mark.parametrize("boxes", [CORNERS[:3], MATRICES, ROTATED[:3]], ids=str)
def test_formats(boxes):
    frames = np.stack([frame_of("uint8", seed=i) for i in range(2)])
    one, others = np.array(boxes[:1]), np.array(boxes[1:])
    want = [roicy.crop(frames[0], [one], 4), roicy.crop(frames[1], [others], 4)]
    want = np.concatenate(want)
    for given in ([boxes[:1], boxes[1:]], [one, others]):
        np.testing.assert_array_equal(roicy.crop(frames, given, 4), want)
    np.testing.assert_array_equal(roicy.crop(frames, boxes, 4, boxes_num=[1, 2]), want)
    if boxes == ROTATED[:3]:
        rows = np.column_stack([[0, 1, 1], boxes])
        np.testing.assert_array_equal(roicy.crop(frames, rows, 4), want)


LINES = [
    [(0, 0), (10, 0), (10, 5), (10, 10)],
    [(0.1, 0.3), (0.3, 0.9), (7, 3), (0.7, 2.1)],  # on a line up to rounding
    [(5, 5), (5, 5), (9, 9), (0, 8)],  # two are the same
    [(4, 4)] * 4,
    [(1, 1), (9, 1), (9, 1), (1, 1)],  # a parallelogram without area
    [(1e6, 1e-6), (3e6, 3e-6), (9e6, 2e-6), (2e6, 2e-6)],
]
FINE = [
    *CORNERS,
    [(0, 0), (10, 0), (4, 4), (0, 10)],  # one lies inside the triangle of the others
    [(1000, 1000), (1000 + 1e-6, 1000), (1000 + 1e-6, 1000 + 1e-6), (1000, 1000 + 1e-6)],
    [(1e200, 1), (3e200, 1), (3e200, 3), (1e200, 2)],
]


def orders(corners):
    """Return corners begun at each one, clockwise and counter-clockwise."""
    rolled = [corners[i:] + corners[:i] for i in range(4)]
    return rolled + [one[::-1] for one in rolled]


@pytest.mark.parametrize("corners", LINES, ids=str)
def test_three_corners_on_a_line(corners):
    """There is no perspective then, whichever corner is the first."""
    for one in orders(corners):
        for exponent in (0, -600, 600):
            one_ = np.ldexp(np.array(one, np.float64), exponent)
            with np.errstate(all="raise"), pytest.raises(ValueError, match="boxes") as error:
                roicy.crop(frame_of("uint8"), [CORNERS[0], one_.tolist()], 4)
            numbers = ", ".join(map(repr, one_.ravel().tolist()))
            assert str(error.value) == (
                f"boxes[1]: ({numbers}), expected corners of which no three lie on a line"
            )


@pytest.mark.parametrize("corners", FINE, ids=str)
def test_no_three_corners_on_a_line(corners):
    """The matrix takes the corners of the output to the given ones, and is not singular."""
    for one in orders(corners):
        frame = frame_of("uint8")
        _, matrices = roicy.crop(frame, [one], SIZE, return_matrices=True)
        scale = np.abs(one).max(axis=0)
        matrix = matrices[0] / np.array([*scale, 1])[:, None]
        assert abs(np.linalg.det(matrix)) > 0
        height, width = SIZE
        ends = np.array([(0, 0), (width, 0), (width, height), (0, height)]) - 0.5
        shown = matrix @ np.column_stack([ends, np.ones(4)]).T
        np.testing.assert_allclose((shown[:2] / shown[2]).T, (np.array(one) - 0.5) / scale,
                                   rtol=0, atol=1e-13)  # fmt: skip


@pytest.mark.parametrize("scale", [1e-200, 0.1, 1, 1e200])
def test_singular_matrices(scale):
    for linear in ([(1, 3), (3, 9)], [(0, 0), (1, 1)], [(0, 2), (0, 1)], [(0, 0), (0, 0)]):
        matrix = np.column_stack([scale * np.array(linear, np.float64), (3, 4)])
        with np.errstate(all="raise"), pytest.raises(ValueError) as error:
            roicy.crop(frame_of("uint8"), [MATRICES[0], matrix.tolist()], 4)
        numbers = ", ".join(map(repr, matrix.ravel().tolist()))
        assert str(error.value) == (
            f"boxes[1]: ({numbers}), expected a matrix that is not singular"
        )
    matrix = np.array([(0, -2 * scale, 0), (scale, 0, 5 * scale)])
    _, found = roicy.crop(frame_of("uint8"), [matrix], 4, return_matrices=True)
    np.testing.assert_allclose(found[0, :2], [(0, 1 / scale, -5), (-0.5 / scale, 0, 0)], rtol=1e-15)


def test_sides_of_0_repeat_one_point():
    """A turned box may have such sides, as an upright one may."""
    frame = frame_of("uint8")
    for box in ((0, 10, 8, 0, 0, 0.5), (0, 10, 8, 0, 6, 0.0), (0, 10, 8, 6, 0, 0.0)):
        got = roicy.crop(frame, [box], SIZE, channels="last")[0]
        x1, y1 = box[1] - box[3] / 2, box[2] - box[4] / 2
        want = roicy.crop(frame, [(x1, y1, x1 + box[3], y1 + box[4])], SIZE, channels="last")[0]
        np.testing.assert_allclose(got, want, rtol=0, atol=bound(frame))


WRONG = [
    ({"boxes": [[(1e-308, 0, 1e3), (0, 1, 0)]]}, ValueError, r"boxes\[0\]: .*matrix float64 can"),
    ({"boxes": [[(0, 0), (np.nan, 5), (9, 9), (0, 4)]]}, ValueError, r"boxes\[0\]: .*nan.*finite"),
    ({"boxes": [(0, 1, 1, 1, 1, np.inf)]}, ValueError, r"boxes\[0\]: .*inf.*finite"),
    ({"boxes": [(3, 1, 1, 1, 1, 0)]}, ValueError, r"boxes\[0\]: frame index 3 is outside"),
    ({"boxes": np.zeros((2, 3, 3))}, ValueError, r"boxes: shape \(2, 3, 3\), expected"),
    ({"boxes": CORNERS, "border": "crop"}, ValueError, "border: 'crop', expected 'image' or"),
    ({"boxes": MATRICES, "fit": "cover"}, ValueError, "fit: 'cover', expected 'stretch'"),
    ({"boxes": [CORNERS, MATRICES], "frames": [np.zeros((4, 4), np.uint8)] * 2}, ValueError,
     r"boxes\[1\]: shape \(3, 2, 3\), expected .*alike for all frames"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG, ids=lambda v: str(v)[:40])
def test_errors_name_the_argument(arguments, error, message):
    assert_refused(roicy.crop, {"frames": frame_of("uint8"), "size": 4}, arguments, message, error)


def test_opencv(isa):
    """OpenCV 5 computes positions in float32; before, it rounded them to 1/32 of a pixel."""
    cv2 = pytest.importorskip("cv2")
    frame = frame_of("float32", extent=(120, 160))
    exact = int(cv2.__version__.split(".")[0]) >= 5
    atol = 4 * 255 * 160 * 2.0**-24 if exact else 2 * 255 / 64
    size, options = (40, 70), {"antialias": False, "border": "constant", "channels": "last"}
    matrix = np.array([(0.8, -0.3, -10), (0.3, 0.8, -20.5)])
    want = cv2.warpAffine(frame, matrix, size[::-1], flags=cv2.INTER_LINEAR)
    got = roicy.crop(frame, [matrix], size, **options)[0]
    np.testing.assert_allclose(got, want, rtol=0, atol=atol)
    corners = np.array([(10, 12), (140, 30), (150, 100), (-5, 90)], np.float32)
    height, width = size
    target = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32)
    matrix = cv2.getPerspectiveTransform(corners - 0.5, target - 0.5)
    want = cv2.warpPerspective(frame, matrix, size[::-1], flags=cv2.INTER_LINEAR)
    got = roicy.crop(frame, [corners], size, **options)[0]
    np.testing.assert_allclose(got, want, rtol=0, atol=2 * atol)
