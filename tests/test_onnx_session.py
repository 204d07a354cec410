"""InferenceSession gives what ONNX Runtime gives, and what it lacks, however a graph is cut."""

import random
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import random_boxes

import roicy
from roicy.__main__ import main
from roicy.compat import onnx as compat

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
parser = pytest.importorskip("onnx.parser")
from onnx import numpy_helper  # noqa: E402

from roicy.compat.onnx import _model, _session, _steps  # noqa: E402
from roicy.compat.onnx._table import TABLE  # noqa: E402


def parsed(body, opset=16, domains=""):
    imports = f'["": {opset}{domains}]'
    return parser.parse_model(f"<ir_version: 9, opset_import: {imports}>\n{body}")


def of_onnx_runtime(model, inputs):
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


def of_roicy(model, inputs, **options):
    return compat.InferenceSession(model.SerializeToString(), **options).run(None, inputs)


@pytest.fixture
def inputs(rng):
    x = rng.standard_normal((2, 3, 20, 25)).astype(np.float32)
    boxes = random_boxes(rng, 2, 30, (40, 50), np.float32)
    return {"X": x, "rois": boxes[:, 1:].copy(), "images": boxes[:, 0].astype(np.int64)}


VALUES = "(float[N, C, H, W] X, float[K, 4] rois, int64[K] images)"
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


def with_ones(model):
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
    return model


@pytest.mark.parametrize("threads", [1, 2])
def test_chain(threads, inputs, isa):
    model = with_ones(parsed(CHAIN))
    session = compat.InferenceSession(model.SerializeToString(), num_threads=threads)
    assert [len(steps) for _, steps in session.parts()] == [1, 1]
    got = session.run(None, inputs)
    assert [one.dtype for one in got] == [np.float32] * 3
    assert_as_onnx_runtime(got, model, inputs)
    (last,) = session.run(["last"], inputs)
    np.testing.assert_array_equal(last, got[1])
    assert [(v.name, v.type, v.shape) for v in session.get_outputs()] == [
        ("pooled", "tensor(float)", ["K", "C", 2, 2]),
        ("last", "tensor(float)", ["K", "C", 3, 3]),
        ("Z", "tensor(float)", ["N", "C", "H", "W"]),
    ]
    assert [value.name for value in session.get_inputs()] == ["X", "rois", "images"]
    assert session.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize("opset", [10, 16, 22])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_opsets(opset, mode, inputs):
    """Opset 22 of RoiAlign is one that ONNX Runtime has none of on the CPU."""
    body = f"""pooled {VALUES} => (float[K, C, 3, 2] Y) {{
        Z = Neg (X)
        P = RoiAlign <mode = "{mode}", output_height = 3, output_width = 2, spatial_scale = 0.5>
            (Z, rois, images)
        Y = Neg (P)
    }}"""
    model = parsed(body, opset)
    mode_of_opset = {"coordinate_transformation_mode": "output_half_pixel"} if opset < 16 else {}
    expected = compat.RoiAlign(
        -inputs["X"], inputs["rois"], inputs["images"], mode=mode, output_height=3,
        output_width=2, spatial_scale=0.5, **mode_of_opset,
    )  # fmt: skip
    np.testing.assert_array_equal(of_roicy(model, inputs)[0], -expected)
    if opset == 22:
        with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
            of_onnx_runtime(model, inputs)


ROWS = "(float[N, C, H, W] X, float[K, 5] rows)"
POOLINGS = {
    "RoIAlign": (roicy.roi_align, {"sampling_ratio": 2, "aligned": 1}),
    "RoIAlignMax": (roicy.roi_align_max, {"sampling_ratio": 2, "aligned": 0, "products": 1}),
    "PSRoIAlign": (roicy.ps_roi_align, {"sampling_ratio": 2}),
    "PrRoIPool": (roicy.prroi_pool, {}),
    "PSPrRoIPool": (roicy.ps_prroi_pool, {}),
    "PSRoIPool": (roicy.ps_roi_pool, {}),
    "RoIPool": (roicy.roi_pool, {}),
}


def row_inputs(rng, channels=8):
    x = rng.standard_normal((2, channels, 20, 25)).astype(np.float32)
    return {"X": x, "rows": random_boxes(rng, 2, 20, (40, 50), np.float32)}


