"""Sessions with the provider give what ONNX Runtime gives, with all options, in all graphs."""

import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx_models import (
    NAME,
    VALUES,
    alone,
    assert_as_onnx_runtime,
    box_inputs,
    chain,
    claimed,
    numpy_helper,
    of_one,
    of_roicy,
    onnx,
    parsed,
    pyramid_inputs,
    quiet,
    runtime,
    scattered,
    session_of,
)

import roicy
from roicy import onnxruntime as provider
from roicy.compat import onnx as compat
from roicy.onnxruntime import _sessions

inputs = pytest.fixture(box_inputs)


@pytest.mark.parametrize("threads", [1, 2])
def test_chain(threads, inputs, isa):
    model = chain()
    options = quiet()
    session = session_of(model, options, num_threads=threads)
    assert isinstance(session, runtime.InferenceSession)
    assert session.get_providers() == [NAME, "CPUExecutionProvider"]
    assert not options.has_providers()
    got = session.run(None, inputs)
    assert_as_onnx_runtime(got, model, inputs)
    (last,) = session.run(["last"], inputs)
    np.testing.assert_array_equal(last, got[1])


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


def loops(table, opset=16):
    model = parsed(IN_LOOPS, opset)
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    return model


def test_nodes_in_bodies(rng, inputs, tmp_path, monkeypatch):
    """RoI nodes of bodies are taken as others are, and so are those that ONNX Runtime lacks.

    A tensor beside the model is read by the graph and by the body of a Loop.
    """
    table = rng.standard_normal((3, 20, 25)).astype(np.float32)
    model, path = loops(table), tmp_path / "loops.onnx"
    expected = alone(model).run(None, inputs)
    later, session = claimed(loops(table, 22))
    assert sorted(later) == ["node 'P' (RoiAlign)", "node 'Q' (RoiAlign)"]
    stored = {"location": "weights", "size_threshold": 64}
    onnx.save_model(model, path, save_as_external_data=True, **stored)
    monkeypatch.chdir(tmp_path.parent)
    sources = [compat.InferenceSession(source, quiet()) for source in (path, str(path))]
    for made in (session, *sources):
        for one, other in zip(made.run(None, inputs), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


FUNCTION = """
<domain: "mine", opset_import: ["": 16]>
pool <size> (X, rois, images) => (Y) {
    Y = RoiAlign <output_height: int = @size, output_width = 2, sampling_ratio = 2,
        spatial_scale = 0.5> (X, rois, images)
}"""


def test_functions(inputs):
    """Functions with RoI nodes are parts of the graph."""
    body = "Y = mine.pool <size = 2> (X, rois, images)"
    text = f"calls {VALUES} => (float[K, C, 2, 2] Y) {{ {body} }}{FUNCTION}"
    model = parsed(text, domains=', "mine": 1')
    titles, session = claimed(model)
    assert len(titles) == 1
    assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


# Nodes of random graphs, by what they make: maps, what is pooled, or scalars.  # is the number of
# a node.  MAP, NUMBER, ADDEND and ANY are values that are there.
GIVEN = "output_height = 2, output_width = 2, sampling_ratio = 2, spatial_scale = 0.5"
NODES = {
    "m": [
        "m# = Add (MAP, ADDEND)",
        "m# = Identity (MAP)",
        "q# = SequenceConstruct (MAP, MAP)  m# = SequenceAt (q#, first)",
        "o# = Optional (MAP)  m# = OptionalGetElement (o#)",
        """c# = Less (NUMBER, NUMBER)
        m# = If (c#) <
            then_branch = a# () => (float[A#, B, C, D] t#) { t# = Add (MAP, ADDEND) },
            else_branch = b# () => (float[A#, B, C, D] e#) {
                q# = RoiAlign <sampling_ratio = 1, spatial_scale = 0.3> (MAP, rois, images)
                r# = ReduceMax <keepdims = 0> (q#)
                e# = Mul (MAP, r#)
            }>""",
    ],
    "p": [
        "p# = mine.pool <size = #> (MAP, rois, images)",
        f"p# = RoiAlign <{GIVEN}> (MAP, rois, images)",
        f"p# = RoiAlign <{GIVEN}> (MAP, rois, images)",
    ],
    "s": [
        "s# = ReduceMean <keepdims = 0> (ANY)",
        "f# = Flatten (ANY)  s# = ReduceMax <keepdims = 0> (f#)",
    ],
}
RANDOM_GRAPHS = 20


def random_graph(seed, table):
    """Return a model of random nodes.  RoiAlign is in bodies and functions, too."""
    rng = random.Random(seed)
    values = {"m": ["X"], "p": ["p0"], "s": ["half"]}
    lines = [
        "half = Constant <value_float = 0.5> ()  first = Constant <value = int64 {0}> ()",
        f"p0 = RoiAlign <{GIVEN}> (X, rois, images)",
    ]
    for i in range(1, rng.randint(5, 25)):
        kind, text = rng.choice([(kind, text) for kind, texts in NODES.items() for text in texts])
        known = {"MAP": values["m"], "NUMBER": values["s"]}
        known |= {"ADDEND": [*values["s"], "table"], "ANY": values["m"] + values["p"]}
        for word, of in known.items():
            text = re.sub(word, lambda _, of=of: rng.choice(of), text)
        lines.append(text.replace("#", str(i)))
        values[kind].append(f"{kind}{i}")
    made = values["m"][1:] + values["p"]
    chosen = rng.sample(made, min(3, len(made)))
    outputs = ", ".join(f"float[N{i}, P, Q, R] {name}" for i, name in enumerate(chosen))
    inputs = VALUES.replace(")", ", float[3, 20, 25] table)")  # which need not be given
    body = "\n".join([f"mixed {inputs} => ({outputs}) {{", *lines, "}", FUNCTION])
    model = parsed(body, domains=', "mine": 1')
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    return model


def test_random_graphs(rng, inputs):
    """However nodes depend on each other, and wherever outputs come from."""
    table = rng.standard_normal((3, 20, 25)).astype(np.float32)
    options = provider.use(quiet(intra_op_num_threads=1))  # of all sessions
    for seed in range(RANDOM_GRAPHS):
        model = random_graph(seed, table)
        session, theirs = runtime.InferenceSession(model.SerializeToString(), options), alone(model)
        for given in (inputs, inputs | {"table": table[::-1].copy()}):
            expected = theirs.run(None, given)
            for one, other in zip(session.run(None, given), expected, strict=True):
                bound = 1e-5 * max(1, np.abs(other).max())
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=bound, err_msg=str(seed))


