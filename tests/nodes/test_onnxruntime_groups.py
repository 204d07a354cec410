"""Groups of nodes that one call of roicy computes: pyramids, and Loops that paste masks."""

import re

import numpy as np
import pytest
from onnx_models import (
    assert_as_onnx_runtime,
    assert_work_is_bounded,
    changed,
    claimed,
    constants,
    in_branches,
    numpy_helper,
    onnx,
    optimised,
    parsed,
    pyramid_inputs,
    quiet,
    rewritten,
    runtime,
    scattered,
    session_of,
    without_python,
)

from roicy.compat import onnx as compat
from roicy.compat.onnx._ops import levels_of
from roicy.onnxruntime._report import told

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


PYRAMID = ["pyramid of 2 x RoiAlign -> 'Y'"]
SINGLE_NODES = ["node 'pooled0' (RoiAlign)", "node 'pooled1' (RoiAlign)"]


def assert_taken(model, inputs, expected, *options):
    """Check what is taken of a model, and that its results are ONNX Runtime's own."""
    titles, session = claimed(model, *options)
    assert sorted(titles) == expected
    assert_as_onnx_runtime(session.run(None, inputs), model, inputs)
    return session


@pytest.mark.parametrize("levels, zero", [((0, 1), "0.0"), ((1, 0), "1.5"), ((0, 2), "0.0")])
def test_pyramids_that_are_scattered(levels, zero, rng):
    """As many rows come out as they are scattered into, and those of no level stay as they are."""
    model = scattered(levels, zero)
    for count in (9, 12):
        session = assert_taken(model, pyramid_inputs(rng, count), PYRAMID)
    with pytest.raises(Exception, match=r"-> 'Y': \(9, 3, 2, 2\) is scattered into \(8, 3"):
        session.run(None, pyramid_inputs(rng, 8))


@pytest.mark.parametrize("zero", ["0.0", "1.5"])
def test_pyramids_need_no_python(zero, rng, monkeypatch):
    """Where the graph chooses the level that roicy chooses, as those of torchvision do."""
    model = scattered((0, 1), zero)
    _, session = claimed(model)
    without_python(monkeypatch)
    for count in (9, 12):
        inputs = pyramid_inputs(rng, count)
        inputs["rows"][:, 1:] *= 3
        inputs["levels"] = levels_of(inputs["rows"], [0.5, 0.25])
        assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


@pytest.mark.parametrize("level", ["ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_pyramids_that_onnx_runtime_wrote(level, rng, tmp_path):
    """Two Slices have become a Split."""
    model = rewritten(scattered(), level, tmp_path)
    assert "Split" in {node.op_type for node in model.graph.node}
    assert_taken(model, pyramid_inputs(rng, 9), PYRAMID)


@pytest.mark.parametrize("change", NO_PYRAMIDS)
def test_what_is_no_pyramid(change, rng):
    """It is computed node by node, whatever it is."""
    model = scattered((0, 1), "0.0", *NO_PYRAMIDS[change])
    if change == "values that are added":
        (last,) = [node for node in model.graph.node if node.output[0] == "Y"]
        last.attribute.append(onnx.helper.make_attribute("reduction", "add"))
    assert_taken(model, pyramid_inputs(rng, 9), SINGLE_NODES)


def test_pyramids_whose_parts_others_read(rng):
    """What is read elsewhere is computed by ONNX Runtime, for the group too, or is no group."""
    for name, kind, taken in (
        ("which1", 7, PYRAMID), ("pooled1", 1, SINGLE_NODES), ("shape", 7, PYRAMID)
    ):  # fmt: skip
        model = scattered()
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
        assert_taken(model, pyramid_inputs(rng, 9), taken)


@pytest.mark.parametrize("of_text", [False, True])
def test_pyramids_of_other_levels(of_text, rng):
    """A level that is compared as NaN, or as a text."""
    model = scattered()
    numbers = [np.array(str(i), object) if of_text else np.array(i, np.float32) for i in (0, 1)]
    numbers[1] = numbers[1] if of_text else np.array(np.nan, np.float32)
    for node in model.graph.node:
        if node.op_type == "Equal":
            node.input[0] = "cast"
        if node.output[0] in ("number0", "number1"):
            array = numbers[int(node.output[0][-1])]
            node.attribute[0].t.CopyFrom(numpy_helper.from_array(array))
    kind = onnx.TensorProto.STRING if of_text else onnx.TensorProto.FLOAT
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["levels"], ["cast"], to=kind))
    model.opset_import[0].version = 19  # where texts can be compared
    assert_taken(model, pyramid_inputs(rng, 9), SINGLE_NODES)