def plain(given):
    return {
        name: bool(value) if name in ("aligned", "products") else value
        for name, value in given.items()
    }


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("scale", ["0.5", "[0.5, 0.25]"])
def test_domain_roicy(name, scale, rng):
    """Every operator of the domain, with a scale or two, before a node that reads its output."""
    function, given = POOLINGS[name]
    attributes = ", ".join(f"{key} = {value}" for key, value in given.items())
    model = parsed(
        f"""pooled {ROWS} => (float[K, D, 2, 2] Y) {{
            P = roicy.{name} <output_height = 2, output_width = 2, spatial_scale = {scale}
                {", " if attributes else ""}{attributes}> (X, rows)
            Y = Neg (P)
        }}""",
        domains=', "roicy": 1',
    )
    inputs = row_inputs(rng)
    scales = (0.5, 0.25) if "[" in scale else 0.5
    expected = function(inputs["X"], inputs["rows"], 2, scales, **plain(given))
    np.testing.assert_array_equal(of_roicy(model, inputs)[0], -expected)


def test_all_of_the_domain_are_tested():
    others = {"MultiScaleRoIAlign", "PasteMasks"}
    assert {name for domain, name in TABLE if domain == "roicy"} == {*POOLINGS, *others}


def test_pyramids_and_masks_of_the_domain(rng):
    model = parsed(
        """all (float[K, 5] rows, float[N, C, H, W] A, float[N, C, h, w] B, float[K, 1, m, m] M,
                int64[2] shape) => (float[K, C, 2, 2] Y, float[K, H, W] images) {
            Y = roicy.MultiScaleRoIAlign <output_height = 2, output_width = 2, scales = [0.5, 0.25],
                sampling_ratio = 2, canonical_scale = 16.0, canonical_level = 2> (rows, A, B)
            begin = Constant <value_ints = [1]> ()
            end = Constant <value_ints = [5]> ()
            axis = Constant <value_ints = [1]> ()
            boxes = Slice (rows, begin, end, axis)
            images = roicy.PasteMasks <rule = "detectron2"> (M, boxes, shape)
        }""",
        domains=', "roicy": 1',
    )
    maps = [rng.standard_normal((2, 4, side, side)).astype(np.float32) for side in (20, 10)]
    rows = random_boxes(rng, 2, 9, (40, 40), np.float32)
    masks = rng.random((9, 1, 7, 7)).astype(np.float32)
    inputs = {"rows": rows, "A": maps[0], "B": maps[1], "M": masks, "shape": np.array([40, 41])}
    pooled, images = of_roicy(model, inputs)
    expected = roicy.multiscale_roi_align(
        maps, rows, 2, [0.5, 0.25], 2, canonical_scale=16, canonical_level=2
    )
    np.testing.assert_array_equal(pooled, expected)
    np.testing.assert_array_equal(
        images,
        roicy.paste_masks(masks, rows[:, 1:], (40, 41), rule="detectron2", threshold=None),
    )


