"""Models with RoI nodes, and sessions of them, with roicy and without."""

import sys
from itertools import pairwise

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")  # pytest looks for examples here, also where there is no ONNX
runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx.parser")
from conftest import random_boxes  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

from roicy.compat import onnx as compat  # noqa: E402
from roicy.onnxruntime import _claims, _pasting, _patterns  # noqa: E402
from roicy.onnxruntime._report import told  # noqa: E402

NAME = "RoicyExecutionProvider"
VALUES = "(float[N, C, H, W] X, float[K, 4] rois, int64[K] images)"


def parsed(body, opset=16, domains=""):
    imports = f'["": {opset}{domains}]'
    return onnx.parser.parse_model(f"<ir_version: 9, opset_import: {imports}>\n{body}")


def changed(text, *changes):
    """Return a text with some changes (old, new) of what it has."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def constants(**values):
    """Return lines of constants, which are lists of integers."""
    lists = {name: ", ".join(map(str, np.ravel(value))) for name, value in values.items()}
    return "\n".join(f"{name} = Constant <value_ints = [{one}]> ()" for name, one in lists.items())


def of_one(op, inputs, outputs=("Y",), opset=16, **attributes):
    """Return a model of one node of a domain's operator, which has these arrays."""
    domain, _, name = op.rpartition(".")
    node = helper.make_node(name, list(inputs), list(outputs), "pool", domain=domain, **attributes)
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in inputs.items()}
    values = [
        helper.make_tensor_value_info(name, kinds[name], [None] * array.ndim)
        for name, array in inputs.items()
    ]
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, 1)] if domain else []
    graph = helper.make_graph([node], "pooled", values, made)
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


ONE_BOX = {
    "X": np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8),
    "rois": np.array([[1, 1, 5, 6]], np.float32),
    "images": np.array([0]),
}


# A box of numbers so large that Python has to look at them
FAR_BOX = ONE_BOX | {"rois": np.array([[1, 1, 2e30, 6]], np.float32)}


def roi_align(**given):
    return of_one("RoiAlign", ONE_BOX, **given)


def quiet(**given):
    """Return options of a session that only tells errors."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    for name, value in given.items():
        setattr(options, name, value)
    return options


def optimised(level, **given):
    """Return options of a session with a level of ONNX Runtime's own optimiser."""
    return quiet(graph_optimization_level=getattr(runtime.GraphOptimizationLevel, level), **given)


def rewritten(model, level, folder):
    """Return a model as ONNX Runtime's optimiser writes it."""
    path = str(folder / "model.onnx")
    options = optimised(level, optimized_model_filepath=path)
    runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(path)


def in_branches(model, other):
    """Return a model whose branches of an If are the nodes of two models with an output Y.

    They read values of the graph around them, and the input "yes" chooses one.
    """
    kind = model.graph.output[0].type.tensor_type.elem_type
    then, otherwise = (
        helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info("Y", kind, None)])
        for nodes in (list(model.graph.node), list(other.graph.node))
    )
    node = helper.make_node("If", ["yes"], ["Z"], then_branch=then, else_branch=otherwise)
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.append(node)
    model.graph.input.append(helper.make_tensor_value_info("yes", onnx.TensorProto.BOOL, [1]))
    model.graph.output.append(helper.make_tensor_value_info("Z", kind, None))
    return model


def session_of(model, *given, **options):
    return compat.InferenceSession(model.SerializeToString(), *(given or [quiet()]), **options)


def of_roicy(model, inputs):
    return session_of(model).run(None, inputs)


def alone(model):
    """Return ONNX Runtime's own session."""
    providers = ["CPUExecutionProvider"]
    return runtime.InferenceSession(model.SerializeToString(), quiet(), providers=providers)


def claimed(model, *options):
    """Return what the provider takes of a model, and the session."""
    with told() as (titles, _):
        session = session_of(model, *options)
    return titles, session


def repeated(line, first, last, count):
    """Return lines that make a value of another one, again and again: OUT of IN."""
    names = [first, *(f"{last}_{i}" for i in range(1, count)), last]
    lines = (line.replace("IN", one).replace("OUT", other) for one, other in pairwise(names))
    return "\n".join(lines)


