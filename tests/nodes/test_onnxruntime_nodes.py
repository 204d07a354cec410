"""Each operator that roicy has a node of, in sessions: its numbers, types and errors."""

import re
import sys

import numpy as np
import pytest
from conftest import random_boxes
from onnx_models import (
    alone,
    assert_as_onnx_runtime,
    box_inputs,
    claimed,
    of_one,
    of_roicy,
    quiet,
    roi_align,
    runtime,
    session_of,
    without_python,
)

import roicy
from roicy import onnxruntime as provider
from roicy.compat import onnx as compat
from roicy.compat.onnx._ops import TABLE

inputs = pytest.fixture(box_inputs)
no_python = pytest.fixture(without_python)
BINS = {"output_height": 2, "output_width": 3}


@pytest.mark.parametrize(
    "opset, mode, dtype",
    [(10, "avg", "f4"), (10, "max", "f4"), (16, "avg", "f8"), (16, "max", "f4"),
     (22, "avg", "f2"), (22, "max", "f4"), (22, "avg", "f8")],
)  # fmt: skip
@pytest.mark.usefixtures("no_python")
def test_roi_align(opset, mode, dtype, inputs):
    """Opset 22 of RoiAlign, and float16, are what ONNX Runtime has none of on the CPU."""
    inputs |= {name: inputs[name].astype(dtype) for name in ("X", "rois")}
    given = {"mode": mode, "spatial_scale": 0.5, **BINS}
    model = of_one("RoiAlign", inputs, opset=opset, **given)
    modes = {"coordinate_transformation_mode": "output_half_pixel"} if opset < 16 else {}
    (got,) = of_roicy(model, inputs)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, compat.RoiAlign(*inputs.values(), **given, **modes))
    if opset == 22:
        with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
            alone(model)


@pytest.mark.parametrize(
    "opset, given",
    [
        (10, {}),
        (16, {"coordinate_transformation_mode": "output_half_pixel"}),
        (10, {"mode": "max"}),
    ],
)
@pytest.mark.usefixtures("no_python")
def test_boxes_without_an_extent(opset, given):
    points = np.array([[7, 5], [-15, -15], [-10, 21], [13, 8], [-14, 19]], np.float32)
    feed = {"X": np.arange(75, dtype=np.float32).reshape(1, 3, 5, 5), "rois": np.tile(points, 2)}
    feed["images"] = np.zeros(5, np.int64)
    given |= {"sampling_ratio": 2, "spatial_scale": 0.0625, **BINS}
    model = of_one("RoiAlign", feed, opset=opset, **given)
    got = of_roicy(model, feed)
    assert got[0].any()
    assert_as_onnx_runtime(got, model, feed)


SQUARES = [
    [0, 0, 1, 1],
    [0, 0, 0.5, 0.5],
    [0, 0, 0.5, 1],
    [0.25, 0.25, 0.75, 0.5],
    [0, 0, 1.5, 1.5],
]
SQUARES += [[0, 0, 1.0001, 1.0001]]


@pytest.mark.parametrize("given", [{}, {"mode": "nearest"}, {"extrapolation_value": 5.5}])
@pytest.mark.parametrize("shape", [(1, 1, 2, 2), (2, 1, 2, 2), (1, 2, 2, 2), (1, 1, 3, 3)])
def test_crop_and_resize(shape, given, monkeypatch):
    """Boxes that are not finite are outside of the map, as in ONNX Runtime from 1.32 on."""
    size = np.prod(shape)
    feed = {
        "X": np.arange(1, size + 1, dtype=np.float32).reshape(shape) * np.float32(1.1),
        "rois": np.array(SQUARES, np.float32),
        "images": np.arange(len(SQUARES), dtype=np.int32) % shape[0],
    }
    for side in (1, 2):
        feed["size"] = np.array([side, side], np.int32)
        model = of_one("com.microsoft.CropAndResize", feed, **given)
        titles, session = claimed(model)
        assert len(titles) == 1
        with monkeypatch.context() as patched:
            if "extrapolation_value" not in given:
                without_python(patched)
            assert_as_onnx_runtime(session.run(None, feed), model, feed)
    for wrong in ({"images": feed["images"] + 5}, {"size": np.array([0, 2], np.int32)}):
        with pytest.raises(Exception, match="is outside the|crop_size"):
            session.run(None, feed | wrong)
    n, i = np.nan, np.inf
    wide = np.array([[n, 0, n, 1], [0, n, 1, n], [i, 0, i, 1], [-i, 0, -i, 1]], np.float32)
    (got,) = session.run(None, feed | {"rois": wide, "images": feed["images"][:4]})
    assert (got == given.get("extrapolation_value", 0)).all()