def scattered(levels=(0, 1), zero="0.0", columns="one, five, one, one"):
    """Return a pyramid as PyTorch's exporter of torch.export writes it, with changes."""
    body = """pyramid (float[N, C, H, W] A, float[N, C, h, w] B, float[K, 5] rows, int64[K] levels,
                       int64[1] count, int64[3] others) => (float[R, C, 2, 2] Y) {
        nothing = Constant <value_ints = [0]> ()
        one = Constant <value_ints = [1]> ()
        five = Constant <value_ints = [5]> ()
        last = Constant <value_ints = [-1]> ()
        zero = Constant <value = float {ZERO}> ()
        shape = Concat <axis = 0> (count, others)
        zeros = Expand (zero, shape)
    """.replace("ZERO", zero)
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
        boxes{i} = Slice (some{i}, {columns})
        pooled{i} = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2,
            spatial_scale = {0.5 / 2**i}, coordinate_transformation_mode = "output_half_pixel">
            ({"AB"[i]}, boxes{i}, images{i})
        {"Y" if i else "part"} = ScatterND ({"part" if i else "zeros"}, column{i}, pooled{i})
        """
    return parsed(body + "}", opset=18)


def pyramid_inputs(rng, count):
    maps = [rng.standard_normal((2, 3, side, side)).astype(np.float32) for side in (20, 10)]
    rows = random_boxes(rng, 2, 9, (40, 40), np.float32)
    levels = rng.integers(0, 2, 9)
    shapes = {"count": np.array([count]), "others": np.array([3, 2, 2])}
    return {"A": maps[0], "B": maps[1], "rows": rows, "levels": levels, **shapes}


@pytest.mark.parametrize("levels", [(0, 1), (1, 0), (0, 2)])
def test_pyramids_that_are_scattered(levels, rng):
    """As many rows come out as zeros are given, and those of no level are zeros."""
    model = scattered(levels)
    session = compat.InferenceSession(model.SerializeToString())
    assert [type(s) for _, steps in session.parts() for s in steps] == [_steps.PyramidStep]
    for count in (9, 12):
        inputs = pyramid_inputs(rng, count)
        got = session.run(None, inputs)
        assert got[0].shape == (count, 3, 2, 2)
        assert_as_onnx_runtime(got, model, inputs)
    with pytest.raises(ValueError, match="-> 'Y': 9 boxes, expected at most 8"):
        session.run(None, pyramid_inputs(rng, 8))


def found_in(model):
    session = compat.InferenceSession(model.SerializeToString())
    return {type(step) for _, steps in session.parts() for step in steps}


def test_what_is_no_pyramid(rng):
    """It is computed node by node, whatever it is."""
    inputs = pyramid_inputs(rng, 9)
    model = scattered(zero="1.0")
    assert found_in(model) == {_steps.RoiStep}
    assert_as_onnx_runtime(of_roicy(model, inputs), model, inputs)
    model = scattered(columns="nothing, last, one, one")  # image, x1, y1, x2 for boxes
    assert found_in(model) == {_steps.RoiStep}
    assert_as_onnx_runtime(of_roicy(model, inputs), model, inputs)
    model = scattered()
    (last,) = [node for node in model.graph.node if node.output[0] == "Y"]
    last.attribute.append(onnx.helper.make_attribute("reduction", "add"))
    assert found_in(model) == {_steps.RoiStep}
    assert_as_onnx_runtime(of_roicy(model, inputs), model, inputs)


@pytest.mark.parametrize("domain", ["mmcv", "mmdeploy"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_mmcv(domain, mode, rng):
    model = parsed(
        f"""pooled {ROWS} => (float[K, C, 2, 2] Y) {{
            Y = {domain}.MMCVRoiAlign <output_height = 2, output_width = 2, spatial_scale = 0.5,
                sampling_ratio = 2, aligned = 1, mode = "{mode}"> (X, rows)
        }}""",
        domains=f', "{domain}": 1',
    )
    inputs = row_inputs(rng)
    function = roicy.roi_align if mode == "avg" else roicy.roi_align_max
    expected = function(inputs["X"], inputs["rows"], 2, 0.5, 2, True)
    np.testing.assert_array_equal(of_roicy(model, inputs)[0], expected)


@pytest.mark.parametrize("domain", ["mmcv", "mmdeploy"])
def test_mmcv_rotated(domain, rng):
    model = parsed(
        f"""pooled (float[N, C, H, W] X, float[K, 6] rows) => (float[K, C, 2, 3] Y) {{
            Y = {domain}.MMCVRoIAlignRotated <output_height = 2, output_width = 3,
                spatial_scale = 0.5, sampling_ratio = 2, clockwise = 1> (X, rows)
        }}""",
        domains=f', "{domain}": 1',
    )
    inputs = row_inputs(rng)
    turned = [[0, 12, 9, 10, 6, 0.4], [1, 8, 8, 5, 9, -2.0]]
    inputs["rows"] = np.array(turned, np.float32)
    expected = roicy.roi_align_rotated(
        inputs["X"], inputs["rows"], (2, 3), 0.5, 2, True, clockwise=True
    )
    np.testing.assert_array_equal(of_roicy(model, inputs)[0], expected)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_crop_and_resize(mode, rng):
    """ONNX Runtime has this operator itself."""
    model = parsed(
        f"""cropped (float[N, C, H, W] X, float[K, 4] rois, int32[K] images, int32[2] size) =>
            (float[K, C, P, Q] Y) {{
            Y = com.microsoft.CropAndResize <mode = "{mode}", extrapolation_value = 2.5>
                (X, rois, images, size)
        }}""",
        domains=', "com.microsoft": 1',
    )
    inputs = {
        "X": row_inputs(rng)["X"],
        "rois": np.array([[0.1, 0.2, 0.9, 0.7], [-0.5, 0, 1, 1.2]], np.float32),
        "images": np.array([1, 0], np.int32),
        "size": np.array([3, 4], np.int32),
    }
    theirs = of_onnx_runtime(model, inputs)[0]
    # Positions up to 20 are rounded otherwise in two steps, 4e-6 off, where pixels differ by 5.
    np.testing.assert_allclose(of_roicy(model, inputs)[0], theirs, rtol=0, atol=2e-5)


def test_max_roi_pool(rng):
    model = parsed(
        f"""pooled {ROWS} => (float[K, C, 2, 3] Y) {{
            Y = MaxRoiPool <pooled_shape = [2, 3], spatial_scale = 0.5> (X, rows)
        }}"""
    )
    inputs = row_inputs(rng)
    expected = compat.MaxRoiPool(
        inputs["X"], inputs["rows"], pooled_shape=(2, 3), spatial_scale=0.5
    )
    np.testing.assert_array_equal(of_roicy(model, inputs)[0], expected)


SHARED = f"""shared {VALUES} => (float[K, C, 1, 1] P, float[K, C, 1, 1] Y) {{
    Z = Mul (X, two)
    P = RoiAlign <sampling_ratio = 2, spatial_scale = 0.5> (Z, rois, images)
    mean = ReduceMean <keepdims = 0> (P)
    A = Add (two, mean)
    B = Mul (A, Z)
    Y = RoiAlign <sampling_ratio = 2, spatial_scale = 0.5> (B, rois, images)
}}"""


def shared(rng):
    """Return a model with an initializer that two segments read."""
    model = parsed(SHARED)
    two = rng.standard_normal((3, 20, 25)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(two, "two"))
    return model


def assert_as_onnx_runtime(got, model, inputs):
    for one, other in zip(got, of_onnx_runtime(model, inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * np.abs(other).max())


def test_shared_initializers(rng, inputs):
    """The tensor that two segments read is one OrtValue."""
    model = shared(rng)
    session = compat.InferenceSession(model.SerializeToString())
    read = [part.constants for part, _ in session.parts() if part]
    assert read == [["two"], ["two"]]
    assert list(session._shared) == ["two"]
    assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


def test_options_for_several_models(rng, inputs):
    """
    Options do not give a model the tensors of another one that has them under the same names.

    ONNX Runtime does that with `add_initializer`, and reads memory that is gone.
    """
    options = runtime.SessionOptions()
    for _ in range(2):
        model = shared(rng)
        session = compat.InferenceSession(model.SerializeToString(), options)
        assert_as_onnx_runtime(session.run(None, inputs), model, inputs)
        del session
    model = shared(rng)
    given = {"sess_options": options, "providers": ["CPUExecutionProvider"]}
    alone = runtime.InferenceSession(model.SerializeToString(), **given).run(None, inputs)
    assert_as_onnx_runtime(alone, model, inputs)


def test_metadata():
    """It is what ONNX Runtime says; labels of classes are often there."""
    model = with_ones(parsed(CHAIN))
    model.producer_name, model.domain, model.model_version = "a tool", "a.b", 7
    model.doc_string, model.graph.doc_string = "of a model", "of a graph"
    model.metadata_props.add(key="names", value="{0: 'cat'}")
    got = compat.InferenceSession(model.SerializeToString()).get_modelmeta()
    given = {"providers": ["CPUExecutionProvider"]}
    other = runtime.InferenceSession(model.SerializeToString(), **given).get_modelmeta()
    for name in got._fields:
        assert getattr(got, name) == getattr(other, name)
    assert got.custom_metadata_map == {"names": "{0: 'cat'}"}


def test_external_data(rng, inputs, tmp_path, monkeypatch):
    """Data beside the model are found from any folder, and are not in the segments' models."""
    path, model = tmp_path / "model.onnx", shared(rng)
    stored = {"save_as_external_data": True, "location": "weights", "size_threshold": 64}
    onnx.save_model(model, path, **stored)
    assert (tmp_path / "weights").stat().st_size >= 4 * 3 * 20 * 25
    monkeypatch.chdir(tmp_path.parent)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = compat.InferenceSession(path, options)
    assert session.get_session_options() is options
    assert _model.load(path)[0].ByteSize() < 4 * 3 * 20 * 25
    assert_as_onnx_runtime(session.run(None, inputs), onnx.load(path), inputs)


