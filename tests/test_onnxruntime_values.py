"""Nodes in sessions give the numbers that ONNX Runtime's own tests expect."""

import numpy as np
import pytest
from onnx_models import VALUES, alone, claimed, parsed, without_python

NAN, INF = np.nan, np.inf


def numbers(text):
    return np.array(text.split(), np.float32)


def session_of(body, opset=16):
    """Return a session of one node, which has to be taken."""
    model = parsed(body, opset, ', "com.microsoft": 1')
    titles, session = claimed(model)
    assert len(titles) == 1
    return session, model


# RoiAlign: boxes without an extent, whose bins have 12 numbers a channel.  Means of the second and
# third channel are 25 and 50 larger, and so are the largest products of the second box.
POINTS = np.array([[7, 5], [-15, -15], [-10, 21], [13, 8], [-14, 19]], np.float32)
MEANS = (
    numbers("""
    2.95833 3.20833 3.45833 3.70833 4.625 4.875 5.125 5.375 6.29167 6.54167 6.79167 7.04167
    0 0 0 0 0 0 0 0 0 0 0 0
    7.39583 7.39583 7.42708 7.64583 9.0625 9.0625 9.09375 9.3125 10.7292 10.7292 10.7604 10.9792
    4.27083 4.52083 4.77083 5.02083 5.9375 6.1875 6.4375 6.6875 7.60417 7.85417 8.10417 8.35417
    6.77083 6.77083 6.77083 6.80208 8.4375 8.4375 8.4375 8.46875 10.1042 10.1042 10.1042 10.1354
""").reshape(5, 1, 12)
    + 25 * np.arange(3)[:, None]
)
LARGEST = numbers("""
    2.10938 2.95313 3.375 2.53125 3.35938 4.70313 5.375 4.03125 3.51563 4.92188 5.625 4.21875
    10.8984 15.2578 17.4375 13.0781 17.3568 24.2995 27.7708 20.8281 18.1641 25.4297 29.0625 21.7969
    19.6875 27.5625 31.5 23.625 31.3542 43.8958 50.1667 37.625 32.8125 45.9375 52.5 39.375
    0 0 0 0 0 0 0 0 0 0 0 0
    25 25 25 25 25 25 25 25 25 25 25 25
    50 50 50 50 50 50 50 50 50 50 50 50
    5.625 5.625 5.625 4.57031 8.95833 8.95833 8.95833 7.27865 9.375 9.375 9.375 7.61719
    19.6875 19.6875 19.6875 15.9961 31.3542 31.3542 31.3542 25.4753 32.8125 32.8125 32.8125 26.6602
    33.75 33.75 33.75 27.4219 53.75 53.75 53.75 43.6719 56.25 56.25 56.25 45.7031
    4.5 3.9375 2.8125 3.9375 5.5 4.8125 3.4375 4.8125 4.58333 4.01042 2.86458 3.9375
    23.25 20.3438 14.5313 18 28.4167 24.86458 17.76042 22 23.25 20.3437 14.5312 18
    42 36.75 26.25 32.0625 51.3333 44.9167 32.08333 39.1875 42 36.75 26.25 32.0625
    4.375 4.375 4.375 4.375 7.70833 7.70833 7.70833 7.70833 9.375 9.375 9.375 9.375
    21.875 21.875 21.875 21.875 26.9792 26.9792 26.9792 26.9792 32.8125 32.8125 32.8125 32.8125
    40.1042 40.1042 40.1042 40.1042 46.25 46.25 46.25 46.25 56.25 56.25 56.25 56.25
""").reshape(5, 3, 12)
OUTPUT_HALF_PIXEL = ', coordinate_transformation_mode = "output_half_pixel"'