# Operators of maps and rows of boxes: the function, and attributes beside the size and the scale
POOLINGS = {
    "roicy.RoIAlign": (roicy.roi_align, {"sampling_ratio": 2, "aligned": 1}),
    "roicy.RoIAlignMax": (roicy.roi_align_max, {"sampling_ratio": 2, "aligned": 0, "products": 1}),
    "roicy.PSRoIAlign": (roicy.ps_roi_align, {"sampling_ratio": 2}),
    "roicy.PrRoIPool": (roicy.prroi_pool, {}),
    "roicy.PSPrRoIPool": (roicy.ps_prroi_pool, {}),
    "roicy.PSRoIPool": (roicy.ps_roi_pool, {}),
    "roicy.RoIPool": (roicy.roi_pool, {}),
    "mmcv.MMCVRoiAlign": (roicy.roi_align, {"sampling_ratio": 2, "aligned": 1}),
    "mmdeploy.MMCVRoiAlign": (
        roicy.roi_align_max, {"sampling_ratio": 2, "aligned": 1, "mode": "max"}),
    "mmcv.MMCVRoIAlignRotated": (
        roicy.roi_align_rotated, {"sampling_ratio": 2, "aligned": 1, "clockwise": 1}),
    "mmdeploy.MMCVRoIAlignRotated": (roicy.roi_align_rotated, {"sampling_ratio": 0, "aligned": 0}),
    "MaxRoiPool": (roicy.roi_pool, {"pooled_shape": [2, 3]}),
}  # fmt: skip
OTHERS = {"roicy.MultiScaleRoIAlign", "roicy.PasteMasks", "RoiAlign"}
OTHERS |= {"com.microsoft.CropAndResize"}
OTHERS |= {"org.openvinotoolkit.ExperimentalDetectronROIFeatureExtractor"}
TURNED = np.array([[0, 12, 9, 10, 6, 0.4], [1, 8, 8, 5, 9, -2.0]], np.float32)
FLAGS = ("aligned", "products", "clockwise")


def row_inputs(rng, channels=12):
    x = rng.standard_normal((2, channels, 20, 25)).astype(np.float32)
    return {"X": x, "rows": random_boxes(rng, 2, 20, (40, 50), np.float32)}


@pytest.mark.parametrize("op", POOLINGS)
@pytest.mark.usefixtures("no_python")
def test_poolings(op, rng):
    """Those of the domain roicy take a scale or two."""
    (function, given), feed = POOLINGS[op], row_inputs(rng)
    if function is roicy.roi_align_rotated:
        feed["rows"] = TURNED
    shape = {} if "pooled_shape" in given else BINS
    plain = {
        name: bool(value) if name in FLAGS else value
        for name, value in given.items()
        if name not in ("pooled_shape", "mode")
    }
    for scales in (0.5, [0.5, 0.25]) if op.startswith("roicy.") else (0.5,):
        model = of_one(op, feed, spatial_scale=scales, **shape, **given)
        expected = function(*feed.values(), (2, 3), scales, **plain)
        np.testing.assert_array_equal(of_roicy(model, feed)[0], expected)


def test_all_operators_are_tested():
    assert {".".join(filter(None, key)) for key in TABLE} == {*POOLINGS, *OTHERS}


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("of_boxes", ["f2", "f4", "f8"])
@pytest.mark.usefixtures("no_python")
def test_boxes_of_other_types(dtype, of_boxes, rng):
    """In domains that ONNX Runtime does not know, boxes may have another type than maps."""
    feed = row_inputs(rng)
    feed = {"X": feed["X"].astype(dtype), "rows": feed["rows"].astype(of_boxes)}
    (got,) = of_roicy(of_one("roicy.PrRoIPool", feed, **BINS), feed)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, roicy.prroi_pool(*feed.values(), (2, 3)))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.usefixtures("no_python")
