"""What a provider may meet in graphs, threads and signals, and must not fail or leak at."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import weakref
from copy import copy

import numpy as np
import pytest
from onnx_models import (
    FAR_BOX,
    ONE_BOX,
    VALUES,
    assert_overlaps_are_refused,
    claimed,
    numpy_helper,
    of_one,
    onnx,
    optimised,
    parsed,
    quiet,
    roi_align,
    runtime,
    scattered,
    session_of,
)

from roicy import onnxruntime as provider
from roicy._kernels import machine
from roicy.compat import onnx as compat
from roicy.onnxruntime import _claims

CONSTANTS = {
    "float": np.array([1.5, np.nan], np.float32),
    "half": np.array([1.5], np.float16),
    "int64": np.array([2**40]),
    "empty": np.zeros((0, 3), np.float32),
    "axes17": np.ones((1,) * 16 + (2,), np.float32),
    "axes32": np.ones((1,) * 32, np.int64),
}
# types that nobody looks at
OTHERS = {f"of {kind}": np.array([7], kind) for kind in ("uint32", "uint64", "int16")}
OTHERS["text"] = np.array(["a", "ö"], object)


def test_values_of_any_kind(monkeypatch):
    """Constants and attributes that NumPy has no arrays of are None, and take no claim away."""
    model = roi_align()
    values = CONSTANTS | OTHERS | {"one": np.array([1])}
    tensors = [numpy_helper.from_array(array, name) for name, array in values.items()]
    axes70 = onnx.helper.make_tensor("axes70", onnx.TensorProto.FLOAT, [1] * 70, [1.0])
    model.graph.initializer.extend([*tensors, axes70])
    names = [*values, "axes70"]
    parts = [onnx.helper.make_node("Shape", [name], [f"shape of {name}"]) for name in names]
    parts.append(onnx.helper.make_node("SequenceConstruct", ["X", "X"], ["sequence"]))
    shape = {"value": numpy_helper.from_array(np.array([3], np.uint32))}
    parts.append(onnx.helper.make_node("ConstantOfShape", ["one"], ["filled"], **shape))
    model.graph.node.extend(parts)
    for node in parts:
        model.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    seen = {}

    def of(self, graph):
        for name in (*names, "sequence"):
            seen[name] = copy(graph.constant(name)), graph.type_of(name)
        (node,) = [node for node in graph.nodes if node.op_type == "ConstantOfShape"]
        seen["attributes"] = node.attributes
        return real(self, graph)

    real = _claims.Claims.of
    monkeypatch.setattr(_claims.Claims, "of", of)
    titles, session = claimed(model, optimised("ORT_DISABLE_ALL"))
    assert titles == ["node 'pool' (RoiAlign)"]
    assert session.run(["Y"], ONE_BOX)[0].shape == (1, 1, 1, 1)
    assert seen["sequence"] == (None, 0) and seen["attributes"] == {}
    for name in (*OTHERS, "axes70"):
        assert seen[name][0] is None and seen[name][1] > 0, name
    for name, array in CONSTANTS.items():
        np.testing.assert_array_equal(seen[name][0], array, err_msg=name)


def test_a_search_that_fails(rng, monkeypatch, caplog):
    """Single nodes are taken where the search for groups meets what nobody has thought of."""

    def fail(graph, singles, left):
        raise KeyError("of the search")

    monkeypatch.setattr(_claims, "pyramids", fail)
    titles, _ = claimed(scattered())
    assert len(titles) == 2 and "not looked for to the end" in caplog.text


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

    session = session_of(roi_align())
    monkeypatch.setattr(_claims.Single, "run", run)
    with pytest.raises(Exception, match=message):
        session.run(None, FAR_BOX)


WRONG_OPTIONS = [
    ({"nthreads": "1"}, "option 'nthreads' is unknown, expected any of num_threads, groups"),
    ({"num_threads": "many"}, "option 'num_threads' is 'many', expected an integer from 1 to 1024"),
    ({"num_threads": "0"}, "option 'num_threads' is '0', expected"),
    ({"num_threads": "1" * 99}, "option 'num_threads' is '1111"),
    ({"groups": "no"}, "option 'groups' is 'no', expected an integer from 0 to 1"),
]


@pytest.mark.parametrize("given, message", WRONG_OPTIONS)
def test_options_that_are_wrong(given, message):
    """They are errors of sessions of all models, and ONNX Runtime takes no other provider."""
    devices = provider.register()
    for model in (roi_align(), of_one("Neg", {"X": ONE_BOX["X"]})):
        data, options = model.SerializeToString(), quiet()
        options.add_provider_for_devices(devices, given)
        with pytest.raises(Exception, match=message):
            runtime.InferenceSession(data, options)
        by_name = {"providers": [(provider.get_ep_name(), given)]}
        if provider.get_ep_name() in runtime.get_available_providers():
            with pytest.raises(Exception, match=message):
                runtime.InferenceSession(data, quiet(), **by_name)
        with pytest.raises(Exception, match=message):
            compat.InferenceSession(data, quiet(), **by_name)


def test_nodes_need_no_python():
    """A node takes no call of Python, which would wait for threads that are busy with it."""
    session, calls = session_of(roi_align()), []

    def count(frame, event, argument):
        if event == "call" and frame.f_globals["__name__"].startswith("roicy"):
            calls.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        session.run(None, ONE_BOX)
        assert calls == []
        session.run(None, FAR_BOX)
        assert calls != []
    finally:
        sys.setprofile(before)


def test_outputs_over_inputs():
    session = session_of(roi_align(output_height=2, output_width=2))
    assert_overlaps_are_refused(session, ONE_BOX, (1, 1, 2, 2), np.float32)


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

    session, model = session_of(roi_align()), roi_align()
    expected = session.run(None, FAR_BOX)
    monkeypatch.setattr(owner, place, interrupted)
    made, got, then = [], [], False
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may ignore it
    try:
        if place == "run":
            got.append(session.run(None, FAR_BOX))
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
    for one in (got or [session.run(None, FAR_BOX)]) + [each.run(None, FAR_BOX) for each in made]:
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
            session_of(roi_align(mode="median"))
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


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.skipif(not machine.openmp(), reason="this build works on one thread")
def test_threads_of_the_options():
    """Nodes start none: they have those of the session, whatever is set elsewhere."""
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
print(started(1), started(2), started(1, 4), started(0))
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == ["0"] * 4