def test_groups_of_many_nodes(rng):
    """A pyramid has any number of nodes."""
    model, count = scattered(), 1100
    (place,) = [i for i, node in enumerate(model.graph.node) if node.output[0] == "sliced0"]
    model.graph.node[place].input[0] = f"same{count - 1}"
    names = ["turned0", *(f"same{i}" for i in range(count))]
    for i in range(count):
        node = onnx.helper.make_node("Identity", [names[i]], [names[i + 1]])
        model.graph.node.insert(place + i, node)
    assert_taken(model, pyramid_inputs(rng, 9), PYRAMID, optimised("ORT_DISABLE_ALL"))


def test_pyramids_in_bodies(rng):
    """Those of two branches have the same names, and other scales."""
    other = scattered()
    for node in other.graph.node:
        for attribute in node.attribute:
            if attribute.name == "spatial_scale":
                attribute.f *= 0.5
    model = in_branches(scattered(), other)
    for yes in (True, False):
        assert_taken(model, pyramid_inputs(rng, 9) | {"yes": np.array([yes])}, PYRAMID * 2)


def test_names_that_are_not_utf8(rng):
    data = scattered().SerializeToString().replace(b"pooled", b"p\xc3led\xfe")
    session = compat.InferenceSession(data, quiet())
    inputs = pyramid_inputs(rng, 9)
    assert_as_onnx_runtime(session.run(None, inputs), scattered(), inputs)


@pytest.mark.parametrize(
    "name, value, message",
    [("spatial_scale", 0.0, "spatial_scale: 0"), ("output_height", 0, "output_height: 0, expected"),
     ("mode", "median", "mode: 'median', expected")],
)  # fmt: skip
def test_wrong_attributes_in_pyramids(name, value, message):
    """They are errors when the session is made, as those of single nodes are."""
    model = scattered()
    for node in model.graph.node:
        if node.op_type == "RoiAlign":
            kept = [one for one in node.attribute if one.name != name]
            del node.attribute[:]
            node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
    with pytest.raises(Exception, match=r"node 'pooled\d' \(RoiAlign\): " + re.escape(message)):
        session_of(model)


def joined(zeros="zeros = ConstantOfShape (extents)", last="(count, C, two, two)"):
    """Return a pyramid as PyTorch's exporter of TorchScript writes it, after a simplifier.

    What onnxsim and onnxslim know of the extents is a constant; else they take it of shapes.
    """
    body = f"""joined (float[N, 3, H, W] A, float[N, 3, h, w] B, float[K, 5] rows, int64[K] levels)
        => (float[R, c, p, q] Y) {{
        {constants(nothing=0, one=1, C=3, more=4, two=2, rest=(3, 2, 2))}
        {constants(column=(-1, 1, 1, 1), corners=(1, 2, 3, 4))}
        extents_of_levels = Shape (levels)
        count = Gather (extents_of_levels, nothing)
        extents = Concat <axis = 0> {last}
        {zeros}"""
    for i in range(2):
        body += f"""
        number{i} = Constant <value = int64 {{{i}}}> ()
        equal{i} = Equal (levels, number{i})
        found{i} = NonZero (equal{i})
        turned{i} = Transpose <perm = [1, 0]> (found{i})
        which{i} = Squeeze (turned{i}, one)
        some{i} = Gather (rows, which{i})
        first{i} = Gather <axis = 1> (some{i}, nothing)
        floats{i} = Squeeze (first{i}, one)
        images{i} = Cast <to = 7> (floats{i})
        boxes{i} = Gather <axis = 1> (some{i}, corners)
        pooled{i} = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2,
            spatial_scale = {0.5 / 2**i}, coordinate_transformation_mode = "output_half_pixel">
            ({"AB"[i]}, boxes{i}, images{i})
        column{i} = Reshape (turned{i}, column)
        extents_of_column{i} = Shape (column{i})
        found_count{i} = Gather (extents_of_column{i}, nothing)
        shape{i} = Concat <axis = 0> (found_count{i}, rest)
        index{i} = Expand (column{i}, shape{i})
        {"Y" if i else "part"} = ScatterElements ({"part" if i else "zeros"}, index{i}, pooled{i})
        """
    return parsed(body + "}")