def test_no_boxes(inputs):
    none = inputs | {"rois": np.empty((0, 4), np.float32), "images": np.empty(0, np.int64)}
    model = chain()
    shapes = [one.shape for one in of_roicy(model, none)]
    assert shapes == [(0, 3, 2, 2), (0, 3, 3, 3), (2, 3, 20, 25)]


def test_binding_and_profile(inputs, tmp_path):
    """Bound memory is written, and a profile names the nodes and is the only file."""
    model = chain()
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


def test_use_and_custom_operators(inputs):
    """Options with the provider; and those with nothing but the library of custom operators."""
    rows = np.array([[0, 1, 2, 30, 40]], np.float32)
    inputs, library = {"X": inputs["X"], "rows": rows}, quiet()
    model = of_one("roicy.PrRoIPool", inputs, output_height=2, output_width=2)
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
    model = chain()
    for session in (
        runtime.InferenceSession(model.SerializeToString(), options),
        session_of(model, options),
    ):
        assert session.get_providers()[0] == NAME
        again = session_of(model, session.get_session_options())  # a copy without the provider
        assert_as_onnx_runtime(again.run(None, inputs), model, inputs)


def test_options_are_not_copied(inputs, monkeypatch):
    """What a copy lacks, such as a library of custom operators, is found in the options."""
    if NAME not in runtime.get_available_providers():
        pytest.skip("this ONNX Runtime takes no plugins by their names")
    monkeypatch.setattr(_sessions, "copy_of", lambda options: pytest.fail("nobody needs a copy"))
    options = quiet()
    session = session_of(chain(), options)
    assert session.get_providers()[0] == NAME and not options.has_providers()
    assert_as_onnx_runtime(session.run(None, inputs), chain(), inputs)


