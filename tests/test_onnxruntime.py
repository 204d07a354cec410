"""Sessions with the provider give what ONNX Runtime gives, and what it lacks."""

import os
import random
import re
import subprocess
import sys
import threading
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
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

from roicy import onnxruntime as provider  # noqa: E402
from roicy.compat.onnx import _session  # noqa: E402
from roicy.compat.onnx._command import _claimed  # noqa: E402
from roicy.compat.onnx._table import TABLE  # noqa: E402

NAME = "RoicyExecutionProvider"
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/deployed.md"


def parsed(body, opset=16, domains=""):
    imports = f'["": {opset}{domains}]'
    return parser.parse_model(f"<ir_version: 9, opset_import: {imports}>\n{body}")


def quiet(**given):
    """Return options of a session that only tells errors."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    for name, value in given.items():
        setattr(options, name, value)
    return options


def session_of(model, *given, **options):
    return compat.InferenceSession(model.SerializeToString(), *(given or [quiet()]), **options)


def of_onnx_runtime(model, inputs):
    return alone(model).run(None, inputs)


def alone(model):
    providers = ["CPUExecutionProvider"]
    return runtime.InferenceSession(model.SerializeToString(), quiet(), providers=providers)


def of_roicy(model, inputs, **options):
    return session_of(model, **options).run(None, inputs)


def claimed(model, *options):
    """Return what the provider takes of a model, and the session."""
    with _claimed() as titles:
        session = session_of(model, *options)
    return titles, session


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
    options = quiet()
    session = session_of(model, options, num_threads=threads)
    assert isinstance(session, runtime.InferenceSession)
    assert session.get_providers() == [NAME, "CPUExecutionProvider"]
    assert not options.has_providers()
    got = session.run(None, inputs)
    assert_as_onnx_runtime(got, model, inputs)
    (last,) = session.run(["last"], inputs)
    np.testing.assert_array_equal(last, got[1])


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


def scattered(levels=(0, 1), zero="0.0", old="", new=""):
    """Return a pyramid as PyTorch's exporter of torch.export writes it, with a change."""
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
        boxes{i} = Slice (some{i}, one, five, one, one)
        pooled{i} = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2,
            spatial_scale = {0.5 / 2**i}, coordinate_transformation_mode = "output_half_pixel">
            ({"AB"[i]}, boxes{i}, images{i})
        {"Y" if i else "part"} = ScatterND ({"part" if i else "zeros"}, column{i}, pooled{i})
        """.replace(*(text.replace("#", str(i)) for text in (old, new)))
    return parsed(body + "}", opset=18)


CORNERS = "Slice (some#, one, five, one, one)"
NO_PYRAMIDS = {
    "values that are added": ("", ""),
    "an image for a corner": (CORNERS, CORNERS.replace("one, five", "nothing, last")),
    "whole pixels": (
        f"boxes# = {CORNERS}",
        f"exact# = {CORNERS}  whole# = Cast <to = 7> (exact#)  boxes# = Cast <to = 1> (whole#)",
    ),
    "the first box of a level": ("Slice (turned#", "Slice (found#"),
    "half of the boxes": (
        "which# = Squeeze (sliced#, one)",
        "all# = Squeeze (sliced#, one)  which#, others# = Split <num_outputs = 2> (all#)",
    ),
}


def pyramid_inputs(rng, count):
    maps = [rng.standard_normal((2, 3, side, side)).astype(np.float32) for side in (20, 10)]
    rows = random_boxes(rng, 2, 9, (40, 40), np.float32)
    levels = rng.integers(0, 2, 9)
    shapes = {"count": np.array([count]), "others": np.array([3, 2, 2])}
    return {"A": maps[0], "B": maps[1], "rows": rows, "levels": levels, **shapes}


@pytest.mark.parametrize("levels, zero", [((0, 1), "0.0"), ((1, 0), "1.5"), ((0, 2), "0.0")])
def test_pyramids_that_are_scattered(levels, zero, rng):
    """As many rows come out as they are scattered into, and those of no level stay as they are."""
    model = scattered(levels, zero)
    titles, session = claimed(model)
    assert titles == ["pyramid of 2 x RoiAlign -> 'Y'"]
    for count in (9, 12):
        inputs = pyramid_inputs(rng, count)
        got = session.run(None, inputs)
        assert got[0].shape == (count, 3, 2, 2)
        assert_as_onnx_runtime(got, model, inputs)
    with pytest.raises(Exception, match=r"-> 'Y': \(9, 3, 2, 2\) is scattered into \(8, 3"):
        session.run(None, pyramid_inputs(rng, 8))


@pytest.mark.parametrize("change", NO_PYRAMIDS)
def test_what_is_no_pyramid(change, rng):
    """It is computed node by node, whatever it is."""
    inputs, model = pyramid_inputs(rng, 9), scattered((0, 1), "0.0", *NO_PYRAMIDS[change])
    if change == "values that are added":
        (last,) = [node for node in model.graph.node if node.output[0] == "Y"]
        last.attribute.append(onnx.helper.make_attribute("reduction", "add"))
    titles, session = claimed(model)
    assert sorted(titles) == ["node 'pooled0' (RoiAlign)", "node 'pooled1' (RoiAlign)"]
    assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


def test_pyramids_whose_parts_others_read(rng):
    """What is read elsewhere is computed by ONNX Runtime, for the group too, or is no group."""
    inputs = pyramid_inputs(rng, 9)
    for name, kind, is_group in (("which1", 7, True), ("pooled1", 1, False), ("shape", 7, True)):
        model = scattered()
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
        titles, session = claimed(model)
        assert (len(titles) == 1) == is_group
        assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


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


@pytest.mark.parametrize("second", [", copied", ""])
def test_pyramids_of_openvino(second, rng):
    """The domain org.openvinotoolkit has one RoI node, whose second output is its boxes."""
    outputs = "float[K, C, P, Q] Y" + second.replace(",", ", float[K, 4]")
    model = parsed(
        f"""pooled (float[K, 4] rois, float[N, C, H, W] A, float[N, C, h, w] B) => ({outputs}) {{
            Y{second} = org.openvinotoolkit.ExperimentalDetectronROIFeatureExtractor <
                output_size = 3, pyramid_scales = [4, 8], sampling_ratio = 2, aligned = 1,
                image_id = 0> (rois, A, B) }}""",
        domains=', "org.openvinotoolkit": 1',
    )
    maps = [rng.standard_normal((1, 4, side, side)).astype(np.float32) for side in (100, 50)]
    rows = random_boxes(rng, 1, 30, (400, 400), np.float32)
    inputs = {"rois": rows[:, 1:].copy(), "A": maps[0], "B": maps[1]}
    shifted = rows.astype(np.float64)
    shifted[:, 1:] -= np.where(np.prod(rows[:, 3:] - rows[:, 1:3], axis=1) >= 112**2, 4, 2)[:, None]
    expected = roicy.multiscale_roi_align(maps, shifted, 3, [1 / 4, 1 / 8], 2)
    got = of_roicy(model, inputs)
    assert len(got) == 1 + bool(second)
    for one, other in zip(got, (expected, inputs["rois"]), strict=False):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind, name", [("float16", "f2"), ("float", "f4"), ("double", "f8")])
def test_boxes_of_other_types(kind, name, rng):
    """In domains that ONNX Runtime does not know, boxes may have another type than maps."""
    for of_boxes, dtype in (("float16", "f2"), ("float", "f4"), ("double", "f8")):
        model = parsed(
            f"""pooled ({kind}[N, C, H, W] X, {of_boxes}[K, 5] rows) => ({kind}[K, D, 2, 2] Y) {{
                Y = roicy.PrRoIPool <output_height = 2, output_width = 2> (X, rows) }}""",
            domains=', "roicy": 1',
        )
        inputs = {key: array.astype(name) for key, array in row_inputs(rng).items()}
        inputs["rows"] = inputs["rows"].astype(dtype)
        (got,) = of_roicy(model, inputs)
        assert got.dtype == name
        np.testing.assert_array_equal(got, roicy.prroi_pool(inputs["X"], inputs["rows"], 2))


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


def assert_as_onnx_runtime(got, model, inputs):
    for one, other in zip(got, of_onnx_runtime(model, inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * np.abs(other).max())


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
    """RoI nodes of bodies are taken as others are, and so is one that ONNX Runtime lacks."""
    model = parsed(IN_BODIES)
    titles, session = claimed(model)
    assert sorted(titles) == ["node 'B' (RoiAlign)", "node 'P' (RoiAlign)"]
    later = session_of(parsed(IN_BODIES, 22))
    for sign in (1, -1):
        given = inputs | {"X": sign * np.abs(inputs["X"])}
        (got,) = session.run(None, given)
        assert_as_onnx_runtime([got], model, given)
        np.testing.assert_array_equal(later.run(None, given)[0], got)


def test_pyramids_in_bodies(rng):
    """Those of two branches have the same names, and other scales."""
    model = scattered()
    body = onnx.helper.make_graph(
        model.graph.node, "branch", [], [onnx.helper.make_tensor_value_info("Y", 1, None)]
    )
    other = onnx.GraphProto()
    other.CopyFrom(body)
    for node in other.node:
        for attribute in node.attribute:
            if attribute.name == "spatial_scale":
                attribute.f *= 0.5
    node = onnx.helper.make_node("If", ["yes"], ["Z"], then_branch=body, else_branch=other)
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.append(node)
    model.graph.input.append(onnx.helper.make_tensor_value_info("yes", 9, []))
    model.graph.output.append(onnx.helper.make_tensor_value_info("Z", 1, None))
    titles, session = claimed(model)
    assert titles == ["pyramid of 2 x RoiAlign -> 'Y'"] * 2
    for yes in (True, False):
        inputs = pyramid_inputs(rng, 9) | {"yes": np.array(yes)}
        assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


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
    titles, session = claimed(model)
    assert len(titles) == 1
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


def test_initializers_that_bodies_read(rng, inputs, tmp_path, monkeypatch):
    """A tensor beside the model, which the graph and the body of a Loop in it read."""
    model, path = parsed(IN_LOOPS), tmp_path / "loops.onnx"
    table = rng.standard_normal((3, 20, 25)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    expected = of_onnx_runtime(model, inputs)
    stored = {"location": "weights", "size_threshold": 64}
    onnx.save_model(model, path, save_as_external_data=True, **stored)
    monkeypatch.chdir(tmp_path.parent)
    for source in (path, str(path)):
        got = compat.InferenceSession(source, quiet()).run(None, inputs)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


FUNCTION = """
<domain: "mine", opset_import: ["": 16]>
pool <size> (X, rois, images) => (Y) {
    Y = RoiAlign <output_height: int = @size, output_width = 2, sampling_ratio = 2,
        spatial_scale = 0.5> (X, rois, images)
}"""


class RandomGraph:
    """A model of random nodes on maps and scalars; RoiAlign is in bodies and functions, too."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.maps, self.scalars, self.pooled = ["X"], ["half"], []
        self.lines = ["half = Constant <value_float = 0.5> ()"]
        self.lines.append("first = Constant <value = int64 {0}> ()")
        kinds = [self.sum, self.pool, self.pool, self.mean, self.flat, self.same, self.branch]
        kinds += [self.sequence, self.optional, self.function]
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

    def sequence(self, i):
        self.lines.append(
            f"q{i} = SequenceConstruct ({self.any(self.maps)}, {self.any(self.maps)})"
        )
        self.lines.append(f"m{i} = SequenceAt (q{i}, first)")
        self.maps.append(f"m{i}")

    def optional(self, i):
        self.lines.append(f"o{i} = Optional ({self.any(self.maps)})")
        self.lines.append(f"m{i} = OptionalGetElement (o{i})")
        self.maps.append(f"m{i}")

    def function(self, i):
        self.lines.append(
            f"p{i} = mine.pool <size = {i + 1}> ({self.any(self.maps)}, rois, images)"
        )
        self.pooled.append(f"p{i}")

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
        a = f"{self.any(self.maps)}, {self.any(self.scalars, ['table'])}"
        b = self.any(self.maps)
        self.lines.append(f"c{i} = Less ({self.any(self.scalars)}, {self.any(self.scalars)})")
        self.lines.append(
            f"m{i} = If (c{i}) <"
            f"then_branch = a{i} () => (float[A{i}, B, C, D] t{i}) {{ t{i} = Add ({a}) }}, "
            f"else_branch = b{i} () => (float[A{i}, B, C, D] e{i}) {{ "
            f"q{i} = RoiAlign <sampling_ratio = 1, spatial_scale = 0.3> ({b}, rois, images) "
            f"r{i} = ReduceMax <keepdims = 0> (q{i}) e{i} = Mul ({b}, r{i}) }}>"
        )
        self.maps.append(f"m{i}")

    def model(self, table):
        outputs = ", ".join(f"float[N{i}, P, Q, R] {name}" for i, name in enumerate(self.outputs))
        text = "\n".join(self.lines)
        values = VALUES.replace(")", ", float[3, 20, 25] table)")  # which need not be given
        body = f"mixed {values} => ({outputs}) {{\n{text}\n}}{FUNCTION}"
        model = parsed(body, domains=', "mine": 1')
        model.graph.initializer.append(numpy_helper.from_array(table, "table"))
        return model


