"""Groups of nodes that are one call of label_map, as exporters write them.

What a group computes in Python is an error, so each result here needs none.
"""

import platform
import types

import numpy as np
import pytest
import reference_labels as reference
from conftest import ISAS, pairs
from onnx_models import (
    alone,
    assert_overlaps_are_refused,
    assert_work_is_bounded,
    changed,
    claimed,
    helper,
    onnx,
    optimised,
    parsed,
    quiet,
    rewritten,
    session_of,
)

import roicy
from roicy.onnxruntime import _labelling, version
from roicy.onnxruntime._report import told

N, C, H, W = 2, 5, 6, 7
FORM = """labels (float[2, 5, 6, 7] X) => (int64[n, y, x] Y) <int64[4] S = {2, 5, 33, 41}> {
    R = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (X, "", "", S)
    Y = ArgMax <axis = 1, keepdims = 0> (R)
}"""
SIZES = "<int64[4] S = {2, 5, 33, 41}>"
MODE = 'coordinate_transformation_mode = "half_pixel"'
LAST = "Y = ArgMax <axis = 1, keepdims = 0> (R)"
OF_P = LAST.replace("(R)", "(P)")


def form(*changes, of=FORM, shape=(N, C, H, W), size=(33, 41), kind="float"):
    """Return a form with some changes, (old, new), and of maps and pictures of these sizes."""
    (n, c, h, w), (height, width) = shape, size
    of = changed(of, *changes).replace("float[2, 5, 6, 7]", f"{kind}[{n}, {c}, {h}, {w}]")
    return of.replace("{2, 5, 33, 41}", f"{{{n}, {c}, {height}, {width}}}")