IN_BODIES = f"""branches {VALUES} => (float[K, C, 2, 2] Y) {{
    P = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (X, rois, images)
    mean = ReduceMean <keepdims = 0> (P)
    zero = Constant <value_float = 0.0> ()
    large = Less (zero, mean)
    Y = If (large) <
        then_branch = then () => (float[K, C, 2, 2] A) {{ A = Add (P, mean) }},
        else_branch = other () => (float[K, C, 2, 2] B) {{
            B = RoiAlign <output_height = 2, output_width = 2> (X, rois, images) }}
    >
}}"""


def test_nodes_in_bodies(inputs):
    """Bodies capture values of other segments, and their own RoI nodes are left where they are."""
    model = parsed(IN_BODIES)
    for sign in (1, -1):
        given = inputs | {"X": sign * np.abs(inputs["X"])}
        with pytest.warns(
            UserWarning, match=r"node 'B' \(RoiAlign\) in a body of node 'Y' \(If\): left to ONNX"
        ) as caught:
            (got,) = of_roicy(model, given)
        assert [Path(one.filename) for one in caught] == [Path(__file__)]
        (expected,) = of_onnx_runtime(model, given)
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_functions(inputs):
    """Functions with RoI nodes, one of which calls another, are parts of the graph."""
    model = parsed(
        f"""calls {VALUES} => (float[K, C, 2, 2] Y) {{
            A = mine.outer <size = 2> (X, rois, images)
            Y = Neg (A)
        }}
        <domain: "mine", opset_import: ["": 16, "mine": 1]>
        outer <size> (X, rois, images) => (Z) {{
            P = mine.inner <size: int = @size> (X, rois, images)
            Z = Relu (P)
        }}
        <domain: "mine", opset_import: ["": 16]>
        inner <size> (X, rois, images) => (P) {{
            P = RoiAlign <output_height: int = @size, output_width: int = @size,
                sampling_ratio = 2> (X, rois, images)
        }}""",
        domains=', "mine": 1',
    )
    session = compat.InferenceSession(model.SerializeToString())
    assert sum(len(steps) for _, steps in session.parts()) == 1
    assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


