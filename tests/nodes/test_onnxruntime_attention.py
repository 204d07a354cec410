"""Groups of nodes that are one call of deformable_attention, as exporters write them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx_models import (
    assert_as_onnx_runtime,
    assert_work_is_bounded,
    changed,
    claimed,
    constants,
    helper,
    onnx,
    optimised,
    parsed,
    rewritten,
)

from roicy.onnxruntime import _patterns
from roicy.onnxruntime._attended import Attention

N, Q, M, D, L, P = 2, 6, 2, 4, 2, 3
SIZES = ((6, 5), (3, 4))
S = 42


def of_levels(text):
    """Return lines for each level."""
    return "\n".join(
        text.replace("#", str(i)).replace("HEIGHT", str(h)).replace("WIDTH", str(w))
        for i, (h, w) in enumerate(SIZES)
    )


GRIDS = f"""
    {constants(zero=0, one=1, two=2, three=3, four=4, five=5, last=-1, before=-2)}
    double = Constant <value_float = 2.0> ()
    once = Constant <value_float = 1.0> ()
    twice = Mul (locations, double)
    grids = Sub (twice, once)"""
SUMS = """
    product = Mul (samples, all_weights)
    total = ReduceSum <keepdims = 0> (product, last)
    planes = Reshape (total, total_shape)
    Y = Transpose <perm = [0, 2, 1]> (planes)"""
STACKED = """
    stacked = Concat <axis = -2> (stack0, stack1)
    samples = Reshape (stacked, samples_shape)
    weights_of_heads = Transpose <perm = [0, 2, 1, 3, 4]> (weights)
    all_weights = Reshape (weights_of_heads, weights_shape)"""
# PyTorch's exporter by torch.export, whose shapes are constants
DYNAMO = f"""static (float[2, 42, 2, 4] value, float[2, 6, 2, 2, 3, 2] locations,
    float[2, 6, 2, 2, 3] weights) => (float[2, 6, 8] Y) {{ {GRIDS}
    {constants(pixels=(30, 12), samples_shape=(4, 4, 6, 6), weights_shape=(4, 1, 6, 6))}
    {constants(total_shape=(2, 8, 6), grid_shape=(4, 6, 3, 2))}
    value0, value1 = Split <axis = 1> (value, pixels)
    {
    of_levels('''
    rows_shape# = Constant <value_ints = [2, -1, 8]> ()
    rows# = Reshape (value#, rows_shape#)
    planes# = Transpose <perm = [0, 2, 1]> (rows#)
    map_shape# = Constant <value_ints = [4, 4, HEIGHT, WIDTH]> ()
    map# = Reshape (planes#, map_shape#)
    number# = Constant <value = int64 {#}> ()
    points# = Gather <axis = 3> (grids, number#)
    of_heads# = Transpose <perm = [0, 2, 1, 3, 4]> (points#)
    grid# = Reshape (of_heads#, grid_shape)
    sampled# = GridSample <mode = "bilinear", padding_mode = "zeros"> (map#, grid#)
    stack# = Unsqueeze (sampled#, before)''')
}
    {STACKED} {SUMS} }}"""
# That of TorchScript for any batch, which computes shapes; the maps say how large levels are
TORCHSCRIPT = f"""computed (float[n, s, 2, 4] value, float[n, q, 2, 2, 3, 2] locations,
    float[n, q, 2, 2, 3] weights, float[n, c, h0, w0] features0, float[n, c, h1, w1] features1)
    => (float[n, q, k] Y) {{ {GRIDS}
    {constants(heads=M, channels=D, mixed=(0, 2, 1, 3, 4), end_1=0)}
    count = Constant <value = int64 {{0}}> ()
    extents = Shape (value)
    first = Gather (extents, count)
    images = Unsqueeze (first, zero)
    both = Mul (images, heads)
    extents_of_locations = Shape (locations)
    queries = Slice (extents_of_locations, one, two)
    {
    of_levels('''
    extents_of_map# = Shape (features#)
    size# = Slice (extents_of_map#, two, four)
    height# = Slice (size#, zero, one)
    width# = Slice (size#, one, two)
    pixels# = Mul (height#, width#)
    end# = Add (end_#, pixels#)
    value# = Slice (value, end_#, end#, one)
    extents_of_value# = Shape (value#)
    front# = Slice (extents_of_value#, zero, two)
    rows_shape# = Concat <axis = 0> (front#, last)
    rows# = Reshape (value#, rows_shape#)
    planes# = Transpose <perm = [0, 2, 1]> (rows#)
    map_shape# = Concat <axis = 0> (both, channels, size#)
    map# = Reshape (planes#, map_shape#)
    number# = Constant <value = int64 {#}> ()
    points# = Gather <axis = 3> (grids, number#)
    of_heads# = Transpose <perm = [0, 2, 1, 3, 4]> (points#)
    extents_of_points# = Shape (points#)
    turned# = Gather (extents_of_points#, mixed)
    back# = Slice (turned#, two, five)
    grid_shape# = Concat <axis = 0> (last, back#)
    grid# = Reshape (of_heads#, grid_shape#)
    sampled# = GridSample (map#, grid#)
    stack# = Unsqueeze (sampled#, before)''')
    .replace("end_0", "zero")
    .replace("end_1", "end0")
}
    extents_of_stack = Shape (stacked)
    front = Slice (extents_of_stack, zero, three)
    samples_shape = Concat <axis = 0> (front, last)
    weights_shape = Concat <axis = 0> (both, one, queries, last)
    width = Mul (heads, channels)
    total_shape = Concat <axis = 0> (images, width, queries)
    {STACKED} {SUMS} }}"""
# D-FINE: planes that other layers read too, and levels with points of their own
PLANES = f"""planes (float[4, 4, 6, 5] map0, float[4, 4, 3, 4] map1, float[2, 6, 2, 5, 2] locations,
    float[2, 6, 2, 5] weights) => (float[2, 6, 8] Y, float[4, 4, 1, 1] Z) {{ {GRIDS}
    {constants(all=(4, 6, 5, 2), points=(3, 2), weights_shape=(4, 1, 6, 5), total_shape=(2, 8, 6))}
    Z = GlobalAveragePool (map0)
    of_heads = Transpose <perm = [0, 2, 1, 3, 4]> (grids)
    rows = Reshape (of_heads, all)
    grid0, grid1 = Split <axis = 2> (rows, points)
    {of_levels("sampled# = GridSample (map#, grid#)")}
    samples = Concat <axis = -1> (sampled0, sampled1)
    weights_of_heads = Transpose <perm = [0, 2, 1, 3]> (weights)
    all_weights = Reshape (weights_of_heads, weights_shape)
    {SUMS} }}"""
FORMS = {"dynamo": DYNAMO, "torchscript": TORCHSCRIPT, "planes": PLANES}


def arrays_of(model, rng, **some):
    """Return inputs: locations of which some are outside."""
    extents = {"n": N, "q": Q, "s": S, "c": 1, "h0": 6, "w0": 5, "h1": 3, "w1": 4} | some
    made = {}
    for one in model.graph.input:
        tensor = one.type.tensor_type
        shape = [d.dim_value or extents[d.dim_param] for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        made[one.name] = (rng.random(shape) * 1.2 - 0.1).astype(dtype)
    return made


def by_python(*_):
    raise AssertionError("a group is computed by Python")


def assert_claimed(model, rng, count=1, least=1e-5, options=(), again=True, **extents):
    """Check that so many groups are taken, and that numbers are ONNX Runtime's own, also in a
    second run, which needs no Python.
    """
    titles, session = claimed(model, *options)
    assert [title.partition(" of ")[0] for title in titles] == ["deformable attention"] * count
    with pytest.MonkeyPatch.context() as patched:
        for _ in range(2):
            inputs = arrays_of(model, rng, **extents)
            assert_as_onnx_runtime(session.run(None, inputs), model, inputs, least)
            if again:
                patched.setattr(Attention, "run", by_python)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"])
def test_forms(form, level, rng):
    assert_claimed(parsed(FORMS[form]), rng, options=[optimised(level)])


@pytest.mark.parametrize("level", ["ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_models_that_onnx_runtime_wrote(level, rng, tmp_path):
    """The projection that follows is fused with the last Transpose."""
    text = changed(DYNAMO, ("[2, 6, 8] Y)", "[2, 6, 3] Z)"), (
        "(planes) }", """(planes)  ones = Constant <value_ints = [8, 3]> ()
        matrix = ConstantOfShape <value = float[1] {0.5}> (ones)  Z = MatMul (Y, matrix) }""",
    ))  # fmt: skip
    model = rewritten(parsed(text), level, tmp_path)
    kinds = {node.op_type for node in model.graph.node}
    assert ("FusedMatMul" in kinds) == (level != "ORT_ENABLE_BASIC")
    assert_claimed(model, rng)


def test_maps_of_known_sizes(rng):
    """The batch and the queries are those of each run."""
    known = TORCHSCRIPT.replace("h0, w0", "6, 5").replace("h1, w1", "3, 4")
    assert_claimed(parsed(known), rng, n=3)


@pytest.mark.parametrize(
    "name, kind, opset, least", [("float", 1, 20, 1e-5), ("float16", 10, 16, 4e-3),
                                 ("double", 11, 20, 1e-12)],
)  # fmt: skip
def test_types(name, kind, opset, least, rng):
    text = DYNAMO.replace("float[", f"{name}[")
    if opset == 20:
        text = text.replace("bilinear", "linear")
    for one in ("double", "once"):
        text = text.replace(f"{one} = Constant", f"{one}_ = Constant")
        text = text.replace("    twice =", f"    {one} = Cast <to = {kind}> ({one}_)\n    twice =")
    assert_claimed(parsed(text, opset), rng, least=least)


def test_locations_that_are_not_finite(rng):
    """Their sums are NaN, without a warning of NumPy."""
    change = THE_SAME["locations that are computed"]
    text = changed(DYNAMO, change, ("[5.0, 6.0]", "[5.0, 0.0]"))
    titles, session = claimed(parsed(text))
    with np.errstate(all="raise"):
        (got,) = session.run(None, arrays_of(parsed(text), rng))
    assert titles and np.isnan(got).all()


def test_recipes_of_several_extents(rng, monkeypatch):
    """The last four are kept.  Levels may have other sizes, and as many pixels."""
    model = parsed(TORCHSCRIPT)
    _, session = claimed(model)
    turned = {"h0": 5, "w0": 6}
    kinds = [{"n": 1}, {"n": 2}, turned, {"n": 3}, {"n": 4}]
    inputs = [arrays_of(model, rng, **kind) for kind in kinds]
    for one in inputs:
        assert_as_onnx_runtime(session.run(None, one), model, one, 1e-5)
    monkeypatch.setattr(Attention, "run", by_python)
    for one in inputs[:0:-1]:
        assert_as_onnx_runtime(session.run(None, one), model, one, 1e-5)
    with pytest.raises(Exception, match="computed by Python"):
        session.run(None, inputs[0])


def test_recipes_of_several_threads(rng):
    """Recipes are replaced while others carry them out."""
    model = parsed(TORCHSCRIPT)
    _, session = claimed(model)
    inputs = [arrays_of(model, rng, n=n) for n in range(1, 8)]
    expected = [session.run(None, one)[0] for one in inputs]

    def run(first):
        order = [(first + 3 * i) % 7 for i in range(60)]
        return all(np.array_equal(session.run(None, inputs[i])[0], expected[i]) for i in order)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


def test_wrong_batch(rng):
    model = parsed(TORCHSCRIPT)
    _, session = claimed(model)
    inputs = arrays_of(model, rng) | {"locations": np.zeros((3, Q, M, L, P, 2), np.float32)}
    with pytest.raises(Exception, match=r"'locations' is of shape \(3, 6, .*, expected \(2, 6"):
        session.run(None, inputs)


# Extents of a run decide whether the nodes are the call: the form, and extents for which they are
# not, as numbers of its dimensions
WEIGHTS_OF_SOME = changed(
    TORCHSCRIPT,
    ("float[n, q, 2, 2, 3] weights", "float[n, r, 2, 2, 3] weights"),
    ("(both, one, queries, last)", "(both, one, some, last)"),
    ("queries = Slice", """extents_of_weights = Shape (weights)
    some = Slice (extents_of_weights, one, two)
    queries = Slice"""),
)  # fmt: skip
FIRST_QUERIES = changed(
    DYNAMO,
    ("float[2, 6, 2, 2, 3, 2] locations", "float[2, q, 2, 2, 3, 2] all_locations"),
    ("float[2, 6, 2, 2, 3] weights", "float[2, q, 2, 2, 3] weights_of_all"),
    ("float[2, 6, 8]", "float[2, r, 8]"), ("[4, 4, 6, 6]", "[4, 4, -1, 6]"),
    ("[4, 1, 6, 6]", "[4, 1, -1, 6]"), ("[4, 6, 3, 2]", "[4, -1, 3, 2]"),
    ("[2, 8, 6]", "[2, 8, -1]"), ("double =", """end = Constant <value_ints = [300]> ()
    locations = Slice (all_locations, zero, end, one)
    weights = Slice (weights_of_all, zero, end, one)
    double ="""),
)  # fmt: skip
AT_RUN_TIME = {
    "weights of each query": (WEIGHTS_OF_SOME, {"r": Q}, False),
    "weights of one query": (WEIGHTS_OF_SOME, {"r": 1}, True),
    "300 of 300": (FIRST_QUERIES, {"q": 300}, False),
    "300 of 301": (FIRST_QUERIES, {"q": 301}, False),
    "300 of 299": (FIRST_QUERIES, {"q": 299}, True),
    "300 of 6": (FIRST_QUERIES, {"q": 6}, True),
    "no query": (FIRST_QUERIES, {"q": 0}, True),
}


@pytest.mark.parametrize("case", AT_RUN_TIME)
def test_extents_of_a_run(case, rng, monkeypatch):
    """Where a run has extents for which the nodes compute something else, so does the group."""
    text, extents, is_something_else = AT_RUN_TIME[case]
    found, compute = [], Attention._one_by_one
    monkeypatch.setattr(
        Attention, "_one_by_one", lambda *given: found.append(given[2]) or compute(*given)
    )
    assert_claimed(parsed(text), rng, again=not is_something_else, **extents)
    assert bool(found) == is_something_else


# What is not this: (old, new) of the form with constants
SUM = "ReduceSum <keepdims = 0> (product, last)"
OTHERWISE = {
    "another factor": ("double = Constant <value_float = 2", "double = Constant <value_float = 3"),
    "another summand": ("once = Constant <value_float = 1.0", "once = Constant <value_float = 0.9"),
    "a factor for each": ("(locations, double)", "(locations, locations)"),
    "a constant less locations": ("Sub (twice, once)", "Sub (once, twice)"),
    "corners": ("<mode", "<align_corners = 1, mode"),
    "nearest": ("bilinear", "nearest"),
    "cubic": ("bilinear", "bicubic"),
    "border": ("zeros", "border"),
    "reflection": ("zeros", "reflection"),
    "sums of two": ("product = Mul", "product = Add"),
    "quotients": ("product = Mul", "product = Div"),
    "a factor for all": ("(samples, all_weights)", "(samples, double)"),
    "means": (SUM, "ReduceMean <keepdims = 0, axes = [-1]> (product)"),
    "the largest": (SUM, "ReduceMax <keepdims = 0, axes = [-1]> (product)"),
    "sums of queries": ("(product, last)", "(product, before)"),
    "points before levels": ("1, 3, 4]> (weights)", "1, 4, 3]> (weights)"),
    "y before x": ("grids = Sub (twice, once)", """turn = Constant <value_ints = [1, 0]> ()
        straight = Sub (twice, once)
        grids = Gather <axis = 5> (straight, turn)"""),
    "weights of another level": (
        "weights_of_heads = Transpose <perm = [0, 2, 1, 3, 4]> (weights)",
        """weights0, weights1 = Split <axis = 3> (weights)
        turned_levels = Concat <axis = 3> (weights1, weights0)
        weights_of_heads = Transpose <perm = [0, 2, 1, 3, 4]> (turned_levels)""",
    ),
    "weights of channels": ("[4, 1, 6, 6]", "[1, 4, 6, 6]"),
}  # fmt: skip


def test_a_single_grid_sample(rng):
    text = "one (float[n, c, 6, 5] X, float[n, 6, 2, 2] G) => (float[n, c, 6, 2] Y)"
    assert_claimed(parsed(text + "{ Y = GridSample (X, G) }"), rng, 0)


@pytest.mark.parametrize("change", OTHERWISE)
def test_what_is_something_else(change, rng):
    assert_claimed(parsed(changed(DYNAMO, OTHERWISE[change])), rng, 0)


THE_SAME = {
    "another order of levels": ("(stack0, stack1)", "(stack1, stack0)"),
    "channels before pixels": ("Transpose <perm = [0, 2, 1]> (rows", "Identity (rows"),
    "weights first": ("(samples, all_weights)", "(all_weights, samples)"),
    "locations about the centre": (
        "twice = Mul (locations, double)\n    grids = Sub (twice, once)",
        """half = Constant <value_float = -0.5> ()
        centred = Add (half, locations)
        grids = Mul (double, centred)"""),
    "axes that stay": (SUM, "ReduceSum (product, last)"),
    "maps of one size": ("6, 5]", "5, 6]"),
    "locations that are computed": (
        "twice = Mul (locations, double)",
        """references = Slice (locations, zero, one, four)
        sizes = Constant <value_floats = [5.0, 6.0]> ()
        steps = Div (locations, sizes)
        places = Add (references, steps)
        twice = Mul (places, double)"""),
}  # fmt: skip
SUMMED = f"product = Mul (samples, all_weights)\n    total = {SUM}"
OF_LEVELS = (
    "weights_of_heads = Transpose <perm = [0, 2, 1, 3, 4]> (weights)\n"
    + constants(by_shape=(4, 1, 6, 1, 3))
    + of_levels("""
    by# = Gather <axis = 3> (weights_of_heads, number#)
    weights# = Reshape (by#, by_shape)
    product# = Mul (stack#, weights#)
    total# = ReduceSum <keepdims = 0> (product#, last)""")
    + "\ntotal = Add (total1, total0)\n"
)
THE_SAME |= {
    "products of matrices": (SUMMED, """rows_of_samples = Transpose <perm = [0, 2, 1, 3]> (samples)
        columns = Transpose <perm = [0, 2, 3, 1]> (all_weights)
        multiplied = MatMul (rows_of_samples, columns)
        total = Transpose <perm = [0, 2, 1, 3]> (multiplied)"""),
    "products of rows": (SUMMED, """columns = Transpose <perm = [0, 2, 3, 1]> (samples)
        row = Transpose <perm = [0, 2, 1, 3]> (all_weights)
        multiplied = MatMul (row, columns)
        total = Transpose <perm = [0, 3, 1, 2]> (multiplied)"""),
    "einsum": (SUMMED, """flat_weights = Squeeze (all_weights, one)
        total = Einsum <equation = "bqt, bdqt -> bdq"> (flat_weights, samples)"""),
    "sums of levels": (f"{STACKED} {SUMS}", OF_LEVELS + SUMS.partition("last)")[2]),
}  # fmt: skip