PROVIDERS = {
    "all": lambda: (runtime.get_available_providers(),),
    "its name": lambda: ([NAME],),
    "its name at last": lambda: (["CPUExecutionProvider", NAME],),
    "another before": lambda: (["AzureExecutionProvider", NAME, "CPUExecutionProvider"],),
    "a tuple": lambda: ([(NAME, {"num_threads": 1}), "CPUExecutionProvider"],),
    "a tuple of names": lambda: ((NAME, "CPUExecutionProvider"),),
    "options beside": lambda: ([NAME, "CPUExecutionProvider"], [{"num_threads": "1"}, {}]),
    "of the CPU": lambda: ([("CPUExecutionProvider", {"arena_extend_strategy": "1"})],),
    "one that is not there": lambda: (["CUDAExecutionProvider", NAME, "CPUExecutionProvider"],),
    "none": lambda: ([],),
}


@pytest.mark.filterwarnings("ignore:Specified provider 'CUDA")
@pytest.mark.parametrize("case", PROVIDERS)
def test_lists_of_providers(case, inputs):
    """Any list that ONNX Runtime takes, when the provider has been registered, too."""
    provider.register()
    model, data = chain(), chain().SerializeToString()
    for options in (quiet(), None) if case == "all" else (quiet(),):  # None would say much
        session = compat.InferenceSession(data, options, *PROVIDERS[case]())
        assert session.get_providers()[0] == NAME
        assert session.get_providers()[-1] == "CPUExecutionProvider"
        assert_as_onnx_runtime(session.run(None, inputs), model, inputs)
    if case in ("a tuple", "options beside") and NAME in runtime.get_available_providers():
        assert session.get_provider_options()[NAME] == {"num_threads": "1"}


def test_lists_of_providers_that_are_odd():
    data, cpu = chain().SerializeToString(), "CPUExecutionProvider"
    with pytest.warns(UserWarning, match="providers: 'CPUExecutor' is left out"):
        session = compat.InferenceSession(data, quiet(), ["CPUExecutor", cpu])
    assert session.get_providers() == [NAME, cpu]
    with pytest.raises(ValueError, match="num_threads: 2, but providers say 1"):
        compat.InferenceSession(data, quiet(), [(NAME, {"num_threads": 1})], num_threads=2)
    for wrong, options, message in (
        ({cpu}, None, "'providers' should be a sequence"),
        ([7], None, "'providers' values must be either strings"),
        ([cpu], [{}, {}], "should be the same length"),
        ([cpu], [7], "'provider_options' values must be dicts"),
    ):
        with pytest.raises(ValueError, match=message):
            compat.InferenceSession(data, quiet(), wrong, options)


def test_older_versions(monkeypatch):
    monkeypatch.setattr(runtime, "__version__", "1.23.2")
    with pytest.raises(ImportError, match=r"onnxruntime 1\.23\.2 is installed, .* 1\.24 or newer"):
        provider.register()


def test_threads_and_forks(inputs):
    """Several threads share a session, and a child of a process that has registered its own."""
    model = chain()
    session = session_of(model)
    expected = session.run(None, inputs)
    with ThreadPoolExecutor(4) as pool:
        results = [*pool.map(lambda _: session.run(None, inputs), range(20))]
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


def test_in_the_place_of_onnxruntimes(inputs, monkeypatch):
    """As programs that are not one's own have it."""
    monkeypatch.setattr(runtime, "InferenceSession", compat.InferenceSession)
    model = chain()
    session = alone(model)
    assert session.get_providers()[0] == NAME
    assert len(session.run(None, inputs)) == 3