IN_LOOPS = f"""turns {VALUES} => (float[K, C, 1, 1] P, float[N, C, H, W] Z) {{
    P = RoiAlign <sampling_ratio = 2, spatial_scale = 0.5> (X, rois, images)
    mean = ReduceMean <keepdims = 0> (P)
    A = Mul (X, table)
    count = Constant <value = int64 {{3}}> ()
    yes = Constant <value = bool {{1}}> ()
    B = Add (A, mean)
    Z = Loop (count, yes, B) <
        body = turn (int64 i, bool goes, float[N, C, H, W] before)
            => (bool on, float[N, C, H, W] after) {{
            on = Identity (goes)
            Q = RoiAlign <sampling_ratio = 2, spatial_scale = 0.5> (before, rois, images)
            some = ReduceMean <keepdims = 0> (Q)
            sum = Add (before, table)
            after = Add (sum, some)
        }}
    >
}}"""


@pytest.mark.parametrize("is_external", [False, True])
def test_initializers_that_bodies_read(is_external, rng, inputs, tmp_path):
    """A tensor of the graph that one segment and the body of a Loop in another one read."""
    model, path = parsed(IN_LOOPS), tmp_path / "loops.onnx"
    table = rng.standard_normal((3, 20, 25)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    stored = {"location": "weights", "size_threshold": 64}
    copy = onnx.ModelProto.FromString(model.SerializeToString())  # saving moves data out of it
    onnx.save_model(copy, path, save_as_external_data=is_external, **stored)
    with pytest.warns(UserWarning, match=r"node 'Q' \(RoiAlign\) in a body of node 'Z' \(Loop\)"):
        session = compat.InferenceSession(path)
    assert [part.constants for part, _ in session.parts() if part] == [["table"], ["table"]]
    assert list(session._shared) == ([] if is_external else ["table"])  # ONNX Runtime maps files
    assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


class RandomGraph:
    """A model of random nodes on maps and scalars, RoiAlign among them, and Ifs that capture."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.maps, self.scalars, self.pooled = ["X"], ["half"], []
        self.lines = ["half = Constant <value_float = 0.5> ()"]
        kinds = [self.sum, self.pool, self.pool, self.mean, self.flat, self.same, self.branch]
        for i in range(self.random.randint(4, 24)):
            self.random.choice(kinds)(i)
        made = self.maps[1:] + self.pooled
        self.outputs = self.random.sample(made, min(3, len(made)))

    def any(self, *of):
        return self.random.choice([name for names in of for name in names])

    def sum(self, i):
        self.lines.append(
            f"m{i} = Add ({self.any(self.maps)}, {self.any(self.scalars, ['table'])})"
        )
        self.maps.append(f"m{i}")

    def same(self, i):
        self.lines.append(f"m{i} = Identity ({self.any(self.maps)})")
        self.maps.append(f"m{i}")

    def pool(self, i):
        given = "output_height = 2, output_width = 2, sampling_ratio = 2, spatial_scale = 0.5"
        self.lines.append(f"p{i} = RoiAlign <{given}> ({self.any(self.maps)}, rois, images)")
        self.pooled.append(f"p{i}")

    def mean(self, i):
        self.lines.append(f"s{i} = ReduceMean <keepdims = 0> ({self.any(self.pooled, self.maps)})")
        self.scalars.append(f"s{i}")

    def flat(self, i):
        self.lines.append(f"f{i} = Flatten ({self.any(self.pooled, self.maps)})")
        self.lines.append(f"s{i} = ReduceMax <keepdims = 0> (f{i})")
        self.scalars.append(f"s{i}")

    def branch(self, i):
        a, b = (f"{self.any(self.maps)}, {self.any(self.scalars, ['table'])}" for _ in range(2))
        self.lines.append(f"c{i} = Less ({self.any(self.scalars)}, {self.any(self.scalars)})")
        self.lines.append(
            f"m{i} = If (c{i}) <"
            f"then_branch = a{i} () => (float[A{i}, B, C, D] t{i}) {{ t{i} = Add ({a}) }}, "
            f"else_branch = b{i} () => (float[A{i}, B, C, D] e{i}) {{ e{i} = Mul ({b}) }}>"
        )
        self.maps.append(f"m{i}")

    def model(self, table):
        outputs = ", ".join(f"float[N{i}, P, Q, R] {name}" for i, name in enumerate(self.outputs))
        text = "\n".join(self.lines)
        model = parsed(f"mixed {VALUES} => ({outputs}) {{\n{text}\n}}")
        model.graph.initializer.append(numpy_helper.from_array(table, "table"))
        return model


@pytest.mark.filterwarnings("ignore:the model has no RoI nodes")
def test_random_graphs(rng, inputs, request):
    """However nodes depend on each other, and wherever outputs come from."""
    runtime.set_default_logger_severity(3)  # it warns of constants that nobody reads
    request.addfinalizer(lambda: runtime.set_default_logger_severity(2))
    table = rng.standard_normal((3, 20, 25)).astype(np.float32)
    cuts = set()
    for seed in range(60):
        graph = RandomGraph(seed)
        if not graph.outputs:
            continue
        model = graph.model(table)
        session = compat.InferenceSession(model.SerializeToString())
        cuts.add(len(session.parts()))
        for one, other in zip(
            session.run(None, inputs), of_onnx_runtime(model, inputs), strict=True
        ):
            bound = 1e-5 * max(1, np.abs(other).max())
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=bound, err_msg=str(seed))
    assert cuts >= {0, 1, 2, 3}


def test_outputs_that_are_no_results(inputs):
    """An output may be an input, a constant, an initializer or a RoI node's output."""
    model = parsed(
        f"""outputs {VALUES} => (float[K, C, 1, 1] P, float[N, C, H, W] same, float[2] numbers) {{
            P = RoiAlign (X, rois, images)
            same = Identity (X)
            numbers = Constant <value = float[2] {{1, 2}}> ()
        }}"""
    )
    got = of_roicy(model, inputs)
    np.testing.assert_array_equal(got[1], inputs["X"])
    np.testing.assert_array_equal(got[2], [1, 2])
    assert got[0].shape == (30, 3, 1, 1)


def test_no_boxes(inputs):
    none = inputs | {"rois": np.empty((0, 4), np.float32), "images": np.empty(0, np.int64)}
    model = with_ones(parsed(CHAIN))
    assert [one.shape for one in of_roicy(model, none)] == [
        (0, 3, 2, 2),
        (0, 3, 3, 3),
        (2, 3, 20, 25),
    ]


def test_values_are_handed_over_without_a_copy(inputs, monkeypatch):
    session = compat.InferenceSession(with_ones(parsed(CHAIN)).SerializeToString())
    seen = {}

    class Recording(runtime.InferenceSession):
        def run_with_ort_values(self, names, feed, options=None):
            found = super().run_with_ort_values(names, feed, options)
            seen.update({name: value.data_ptr() for name, value in feed.items()})
            seen.update({n: v.data_ptr() for n, v in zip(names, found, strict=True)})
            return found

    def run(step, arrays, threads, given=_steps.RoiStep.run):
        for name, array in zip(step.inputs, arrays, strict=True):
            address = array.__array_interface__["data"][0]
            assert seen.setdefault(name, address) == address
        result = given(step, arrays, threads)
        seen[step.output] = result.__array_interface__["data"][0]
        return result

    monkeypatch.setattr(runtime, "InferenceSession", Recording)
    monkeypatch.setattr(_steps.RoiStep, "run", run)
    session = compat.InferenceSession(with_ones(parsed(CHAIN)).SerializeToString())
    pooled, _, z = session.run(None, inputs)
    assert pooled.__array_interface__["data"][0] == seen["pooled"]
    assert z.__array_interface__["data"][0] == seen["Z"]
    assert inputs["X"].__array_interface__["data"][0] == seen["X"]


def test_binding(inputs):
    session = compat.InferenceSession(with_ones(parsed(CHAIN)).SerializeToString())
    expected = session.run(["last", "pooled"], inputs)
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    binding.bind_ortvalue_input("X", runtime.OrtValue.ortvalue_from_numpy(inputs["X"]))
    binding.bind_output("last")
    out = np.zeros_like(expected[1])
    binding.bind_ortvalue_output("pooled", runtime.OrtValue.ortvalue_from_numpy(out))
    session.run_with_iobinding(binding)
    for one, other in zip(binding.copy_outputs_to_cpu(), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(out, expected[1])
    with pytest.raises(ValueError, match="device_type: 'cuda', expected 'cpu'"):
        binding.bind_output("last", "cuda")


def test_no_roi_nodes(tmp_path):
    model = parsed("plain (float[N] X) => (float[N] Y) { Y = Neg (X) }")
    path = tmp_path / "plain.onnx"
    onnx.save(model, path)
    for source in (model.SerializeToString(), path, str(path), model):
        with pytest.warns(UserWarning, match="the model has no RoI nodes") as caught:
            session = compat.InferenceSession(source)
        assert len(caught) == 1
        assert session.run(["Y"], {"X": np.ones(2, np.float32)})[0].tolist() == [-1, -1]
        values = {"X": runtime.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))}
        assert session.run_with_ort_values(None, values)[0].numpy().tolist() == [-1, -1]