def maps_of(rng, shape=(N, C, H, W), dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def labels_of(model, maps, *options, count=1):
    """Return what a model gives, of which so many groups are taken."""
    titles, session = claimed(model, *options)
    assert [title.partition(" of ")[0] for title in titles] == ["labels"] * count
    return session.run(None, {"X": maps})


def assert_taken(text, expected, maps, opset=18, options=()):
    """Check that a form is taken, and that its labels are these, as ONNX Runtime lays them out."""
    model = parsed(text, opset)
    (labels,) = labels_of(model, maps, *options)
    np.testing.assert_array_equal(labels, expected)
    if maps.dtype == np.float32:
        (own,) = alone(model).run(None, {"X": maps})
        assert labels.dtype == own.dtype
        assert labels.shape == own.shape


RULES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
PICTURES = [  # maps and picture: larger, smaller, one row, one column, one number, one pixel, an
    # axis that stays, and pixels that threads share
    ((6, 7), (33, 41)), ((6, 7), (6, 7)), ((16, 31), (7, 9)), ((1, 9), (4, 50)), ((9, 1), (30, 3)),
    ((1, 1), (3, 4)), ((6, 7), (1, 1)), ((6, 7), (1, 20)), ((6, 7), (20, 1)), ((6, 7), (6, 30)),
    ((8, 30), (16, 60)), ((32, 64), (256, 500)),
]  # fmt: skip
NEAREST = ["floor", "ceil"]  # of which all versions of ONNX Runtime make the same
if version() >= _labelling.HALVES:
    NEAREST += ["round_prefer_floor", "round_prefer_ceil"]
KINDS = {np.float32: "float", np.float16: "float16"}


def assert_as_onnx_runtime(model, maps, labels):
    """Check that labels are those of ONNX Runtime's own nodes, where its compiler fuses no sums."""
    if platform.machine() in ("x86_64", "AMD64"):
        model = parsed(model, 18) if isinstance(model, str) else model
        (own,) = alone(model).run(None, {"X": maps})
        np.testing.assert_array_equal(labels, own)


@pairs(rule=RULES, sizes=PICTURES, dtype=[np.float32, np.float16], threads=[1, 2], isa=ISAS,
       kind=["noise", "ties"], nearest=[None, None, *NEAREST])  # fmt: skip
def test_definition(rule, sizes, dtype, threads, isa, kind, nearest, rng):
    """Labels are those of all values by ONNX Runtime's arithmetic."""
    maps = maps_of(rng, (N, C, *sizes[0]), dtype)
    maps = maps.round() if kind == "ties" else maps
    text = form(("half_pixel", rule), shape=maps.shape, size=sizes[1], kind=KINDS[dtype])
    if nearest:
        text = text.replace('"linear"', f'"nearest", nearest_mode = "{nearest}"')
    values = reference.onnx_values(maps.astype(np.float32), sizes[1], rule, nearest=nearest)
    expected = values.argmax(1)
    assert_taken(text, expected, maps, options=[quiet(intra_op_num_threads=threads)])
    if dtype == np.float32:
        assert_as_onnx_runtime(text, maps, expected)


@pairs(rule=RULES, scales=[(4.0, 8.0), (2.3, 1.7), (4 / 3, 5 / 3), (0.6, 0.15), (1.0, 1.1)],
       isa=ISAS)  # fmt: skip
def test_scales(rule, scales, isa, rng):
    """Positions are those of the scales as they are given, also where pixels are cut off."""
    maps = maps_of(rng, (N, C, 12, 21)).round()
    scales = [np.float32(scale) for scale in scales]
    size = [int(scale * np.float32(n)) for scale, n in zip(scales, maps.shape[2:], strict=True)]
    text = form(
        (SIZES, f"<float[4] S = {{1.0, 1.0, {scales[0]}, {scales[1]}}}>"), ('"", "", S', '"", S'),
        ("half_pixel", rule), shape=maps.shape,
    )  # fmt: skip
    expected = reference.onnx_values(maps, tuple(size), rule, scales).argmax(1)
    assert_taken(text, expected, maps)
    assert_as_onnx_runtime(text, maps, expected)


@pytest.mark.parametrize("nearest", NEAREST)
@pytest.mark.parametrize("rule, width, picture", [
    ("half_pixel", 14, 83), ("half_pixel", 28, 298), ("asymmetric", 35, 182), ("asymmetric", 7, 8),
])  # fmt: skip
def test_positions_that_are_nearly_halfway(nearest, rule, width, picture, rng):
    """They are halfway, as in ONNX Runtime 1.32."""
    maps = maps_of(rng, (N, C, 1, width))
    text = form(
        ("half_pixel", rule), ('"linear"', f'"nearest", nearest_mode = "{nearest}"'),
        shape=maps.shape, size=(2, picture),
    )  # fmt: skip
    expected = reference.onnx_values(maps, (2, picture), rule, nearest=nearest).argmax(1)
    assert_taken(text, expected, maps)
    assert_as_onnx_runtime(text, maps, expected)


QUANTISED = """Q = QuantizeLinear (R, scale, zero)
    P = DequantizeLinear (Q, scale, zero)
    """
LEVELS = ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"]


def quantised(zero, dtype, *changes, scale=0.05, **given):
    """Return the form with the nodes that quantize_static writes between Resize and ArgMax."""
    constants = f", float scale = {{{scale}}}, {dtype} zero = {{{zero}}}>"
    return form((LAST, QUANTISED + OF_P), (SIZES, SIZES[:-1] + constants), *changes, **given)


@pairs(rule=RULES, sizes=PICTURES, threads=[1, 2], isa=ISAS, level=LEVELS, last=[0, 1],
       zero=[(3, "int8"), (130, "uint8"), (-128, "int8")], scale=[0.05, 0.01, 0.5])  # fmt: skip
def test_quantised_maps(rule, sizes, threads, isa, level, last, zero, scale, rng):
    """Enlarged maps are rounded, so that many are equal; of a scale that is too small, largest."""
    maps = (maps_of(rng, (N, C, *sizes[0])) * 20).round() * np.float32(0.05)
    text = quantised(
        *zero, ("half_pixel", rule), ("keepdims", f"select_last_index = {last}, keepdims"),
        scale=scale, shape=maps.shape, size=sizes[1],
    )  # fmt: skip
    values = reference.onnx_values(maps, sizes[1], rule) / np.float32(scale)
    limits = np.iinfo(zero[1])
    codes = np.clip(np.rint(values), limits.min - zero[0], limits.max - zero[0])
    expected = C - 1 - codes[:, ::-1].argmax(1) if last else codes.argmax(1)
    assert_taken(text, expected, maps, options=[optimised(level, intra_op_num_threads=threads)])
    assert_as_onnx_runtime(text, maps, expected)


MASKS = "Y = Greater (R, t)"


@pairs(rule=RULES, sizes=PICTURES, threads=[1, 2], isa=ISAS, kind=["noise", "ties"],
       threshold=[0, 0.25, -3, 0.5], compare=["Greater", "GreaterOrEqual"], to=[None, 2, 7],
       scale=[None, 0.25, 0.1])  # fmt: skip
def test_masks(rule, sizes, threads, isa, kind, threshold, compare, to, scale, rng):
    """Each map is a mask, by ONNX Runtime's arithmetic and of any type."""
    maps = maps_of(rng, (N, C, *sizes[0]))
    maps = maps.round() if kind == "ties" else maps
    maps[0, 0].flat[0] = np.nan
    maps[0, 1].flat[-1] = np.inf
    text = masks_form((MODE, MODE + ", axes = [2, 3]"), threshold=threshold, shape=maps.shape)
    text = changed(text, ("half_pixel", rule), ("Greater", compare))
    text = (
        changed(text, ("7] X)", "7] X, int64[2] S)"))
        if "7] X)" in text
        else changed(text, (" X)", " X, int64[2] S)"))
    )
    text = text.replace("<int64[4] S = {2, 5, 33, 41}, ", "<")
    if scale:
        text = changed(text, ("(R, t)", "(P, t)"), ("Y = ", QUANTISED + "Y = "), (
            "float t", f"int8 zero = {{-7}}, float scale = {{{scale}}}, float t"))  # fmt: skip
    if to:
        text = changed(text, ("Y = ", "B = "), ("t)", f"t)\n    Y = Cast <to = {to}> (B)"), (
            "bool[", {2: "uint8[", 7: "int64["}[to]))  # fmt: skip
    titles, session = claimed(parsed(text, 18), quiet(intra_op_num_threads=threads))
    assert titles == ["masks of 'X' -> 'Y'"]
    feeds = {"X": maps, "S": np.array(sizes[1])}
    (masks,) = session.run(None, feeds)
    with np.errstate(invalid="ignore"):
        values = reference.onnx_values(maps, sizes[1], rule)
    if scale:
        codes = np.fmax(np.rint(values / np.float32(scale)), np.float32(-121)).clip(-121, 134)
        values = codes * np.float32(scale)
    number = np.float32(threshold)
    expected = values > number if compare == "Greater" else values >= number
    np.testing.assert_array_equal(masks, expected)
    if platform.machine() in ("x86_64", "AMD64"):
        (own,) = alone(parsed(text, 18)).run(None, feeds)
        np.testing.assert_array_equal(masks, own)


def masks_form(*changes, threshold=0.5, **given):
    """Return a form of masks."""
    return form(
        (LAST, MASKS), (SIZES, SIZES[:-1] + f", float t = {{{threshold}}}>"),
        ("int64[n, y, x]", "bool[n, c, y, x]"), *changes, **given,
    )  # fmt: skip


@pytest.mark.parametrize("compare", ["Greater", "GreaterOrEqual"])
@pytest.mark.parametrize("threshold", [0.5, 0.3, 0.9])
@pytest.mark.parametrize("quanta", ["none", "maps", "both"])
def test_masks_of_probabilities(compare, threshold, quanta, rng):
    """Of numbers that are not quantised 0.5 is taken, whose number ONNX Runtime rounds to it."""
    maps = maps_of(rng, (1, 3, 16, 40)) * 3  # the same numbers are in every second row
    near = np.float32([0, 2**-23, -(2**-24), 2**-22, -(2**-23)])
    near = np.stack([near * np.float32(1 + k * 2**-23) for k in (-1, 0, 1, 2, 3)])
    maps[0, 0, :5, :5] = near
    last = "M = Sigmoid (R)\n    " + MASKS.replace("Greater (R", f"{compare} (M")
    text = masks_form((MASKS, last), threshold=threshold, shape=maps.shape, size=(32, 40))
    text = text.replace("half_pixel", "asymmetric")
    given = "int8 zero = {-7}, float scale = {0.05}, uint8 z = {0}, float s = {0.00390625}, float t"
    if quanta != "none":
        text = changed(text, ("(R)", "(P)"), ("M =", QUANTISED + "M ="), ("float t", given))
    if quanta == "both":
        pair = "O = QuantizeLinear (M, s, z)\n    L = DequantizeLinear (O, s, z)\n    Y ="
        text = changed(text, ("(M, t)", "(L, t)"), ("Y =", pair))
    titles, session = claimed(parsed(text, 18))
    assert titles == (["masks of 'X' -> 'Y'"] if quanta != "none" or threshold == 0.5 else [])
    assert_as_onnx_runtime(text, maps, session.run(None, {"X": maps})[0])


def test_models_that_quantize_static_wrote(rng, tmp_path):
    """By its defaults, each tensor has a pair of nodes."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    maps, path = maps_of(rng, (1, 9, 16, 16)), tmp_path / "model.onnx"
    text = form(
        (LAST, TURNED.replace("Softmax <axis = 3>", "Identity")),
        ("R = Resize", "M = Conv (X , W)\n    R = Resize"), ("(X, ", "(M, "), shape=maps.shape,
    )  # fmt: skip
    weights = ", ".join(map(str, rng.standard_normal(81).astype(np.float32)))
    text = text.replace("41}>", f"41}}, float[9, 9, 1, 1] W = {{{weights}}}>")
    feeds = iter([{"X": maps}])
    reader = types.SimpleNamespace(get_next=lambda: next(feeds, None))
    quantization.quantize_static(parsed(text), path, reader)
    model = onnx.load(path)
    assert [node.op_type for node in model.graph.node].count("DequantizeLinear") > 4
    (labels,) = labels_of(model, maps)
    assert_as_onnx_runtime(model, maps, labels)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sizes", [((6, 7), (33, 41)), ((6, 7), (6, 21)), ((6, 7), (9, 10)),
                                   ((6, 7), (6, 7))])  # fmt: skip
@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("is_quantised", [False, True])
def test_numbers_that_are_not_finite(number, sizes, place, last, is_quantised, rng):
    """As in ONNX Runtime, NaN is largest in the first class, and less than all else in others; in
    quantised maps it is the least number.
    """
    maps = maps_of(rng, (N, C, *sizes[0]))
    maps[:, place] += 5  # largest where it is a number
    maps[:, place, 2:4, 3] = number
    changes, given = [("keepdims", f"select_last_index = {last}, keepdims")], dict(size=sizes[1])
    shape = maps.shape
    text = (
        quantised(0, "int8", *changes, shape=shape, **given)
        if is_quantised
        else form(*changes, shape=shape, **given)
    )
    (labels,) = labels_of(parsed(text), maps)
    assert_as_onnx_runtime(text, maps, labels)


# What is the same, as (old, new) of the form: labels of test_definition's numbers
ONE = (SIZES, SIZES[:-1] + ", int64[1] one = {1}, int64[1] three = {3}>")
SOFTMAX = "P = {} <axis = {}> (R)\n    " + OF_P
TURNED = """T = Transpose <perm = [0, 3, 2, 1]> (R)
    P = Softmax <axis = 3> (T)
    Q = Transpose <perm = [0, 3, 2, 1]> (P)
    Y = ArgMax <axis = 1, keepdims = 0> (Q)"""
SAME = {
    "as it is": [],
    "another axis": [("axis = 1", "axis = -3")],
    "axes that stay": [(", keepdims = 0", ""), ("[n, y, x]", "[n, c, y, x]")],
    "the largest of one": [
        (LAST, "V, L = TopK <axis = 1> (R, one)\n    Y = Squeeze (L, one)"), ONE],
    "the largest of any order": [
        (LAST, "V, L = TopK <axis = -3, sorted = 0> (R, one)\n    Y = Squeeze (L, one)"), ONE],
    "labels without an axis": [
        (LAST, "L = ArgMax <axis = 1> (R)\n    Y = Squeeze (L, one)"), ONE],
    "the first of equal ones": [("keepdims", "select_last_index = 0, keepdims")],
    "softmax": [(LAST, SOFTMAX.format("Softmax", 1))],
    "softmax of another axis": [(LAST, SOFTMAX.format("Softmax", -3))],
    "logarithms": [(LAST, SOFTMAX.format("LogSoftmax", 1))],
    "a copy": [(LAST, "P = Identity (R)\n    " + OF_P)],
    "doubles": [(LAST, "P = Cast <to = 11> (R)\n    " + OF_P)],
    "another order": [(LAST, TURNED)],
    "attributes": [("mode = \"linear\"", """mode = "linear", antialias = 0, exclude_outside = 0,
        cubic_coeff_a = -0.5, nearest_mode = "floor", keep_aspect_ratio_policy = "stretch",
        extrapolation_value = 3.0""")],
    "half pixels by default": [(", " + MODE, "")],
    "axes that change": [(SIZES, "<int64[2] S = {33, 41}>"), (MODE, MODE + ", axes = [2, 3]")],
    "axes in another order": [(SIZES, "<int64[3] S = {41, 5, 33}>"),
                              (MODE, MODE + ", axes = [3, 1, 2]")],
    "a region of nothing": [(SIZES, "<int64[4] S = {2, 5, 33, 41}, float[0] E = {}>"),
                            ('"", "", S', "E, E, S")],
    "a region that is not used": [
        (SIZES, "<int64[4] S = {2, 5, 33, 41}, float[8] E = {0, 0, 0.1, 0.1, 1, 1, 0.9, 0.9}>"),
        ('"", "", S', 'E, "", S')],
}  # fmt: skip


@pytest.mark.parametrize("change", SAME)
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"])
def test_what_is_the_same(change, level, rng):
    maps = maps_of(rng)
    expected = roicy.label_map(maps, (33, 41))
    expected = expected[:, None] if change == "axes that stay" else expected
    assert_taken(form(*SAME[change]), expected, maps, options=[optimised(level)])


@pytest.mark.parametrize("opset", [11, 12, 13, 18, 19, 23])
@pytest.mark.parametrize("between", ["Softmax", "LogSoftmax"])
def test_opsets(opset, between, rng):
    """Before opset 13 exporters put the classes last for Softmax, which was of all later axes."""
    maps = maps_of(rng)
    text = form((LAST, TURNED), ("Softmax", between))
    if opset < 13:
        text = form((SIZES, SAME["a region of nothing"][0][1]), ('"", "", S', "E, E, S"), of=text)
    assert_taken(text, roicy.label_map(maps, (33, 41)), maps, opset)


@pytest.mark.parametrize("to", [2, 3, 4, 5, 6, 7, 12, 13])
@pytest.mark.parametrize("kept", [0, 1])
def test_types_of_labels(to, kept, rng):
    """A Cast of labels is one of the nodes.  Those that are too large for it are cut, as ever."""
    maps = maps_of(rng, (1, 300, 6, 7))
    dtype = helper.tensor_dtype_to_np_dtype(to)
    text = form(
        ("int64[n, y, x]", f"{np.dtype(dtype).name}[a, b, c{', d' * kept}]"),
        (LAST, f"L{LAST[1:]}\n    Y = Cast <to = {to}> (L)"),
        ("keepdims = 0", f"keepdims = {kept}"), shape=maps.shape,
    )  # fmt: skip
    expected = roicy.label_map(maps, (33, 41)).astype(dtype)
    assert_taken(text, expected[:, None] if kept else expected, maps)


def test_casts_that_follow(rng):
    """What is no integer, or a second Cast, is left to ONNX Runtime."""
    maps = maps_of(rng, (1, 300, 6, 7))
    expected = roicy.label_map(maps, (33, 41))
    last = f"L{LAST[1:]}\n    Y = Cast <to = 1> (L)"
    assert_taken(form(("int64[n", "float[n"), (LAST, last), shape=maps.shape), expected, maps)
    last = f"L{LAST[1:]}\n    M = Cast <to = 2> (L)\n    Y = Cast <to = 7> (M)"
    assert_taken(form((LAST, last), shape=maps.shape), expected % 256, maps)


def test_labels_of_two_types(rng):
    """Where ArgMax has more readers, or is an output, they read what it makes."""
    maps = maps_of(rng)
    expected = roicy.label_map(maps, (33, 41))
    for name in ("Y", "L"):
        more = "int64[n, y, x] Y)", "int64[n, y, x] Y, uint8[n, y, x] Z)"
        copy = "" if name == "Y" else "\n    Y = Abs (L)"
        text = form(more, (LAST, f"{name}{LAST[1:]}{copy}\n    Z = Cast <to = 2> ({name})"))
        for labels in labels_of(parsed(text), maps):
            np.testing.assert_array_equal(labels, expected)


ORDERS = [((0, 1, 2, 3), 1), ((0, 2, 3, 1), 3), ((1, 0, 3, 2), 0), ((3, 2, 1, 0), 2)]


@pytest.mark.parametrize("order, axis", ORDERS)
@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("after", [False, True])
def test_orders_of_axes(order, axis, kept, after, rng):
    """Axes may be in any order, and change it once more after ArgMax."""
    maps = maps_of(rng)
    labels = roicy.label_map(maps, (33, 41))[:, None]
    expected = labels.transpose(order) if kept else labels.transpose(order).squeeze(axis)
    last = f"""T = Transpose <perm = {list(order)}> (R)
    L = ArgMax <axis = {axis}, keepdims = {kept}> (T)"""
    if after:
        turn = [*range(expected.ndim)][::-1]
        expected = expected.transpose(turn)
        last += f"\n    Y = Transpose <perm = {turn}> (L)"
    else:
        last = last.replace("L =", "Y =")
    text = form((LAST, last), ("[n, y, x]", f"[{', '.join('abcd'[: expected.ndim])}]"))
    assert_taken(text, expected, maps)


def test_channels_last(rng):
    """Resize of maps whose channels lie together."""
    maps = maps_of(rng, (N, H, W, C))
    text = form(
        ("2, 5, 6, 7", "2, 6, 7, 5"), ("2, 5, 33, 41", "2, 33, 41, 5"), ("axis = 1", "axis = 3")
    )
    assert_taken(text, roicy.label_map(maps, (33, 41), layout="NHWC"), maps)


# Sizes that the graph computes, for images of any size
COMPUTED = """labels (float[n, c, h, w] X, float[n, three, height, width] image)
    => (int64[n, y, x] Y)
    <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[2] known = {33, 41},
     int64 third = {2}, int64 last = {3}, float half = {0.5}> {
    extents = Shape (X)
    of_image = Shape (image)
    SIZE
    S = Concat <axis = 0> (front, size)
    R = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (X, "", "", S)
    Y = ArgMax <axis = 1, keepdims = 0> (R)
}"""
FRONT = "front = Slice (extents, zero, two, zero)\n"
HOW = {
    "constants": FRONT + "size = Identity (known)",
    "the image's": FRONT + "size = Slice (of_image, two, four, zero)",
    "each": FRONT + """height_ = Gather (of_image, third)  width_ = Gather (of_image, last)
        rows = Unsqueeze (height_, zero)  columns = Unsqueeze (width_, zero)
        size = Concat <axis = 0> (rows, columns)""",
    "parts of shapes": """front = Shape <start = 0, end = 2> (X)
        rows = Shape <start = 2, end = 3> (image)
        columns = Shape <start = 3> (image)  size = Concat <axis = 0> (rows, columns)""",
    "quotients of floats": FRONT + """floats = Cast <to = 1> (of_image)
        halves = Mul (floats, half)
        whole = Floor (halves)  numbers = Cast <to = 7> (whole)
        size = Slice (numbers, two, four, zero)""",
    "one by one": """images = Gather (extents, zero)  one = Constant <value_ints = [1]> ()
        classes = Gather (extents, one)  front = Concat <axis = 0> (images, classes)
        size = Identity (known)""",
}  # fmt: skip


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("classes", ["5", "c"])
def test_sizes_that_are_computed(how, level, classes, rng):
    """The sizes are those of each run, and the classes stay, whatever their number is."""
    text = COMPUTED.replace("SIZE", HOW[how]).replace("[n, c, h", f"[n, {classes}, h")
    titles, session = claimed(parsed(text, 18), optimised(level))
    assert titles == ["labels of 'X' -> 'Y'"]
    for n, height, width in ((2, 33, 41), (1, 50, 20)):
        maps, image = maps_of(rng, (n, C, H, W)), np.zeros((n, 3, height, width), np.float32)
        size = (33, 41) if "known" in HOW[how] else (height, width)
        size = (height // 2, width // 2) if "floats" in how else size
        (labels,) = session.run(None, {"X": maps, "image": image})
        np.testing.assert_array_equal(labels, roicy.label_map(maps, size))


def test_sizes_that_are_given(rng):
    """Two of them are an input of the model, or scales that no axis of classes has."""
    size = COMPUTED.replace("image)", "image, int64[2] size)", 1).replace("SIZE", FRONT)
    axes = form(
        ('X) =>', 'X, float[2] S) =>'), (SIZES, ""), ('"", "", S', '"", S'),
        (MODE, MODE + ", axes = [-2, -1]"), ("[2, 5", "[n, 5"),
    )  # fmt: skip
    maps, image = maps_of(rng), np.zeros((2, 3, 1, 1), np.float32)
    for text, given, expected in (
        (size, {"image": image, "size": np.array([30, 20])}, (30, 20)),
        (axes, {"S": np.array([4, 8], np.float32)}, (24, 56)),
    ):
        titles, session = claimed(parsed(text, 18))
        assert titles == ["labels of 'X' -> 'Y'"]
        (labels,) = session.run(None, {"X": maps} | given)
        np.testing.assert_array_equal(labels, roicy.label_map(maps, expected))


@pytest.mark.parametrize("between", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("level", ["ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("name", ["float", "float16"])
def test_models_that_onnx_runtime_wrote(between, level, name, rng, tmp_path):
    """It writes Softmax of float16 as nodes, and puts Casts around those that it has not."""
    text = form((LAST, f"P = {between} <axis = 1> (R)\n    " + OF_P), kind=name)
    model = rewritten(parsed(text, 18), level, tmp_path)
    kinds = {node.op_type for node in model.graph.node}
    assert ("ReduceMax" in kinds) == (name == "float16")
    maps = maps_of(rng, dtype=helper.tensor_dtype_to_np_dtype({"float": 1, "float16": 10}[name]))
    (labels,) = labels_of(model, maps)
    np.testing.assert_array_equal(labels, roicy.label_map(maps, (33, 41)))


def test_models_converted_to_float16(rng):
    """Converters leave Resize in float32, and round what it gives."""
    text = form(
        ("(X, ", "(Z, "), ("R = Resize", "Z = Cast <to = 1> (X)\n    R = Resize"),
        (LAST, "P = Cast <to = 10> (R)\n    " + OF_P), kind="float16",
    )  # fmt: skip
    maps = maps_of(rng, dtype=np.float16)
    assert_taken(text, roicy.label_map(maps.astype(np.float32), (33, 41)), maps)


def test_no_images(rng):
    text = COMPUTED.replace("SIZE", HOW["constants"])
    image = np.zeros((0, 3, 4, 4), np.float32)
    maps = np.zeros((0, C, H, W), np.float32)
    (labels,) = session_of(parsed(text, 18)).run(None, {"X": maps, "image": image})
    assert labels.shape == (0, 33, 41)


def test_two_heads(rng):
    """Maps may have other readers, and a model more than one group."""
    text = form(
        ("(int64[n, y, x] Y)", "(int64[n, y, x] Y, int64[n, z, k] Z, float[2, 5, 1, 1] M)"),
        (SIZES, "<int64[4] S = {2, 5, 33, 41}, int64[4] F = {2, 5, 12, 14}>"),
        (LAST, LAST + """
    O = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (X, "", "", F)
    Z = ArgMax <axis = 1, keepdims = 0> (O)
    M = GlobalAveragePool (X)"""),
    )  # fmt: skip
    maps = maps_of(rng)
    first, second, _ = labels_of(parsed(text, 18), maps, count=2)
    np.testing.assert_array_equal(first, roicy.label_map(maps, (33, 41)))
    np.testing.assert_array_equal(second, roicy.label_map(maps, (12, 14), align_corners=True))


# What is something else, as (old, new) of the form
BETWEEN = "P = {}\n    " + OF_P
MORE = ("[n, y, x] Y)", "[n, y, x] Y, float[a, b, c, d] Z)")
WRITTEN_OUT = (
    """m = ReduceMax <axes = [1]> (R)
    d = Sub (R, m)
    e = Exp (d)
    s = ReduceSum (e, one)
    P = Div (e, s)
    """
    + OF_P
)
OTHERWISE = {
    "cubic": [('"linear"', '"cubic"')],
    "symmetric": [("half_pixel", "half_pixel_symmetric")],
    "half pixels of TensorFlow": [("half_pixel", "tf_half_pixel_for_nn")],
    "a region": [("half_pixel", "tf_crop_and_resize"), *SAME["a region that is not used"]],
    "antialias": [(MODE, MODE + ", antialias = 1")],
    "antialias of smaller ones": [(MODE, MODE + ", antialias = 1"), ("33, 41", "3, 4")],
    "not larger": [(MODE, MODE + ', keep_aspect_ratio_policy = "not_larger"')],
    "not smaller": [(MODE, MODE + ', keep_aspect_ratio_policy = "not_smaller"')],
    "the largest two": [
        (LAST, "V, L = TopK <axis = 1> (R, two)\n    Y = Gather <axis = 1> (L, zero)"),
        (SIZES, SIZES[:-1] + ", int64[1] two = {2}, int64 zero = {0}>")],
    "the least of one": [
        (LAST, "V, L = TopK <axis = 1, largest = 0> (R, one)\n    Y = Squeeze (L, one)"), ONE],
    "the largest and its value": [
        (LAST, "Z, L = TopK <axis = 1> (R, one)\n    Y = Squeeze (L, one)"), ONE, MORE],
    "the least": [("ArgMax", "ArgMin")],
    "rows": [("axis = 1", "axis = 2")],
    "columns": [("axis = 1", "axis = 3")],
    "images": [("axis = 1", "axis = 0")],
    "images by default": [("axis = 1, ", "")],
    "columns of another order": [(LAST, TURNED.replace("axis = 1", "axis = 3"))],
    "softmax of rows": [(LAST, SOFTMAX.format("Softmax", 2))],
    "softmax of the last axis": [(LAST, "P = Softmax (R)\n    " + OF_P)],
    "softmax of another order": [(LAST, TURNED.replace("axis = 3", "axis = 1"))],
    "logistic": [(LAST, "P = Sigmoid (R)\n    " + OF_P)],
    "hardmax": [(LAST, SOFTMAX.format("Hardmax", 1))],
    "the other way round": [(LAST, BETWEEN.format("Neg (R)"))],
    "no less than 0": [(LAST, BETWEEN.format("Relu (R)"))],
    "powers": [(LAST, BETWEEN.format("Exp (R)"))],
    "whole numbers": [(LAST, BETWEEN.format("Cast <to = 6> (R)"))],
    "differences": [(LAST, "Q = Sigmoid (R)\n    " + BETWEEN.format("Sub (R, Q)"))],
    "quotients": [(LAST, "Q = Sigmoid (R)\n    " + BETWEEN.format("Div (R, Q)"))],
    "weights": [(LAST, BETWEEN.format("Mul (R, K)")),
                (SIZES, SIZES[:-1] + ", float[5, 1, 1] K = {1, 2, 3, 4, 5}>")],
    "another reader": [MORE, (LAST, LAST + "\n    Z = Neg (R)")],
    "another reader of probabilities": [
        MORE, (LAST, SOFTMAX.format("Softmax", 1) + "\n    Z = ReduceMax <axes = [1]> (P)")],
    "values that are returned": [("int64[n, y, x] Y)", "int64[n, y, x] Y, float[a, b, c, d] R)")],
    "probabilities that are returned": [
        ("int64[n, y, x] Y)", "int64[n, y, x] Y, float[a, b, c, d] P)"),
        (LAST, SOFTMAX.format("Softmax", 1))],
    "scores": [("int64[n, y, x] Y)", "int64[n, y, x] Y, float[a, b, c] Z)"),
               (LAST, LAST + "\n    Z = ReduceMax <axes = [1], keepdims = 0> (R)")],
    "doubles": [("float[", "double[")],
    "bytes": [("float[", "uint8[")],
    "volumes": [("5, 6, 7", "5, 6, 7, 8"), ("5, 33, 41", "5, 12, 33, 41"), ("[4] S", "[5] S"),
                ("[n, y, x]", "[n, z, y, x]")],
    "one picture": [("2, 5, 6", "5, 6"), ("2, 5, 33", "5, 33"), ("[4] S", "[3] S"),
                    ("axis = 1", "axis = 0"), ("[n, y, x]", "[y, x]")],
    "any rank": [("float[2, 5, 6, 7]", "float[]"), ("axis = 1", "axis = -3")],
    "scaled classes": [(SIZES, "<float[4] S = {1.0, 2.0, 4.0, 4.0}>"), ('"", "", S', '"", S')],
    "scaled images": [(SIZES, "<float[4] S = {2.0, 1.0, 4.0, 4.0}>"), ('"", "", S', '"", S')],
    "classes that broadcast": [
        ("2, 5", "5, 5"),
        (SIZES.replace("2, 5", "5, 5"), ONE[1].replace("2, 5", "5, 5")),
        (LAST, WRITTEN_OUT.replace("[1]>", "[1], keepdims = 0>")),
    ],
    "pixels outside": [(MODE, MODE + ", exclude_outside = 1")],
    "more classes": [("2, 5, 33", "2, 6, 33")],
    "more images": [("2, 5, 33", "3, 5, 33")],
    "any classes": [("float[2, 5", "float[2, c")],
    "sizes that are given": [("7] X)", "7] X, int64[4] S)"), (SIZES, "")],
    "scales that are given": [("7] X)", "7] X, float[4] S)"), (SIZES, ""), ('"", "", S', '"", S')],
    "another extent": [("7] X)", "7] X, float[2, k, 6, 7] other)"), (SIZES, ""), ("R = Resize", """
        front = Shape <start = 0, end = 2> (other)
        size = Constant <value_ints = [33, 41]> ()
        S = Concat <axis = 0> (front, size)
        R = Resize"""), ("float[2, 5", "float[2, c")],
}  # fmt: skip
WRITTEN = {
    "of rows": ("axes = [1]", "axes = [2]"),
    "sums of columns": ("(e, one)", "(e, three)"),
    "sums of all": ("(e, one)", "(e)"),
    "sums of others": ("ReduceSum (e", "ReduceSum (d"),
    "sums of powers of others": ("d = Sub (R, m)", "o = Sub (m, R)\n    d = Sub (o, m)"),
    "the other way round": ("Div (e, s)", "Div (s, e)"),
    "quotients of others": ("Div (e, s)", "Div (d, s)"),
    "differences of others": ("d = Sub (R, m)", "o = Sigmoid (R)\n    d = Sub (o, m)"),
    "means": ("ReduceSum (e, one)", "ReduceMean <axes = [1]> (e)"),
}


@pytest.mark.parametrize("change", [*OTHERWISE, *WRITTEN])
def test_what_is_something_else(change):
    """It is left alone.  Not all of it can be run."""
    text = form(*OTHERWISE.get(change, ()))
    if change in WRITTEN:
        text = form(ONE, (LAST, changed(WRITTEN_OUT, WRITTEN[change])))
    model = parsed(text, 18 if "axes = [1]" not in text and "axes = [2]" not in text else 13)
    assert taken(model) == []


def taken(model):
    """Return what is taken of a model, which ONNX Runtime may have no kernels for."""
    with told() as (titles, _):
        try:
            session_of(model)
        except Exception as error:
            assert "INVALID_GRAPH" not in str(error)
    return titles


def test_softmax_that_is_written_out(rng):
    """With no change, it is taken."""
    maps = maps_of(rng)
    assert_taken(form(ONE, (LAST, WRITTEN_OUT)), roicy.label_map(maps, (33, 41)), maps, 13)


def test_softmax_of_older_opsets():
    """There it is of all axes from one on, where rounding makes more ties."""
    text = form(
        (LAST, SOFTMAX.format("Softmax", 1)), (SIZES, SAME["a region of nothing"][0][1]),
        ('"", "", S', "E, E, S"),
    )  # fmt: skip
    assert taken(parsed(text, 12)) == []
    assert taken(parsed(text, 13))


@pytest.mark.parametrize("n, size", [(3, (33, 41)), (2, (0, 41)), (2, (-1, 41)), (2, (2**31, 2))])
def test_wrong_sizes(n, size, rng):
    """An error of a run says what is wrong, as ONNX Runtime's own does."""
    text = form(
        ("[2, 5, 6, 7] X)", "[n, 5, 6, 7] X, int64[2] size)"),
        (SIZES, "<int64[2] front = {2, 5}>"),
        ("R = Resize", "S = Concat <axis = 0> (front, size)\n    R = Resize"),
    )  # fmt: skip
    titles, session = claimed(parsed(text, 18))
    assert titles
    inputs = {"X": maps_of(rng, (n, C, H, W)), "size": np.array(size)}
    with pytest.raises(Exception, match=rf"labels of 'X' -> 'Y': maps of shape \({n}, 5, 6, 7\)"):
        session.run(None, inputs)
    if max(size) < 99:  # ONNX Runtime asks for the memory of more
        with pytest.raises(Exception, match="Resize|size"):
            alone(parsed(text, 18)).run(None, inputs)


def test_groups_are_an_option(rng):
    """No group is made where a program wants none."""
    titles, _ = claimed(parsed(FORM), None, [("RoicyExecutionProvider", {"groups": "0"})])
    assert titles == []


@pytest.mark.parametrize(
    ("line", "name", "reader"),
    [("OUT = Mul (IN, IN)", "front", "(front, size)"),
     ("OUT = Add (IN, IN)", "floats", "Mul (floats, half)")],
)  # fmt: skip
def test_work_is_bounded(line, name, reader):
    text = COMPUTED.replace("SIZE", HOW["quotients of floats"])
    assert_work_is_bounded(text, line, name, reader)


def test_overlapping_memory():
    text = form(shape=(1, 2, 2, 2), size=(4, 4))
    inputs = {"X": np.float32([0, 1, 0, 1, 1, 0, 1, 0]).reshape(1, 2, 2, 2)}
    assert_overlaps_are_refused(session_of(parsed(text)), inputs, (1, 4, 4), np.int64)