def joined_inputs(rng):
    inputs = pyramid_inputs(rng, 9)
    return {name: inputs[name] for name in ("A", "B", "rows", "levels")}


@pytest.mark.parametrize("last", ["(count, C, two, two)", "(count, rest)"])
def test_pyramids_that_are_simplified(last, rng):
    """Extents that a simplifier has made constants of are compared with those that are pooled."""
    assert_taken(joined(last=last), joined_inputs(rng), PYRAMID)


@pytest.mark.parametrize(
    "change",
    [
        {"last": "(count, more, two, two)"}, {"last": "(count, C, two, C)"},
        {"last": "(more, C, two, two)"}, {"last": "(more, rest)"},
        {"zeros": "zeros = ConstantOfShape <value = float[1] {1.5}> (extents)"},
    ],
)  # fmt: skip
def test_what_only_looks_simplified(change, rng):
    """More channels, other bins, another number of rows, and what is not zero."""
    inputs = joined_inputs(rng)
    if "more," in change.get("last", "")[:6]:
        inputs |= {name: inputs[name][:4] for name in ("rows", "levels")}
    assert_taken(joined(**change), inputs, SINGLE_NODES)


PASTING = """pasting (float[K, A, m, m] P, float[K, 4] F, int64 H, int64 W) => (float[n, h, w] Y) {
    B = Cast <to = 7> (F)
    extents_of_P = Shape (P)
    first = Constant <value = int64 {0}> ()
    count = Gather (extents_of_P, first)
    yes = Constant <value = bool {1}> ()
    CONSTANTS
    h1 = Unsqueeze (H, none)
    w1 = Unsqueeze (W, none)
    extents = Concat <axis = 0> (none, h1, w1)
    start = ConstantOfShape (extents)
    Y = Loop (count, yes, start) <body = step (int64 i, bool goes, float[a, b, c] before)
        => (bool on, float[d, e, f] after) {
        on = Identity (goes)
        mask = Gather (P, i)
        padded_mask = Unsqueeze (mask, none)
        box = Gather (B, i)
        low = Slice (box, none, two)
        last = Slice (box, two, four)
        high = Add (last, ones)
        size = Sub (high, low)
        least = Max (size, ones)
        rows_first = Gather (least, turn)
        sizes = Concat <axis = 0> (ones, rows_first)
        large = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel">
            (padded_mask, , , sizes)
        limits = Concat <axis = 0> (w1, h1)
        begin = Max (low, zeros)
        end = Min (high, limits)
        begin_in_mask = Sub (begin, low)
        end_in_mask = Sub (end, low)
        from_row = Gather (begin_in_mask, turn)
        to_row = Gather (end_in_mask, turn)
        part = Slice (large, from_row, to_row, axes)
        after_end = Sub (limits, end)
        rows_before = Gather (begin, turn)
        rows_after = Gather (after_end, turn)
        pads = Concat <axis = 0> (zeros, rows_before, zeros, rows_after)
        image = Pad (part, pads)
        flat = Squeeze (image, none)
        after = Concat <axis = 0> (before, flat)
    }>
}""".replace(
    "CONSTANTS",
    constants(none=0, two=2, four=4, ones=(1, 1), zeros=(0, 0), turn=(1, 0), axes=(2, 3)),
)


def of_one_size(text, height=32, width=41):
    """Return the Loop for images of one size, whose extents become constants."""
    extents = (("H", height), ("W", width))
    lines = [f"{name} = Constant <value = int64 {{{extent}}}> ()" for name, extent in extents]
    text = text.replace(", int64 H, int64 W)", ")")
    return text.replace("    B = Cast", "\n".join([*lines, "    B = Cast"]))


@pytest.mark.parametrize("size", [None, (32, 41), (40, 40)])
@pytest.mark.parametrize("name", [b"mask", b"m\xffsk"], ids=["utf8", "bytes"])
def test_pasting_loops(name, size, rng, monkeypatch):
    """They are known by what they compute, whatever their values are called."""
    text = of_one_size(PASTING, *size) if size else PASTING
    data = parsed(text).SerializeToString().replace(b"mask", name)
    alone = runtime.InferenceSession(data, quiet(), providers=["CPUExecutionProvider"])
    with told() as (titles, _):
        session = compat.InferenceSession(data, quiet())
    assert titles == ["node 'Y' (Loop) that pastes masks"]
    boxes = [[3.2, 4, 20.9, 11], [-7.5, -2, 5, 8], [30, 2, 44, 50], [9] * 4, [0, 0, 40, 31]]
    inputs = {"P": rng.random((5, 1, 9, 9), np.float32), "F": np.array(boxes, np.float32)}
    inputs |= {} if size else {"H": np.array(32), "W": np.array(41)}
    for count in (0, 5):
        some = inputs | {"P": inputs["P"][:count], "F": inputs["F"][:count]}
        if count:
            without_python(monkeypatch)
        (got,), (expected,) = session.run(None, some), alone.run(None, some)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