def roi_align(attributes, opset=16, inputs="X, rois, images"):
    shown = f"<{attributes}>" if attributes else ""
    body = f"pooled {VALUES} => (float[K, C, H, W] Y) {{ Y = RoiAlign {shown} ({inputs}) }}"
    model = parsed(body, opset)
    model.graph.node[0].name = "pool"
    return model


def test_wrong_models():
    with pytest.raises(ValueError, match="model: 10 bytes is no ONNX model"):
        compat.InferenceSession(b"not ONNX !")
    with pytest.raises(ValueError, match="model: 0 bytes is no ONNX model"):
        compat.InferenceSession(b"")
    with pytest.raises(TypeError, match="model: builtins.int, expected a path or the bytes"):
        compat.InferenceSession(3)
    with pytest.raises(FileNotFoundError):
        compat.InferenceSession("/no/such/model.onnx")
    with pytest.raises(ValueError, match="num_threads: 0, expected"):
        compat.InferenceSession(roi_align("").SerializeToString(), num_threads=0)


def test_models_that_are_too_large():
    """Models are written by protobuf, which writes no more than 2 GB."""

    class Refused:
        def SerializeToString(self):
            raise RuntimeError("Failed to serialize proto")

    with pytest.raises(ValueError, match="more than 2 GB cannot be bytes, expected the path"):
        _model.serialized(Refused())