@pytest.mark.parametrize(
    "opset, given, expected",
    [(10, "", MEANS), (16, OUTPUT_HALF_PIXEL, MEANS), (10, ', mode = "max"', LARGEST)],
)
def test_boxes_without_an_extent(opset, given, expected):
    session, _ = session_of(
        f"""pooled {VALUES} => (float[K, C, P, Q] Y) {{
        Y = RoiAlign <output_height = 3, output_width = 4, sampling_ratio = 2,
            spatial_scale = 0.0625{given}> (X, rois, images) }}""",
        opset,
    )
    x = np.arange(75, dtype=np.float32).reshape(1, 3, 5, 5)
    inputs = {"X": x, "rois": np.tile(POINTS, 2), "images": np.zeros(5, np.int64)}
    (got,) = session.run(None, inputs)
    np.testing.assert_allclose(got.reshape(5, 3, 12), expected, rtol=2e-5, atol=1e-5)


MAP = numbers("""
    .2764 .7150 .1958 .3416 .4638 .0259 .2963 .6518 .4856 .7250 .9637 .0895 .2919 .6753 .0234
    .6132 .8085 .5324 .8992 .4467 .3265 .8479 .9698 .2471 .9336 .1878 .4766 .4308 .3400 .2162
    .0206 .1720 .2155 .4394 .0653 .3406 .7724 .3921 .2541 .5799 .4062 .2194 .4473 .4687 .7109
    .9327 .9815 .6320 .1728 .6119 .3097 .1283 .4984 .5068 .4279 .0173 .4388 .0430 .4671 .7119
    .1011 .8477 .4726 .1777 .9923 .4042 .1869 .7795 .9946 .9689 .1366 .3671 .7011 .6234 .9867
    .5585 .6985 .5609 .8788 .9928 .5697 .8511 .6711 .9406 .8751 .7496 .1650 .1049 .1559 .2514
    .7012 .4056 .7879 .3461 .0415 .2998 .5094 .3727 .5482 .0502
""").reshape(1, 1, 10, 10)
POOLED = numbers("""
    .4664 .4466 .3405 .5688 .6068 .3714 .4296 .3835 .5562 .3510 .2768 .4883 .5222 .5528 .4171
    .4713 .4844 .6904 .4920 .8774 .6239 .7125 .6289 .3355 .3495
    .3022 .4305 .4696 .3978 .5423 .3656 .7050 .5165 .3172 .7015 .2912 .5059 .6476 .6235 .8299
    .5916 .7389 .7048 .8372 .8893 .6227 .6153 .7097 .6154 .4585
    .2384 .3379 .3717 .6100 .7601 .3767 .3785 .7147 .9243 .9727 .5749 .5826 .5709 .7619 .8770
    .5355 .2566 .2141 .2796 .3600 .4365 .3504 .2887 .3661 .2349
""").reshape(3, 1, 5, 5)


@pytest.mark.parametrize("kind, dtype", [("float", np.float32), ("double", np.float64)])
def test_roi_align(kind, dtype):
    body = f"""pooled {VALUES} => (float[K, C, P, Q] Y) {{
        Y = RoiAlign <output_height = 5, output_width = 5, sampling_ratio = 2> (X, rois, images)
    }}"""
    session, _ = session_of(body.replace("float", kind), 10)
    rois = np.array([[0, 0, 9, 9], [0, 5, 4, 9], [5, 5, 9, 9]], dtype)
    inputs = {"X": MAP.astype(dtype), "rois": rois, "images": np.zeros(3, np.int64)}
    np.testing.assert_allclose(session.run(None, inputs)[0], POOLED, rtol=0, atol=1e-4)


def test_max_roi_pool():
    session, _ = session_of(
        """pooled (float[N, C, H, W] X, float[K, 5] rois) => (float[K, C, P, Q] Y) {
        Y = MaxRoiPool <pooled_shape = [1, 1]> (X, rois) }"""
    )
    x = (np.arange(108, dtype=np.float32) / 10).reshape(1, 3, 6, 6)
    (got,) = session.run(None, {"X": x, "rois": np.array([[0, 1, 1, 2, 3]] * 3, np.float32)})
    np.testing.assert_allclose(got.reshape(3, 3), [[2, 5.6, 9.2]] * 3, rtol=1e-6)