def count_calls(text):
    """Return how many functions are called while a session is made, as a measure of its work."""
    calls, data = [], parsed(text).SerializeToString()
    options = quiet(graph_optimization_level=runtime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    sys.setprofile(lambda *given: calls.append(given[1]) if given[1].endswith("call") else None)
    try:
        compat.InferenceSession(data, options)
    finally:
        sys.setprofile(None)
    return len(calls)


def assert_work_is_bounded(text, line, name, reader):
    """Check that a graph with twice as many nodes of a kind does not take many times the work.

    Each node doubles what it makes, by a line of OUT and IN.  The first one has the value `name`,
    and the part `reader` of the text reads the last one.
    """

    def text_of(count):
        (before, after), made = text.split(reader), reader.replace(name, "doubled")
        before, _, last = before.rpartition("\n")
        return f"{before}\n{repeated(line, name, 'doubled', count)}\n{last}{made}{after}"

    few, many = count_calls(text_of(8)), count_calls(text_of(16))
    assert few > 500  # something was looked for
    assert many < 3 * few


def assert_overlaps_are_refused(session, inputs, shape, dtype):
    """Check that memory that is bound to the output Y must not be that of the input X."""
    x, expected = inputs["X"], session.run(None, inputs)[0]
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for place, is_over in ((0, True), (x.size - 2, True), (x.size, False)):
        both = np.concatenate([x.ravel(), np.zeros(expected.nbytes // 4, np.float32)])
        binding.bind_cpu_input("X", both[: x.size].reshape(x.shape))
        binding.bind_output("Y", "cpu", 0, dtype, shape, both.ctypes.data + 4 * place)
        if is_over:
            with pytest.raises(Exception, match="output 0 overlaps the memory of input 0"):
                session.run_with_iobinding(binding)
        else:
            session.run_with_iobinding(binding)
            np.testing.assert_array_equal(both[x.size :].view(dtype).reshape(shape), expected)


def assert_as_onnx_runtime(got, model, inputs, least=2e-6):
    """Check that results are ONNX Runtime's own, up to a share of the largest number."""
    for one, other in zip(got, alone(model).run(None, inputs), strict=True):
        assert one.dtype == other.dtype
        largest = np.abs(other).max(initial=0)
        np.testing.assert_allclose(one, other, rtol=0, atol=least * largest)


def box_inputs(rng):
    x = rng.standard_normal((2, 3, 20, 25)).astype(np.float32)
    boxes = random_boxes(rng, 2, 30, (40, 50), np.float32)
    return {"X": x, "rois": boxes[:, 1:].copy(), "images": boxes[:, 0].astype(np.int64)}


def without_python(monkeypatch):
    """Have what Python computes in a run fail."""

    def run(*arguments):
        raise AssertionError("a node is computed by Python")

    for owner in (_claims.Single, _patterns.Pyramid, _pasting.Pasting):
        monkeypatch.setattr(owner, "run", run)


# Two RoI nodes that wait for each other, values that pass them by, and a value read by both.
OUTPUTS = "(float[K, C, 2, 2] pooled, float[K, C, 3, 3] last, float[N, C, H, W] Z)"
CHAIN = f"""cut {VALUES} => {OUTPUTS} {{
    two = Constant <value_float = 2.0> ()
    Z = Mul (X, two)
    pooled = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2,
                       spatial_scale = 0.5> (Z, rois, images)
    means = ReduceMean <axes = [1, 2, 3], keepdims = 0> (pooled)
    columns = Unsqueeze (means, one)
    moved = Add (rois, columns)
    last = RoiAlign <output_height = 3, output_width = 3, sampling_ratio = 1,
                     spatial_scale = 0.5> (Z, moved, images)
}}"""


def chain():
    model = parsed(CHAIN)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
    return model


def scattered(levels=(0, 1), zero="0.0", old="", new=""):
    """Return a pyramid as PyTorch's exporter of torch.export writes it, with a change."""
    body = """pyramid (float[N, C, H, W] A, float[N, C, h, w] B, float[K, 5] rows, int64[K] levels,
                       int64[1] count, int64[3] others) => (float[R, C, 2, 2] Y) {
        zero = Constant <value = float {ZERO}> ()
        shape = Concat <axis = 0> (count, others)
        zeros = Expand (zero, shape)
    """.replace("ZERO", zero)
    body += constants(nothing=0, one=1, five=5, last=-1)
    for i, level in enumerate(levels):
        body += f"""
        number{i} = Constant <value = int64 {{{level}}}> ()
        equal{i} = Equal (levels, number{i})
        found{i} = NonZero (equal{i})
        turned{i} = Transpose <perm = [1, 0]> (found{i})
        sliced{i} = Slice (turned{i}, nothing, one, one)
        which{i} = Squeeze (sliced{i}, one)
        column{i} = Unsqueeze (which{i}, last)
        some{i} = GatherND (rows, column{i})
        first{i} = Slice (some{i}, nothing, one, one)
        floats{i} = Squeeze (first{i}, one)
        images{i} = Cast <to = 7> (floats{i})
        boxes{i} = Slice (some{i}, one, five, one, one)
        pooled{i} = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2,
            spatial_scale = {0.5 / 2**i}, coordinate_transformation_mode = "output_half_pixel">
            ({"AB"[i]}, boxes{i}, images{i})
        {"Y" if i else "part"} = ScatterND ({"part" if i else "zeros"}, column{i}, pooled{i})
        """.replace(*(text.replace("#", str(i)) for text in (old, new)))
    return parsed(body + "}", opset=18)


def pyramid_inputs(rng, count):
    maps = [rng.standard_normal((2, 3, side, side)).astype(np.float32) for side in (20, 10)]
    rows = random_boxes(rng, 2, 9, (40, 40), np.float32)
    levels = rng.integers(0, 2, 9)
    shapes = {"count": np.array([count]), "others": np.array([3, 2, 2])}
    return {"A": maps[0], "B": maps[1], "rows": rows, "levels": levels, **shapes}