RANDOM_GRAPHS = 20


def test_random_graphs(rng, inputs):
    """However nodes depend on each other, and wherever outputs come from."""
    table = rng.standard_normal((3, 20, 25)).astype(np.float32)
    options = provider.use(quiet(intra_op_num_threads=1))  # of all sessions
    for seed in range(RANDOM_GRAPHS):
        graph = RandomGraph(seed)
        if not graph.outputs:
            continue
        model = graph.model(table)
        session, theirs = runtime.InferenceSession(model.SerializeToString(), options), alone(model)
        for given in (inputs, inputs | {"table": table[::-1].copy()}):
            expected = theirs.run(None, given)
            for one, other in zip(session.run(None, given), expected, strict=True):
                bound = 1e-5 * max(1, np.abs(other).max())
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=bound, err_msg=str(seed))


def test_no_boxes(inputs):
    none = inputs | {"rois": np.empty((0, 4), np.float32), "images": np.empty(0, np.int64)}
    model = with_ones(parsed(CHAIN))
    assert [one.shape for one in of_roicy(model, none)] == [
        (0, 3, 2, 2),
        (0, 3, 3, 3),
        (2, 3, 20, 25),
    ]


def test_binding_and_profile(inputs, tmp_path):
    """Bound memory is written, and a profile names the nodes and is the only file."""
    model = with_ones(parsed(CHAIN))
    options = quiet(enable_profiling=True, profile_file_prefix=str(tmp_path / "profile"))
    session = session_of(model, options)
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    out = np.zeros((30, 3, 3, 3), np.float32)
    binding.bind_output("last", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(out, session.run(["last"], inputs)[0])
    session.end_profiling()
    (file,) = tmp_path.iterdir()
    assert '"RoiAlign"' in file.read_text() and NAME in file.read_text()


def test_optimised_models(rng, tmp_path):
    """Groups of nodes cannot be written to a file, so they are not made."""
    path = tmp_path / "optimised.onnx"
    model, inputs = scattered(), pyramid_inputs(rng, 9)
    session = session_of(model, quiet(optimized_model_filepath=str(path)))
    assert_as_onnx_runtime(session.run(None, inputs), model, inputs)
    assert sum(node.op_type == "RoiAlign" for node in onnx.load(path).graph.node) == 2


def test_use_and_custom_operators(rng):
    """Options with the provider; and those with nothing but the library of custom operators."""
    model = parsed(
        f"""pooled {ROWS} => (float[K, D, 2, 2] Y) {{
            Y = roicy.PrRoIPool <output_height = 2, output_width = 2> (X, rows) }}""",
        domains=', "roicy": 1',
    )
    inputs, library = row_inputs(rng), quiet()
    library.register_custom_ops_library(provider.get_library_path())
    expected = roicy.prroi_pool(inputs["X"], inputs["rows"], 2)
    data = model.SerializeToString()
    sessions = [runtime.InferenceSession(data, one) for one in (provider.use(quiet(), 2), library)]
    for session in (*sessions, compat.InferenceSession(data, library)):
        np.testing.assert_array_equal(session.run(None, inputs)[0], expected)
    assert provider.get_ep_names() == [provider.get_ep_name()] == [NAME]
    assert len(provider.register()) == 1
    with pytest.raises(ValueError, match="num_threads: 0, expected"):
        provider.use(quiet(), 0)
    with pytest.raises(TypeError, match="options: 'model', expected onnxruntime.SessionOptions"):
        provider.use("model")


def test_use_twice(inputs):
    """Options have a provider once, or no session can be made."""
    options = provider.use(provider.use(quiet(), 2), 2)
    with pytest.raises(ValueError, match="provider with {'num_threads': '2'} already, not {"):
        provider.use(options, 1)
    model = with_ones(parsed(CHAIN))
    for session in (
        runtime.InferenceSession(model.SerializeToString(), options),
        session_of(model, options),
    ):
        assert session.get_providers()[0] == NAME
        again = session_of(model, session.get_session_options())  # a copy without the provider
        assert_as_onnx_runtime(again.run(None, inputs), model, inputs)


def test_options_that_cannot_be_copied(inputs, monkeypatch):
    """What is lost in the copy, such as a library of custom operators, is found in the options."""
    if NAME not in runtime.get_available_providers():
        pytest.skip("this ONNX Runtime takes no plugins by their names")

    def lossy(options):
        copy = quiet()
        copy.add_session_config_entry("session.load_model_format", "ORT")
        return copy

    monkeypatch.setattr(_session, "_copy", lossy)
    options = quiet()
    session = session_of(with_ones(parsed(CHAIN)), options)
    assert session.get_providers()[0] == NAME and not options.has_providers()
    assert_as_onnx_runtime(session.run(None, inputs), with_ones(parsed(CHAIN)), inputs)


def test_older_versions(monkeypatch):
    monkeypatch.setattr(runtime, "__version__", "1.23.2")
    with pytest.raises(ImportError, match=r"onnxruntime 1\.23\.2 is installed, .* 1\.24 or newer"):
        provider.register()


def test_threads_and_forks(inputs):
    """Several threads share a session, and a child of a process that has registered its own."""
    model = with_ones(parsed(CHAIN))
    session = session_of(model)
    expected, results = session.run(None, inputs), []

    def run():
        results.extend(session.run(None, inputs) for _ in range(5))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    for got in results:
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    code = f"""
import os, sys, numpy as np, onnxruntime
from roicy.onnxruntime import register, use
register()
child = os.fork()
if child == 0:
    register()
    model = {model.SerializeToString()!r}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, use(options))
    X, rois = np.ones((1, 1, 8, 8), np.float32), np.ones((1, 4), np.float32)
    session.run(None, {{"X": X, "rois": rois, "images": np.zeros(1, np.int64)}})
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert "roicy.onnxruntime" in sys.modules
"""
    if hasattr(os, "fork"):
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_the_library_by_its_path():
    """As programs register plugins that have not imported roicy; another name is no matter."""
    code = f"""
import sys, onnxruntime
onnxruntime.register_execution_provider_library("other", {provider.get_library_path()!r})
assert {NAME!r} in [device.ep_name for device in onnxruntime.get_ep_devices()]
from roicy.onnxruntime import register
assert len(register()) == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_is_lazy():
    code = "import sys, roicy; assert not [n for n in sys.modules if 'onnx' in n]"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_in_the_place_of_onnxruntimes(inputs, monkeypatch):
    """As programs that are not one's own have it."""
    monkeypatch.setattr(runtime, "InferenceSession", compat.InferenceSession)
    model = with_ones(parsed(CHAIN))
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    assert session.get_providers()[0] == NAME
    assert len(session.run(None, inputs)) == 3


with np.errstate(all="ignore"):  # making the cases of other operators warns
    NODE_TESTS = [case for op in ("RoiAlign", "MaxRoiPool") for case in collect_testcases(op)]


def test_node_tests():
    assert NODE_TESTS
    for case in NODE_TESTS:
        session = session_of(case.model)
        for inputs, outputs in case.data_sets:
            names = [value.name for value in case.model.graph.input]
            (got,) = session.run(None, dict(zip(names, inputs, strict=True)))
            np.testing.assert_allclose(got, outputs[0], rtol=case.rtol, atol=case.atol)


@pytest.mark.parametrize("kind, name", [("float16", "f2"), ("double", "f8")])
def test_types(kind, name, inputs):
    """Opset 22 has float16, which ONNX Runtime's own provider lacks."""
    body = f"pooled {VALUES} => (float[K, C, H, W] Y) {{ Y = RoiAlign (X, rois, images) }}"
    model = parsed(body.replace("float", kind), 22)
    given = {"X": inputs["X"].astype(name), "rois": inputs["rois"].astype(name)}
    (got,) = of_roicy(model, inputs | given)
    assert got.dtype == name
    expected = compat.RoiAlign(given["X"], given["rois"], inputs["images"])
    np.testing.assert_array_equal(got, expected)


def roi_align(attributes, opset=16, inputs="X, rois, images"):
    shown = f"<{attributes}>" if attributes else ""
    body = f"pooled {VALUES} => (float[K, C, H, W] Y) {{ Y = RoiAlign {shown} ({inputs}) }}"
    model = parsed(body, opset)
    model.graph.node[0].name = "pool"
    return model


WRONG_NODES = {
    "node 'pool' (RoiAlign): mode: 'median', expected 'avg' or 'max'": 'mode = "median"',
    "node 'pool' (RoiAlign): output_height: 0, expected": "output_height = 0",
    "node 'pool' (RoiAlign): spatial_scale: 0": "spatial_scale = 0.0",
}


@pytest.mark.parametrize("message", WRONG_NODES)
def test_wrong_nodes(message):
    with pytest.raises(Exception, match=re.escape(message)):
        session_of(roi_align(WRONG_NODES[message]))


def test_wrong_nodes_of_the_domain():
    for op, attributes, message in (
        ("RoIPool", "rotated = 1", "(roicy.RoIPool): attribute 'rotated' is unknown, expected any"),
        ("RoIPool", "output_width = 2.5", "attribute 'output_width' is 2.5, expected int"),
        ("RoIPool", "spatial_scale = [1.0, 1.0, 1.0]", "spatial_scale: (1.0, 1.0, 1.0), expected"),
        ("RoIAlign", "sampling_ratio = 2147483648", "sampling_ratio: 2147483648, expected"),
        ("MultiScaleRoIAlign", "scales = [0.5, -0.5]", "scales: -0.5, expected a finite number"),
        ("MultiScaleRoIAlign", "scales = [0.5], canonical_level = 1001", "canonical_level: 1001"),
        ("PasteMasks", 'rule = "mmdet", padding = 2', "(roicy.PasteMasks): padding: 2, expected 1"),
    ):
        third = ", size" if op == "PasteMasks" else ""
        model = parsed(
            f"""pooled (float[N, C, H, W] X, float[K, L] rows{third.replace(",", ", int64[2]")}) =>
            (float[a, b, c, d] Y) {{ Y = roicy.{op} <{attributes}> (X, rows{third}) }}""",
            domains=', "roicy": 1',
        )
        with pytest.raises(Exception, match=re.escape(message)):
            session_of(model)


@pytest.mark.parametrize("as_provider", [True, False])
def test_wrong_scales(as_provider, rng):
    """Errors name the node and its attribute, by the library of custom operators alone too."""
    options = quiet()
    if not as_provider:
        options.register_custom_ops_library(provider.get_library_path())

    def made(attributes):
        model = parsed(
            f"""pooled (float[K, 5] rows, float[N, C, H, W] A, float[N, C, h, w] B) =>
            (float[K, C, P, Q] Y) {{ Y = roicy.MultiScaleRoIAlign {attributes} (rows, A, B) }}""",
            domains=', "roicy": 1',
        )
        model.graph.node[0].name = "pool"
        data = model.SerializeToString()
        return runtime.InferenceSession(data, provider.use(options) if as_provider else options)

    node = re.escape("node 'pool' (roicy.MultiScaleRoIAlign): ")
    for attributes, message in (
        ("", "attribute 'scales' is missing"),
        ("<scales = 0.5, aligned = 1.0>", "attribute 'aligned' is 1.0, expected int"),
    ):
        with pytest.raises(Exception, match=node + message):
            made(attributes)
    maps = dict(zip("AB", rng.random((2, 1, 2, 9, 9)).astype(np.float32), strict=True))
    with pytest.raises(Exception, match=r"'pool' .*\bscales: .* a scale for each of the 2 levels"):
        made("<scales = [0.5, 0.25, 0.125]>").run(None, maps | {"rows": np.ones((1, 5), "f4")})


def test_wrong_inputs(inputs):
    session = session_of(roi_align(""))
    nan = inputs["rois"].copy()
    nan[3, 1] = np.nan
    for changed, message in (
        ({"images": np.full(30, 7)}, r"'pool' .*batch_indices\[0\]: 7 is outside the input"),
        ({"rois": nan}, r"'pool' .*boxes\[3\]: y1 is nan, expected a finite coordinate"),
        ({"images": inputs["images"][:3]}, r"batch_indices: shape \(3,\) of int64, expected"),
    ):
        with pytest.raises(Exception, match=message):
            session.run(None, inputs | changed)


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
    titles, session = claimed(model)
    assert titles == ["node 'Y' (RoiAlign)"]
    assert session.run(["sums"], inputs)[0].tolist() == [[8.0]]


def test_command(tmp_path, capsys):
    path = tmp_path / "chain.onnx"
    onnx.save(with_ones(parsed(CHAIN)), path)
    assert main(["onnx", str(path)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("roicy: node") == 2
    shapes = ["--shape", "X=1x3x20x25", "--shape", "rois=5x4", "--shape", "images=5"]
    assert main(["onnx", str(path), "--bench", "--rounds", "1", *shapes]) == 0
    printed = capsys.readouterr().out
    assert "ONNX Runtime with roicy: " in printed
    assert " ms, the least of 1 runs on 1 thread\n" in printed
    assert "ONNX Runtime alone takes" in printed
    assert "output 'last': shape (5, 3, 3, 3), largest difference" in printed


def test_commands_of_the_page(monkeypatch, capsys):
    """They run on a model that is in the repository."""
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^    python -m roicy (onnx .+)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert main(command.split()) == 0
    assert capsys.readouterr().out.count("roicy: node 'pooled' (RoiAlign)") == 2


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
    assert f"{path}: [ONNXRuntimeError]" in capsys.readouterr().err
    assert main(["onnx", str(tmp_path / "none")]) == 1
    onnx.save(parsed("plain (float[N] X) => (float[N] Y) { Y = Neg (X) }"), path)
    assert main(["onnx", str(path)]) == 0
    assert "no RoI nodes: ONNX Runtime runs the model alone" in capsys.readouterr().out