def test_pyramids_of_the_domain(dtype, rng):
    maps = [rng.standard_normal((2, 4, side, side)).astype(dtype) for side in (20, 10)]
    rows = random_boxes(rng, 2, 9, (40, 40), np.float32)
    feed = {"rows": rows, "A": maps[0], "B": maps[1]}
    given = {"sampling_ratio": 2, "canonical_scale": 16.0, "canonical_level": 2}
    model = of_one("roicy.MultiScaleRoIAlign", feed, scales=[0.5, 0.25], **given, **BINS)
    expected = roicy.multiscale_roi_align(maps, rows, (2, 3), [0.5, 0.25], **given)
    np.testing.assert_array_equal(of_roicy(model, feed)[0], expected)


def test_pyramids_of_many_levels(rng):
    """Python computes those with more levels than a node of the provider has room for."""
    maps = [rng.standard_normal((1, 4, 2, 3)).astype(np.float32) for _ in range(17)]
    scales, given = [2.0 ** (8 - i) for i in range(17)], {"canonical_scale": 16.0}
    rows = random_boxes(rng, 1, 9, (500, 700), np.float32)
    feed = {"rows": rows, **{f"map{i}": level for i, level in enumerate(maps)}}
    model = of_one("roicy.MultiScaleRoIAlign", feed, scales=scales, **given, **BINS)
    expected = roicy.multiscale_roi_align(maps, rows, (2, 3), scales, **given)
    np.testing.assert_array_equal(of_roicy(model, feed)[0], expected)


@pytest.mark.usefixtures("no_python")
def test_masks_of_the_domain(rng):
    masks = rng.random((9, 1, 7, 7)).astype(np.float32)
    corners = random_boxes(rng, 2, 9, (40, 40), np.float32)[:, 1:].copy()
    feed = {"M": masks, "boxes": corners, "shape": np.array([40, 41])}
    model = of_one("roicy.PasteMasks", feed, rule="detectron2")
    expected = roicy.paste_masks(masks, corners, (40, 41), rule="detectron2", threshold=None)
    np.testing.assert_array_equal(of_roicy(model, feed)[0], expected)


@pytest.mark.parametrize("outputs", [["Y", "copied"], ["Y"]])
@pytest.mark.usefixtures("no_python")
def test_pyramids_of_openvino(outputs, rng):
    """The domain org.openvinotoolkit has one RoI node, whose second output is its boxes."""
    maps = [rng.standard_normal((1, 4, side, side)).astype(np.float32) for side in (100, 50)]
    rows = random_boxes(rng, 1, 30, (400, 400), np.float32)
    feed = {"rois": rows[:, 1:].copy(), "A": maps[0], "B": maps[1]}
    model = of_one(
        "org.openvinotoolkit.ExperimentalDetectronROIFeatureExtractor", feed, outputs,
        output_size=3, pyramid_scales=[4, 8], sampling_ratio=2, aligned=1, image_id=0,
    )  # fmt: skip
    shifted = rows.astype(np.float64)
    shifted[:, 1:] -= np.where(np.prod(rows[:, 3:] - rows[:, 1:3], axis=1) >= 112**2, 4, 2)[:, None]
    expected = roicy.multiscale_roi_align(maps, shifted, 3, [1 / 4, 1 / 8], 2)
    got = of_roicy(model, feed)
    assert len(got) == len(outputs)
    for one, other in zip(got, (expected, feed["rois"]), strict=False):
        np.testing.assert_array_equal(one, other)


def test_node_tests():
    """The cases of one file are made, since those of all operators take seconds."""
    pytest.importorskip("onnx.backend.test.case.node.roialign")
    made = sys.modules["onnx.backend.test.case.node"]._NodeTestCases
    cases = [case for case in made if case.name.startswith("test_roialign")]
    assert len(cases) >= 3
    for case in cases:
        session = session_of(case.model)
        for arrays, outputs in case.data_sets:
            names = [value.name for value in case.model.graph.input]
            (got,) = session.run(None, dict(zip(names, arrays, strict=True)))
            np.testing.assert_allclose(got, outputs[0], rtol=case.rtol, atol=case.atol)


