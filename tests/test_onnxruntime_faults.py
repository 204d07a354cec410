"""What a provider may meet in graphs, threads and signals, and must not fail or leak at."""

import ctypes
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import weakref
from copy import copy

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from onnx import numpy_helper  # noqa: E402
from test_onnxruntime import (  # noqa: E402
    VALUES,
    assert_as_onnx_runtime,
    claimed,
    parsed,
    pyramid_inputs,
    quiet,
    roi_align,
    scattered,
    session_of,
)

from roicy import onnxruntime as provider  # noqa: E402
from roicy._kernels import machine  # noqa: E402
from roicy.compat import onnx as compat  # noqa: E402
from roicy.compat.onnx._command import _claimed  # noqa: E402
from roicy.onnxruntime import _claims  # noqa: E402

ONE_BOX = {
    "X": np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8),
    "rois": np.array([[1, 1, 5, 6]], np.float32),
    "images": np.array([0]),
}
NAN = np.array(np.nan, np.float32)
CONSTANTS = {
    "float": np.array([1.5, np.nan], np.float32),
    "half": np.array([1.5], np.float16),
    "int64": np.array([2**40]),
    "empty": np.zeros((0, 3), np.float32),
    "axes17": np.ones((1,) * 16 + (2,), np.float32),
    "axes32": np.ones((1,) * 32, np.int64),
    # What NumPy has no such arrays of, and types that nobody looks at.
    "text": np.array(["a", "ö"], object),
    "uint32": np.array([7], np.uint32),
    "uint64": np.array([7], np.uint64),
    "int16": np.array([7], np.int16),
    "axes70": None,
}


def tensor(name, array):
    if array is None:
        return onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [1] * 70, [1.0])
    return numpy_helper.from_array(array, name)


def test_values_of_any_kind(monkeypatch):
    """Constants and attributes that NumPy has no arrays of are None, and take no claim away."""
    model = roi_align("")
    model.opset_import.append(onnx.helper.make_opsetid("mine", 1))
    parts = [onnx.helper.make_node("Shape", [name], [f"shape of {name}"]) for name in CONSTANTS]
    parts.append(onnx.helper.make_node("SequenceConstruct", ["X", "X"], ["sequence"]))
    shape = {"value": tensor("", np.array([3], np.uint32))}
    parts.append(onnx.helper.make_node("ConstantOfShape", ["one"], ["filled"], **shape))
    model.graph.node.extend(parts)
    values = CONSTANTS | {"one": np.array([1])}
    model.graph.initializer.extend(tensor(*one) for one in values.items())
    for node in parts:
        model.graph.output.append(onnx.helper.make_tensor_value_info(node.output[0], 0, None))
        model.graph.output[-1].ClearField("type")
    seen = {}

    def of(self, graph):
        for name in CONSTANTS:
            seen[name] = copy(graph.constant(name)), graph.type_of(name)
        seen["sequence"] = graph.type_of("sequence"), graph.constant("sequence")
        (node,) = [node for node in graph.nodes if node.op_type == "ConstantOfShape"]
        seen["attributes"] = node.attributes
        return real(self, graph)

    real = _claims.Claims.of
    monkeypatch.setattr(_claims.Claims, "of", of)
    off = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    titles, session = claimed(model, quiet(graph_optimization_level=off))
    assert titles == ["node 'pool' (RoiAlign)"]
    assert session.run(["Y"], ONE_BOX)[0].shape == (1, 1, 1, 1)
    assert seen["sequence"] == (0, None) and seen["attributes"] == {}
    for name, array in CONSTANTS.items():
        value, kind = seen[name]
        if name in ("text", "uint32", "uint64", "int16", "axes70"):
            assert value is None and kind > 0, name
        else:
            np.testing.assert_array_equal(value, array, err_msg=name)


def level_of(kind, value, cast):
    """Return a pyramid whose levels are compared as another type."""
    model = scattered()
    for node in model.graph.node:
        if node.op_type == "Equal":
            node.input[0] = "cast"
        if node.output[0] in ("number0", "number1"):
            array = np.array(value if node.output[0] == "number1" else cast(0))
            node.attribute[0].t.CopyFrom(numpy_helper.from_array(array))
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["levels"], ["cast"], to=kind))
    model.opset_import[0].version = 19  # where texts can be compared
    return model


def text(number):
    return np.array(str(number), object)


@pytest.mark.parametrize(
    "model",
    [level_of(1, NAN, np.float32), level_of(8, text(1), text)],
    ids=["nan", "text"],
)  # fmt: skip
def test_pyramids_of_such_levels(model, rng):
    inputs = pyramid_inputs(rng, 9)
    titles, session = claimed(model)
    assert sorted(titles) == ["node 'pooled0' (RoiAlign)", "node 'pooled1' (RoiAlign)"]
    assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


