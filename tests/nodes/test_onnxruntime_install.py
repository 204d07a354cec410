"""``install``: the sessions that other programs make have the provider."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx_models import (
    NAME,
    ONE_BOX,
    alone,
    assert_as_onnx_runtime,
    box_inputs,
    chain,
    of_one,
    quiet,
    roi_align,
    runtime,
)

import roicy
from roicy import onnxruntime as provider
from roicy.compat import onnx as compat
from roicy.onnxruntime._report import told

CPU = "CPUExecutionProvider"
PLAIN = runtime.InferenceSession  # as programs have it that imported it before
inputs = pytest.fixture(box_inputs)


@pytest.fixture
def installed():
    with provider.install():
        yield


class Program(PLAIN):
    """A session that can be pickled, as insightface has one."""

    def __init__(self, data, **kwargs):
        super().__init__(data, **kwargs)
        self.data = data

    def __getstate__(self):
        return {"data": self.data}

    def __setstate__(self, state):
        self.__init__(state["data"])


@pytest.mark.parametrize(
    "given",
    [
        {}, {"providers": None}, {"providers": []}, {"providers": [CPU]}, {"providers": (CPU,)},
        {"providers": [(CPU, {"arena_extend_strategy": "kSameAsRequested"})]},
        {"providers": [CPU], "provider_options": [{}]},
        {"providers": [CPU], "sess_options": quiet(intra_op_num_threads=1)},
    ],
)  # fmt: skip
@pytest.mark.usefixtures("installed")
def test_sessions_of_programs(given, inputs):
    """However a program makes a session, its results are those of ONNX Runtime."""
    model = chain()
    for make in (runtime.InferenceSession, PLAIN, Program):
        with told() as (titles, _):
            session = make(model.SerializeToString(), **given)
        assert len(titles) == 2
        assert session.get_providers() == [NAME, CPU]
        assert not given.get("sess_options") or not given["sess_options"].has_providers()
        assert_as_onnx_runtime(session.run(None, inputs), model, inputs)


@pytest.mark.usefixtures("installed")
def test_what_a_program_gives():
    """Lists that have the provider, and options that have providers, stay as they are."""
    data = roi_align().SerializeToString()
    kept = provider.use(quiet(), 1)
    assert PLAIN(data, kept).get_providers() == [NAME, CPU]
    options = quiet()
    options.add_provider("AzureExecutionProvider", {})
    assert PLAIN(data, options).get_providers() == ["AzureExecutionProvider", CPU]
    azure = PLAIN(data, quiet(), providers=["AzureExecutionProvider"])
    assert azure.get_providers() == ["AzureExecutionProvider", NAME, CPU]
    if NAME in runtime.get_available_providers():
        for listed in ([CPU, NAME], [(NAME, {"num_threads": "1"}), CPU]):
            session = PLAIN(data, quiet(), providers=listed)
            assert session.get_providers() == [one if one == CPU else NAME for one in listed]
    session = PLAIN(data, quiet(intra_op_num_threads=1), providers=[CPU])
    assert session.get_session_options().intra_op_num_threads == 1
    assert compat.InferenceSession(data, quiet(), num_threads=1).get_providers() == [NAME, CPU]
    with pytest.raises(Exception, match="option 'nthreads' is unknown"):
        compat.InferenceSession(data, quiet(), [(NAME, {"nthreads": "1"})])


@pytest.mark.usefixtures("installed")
def test_set_providers():
    """A session that is made again, as insightface has it for the CPU."""
    session = Program(roi_align().SerializeToString())
    expected = session.run(None, ONE_BOX)
    session.set_providers([CPU])
    assert session.get_providers() == [NAME, CPU]
    np.testing.assert_array_equal(session.run(None, ONE_BOX), expected)
    again = pickle.loads(pickle.dumps(session))
    assert again.get_providers() == [NAME, CPU]


@pytest.mark.usefixtures("installed")
def test_operators_that_onnx_runtime_lacks():
    """The domain roicy, and opset 22; and errors are those of the node."""
    feed = {"X": ONE_BOX["X"], "rows": np.array([[0, 1, 1, 5, 6]], np.float32)}
    model = of_one("roicy.PrRoIPool", feed, output_height=2, output_width=2)
    expected = roicy.prroi_pool(*feed.values(), 2)
    for options in (None, quiet()):
        session = PLAIN(model.SerializeToString(), options, providers=[CPU])
        np.testing.assert_array_equal(session.run(None, feed)[0], expected)
        session.set_providers([CPU])
        np.testing.assert_array_equal(session.run(None, feed)[0], expected)
    later = PLAIN(roi_align(opset=22).SerializeToString(), quiet(), providers=[CPU])
    assert later.run(None, ONE_BOX)[0].shape == (1, 1, 1, 1)
    with pytest.raises(Exception, match="mode: 'median', expected"):
        PLAIN(roi_align(mode="median").SerializeToString(), quiet(), providers=[CPU])


def test_install_and_uninstall(inputs):
    """Once, for all threads, and undone."""
    model = chain()
    before = PLAIN.__init__, PLAIN.set_providers
    assert alone(model).get_providers() == [CPU]
    provider.uninstall()  # nothing is installed
    provider.install()
    try:
        assert alone(model).get_providers() == [NAME, CPU]
        provider.install()
        with provider.install():  # of another part of the program
            assert alone(model).get_providers() == [NAME, CPU]
        with ThreadPoolExecutor(4) as pool:
            found = [*pool.map(lambda _: alone(model).get_providers(), range(4))]
        assert found == [[NAME, CPU]] * 4
        session = alone(model)
    finally:
        provider.uninstall()
    assert (PLAIN.__init__, PLAIN.set_providers) == before
    assert alone(model).get_providers() == [CPU]
    assert len(session.run(None, inputs)) == 3
    with pytest.raises(KeyError), provider.install():
        raise KeyError
    assert PLAIN.__init__ == before[0]


def test_models_without_nodes_say_nothing():
    """Programs whose models have no RoI nodes print what they printed before."""
    model = of_one("Neg", {"X": ONE_BOX["X"]})
    code = f"""
import numpy as np, onnxruntime
from onnxruntime import InferenceSession
import roicy.onnxruntime
roicy.onnxruntime.install()
for data in ({model.SerializeToString()!r}, {chain().SerializeToString()!r}):
    for given in ({{}}, {{"providers": ["CPUExecutionProvider"]}}):
        session = InferenceSession(data, onnxruntime.SessionOptions(), **given)
        assert session.get_providers()[0] == {NAME!r}
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout + ran.stderr == ""