ROWS = {"X": np.ones((1, 2, 9, 9), np.float32), "rows": np.ones((1, 5), np.float32)}
MASKS = {
    "M": np.ones((1, 1, 7, 7), np.float32), "boxes": np.ones((1, 4), np.float32),
    "shape": np.array([9, 9]),
}  # fmt: skip
PYRAMID = {"rows": ROWS["rows"], "A": ROWS["X"], "B": ROWS["X"]}
WRONG_ATTRIBUTES = [
    ("RoiAlign", {"mode": "median"}, "mode: 'median', expected 'avg' or 'max'"),
    ("RoiAlign", {"output_height": 0}, "output_height: 0, expected"),
    ("RoiAlign", {"spatial_scale": 0.0}, "spatial_scale: 0"),
    ("roicy.RoIPool", {"rotated": 1}, "attribute 'rotated' is unknown, expected any"),
    ("roicy.RoIPool", {"output_width": 2.5}, "attribute 'output_width' is 2.5, expected int"),
    ("roicy.RoIPool", {"spatial_scale": [1.0, 1.0, 1.0]}, "spatial_scale: (1.0, 1.0, 1.0), exp"),
    ("roicy.RoIAlign", {"sampling_ratio": 2**31}, "sampling_ratio: 2147483648, expected"),
    ("roicy.MultiScaleRoIAlign", {}, "attribute 'scales' is missing"),
    ("roicy.MultiScaleRoIAlign", {"scales": 0.5, "aligned": 1.0},
     "attribute 'aligned' is 1.0, expected int"),
    ("roicy.MultiScaleRoIAlign", {"scales": [0.5, -0.5]}, "scales: -0.5, expected a finite number"),
    ("roicy.MultiScaleRoIAlign", {"scales": [0.5], "canonical_level": 1001},
     "canonical_level: 1001"),
    ("roicy.PasteMasks", {"rule": "mmdet", "padding": 2}, "padding: 2, expected 1"),
]  # fmt: skip


@pytest.mark.parametrize("op, given, message", WRONG_ATTRIBUTES)
def test_wrong_attributes(op, given, message, inputs):
    """Errors name the node and its attribute.

    The library of custom operators alone finds all of them but those that it does not know.
    """
    values = {"RoiAlign": inputs, "roicy.MultiScaleRoIAlign": PYRAMID, "roicy.PasteMasks": MASKS}
    data = of_one(op, values.get(op, ROWS), **given).SerializeToString()
    library = quiet()
    library.register_custom_ops_library(provider.get_library_path())
    by_library = "." in op and "rotated" not in given
    for options in (provider.use(quiet()), library)[: 1 + by_library]:
        with pytest.raises(Exception, match=re.escape(f"node 'pool' ({op}): {message}")):
            runtime.InferenceSession(data, options)
    with pytest.raises(Exception, match=re.escape(f"node 'pool' ({op}): {message}")):
        compat.InferenceSession(data, quiet())


def test_wrong_inputs(inputs):
    session = session_of(roi_align())
    nan = inputs["rois"].copy()
    nan[3, 1] = np.nan
    for changed, message in (
        ({"images": np.full(30, 7)}, r"'pool' .*batch_indices\[0\]: 7 is outside the input"),
        ({"rois": nan}, r"'pool' .*boxes\[3\]: y1 is nan, expected a finite coordinate"),
        ({"images": inputs["images"][:3]}, r"batch_indices: shape \(3,\) of int64, expected"),
    ):
        with pytest.raises(Exception, match=message):
            session.run(None, inputs | changed)
    model = of_one("roicy.MultiScaleRoIAlign", PYRAMID, scales=[0.5, 0.25, 0.125])
    with pytest.raises(Exception, match=r"'pool' .*\bscales: .* a scale for each of the 2 levels"):
        session_of(model).run(None, PYRAMID)
