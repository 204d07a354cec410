"""What roicy.onnxruntime.report says of sessions."""

import warnings

import numpy as np
import pytest
from onnx_models import (
    assert_as_onnx_runtime,
    chain,
    changed,
    onnx,
    optimised,
    parsed,
    pyramid_inputs,
    quiet,
    runtime,
    scattered,
    session_of,
)

import roicy.onnxruntime
from roicy.onnxruntime import _labelling

FORM = """labels (float[1, 5, 6, 7] X) => (int64[a, b, c, d] Y)
    <float[4] S = {1.0, 1.0, 4.0, 5.0}, float scale = {0.05}, int8 zero = {3}> {
    R = Resize <mode = "linear"> (X, "", S)
    Y = ArgMax <axis = 1> (R)
}"""
LAST = "Y = ArgMax <axis = 1> (R)"
ONE = "(int64[a, b, c, d] Y)"
TWO = "(int64[a, b, c, d] Y, float[e, f, g, h] Z)"
QUANTISED = """Q = QuantizeLinear (M, scale, zero)
    P = DequantizeLinear (Q, scale, zero)
    """
COORDINATES = "coordinate_transformation_mode"
SAID = {  # what is changed, and what is said of it
    "as it is": ([], None),
    "coordinates": ([('"linear"', f'"linear", {COORDINATES} = "tf_crop_and_resize"')],
                    f"ArgMax): Resize of {COORDINATES} 'tf_crop_and_resize'"),
    "antialias": ([('"linear"', '"linear", antialias = 1')], "Resize of antialias 1"),
    "types": ([("float[1", "uint8[1")], "Resize of element type 2"),
    "scores": ([(ONE, TWO), (LAST, LAST + "\n    Z = ReduceMax <axes = [1]> (R)")],
               "node 'Z' (ReduceMax) needs the enlarged maps"),
    "an output": ([(ONE, TWO), ("R = ", "Z = "), ("(R)", "(Z)")],
                  "an output of the model, 'Z', needs the enlarged maps"),
    "probabilities that are compared": (
        [(LAST, "M = Sigmoid (R)\n    Y = Greater (M, scale)"), ("int64[a", "bool[a")],
        "node 'Y' (Greater): Sigmoid rounds numbers"),
    "probabilities": ([(LAST, "M = Sigmoid (R)\n    " + LAST.replace("R", "M"))],
                      "node 'Y' (ArgMax): Sigmoid makes large numbers equal"),
    "what is less": ([(LAST, "Y = Less (R, scale)"), ("int64[a", "bool[a")],
                     "node 'Y' (Less): expected a Greater"),
    "the largest two": ([(LAST, "V, Y = TopK <axis = 1> (R, two)"),
                         ("float scale", "int64[1] two = {2}, float scale")],
                        "(TopK): more than the index"),
    "float16": ([("R = ", "W = Relu (X)\n    R = "), ("(X,", "(W,"), ("float[1", "float16[1")],
                "maps of float16 that a node makes"),
    "masks of nearest numbers": (
        [(LAST, "Y = Greater (R, scale)"), ("int64[a", "bool[a"),
         ('"linear"', '"nearest", nearest_mode = "floor"')], "masks of mode 'nearest'"),
    "smaller masks": ([(LAST, "Y = Greater (R, scale)"), ("int64[a", "bool[a"),
                       ("4.0, 5.0", "0.1, 5.0"), ("5, 6, 7", "5, 16, 7")], "not larger"),
    "narrow masks": ([(LAST, "Y = Greater (R, scale)"), ("int64[a", "bool[a"), ("5.0}", "4.0}")],
                     "28 columns, expected 32"),
    "two thresholds": (
        [(LAST, "Y = Greater (R, scale)\n    Z = Greater (R, other)"),
         ("(int64[a, b, c, d] Y)", "(bool[a, b, c, d] Y, bool[e, f, g, h] Z)"),
         ("float scale", "float other = {0.5}, float scale")],
        "node 'Z' (Greater) needs the enlarged maps"),
    "no labels": ([("int64[a", "float[a"), (LAST, "Y = Softmax <axis = 1> (R)")],
                  "Resize): enlarged maps are an output; roicy.label_map makes labels"),
    "quantised probabilities": (
        [(LAST, f"M = Softmax <axis = 1> (R)\n{QUANTISED}" + LAST.replace("R", "P"))],
        "the result of node 'M' (Softmax) is quantised"),
    "another scale": (
        [(LAST, QUANTISED.replace("(M", "(R").replace("(Q, scale", "(Q, other")
          + LAST.replace("R", "P")), ("scale =", "other = {0.07}, float scale =")],
        "quantised by one scale and read by another"),
    "no Resize": ([(LAST, "M = Exp (R)\n    " + LAST.replace("R", "M"))],
                  "'M' is made by node 'M' (Exp), expected a Resize"),
    "two Resizes": ([("(X,", "(W,"), ("R = ", 'W = Resize <mode = "linear"> (X, "", S)\n    R = ')],
                    "node 'W' (Resize): the first of two"),
}  # fmt: skip