def test_a_search_that_fails(rng, monkeypatch, caplog):
    """Single nodes are taken where the search for groups meets what nobody has thought of."""

    def fail(graph, singles):
        raise KeyError("of the search")

    monkeypatch.setattr(_claims, "pyramids", fail)
    titles, _ = claimed(scattered())
    assert len(titles) == 3 and "not looked for to the end" in titles[0]


def test_groups_of_many_nodes(rng):
    """A pyramid has any number of nodes."""
    model, count = scattered(), 1100
    (place,) = [i for i, node in enumerate(model.graph.node) if node.output[0] == "sliced0"]
    model.graph.node[place].input[0] = f"same{count - 1}"
    names = ["turned0", *(f"same{i}" for i in range(count))]
    for i in range(count):
        node = onnx.helper.make_node("Identity", [names[i]], [names[i + 1]])
        model.graph.node.insert(place + i, node)
    inputs = pyramid_inputs(rng, 9)
    off = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    titles, session = claimed(model, quiet(graph_optimization_level=off))
    assert titles == ["pyramid of 2 x RoiAlign -> 'Y'"]
    assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


PASTING = """pasting (float[K, A, m, m] P, float[K, 4] F, int64 H, int64 W) => (float[n, h, w] Y) {
    B = Cast <to = 7> (F)
    extents_of_P = Shape (P)
    first = Constant <value = int64 {0}> ()
    count = Gather (extents_of_P, first)
    yes = Constant <value = bool {1}> ()
    none = Constant <value_ints = [0]> ()
    two = Constant <value_ints = [2]> ()
    four = Constant <value_ints = [4]> ()
    ones = Constant <value_ints = [1, 1]> ()
    zeros = Constant <value_ints = [0, 0]> ()
    turn = Constant <value_ints = [1, 0]> ()
    axes = Constant <value_ints = [2, 3]> ()
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
}"""


@pytest.mark.parametrize("name", [b"mask", b"m\xffsk"], ids=["utf8", "bytes"])
def test_pasting_loops(name, rng):
    """They are known by what they compute, whatever their values are called."""
    data = parsed(PASTING).SerializeToString().replace(b"mask", name)
    given = {"sess_options": quiet()}
    alone = runtime.InferenceSession(data, providers=["CPUExecutionProvider"], **given)
    with _claimed() as titles:
        session = compat.InferenceSession(data, **given)
    assert titles == ["node 'Y' (Loop) that pastes masks"]
    inputs = {
        "P": rng.random((5, 1, 9, 9), np.float32),
        "F": np.array(
            [[3.2, 4, 20.9, 11], [-7.5, -2, 5, 8], [30, 2, 44, 50], [9] * 4, [0, 0, 40, 31]],
            np.float32,
        ),
        "H": np.array(32),
        "W": np.array(41),
    }
    for count in (5, 0):
        some = inputs | {"P": inputs["P"][:count], "F": inputs["F"][:count]}
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
}


@pytest.mark.parametrize("change", OTHERWISE)
def test_loops_that_do_something_else(change):
    old, new = OTHERWISE[change]
    assert old in PASTING
    titles, _ = claimed(parsed(PASTING.replace(old, new)))
    assert titles == []


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


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "wrong, message",
    [
        (MemoryError(), "MemoryError"),
        (Mute(), "an error whose text cannot be had"),
        (ValueError("\udcff of no text"), r"\? of no text"),
        ((1,) * 17, "exceptions must derive from BaseException"),  # when there is the output
    ],
)
def test_errors_of_a_kernel(wrong, message, monkeypatch):
    def run(self, arrays, output):
        if isinstance(wrong, tuple):
            output(wrong)
        raise wrong

    session = session_of(roi_align(""))
    monkeypatch.setattr(_claims.Single, "run", run)
    with pytest.raises(Exception, match=message):
        session.run(None, ONE_BOX)


def test_options_that_are_wrong():
    options = quiet()
    options.add_provider_for_devices(provider.register(), {"num_threads": "many"})
    with pytest.raises(Exception, match="invalid literal for int.*'many'"):
        runtime.InferenceSession(roi_align("").SerializeToString(), options, enable_fallback=0)