# Loops that give the same for small boxes, or for few, and something else for others
OTHERWISE = {
    "extents without boxes": ("(none, h1, w1)", "(none, none, w1)"),
    "999 boxes": (
        "count = Gather (extents_of_P, first)",
        """all = Gather (extents_of_P, first)
           most = Constant <value = int64 {999}> ()
           count = Min (all, most)""",
    ),
    "the first 1000": (
        "on = Identity (goes)",
        "last_turn = Constant <value = int64 {999}> ()  on = Less (i, last_turn)",
    ),
    "1333 pixels": (
        "end = Min (high, limits)",
        "far = Constant <value_ints = [1333, 1333]> ()  end = Min (high, limits, far)",
    ),
    "large boxes": (
        "size = Sub (high, low)",
        """very = Constant <value_ints = [3000, 3000]> ()
           all = Sub (high, low)
           size = Min (all, very)""",
    ),
    "rows for columns": ("<value_ints = [1, 0]>", "<value_ints = [0, 1]>"),
    "a frame of ones": (
        "image = Pad (part, pads)",
        "one = Constant <value_float = 1.0> ()  image = Pad (part, pads, one)",
    ),
    "corners": ("half_pixel", "align_corners"),
    "pixels after the box": ("high = Add (last, ones)", "high = Identity (last)"),
    "another order": ("Concat <axis = 0> (before, flat)", "Concat <axis = 0> (flat, before)"),
    "x1 of zeros": (
        "low = Slice (box, none, two)",
        """one = Constant <value_ints = [1]> ()  x1 = Slice (box, none, one)
           extents_of_zeros = Concat <axis = 0> (one, x1)
           image_of_zeros = ConstantOfShape (extents_of_zeros)
           row_of_zeros = Squeeze (image_of_zeros, none)
           zero = Slice (row_of_zeros, one, two)  whole = Cast <to = 7> (zero)
           y1 = Slice (box, one, two)  low = Concat <axis = 0> (whole, y1)""",
    ),
    "every other pixel": (
        "part = Slice (large, from_row, to_row, axes)",
        """twos = Constant <value_ints = [2, 2]> ()
           part = Slice (large, from_row, to_row, axes, twos)""",
    ),
    "a mirrored frame": ("image = Pad (part", 'image = Pad <mode = "reflect"> (part'),
}


@pytest.mark.parametrize("change", OTHERWISE)
def test_loops_that_do_something_else(change):
    text = changed(PASTING, OTHERWISE[change])
    for one in (text, of_one_size(text), of_one_size(text, 40, 40)):
        titles, _ = claimed(parsed(one))
        assert titles == []


# Nodes of a body of which each doubles what it makes: their line, their input, and who reads it
DOUBLING = {
    "numbers": ("OUT = Mul (IN, IN)", "four", "(box, two, four)"),
    "extents": (
        "OUT_more = Add (IN, ones)  OUT = Max (IN, OUT_more)\n"
        "OUT_other_more = Add (IN_other, ones)  OUT_other = Max (IN_other, OUT_other_more)",
        "size", "Max (size, size_other, ones)",
    ),
    "images": (
        "OUT_all = Shape (IN)  OUT_two = Slice (OUT_all, two, four)\n"
        "OUT_pads = Concat <axis = 0> (zeros, OUT_two, zeros, OUT_two)  OUT = Pad (IN, OUT_pads)",
        "large", "Slice (large,",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DOUBLING)
def test_work_in_bodies_is_bounded(case):
    line, name, reader = DOUBLING[case]
    text = changed(
        PASTING,
        ("size = Sub (high, low)", "size_other = Sub (high, low)  size = Sub (high, low)"),
        ("Max (size, ones)", "Max (size, size_other, ones)"),
    )
    assert_work_is_bounded(text, line, name, reader)