@pytest.mark.parametrize("change", SAID)
def test_labels(change):
    changes, said = SAID[change]
    text = changed(FORM, *changes)
    report = roicy.onnxruntime.report(session_of(parsed(text, 13 if "axes" in text else 18)))
    assert len(report.taken) == (change in ("as it is", "two Resizes"))
    assert any(said in one for one in report.left) if said else not report.left
    assert "RoI" not in str(report)


def test_halves_of_older_versions(monkeypatch):
    """They are rounded otherwise, so their nodes are left alone."""
    monkeypatch.setattr(_labelling, "version", lambda: (1, 31))
    model = parsed(changed(FORM, ('"linear"', '"nearest"')), 18)
    (said,) = roicy.onnxruntime.report(session_of(model)).left
    assert "nearest_mode 'round_prefer_...'" in said


def test_sessions():
    """A session that lost its provider is told so, and one whose model is written to a file."""
    data, options = chain().SerializeToString(), roicy.onnxruntime.use(quiet())
    session = runtime.InferenceSession(data, options)
    assert [*roicy.onnxruntime.report(session)] == [
        ["node 'pooled' (RoiAlign)", "node 'last' (RoiAlign)"],
        [],
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    report = roicy.onnxruntime.report(session)
    assert not report.taken
    assert "ONNX Runtime dropped it for providers=" in report.left[0]
    assert report.left[1:] == [
        "node 'pooled' (RoiAlign), which roicy takes",
        "node 'last' (RoiAlign), which roicy takes",
    ]
    with pytest.raises(TypeError, match="session: 3, expected an onnxruntime.InferenceSession"):
        roicy.onnxruntime.report(3)


def test_models_that_are_written(tmp_path):
    path = tmp_path / "written.onnx"
    options = quiet(optimized_model_filepath=str(path))
    session = runtime.InferenceSession(
        parsed(FORM, 18).SerializeToString(), roicy.onnxruntime.use(options)
    )
    path.unlink()
    report = roicy.onnxruntime.report(session)
    assert [*report] == [[], ["groups: a model that is written to a file has no place for them"]]
    assert not path.exists()


GATHERED = "some# = GatherND (rows, column#)"


def quantised(new):
    """Return a pyramid whose rows of boxes are quantised, in other words for GATHERED."""
    model = scattered((0, 1), "0.0", GATHERED, new)
    (rows,) = (value for value in model.graph.input if value.name == "rows")
    rows.type.tensor_type.elem_type = onnx.TensorProto.INT8
    for name, value in (("quantum", np.float32(0.5)), ("none", np.int8(0))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), name))
    return model


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_quantised_detectors(level, rng):
    """Rows that are quantised once are the same rows, whatever reads them; where those of a level
    are quantised again, they are not.
    """
    inputs = pyramid_inputs(rng, 9)
    inputs["rows"] = (inputs["rows"] * 2).astype(np.int8)
    real = "real# = DequantizeLinear (rows, quantum, none)\n        "
    model = quantised(real + GATHERED.replace("rows", "real#"))
    session = session_of(model, optimised(level))
    report = roicy.onnxruntime.report(session)
    assert [one.partition(" of ")[0] for one in report.taken] == ["pyramid"]
    assert_as_onnx_runtime(session.run(None, inputs), model, inputs)
    more = """s# = GatherND (real#, column#)
        q# = QuantizeLinear (s#, quantum, none)
        some# = DequantizeLinear (q#, quantum, none)"""
    report = roicy.onnxruntime.report(session_of(quantised(real + more), optimised(level)))
    assert len(report.taken) == 2 and all("(RoiAlign)" in one for one in report.taken)
    assert [one for one in report.left if "pyramid of RoiAlign -> 'Y': node " in one] == report.left
    assert "(DequantizeLinear) stands for its numbers" in report.left[0]