@pytest.mark.parametrize("change", THE_SAME)
def test_what_is_laid_out_otherwise(change, rng):
    """Other nodes, layouts and orders of levels are still sums of samples of all levels."""
    assert_claimed(parsed(changed(DYNAMO, THE_SAME[change])), rng)


@pytest.mark.parametrize("change", THE_SAME)
def test_nodes_one_by_one(change, rng, monkeypatch):
    """Whatever a group consists of, its nodes can be computed as ONNX Runtime does."""
    monkeypatch.setattr(Attention, "_counts", lambda *_: ({}, "unlike"))
    assert_claimed(parsed(changed(DYNAMO, THE_SAME[change])), rng, again=False)


@pytest.mark.parametrize(
    "name, count", [("sampled0", 0), ("product", 0), ("map0", 1), ("total", 1)]
)
def test_values_that_others_read(name, count, rng):
    """They are computed by ONNX Runtime, for the group too, or there is no group."""
    model = parsed(DYNAMO)
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, 1, None))
    assert_claimed(model, rng, count)


# Nodes of which each doubles something: their line, the input of them, and where their output goes
IN_PARTS = "OUT_a, OUT_b = Split <axis = 0> (IN)  OUT = Concat <axis = 0> (OUT_a, OUT_b)"
DOUBLING = {
    "sums of locations": ("OUT = Add (IN, IN)", "locations", "Mul (locations,", DYNAMO),
    "products of locations": ("OUT = Mul (IN, IN)", "locations", "Mul (locations,", DYNAMO),
    "locations": ("OUT = Concat <axis = 0> (IN, IN)", "locations", "Mul (locations,", DYNAMO),
    "values": ("OUT = Concat <axis = 0> (IN, IN)", "value", "(value, pixels", DYNAMO),
    "values in parts": (IN_PARTS, "value", "(value, pixels", DYNAMO),
    "samples": (IN_PARTS, "samples", "Mul (samples,", DYNAMO),
    "sums": ("OUT = Add (IN, IN)", "total", "Reshape (total,", DYNAMO),
    "shapes": (
        "OUT = Concat <axis = 0> (IN, IN)", "images", "Mul (images,",
        changed(TORCHSCRIPT, ("both = Mul (images, heads)",
                              "every = Mul (images, heads)  both = Slice (every, zero, one)")),
    ),
    "numbers": ("OUT = Mul (IN, IN)", "images", "Mul (images,", TORCHSCRIPT),
}  # fmt: skip


@pytest.mark.parametrize("case", DOUBLING)
def test_work_is_bounded(case):
    line, name, reader, text = DOUBLING[case]
    assert_work_is_bounded(text, line, name, reader)


def test_no_steps_are_left(monkeypatch, rng):
    monkeypatch.setattr(_patterns, "STEPS", 2)
    assert_claimed(parsed(DYNAMO), rng, 0)
