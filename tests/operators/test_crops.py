"""crop_and_resize: the definition, ONNX Runtime's operator, gradients and edges."""

import math
import re

import numpy as np
import pytest
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    assert_agrees_with_differences,
    assert_refused,
    assert_same_bits,
    from_layout,
    pairs,
    to_layout,
)

import roicy
from roicy.compat import onnx, tensorflow

SIZES, METHODS = [(3, 4), (1, 5), (14, 1)], ["bilinear", "nearest"]
X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


def make(rng, dtype, count=20, images=2, channels=19):
    x = rng.standard_normal((images, channels, 12, 15)).astype(dtype)
    boxes = rng.uniform(-0.3, 1.3, (count, 4)).astype(dtype)
    boxes[:5] = [[0, 0, 1, 1], [1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5], [2, 2, 3, 3], [-9, -9, 9, 9]]
    return x, boxes, rng.integers(0, images, count)


def positions(low, high, extent, bins, dtype):
    last = dtype(extent - 1)
    if bins == 1:
        return [dtype(0.5) * (low + high) * last]
    step = (high - low) * last / dtype(bins - 1)
    return [low * last + dtype(p) * step for p in range(bins)]


def neighbours(v, extent, method):
    """Return the pixels that a sample reads along an axis, with their weights; none off the map."""
    if not 0 <= v <= extent - 1:
        return []
    if method == "nearest":
        return [(int(np.floor(float(v) + 0.5)), 1.0)]
    i = int(v)
    return [(j, w) for j, w in ((i, 1 - (float(v) - i)), (i + 1, float(v) - i)) if w > 0]


def reference(x, boxes, images, bins, method, value):
    """Return the crops, float64."""
    out = np.full((len(boxes), x.shape[1], *bins), value, np.float64)
    dtype = x.dtype.type
    for k, (y1, x1, y2, x2) in enumerate(boxes):
        for p, y in enumerate(positions(y1, y2, x.shape[2], bins[0], dtype)):
            for q, at in enumerate(positions(x1, x2, x.shape[3], bins[1], dtype)):
                rows, columns = (
                    neighbours(v, extent, method)
                    for v, extent in zip((y, at), x.shape[2:], strict=True)
                )
                if rows and columns:
                    out[k, :, p, q] = sum(
                        wy * wx * x[images[k], :, i, j].astype(np.float64)
                        for i, wy in rows
                        for j, wx in columns
                    )
    return out