@pytest.mark.parametrize("place", ["run", "of", "single"])
def test_interrupts(place, monkeypatch):
    """Ctrl-C stops the program as ever, and takes nothing from what is computed."""
    owner = _claims.Single if place == "run" else _claims.Claims
    real, calls = getattr(owner, place), []

    def interrupted(*arguments):
        calls.append(place)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                pass
        return real(*arguments)

    session, model = session_of(roi_align("")), roi_align("")
    expected = session.run(None, ONE_BOX)
    monkeypatch.setattr(owner, place, interrupted)
    made, got, then = [], [], False
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may ignore it
    try:
        if place == "run":
            got.append(session.run(None, ONE_BOX))
        else:
            made.append(session_of(model))
        for _ in range(1000):
            then = True
    except KeyboardInterrupt:
        then = None
    finally:
        signal.signal(signal.SIGINT, before)
    assert then is None and len(calls) > 1
    monkeypatch.undo()
    for one in (got or [session.run(None, ONE_BOX)]) + [each.run(None, ONE_BOX) for each in made]:
        np.testing.assert_array_equal(one, expected)


def test_nothing_is_left_of_a_session(monkeypatch):
    """The claims of a session end with it, without the collector."""
    alive = []
    real = _claims.Claims.__init__

    def init(self, options):
        real(self, options)
        alive.append(weakref.ref(self))

    monkeypatch.setattr(_claims.Claims, "__init__", init)
    gc.collect()
    gc.disable()
    try:
        session_of(scattered())
        with pytest.raises(Exception, match="mode"):
            session_of(roi_align('mode = "median"'))
    finally:
        gc.enable()
    assert len(alive) >= 2 and not any(one() for one in alive)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc counts its bytes")
def test_nodes_leak_nothing():
    """Bytes that are in use do not grow with sessions; a status that is lost has 75."""

    class Info(ctypes.Structure):
        _fields_ = tuple((f"field{i}", ctypes.c_size_t) for i in range(10))

    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Info
    lines = [f"Y{i} = RoiAlign (X, rois, images)" for i in range(50)]
    outputs = ", ".join(f"float[K, C, H{i}, W] Y{i}" for i in range(50))
    data = parsed(f"many {VALUES} => ({outputs}) {{{' '.join(lines)}}}").SerializeToString()
    options = quiet(intra_op_num_threads=1)

    def grown():
        before = mallinfo().field7
        for _ in range(8):
            compat.InferenceSession(data, options).run(None, ONE_BOX)
        gc.collect()
        return mallinfo().field7 - before

    grown()
    assert min(grown(), grown()) < 8 * 50 * 40


def test_registration_in_threads():
    """Of several threads none waits for another for ever, one of which imports what it needs."""
    code = """
import threading
from roicy.onnxruntime import register
barrier, found = threading.Barrier(8), []
def run():
    barrier.wait()
    found.append(len(register()))
threads = [threading.Thread(target=run) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert found == [1] * 8, found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


POOLING = parsed(
    f"""pooled {VALUES} => (float[K, C, P, Q] Y) {{ Y = RoiAlign
        <output_height = 14, output_width = 14, sampling_ratio = 8> (X, rois, images) }}"""
).SerializeToString()
MUCH_WORK = {
    "X": np.ones((1, 128, 32, 32), np.float32),
    "rois": np.full((60, 4), [1, 2, 30, 31], np.float32),
    "images": np.zeros(60, np.int64),
}


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.skipif(not machine.openmp(), reason="this build works on one thread")
def test_threads_of_the_options():
    """Kernels take as many as intra_op_num_threads or `use` says, whatever is set elsewhere."""
    code = f"""
import os, numpy as np, onnxruntime, roicy
from roicy.onnxruntime import use
roicy.set_num_threads(7)
feed = {{"X": np.ones((1, 128, 32, 32), np.float32), "images": np.zeros(60, np.int64)}}
feed["rois"] = np.full((60, 4), [1, 2, 30, 31], np.float32)
def started(threads, num_threads=None):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession({POOLING!r}, use(options, num_threads))
    before = len(os.listdir("/proc/self/task"))
    session.run(None, feed)
    return len(os.listdir("/proc/self/task")) - before
print(started(1), started(2), started(1, 4), started(0))  # threads stay for calls to come
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == ["0", "1", "2", "3"]


def test_kernels_run_without_the_gil(monkeypatch):
    """Another thread of Python goes on while a kernel runs, and only then."""
    turns, inside = [0], [0]
    stop = threading.Event()

    def count():
        while not stop.wait(0.001):
            turns[0] += 1

    real = _claims.Single.run

    def run(self, arrays, output):
        before = turns[0]
        real(self, arrays, output)
        inside[0] += turns[0] - before

    session = runtime.InferenceSession(POOLING, provider.use(quiet(intra_op_num_threads=1)))
    monkeypatch.setattr(_claims.Single, "run", run)
    counting, interval = threading.Thread(target=count), sys.getswitchinterval()
    counting.start()
    sys.setswitchinterval(1000)  # what runs in Python hands the GIL to nobody
    try:
        for _ in range(50):
            session.run(None, MUCH_WORK)
            if inside[0] > 0:
                break
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        counting.join()
    assert inside[0] > 0