WRONG_NODES = {
    "attribute 'rotated' is unknown, expected any of mode, output_height": ("rotated = 1", 16),
    "attribute 'output_width' is 2.5, expected int": ("output_width = 2.5", 16),
    "attribute 'mode' is 3, expected str": ("mode = 3", 16),
    "attribute 'coordinate_transformation_mode' is unknown": (
        'coordinate_transformation_mode = "half_pixel"',
        10,
    ),
    "opset 9, expected at least 10": ("", 9),
    "opset 999 of the domain 'ai.onnx', expected at most": ("", 999),
}


@pytest.mark.parametrize("message", WRONG_NODES)
def test_wrong_nodes(message):
    attributes, opset = WRONG_NODES[message]
    with pytest.raises(ValueError, match=re.escape(f"node 'pool' (RoiAlign): {message}")):
        compat.InferenceSession(roi_align(attributes, opset).SerializeToString())


def test_wrong_inputs_and_missing_attributes(inputs):
    with pytest.raises(ValueError, match="2 inputs and 1 outputs, expected 3 inputs and 1 output"):
        compat.InferenceSession(roi_align("", inputs="X, rois").SerializeToString())
    model = parsed(f"pooled {ROWS} => (float[K, C, H, W] Y) {{ Y = MaxRoiPool (X, rows) }}")
    with pytest.raises(ValueError, match=r"node 'Y' \(MaxRoiPool\): attribute 'pooled_shape' is m"):
        compat.InferenceSession(model.SerializeToString())
    session = compat.InferenceSession(roi_align("").SerializeToString())
    with pytest.raises(ValueError, match="input_feed: 'images' is missing"):
        session.run(None, {"X": inputs["X"], "rois": inputs["rois"]})
    with pytest.raises(ValueError, match="input_feed: 'other', expected"):
        session.run(None, inputs | {"other": inputs["X"]})
    with pytest.raises(ValueError, match="output_names: 'Q', expected any of"):
        session.run(["Q"], inputs)
    with pytest.raises(ValueError, match=r"node 'pool' \(RoiAlign\): boxes\[0\]: batch index 7"):
        session.run(None, inputs | {"images": np.full(30, 7)})
    wrong = roi_align('mode = "median"')
    with pytest.raises(ValueError, match=r"node 'pool' \(RoiAlign\): mode: 'median', expected"):
        compat.InferenceSession(wrong.SerializeToString()).run(None, inputs)