SQUARES = [[0, 0, 1, 1], [0, 0, 0.5, 0.5], [0, 0, 0.5, 1]]
# Sides of the map, its images and channels, boxes, their images, crop size, attributes, numbers
CROPS = [
    (2, 1, 1, SQUARES, [0, 0, 0], 1, "", "2.75 1.925 2.2"),
    (2, 1, 1, SQUARES, [0, 0, 0], 2, "", "1.1 2.2 3.3 4.4 1.1 1.65 2.2 2.75 1.1 2.2 2.2 3.3"),
    (2, 1, 1, [[0, 0, 1.5, 1.5], [0.25, 0.25, 0.75, 0.5]], [0, 0], 2, "5.5",
     "1.1 5.5 5.5 5.5 1.925 2.2 3.025 3.3"),
    (2, 2, 1, SQUARES, [0, 1, 1], 1, "", "2.75 6.325 6.6"),
    (2, 2, 1, SQUARES, [0, 1, 1], 2, "", "1.1 2.2 3.3 4.4 5.5 6.05 6.6 7.15 5.5 6.6 6.6 7.7"),
    (2, 1, 2, SQUARES, [0, 0, 0], 1, "", "2.75 7.15 1.925 6.325 2.2 6.6"),
    (2, 1, 2, SQUARES, [0, 0, 0], 2, "",
     """1.1 2.2 3.3 4.4 5.5 6.6 7.7 8.8 1.1 1.65 2.2 2.75 5.5 6.05 6.6 7.15 1.1 2.2 2.2 3.3
        5.5 6.6 6.6 7.7"""),
    (3, 1, 1, SQUARES, [0, 0, 0], 1, "", "5.5 3.3 3.85"),
    (3, 1, 1, SQUARES, [0, 0, 0], 2, "", "1.1 3.3 7.7 9.9 1.1 2.2 4.4 5.5 1.1 3.3 4.4 6.6"),
    (3, 1, 1, SQUARES, [0, 0, 0], 2, "nearest", "1.1 3.3 7.7 9.9 1.1 2.2 4.4 5.5 1.1 3.3 4.4 6.6"),
    (2, 1, 1, [[0, 0, 1, 1]], [0], 2, "9", "1.1 2.2 3.3 4.4"),
    (2, 1, 1, [[0, 0, 1.0001, 1.0001]], [0], 2, "9", "1.1 9 9 9"),
    # Boxes that are not finite are outside of the map, in ONNX Runtime from 1.32 on.
    (2, 1, 1, [[NAN, 0, NAN, 1], [0, NAN, 1, NAN], [INF, 0, INF, 1], [-INF, 0, -INF, 1]], [0] * 4,
     2, "5.5", "5.5 " * 16),
]  # fmt: skip


@pytest.mark.parametrize("side, images, channels, rois, of, size, given, expected", CROPS)
def test_crop_and_resize(side, images, channels, rois, of, size, given, expected, monkeypatch):
    shown = (
        'mode = "nearest"' if given == "nearest" else f"extrapolation_value = {float(given or 0)}"
    )
    session, model = session_of(
        f"""crop (float[N, C, H, W] X, float[K, 4] rois, int32[K] images, int32[2] size) =>
            (float[K, C, P, Q] Y) {{
            Y = com.microsoft.CropAndResize <{shown}> (X, rois, images, size) }}"""
    )
    x = np.arange(1, side * side * images * channels + 1, dtype=np.float32) * np.float32(1.1)
    inputs = {
        "X": x.reshape(images, channels, side, side),
        "rois": np.array(rois, np.float32),
        "images": np.array(of, np.int32),
        "size": np.array([size, size], np.int32),
    }
    with monkeypatch.context() as context:
        if np.isfinite(rois).all() and given in ("", "nearest"):
            without_python(context)
        (got,) = session.run(None, inputs)
    np.testing.assert_allclose(got.ravel(), numbers(expected), rtol=1e-5)
    if np.isfinite(rois).all():  # older versions crash on others
        np.testing.assert_allclose(got, alone(model).run(None, inputs)[0], rtol=1e-5)
    for wrong in ({"images": inputs["images"] + 5}, {"size": np.array([0, 2], np.int32)}):
        with pytest.raises(Exception, match="5 is outside the|crop_size"):
            session.run(None, inputs | wrong)