@pairs(bins=SIZES, method=METHODS, value=[0.0, -7.5], layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_definition(bins, method, value, layout, dtype, isa, rng):
    x, boxes, images = make(rng, dtype)
    expected = reference(x, boxes, images, bins, method, value)
    given = to_layout(x, layout), boxes, images, bins, method, value
    one, two = (
        roicy.crop_and_resize(*given, layout=layout, num_threads=threads) for threads in (1, 2)
    )
    assert_same_bits(one, two)
    # Four weights are rounded, and four products and sums.
    slack = 0 if method == "nearest" else 8 * np.finfo(dtype).eps * np.abs(x).max()
    assert np.abs(from_layout(one, layout) - expected).max() <= slack


@pytest.mark.parametrize("mode", METHODS)
@pytest.mark.parametrize("bins", SIZES)
def test_onnxruntime(bins, mode, rng):
    runtime = pytest.importorskip("onnxruntime")
    parser = pytest.importorskip("onnx.parser")
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 16, "com.microsoft": 1]>
        crops (float[N, C, H, W] X, float[K, 4] rois, int32[K] images, int32[2] size)
        => (float[K, C, A, B] Y) {{
        Y = com.microsoft.CropAndResize <mode = "{mode}", extrapolation_value = 3.0>
        (X, rois, images, size) }}"""
    )
    x, boxes, images = make(rng, np.float32)
    boxes[10:, 2:] = 1  # where a position is rounded past the edge of the map, or is not
    boxes[15:, :2] = 0
    inputs = {"X": x, "rois": boxes, "images": images.astype(np.int32)}
    inputs["size"] = np.array(bins, np.int32)
    session = runtime.InferenceSession(model.SerializeToString())
    (theirs,) = session.run(None, inputs)
    given = (images, inputs["size"])
    ours = onnx.CropAndResize(x, boxes, *given, mode=mode, extrapolation_value=3.0)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    from onnx.reference import ReferenceEvaluator

    from roicy.compat.onnx.reference import OPERATORS

    assert_same_bits(ReferenceEvaluator(model, new_ops=OPERATORS).run(None, inputs)[0], ours)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    pooled = tensorflow.crop_and_resize(last, boxes, *given, mode, 3.0).transpose(0, 3, 1, 2)
    assert_same_bits(
        np.ascontiguousarray(pooled),
        roicy.crop_and_resize(x, boxes, images, inputs["size"], mode, 3.0),
    )
    assert tensorflow.image.crop_and_resize is tensorflow.crop_and_resize


def test_the_last_sample():
    """ONNX Runtime puts it on the corner of the box; TensorFlow's steps are rounded past it."""
    ones, image = np.ones((1, 1, 50, 50), np.float32), np.array([0])
    box = np.array([[0.248046786, 0, 1, 0.5]], np.float32)
    theirs = onnx.CropAndResize(ones, box, image, np.array([4, 4]), extrapolation_value=-7)
    assert (theirs == 1).all()
    crops = roicy.crop_and_resize(ones, box, image, 4, extrapolation_value=-7)
    assert (crops[0, 0, 3] == -7).all() and (crops[0, 0, :3] == 1).all()
    ones, box = np.ones((1, 1, 56, 56), np.float32), np.array([[0, 0, 1, 1]], np.float32)
    assert onnx.CropAndResize(ones, box, image, np.array([28, 28])).all()
    (lost,) = roicy.crop_and_resize(ones, box, image, 28)[0] == 0
    assert lost[-1].all() and lost[:, -1].all() and not lost[:-1, :-1].any()