def test_newer_meaning(monkeypatch):
    """A RoiAlign that ONNX has defined anew since is not taken for an older one."""

    class Schema:
        since_version = 25

    monkeypatch.setattr(onnx.defs, "get_schema", lambda *_: Schema)
    with pytest.raises(ValueError, match="its meaning changed in opset 25, which is not known"):
        compat.InferenceSession(roi_align("", 22).SerializeToString())


def test_types():
    for kind in ("float", "double", "int64", "bool", "float16", "string"):
        proto = _session._type_proto(f"tensor({kind})", [None, 3])
        assert _session._type_string(proto) == f"tensor({kind})"
        assert _session._shape_list(proto) == [None, 3]
    proto = _session._type_proto("seq(tensor(float))", None)
    assert _session._type_string(proto) == "seq(tensor(float))"
    with pytest.raises(ValueError, match="a value of type map"):
        _session._type_proto("map(int64,tensor(float))", None)


def test_loops_that_do_something_else_stay(inputs):
    """A Loop of the same kinds of nodes that pastes nothing is left to ONNX Runtime."""
    model = parsed(
        f"""looping {VALUES} => (float[K, C, 1, 1] Y, float[a, b] sums) {{
            Y = RoiAlign (X, rois, images)
            count = Constant <value = int64 {{3}}> ()
            yes = Constant <value = bool {{1}}> ()
            start = Constant <value = float[1, 1] {{1}}> ()
            sums = Loop (count, yes, start) <
                body = turn (int64 i, bool goes, float[a, b] before) => (bool on, float[a, b] after)
                {{ on = Identity (goes)  after = Add (before, before) }}
            >
        }}"""
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = compat.InferenceSession(model.SerializeToString())
    assert sum(len(steps) for _, steps in session.parts()) == 1
    assert session.run(["sums"], inputs)[0].tolist() == [[8.0]]


def test_command(tmp_path, capsys):
    path = tmp_path / "chain.onnx"
    onnx.save(with_ones(parsed(CHAIN)), path)
    assert main(["onnx", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "segment 0, by ONNX Runtime: 2 nodes (1 values in, 1 out)" in printed
    assert printed.count("roicy: node") == 2
    shapes = ["--shape", "1x3x20x25", "--shape", "rois=5x4", "--shape", "images=5"]
    assert main(["onnx", str(path), "--bench", "--rounds", "1", *shapes]) == 0
    printed = capsys.readouterr().out
    assert "ONNX Runtime with roicy: " in printed
    assert " ms, the least of 1 runs on 1 thread\n" in printed
    assert "ONNX Runtime alone takes" in printed
    assert "output 'last': shape (5, 3, 3, 3), largest difference" in printed


def test_arrays_for_the_command(tmp_path, capsys, inputs):
    path = tmp_path / "chain.onnx"
    onnx.save(with_ones(parsed(CHAIN)), path)
    given = []
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
        given += ["--input", f"{name}={tmp_path}/{name}.npy"]
    assert main(["onnx", str(path), "--bench", "--rounds", "1", *given]) == 0
    (mean,) = of_roicy(with_ones(parsed(CHAIN)), inputs)[:1]
    assert f"of {np.abs(mean).max():.3g}\n" in capsys.readouterr().out
    wrong = ["--input", f"Z={tmp_path}/X.npy"]
    assert main(["onnx", str(path), "--bench", *wrong]) == 1
    assert "--input: 'Z', expected any of ['X', 'rois', 'images']" in capsys.readouterr().err
    np.save(tmp_path / "X.npy", inputs["X"][0])
    assert main(["onnx", str(path), "--bench", *given]) == 1
    said = capsys.readouterr().err
    assert "the model does not run on these inputs: " in said
    assert "Invalid rank for input: X" in said


def test_errors_of_the_command(tmp_path, capsys):
    path = tmp_path / "later.onnx"
    onnx.save(roi_align("", 22), path)
    shapes = ["--shape", "X=1x3x8x9", "--shape", "rois=5x4", "--shape", "images=5"]
    assert main(["onnx", str(path), "--bench", *shapes]) == 0
    assert "ONNX Runtime cannot run the model" in capsys.readouterr().out
    assert main(["onnx", str(path), "--bench"]) == 1
    assert "--shape: input 'X' is tensor(float)" in capsys.readouterr().err
    assert main(["onnx", str(path), "--bench", "--shape", "X=big"]) == 1
    assert "--shape X=big: expected NAME=" in capsys.readouterr().err
    path.write_bytes(b"nothing")
    assert main(["onnx", str(path)]) == 1
    assert "is no ONNX model" in capsys.readouterr().err
    assert main(["onnx", str(tmp_path / "none")]) == 1
