"""ONNX's operators agree with its reference implementation and with ONNX Runtime.

test_onnxruntime_nodes.py has the node tests.
"""

import numpy as np
import pytest
from conftest import random_boxes

from roicy.compat import onnx as compat

onnx = pytest.importorskip("onnx")
helper = pytest.importorskip("onnx.helper")
from onnx.reference import ReferenceEvaluator  # noqa: E402

from roicy.compat.onnx import reference  # noqa: E402


def model(op, opset, *inputs, **attributes):
    """Return a model of one node."""
    names, kind = ["X", "rois", "images"][: len(inputs)], helper.np_dtype_to_tensor_dtype
    arrays = dict(zip(names, inputs, strict=True))
    values = [helper.make_tensor_value_info(n, kind(x.dtype), x.shape) for n, x in arrays.items()]
    output = helper.make_tensor_value_info("Y", kind(inputs[0].dtype), None)
    node = helper.make_node(op, names, ["Y"], **attributes)
    graph = helper.make_graph([node], "pooled", values, [output])
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), arrays


def roicy_of(of_model):
    return ReferenceEvaluator(of_model[0], new_ops=reference.OPERATORS).run(None, of_model[1])[0]


@pytest.fixture
def inputs(rng):
    x = rng.standard_normal((2, 3, 20, 25)).astype(np.float32)
    boxes = random_boxes(rng, 2, 30, (40, 50), np.float32)
    return x, boxes[:, 1:], boxes[:, 0].astype(np.int64)


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel", None])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("sampling_ratio", [0, 1, 3])
def test_roi_align_of_other_implementations(sampling_ratio, mode, coordinates, inputs, isa):
    """Without coordinates the model has opset 10, which has no such attribute. (ONNX Runtime reads
    negative positions of inverted boxes as roicy does.)
    """
    attributes = {"output_height": 3, "output_width": 4, "spatial_scale": 0.5}
    attributes |= {"sampling_ratio": sampling_ratio, "mode": mode}
    if coordinates:
        attributes["coordinate_transformation_mode"] = coordinates
    made = model("RoiAlign", 16 if coordinates else 10, *inputs, **attributes)
    got = roicy_of(made)
    # Positions go up to 50 pixels in float32, and sums have up to 20 * 25 products.
    tolerance = {"rtol": 0, "atol": 50 * np.finfo(np.float32).eps * 4}
    if coordinates:  # the reference implementation has no opset 10
        expected = ReferenceEvaluator(made[0]).run(None, made[1])[0]
        np.testing.assert_allclose(got, expected, **tolerance)
    runtime = pytest.importorskip("onnxruntime")
    np.testing.assert_allclose(got, run(runtime, made), **tolerance)


def run(runtime, made):
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # it warns that mode "max" will change one day
    providers = ["CPUExecutionProvider"]
    session = runtime.InferenceSession(made[0].SerializeToString(), options, providers=providers)
    return session.run(None, made[1])[0]


def test_max_roi_pool_of_onnx_runtime(inputs, isa):
    runtime = pytest.importorskip("onnxruntime")
    x, rois, images = inputs
    rois = rois[(rois[:, 2] > rois[:, 0]) & (rois[:, 3] > rois[:, 1])]
    boxes = np.concatenate([images[: len(rois), None], rois], axis=1).astype(np.float32)
    made = model("MaxRoiPool", 1, x, boxes, pooled_shape=[3, 4], spatial_scale=0.3)
    np.testing.assert_array_equal(roicy_of(made), run(runtime, made))


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16"])
def test_types(kind, inputs):
    x, rois, images = inputs
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if kind == "bfloat16" else np.dtype(kind)
    x, rois = x.astype(dtype), rois.astype(dtype)
    rows = np.concatenate([images[:, None].astype(dtype), rois], axis=1)
    of_align, of_pool = {"output_height": 2, "output_width": 2}, {"pooled_shape": [2, 2]}
    computed = np.float64 if kind == "float64" else np.float32
    for got, expected in (
        (
            roicy_of(model("RoiAlign", 22, x, rois, images, **of_align)),
            compat.RoiAlign(x.astype(computed), rois.astype(computed), images, **of_align),
        ),
        (
            roicy_of(model("MaxRoiPool", 22, x, rows, **of_pool)),
            compat.MaxRoiPool(x.astype(computed), rows.astype(computed), **of_pool),
        ),
    ):
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, expected.astype(dtype))


def test_two_definitions_of_the_largest(inputs):
    """On a constant map, largest samples and largest products differ."""
    x = np.ones((1, 1, 8, 8), np.float32)
    rois, images = np.array([[1, 1, 5, 5]], np.float32), np.array([0])
    arguments = {"mode": "max", "sampling_ratio": 2, "output_height": 1, "output_width": 1}
    assert compat.RoiAlign(x, rois, images, **arguments, largest="samples") == 1
    # Samples at 1.5 and 3.5 weigh four pixels by a quarter each.
    assert compat.RoiAlign(x, rois, images, **arguments) == 0.25


def test_errors(inputs):
    x, rois, images = inputs
    for changed, message in (
        ({"mode": "sum"}, "mode: 'sum', expected 'avg' or 'max'"),
        ({"coordinate_transformation_mode": "asymmetric"},
         "coordinate_transformation_mode: 'asymmetric', expected 'half_pixel' or"),
        ({"mode": "max", "largest": "both"}, "largest: 'both'"),
        ({"rois": rois[:, :3]}, r"rois: shape \(30, 3\), expected \(K, 4\)"),
        ({"batch_indices": images[:3]},
         r"batch_indices: shape \(3,\) of int64, expected \(30,\) integers"),
        ({"batch_indices": images * 0.5}, "batch_indices: shape .* of float64"),
        ({"batch_indices": images + 2**40},
         r"batch_indices\[0\]: 10995116277\d\d is outside the X's 2 images"),
        ({"output_height": 0}, "output_height: 0"),
        ({"spatial_scale": 0}, "spatial_scale: 0"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            compat.RoiAlign(**{"X": x, "rois": rois, "batch_indices": images, **changed})