@pairs(bins=SIZES, method=METHODS, layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_backward(bins, method, layout, dtype, isa, rng):
    """<forward(x), g> equals <x, backward(g)>."""
    x, boxes, images = make(rng, dtype)
    options = {"layout": layout}
    out = roicy.crop_and_resize(to_layout(x, layout), boxes, images, bins, method, **options)
    grad = rng.standard_normal(out.shape).astype(dtype)
    results = [
        roicy.crop_and_resize_backward(
            grad, boxes, images, to_layout(x, layout).shape, method, num_threads=threads, **options
        )
        for threads in (1, 2)
    ]
    assert_same_bits(*results)
    left = np.vdot(out.astype(np.float64), grad)
    right = np.vdot(to_layout(x, layout).astype(np.float64), results[0])
    size = np.vdot(np.abs(out), np.abs(grad)) + 1
    assert abs(left - right) <= 100 * np.finfo(dtype).eps * size


@pairs(bins=SIZES, layout=LAYOUTS, isa=ISAS)
def test_boxes_by_differences(bins, layout, isa, rng):
    x, boxes, images = make(rng, np.float64)
    boxes = boxes[5:]
    images = images[5:]
    options = {"layout": layout}
    x = to_layout(x, layout)
    grad = rng.standard_normal(roicy.crop_and_resize(x, boxes, images, bins, **options).shape)

    def total(moved):
        return np.vdot(roicy.crop_and_resize(x, moved[:, 1:], images, bins, **options), grad)

    ours = roicy.crop_and_resize_backward_boxes(grad, x, boxes, images, **options)
    rows = np.c_[np.zeros(len(boxes)), boxes]
    assert_agrees_with_differences(ours, total, rows, (1e-6, 1e-7), 1e-5)


def test_tiny_maps(isa):
    for shape in ((1, 2, 1, 1), (1, 2, 1, 5), (1, 2, 5, 1)):
        x = np.ones(shape, np.float32)
        out = roicy.crop_and_resize(x, np.array([[-3, 0, 9, 1]], np.float32), [0], (3, 2))
        # on a side of one pixel every coordinate is that pixel
        assert out.shape == (1, 2, 3, 2)
        assert out.min() == (0 if shape[2] == 5 else 1)


def test_large_crops_read_few_pixels(isa, rng):
    x = rng.standard_normal((1, 33, 300, 310)).astype(np.float32)
    boxes = np.tile(np.array([[0.013, 0.02, 0.97, 0.99]], np.float32), (4, 1))
    images = np.zeros(4, int)
    expected = reference(x, boxes[:1], images, (3, 4), "bilinear", 0.0)
    for layout in ("NCHW", "NHWC"):
        out = roicy.crop_and_resize(to_layout(x, layout), boxes, images, (3, 4), layout=layout)
        np.testing.assert_allclose(from_layout(out, layout)[:1], expected, atol=1e-4)


def test_nothing():
    none = np.zeros((0, 4), np.float32)
    assert roicy.crop_and_resize(X, none, [], 2, extrapolation_value=1).shape[0] == 0
    grad = np.zeros((0, 2, 2, 2), np.float32)
    assert not roicy.crop_and_resize_backward(grad, none, [], X.shape).any()
    assert roicy.crop_and_resize_backward_boxes(grad, X, none, []).shape == (0, 4)


def test_small_types(isa):
    boxes = np.array([[0, 0, 0.7, 1.5]], np.float32)
    for small in (np.float16, np.uint8):
        out = roicy.crop_and_resize(X.astype(small), boxes, [0], 3, "bilinear", 2.5)
        wide = roicy.crop_and_resize(X, boxes, [0], 3, "bilinear", 2.5)
        assert_same_bits(out, wide.astype(out.dtype))


@pairs(
    method=METHODS,
    layout=LAYOUTS,
    small=["uint8", "int8", "uint16", "int16", "float16"],
    isa=ISAS,
)
def test_values_off_the_map_are_rounded_as_others_are(method, layout, small, isa):
    """To the nearest, halves to even, and to the range of the type; NaN is its least number."""
    x = to_layout(X.astype(small), layout)
    boxes, exact = np.array([[0, 0, 1.5, 1.5]], np.float32), small == "float16"
    for value in (
        *(-1, 300, 0.4, 0.5, 0.6, 1.5, 2.5, 127.5, 254.5, 255.5, 65535.5, 70000, 1e30, 1e300),
        *(-0.5, -0.6, -1.5, -128.5, -32769, -1e300, math.inf, -math.inf, math.nan),
    ):
        wide = np.zeros(to_layout(np.empty((1, 2, 3, 3)), layout).shape, np.float32)
        given = x, boxes, [0], 3, method, value
        roicy.crop_and_resize(*given, layout=layout, out=wide)
        out = np.zeros(wide.shape, small)
        assert roicy.crop_and_resize(*given, layout=layout, out=out) is out
        with np.errstate(all="ignore"):
            assert np.array_equal(wide.max(), np.float32(value), equal_nan=True) or value < 9
            if exact:
                right = wide.astype(small)
            else:
                limits = np.iinfo(small)
                right = np.rint(wide).clip(limits.min, limits.max)
                right = np.where(np.isnan(right), limits.min, right).astype(small)
        np.testing.assert_array_equal(out, right)


BOXES = np.zeros((2, 4), np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"boxes": BOXES[:, :3]}, r"boxes: shape \(2, 3\), expected"),
        ({"box_indices": [0]}, r"box_indices: shape \(1,\) of int64, expected"),
        ({"box_indices": [0.0, 0.0]}, "box_indices: shape .* of float64"),
        ({"box_indices": [0, 1]}, r"box_indices\[1\]: 1 is outside the"),
        ({"crop_size": 0}, "crop_size: 0, expected an integer from 1"),
        ({"method": "cubic"}, "method: 'cubic', expected 'bil"),
        ({"extrapolation_value": "1"}, "extrapolation_value: '1'"),
        ({"image": X[0]}, r"image: shape \(2, 3, 4\), expected"),
        ({"boxes": BOXES.astype(complex)}, "boxes: dtype complex128"),
        ({"boxes": BOXES * np.nan}, r"boxes\[0\]: x1 is nan"),
    ],
    ids=str,
)
def test_errors(arguments, message):
    given = {"image": X, "boxes": BOXES, "box_indices": [0, 0], "crop_size": 2}
    error = TypeError if re.search("complex|'1'", message) else ValueError
    assert_refused(roicy.crop_and_resize, given, arguments, message, error)
