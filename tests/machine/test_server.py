"""The servers in examples/server answer, and refuse what is no image."""

import asyncio
import importlib
import io
import json
import operator
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx.parser")
Image = pytest.importorskip("PIL.Image")

FOLDER = Path(__file__).parents[2] / "examples" / "server"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the examples are not here")

# A box of the image's middle, one that its score leaves out, and one of the largest pixel.
DETECTOR = """
<ir_version: 9, opset_import: ["": 16]>
detect (float[3, height, width] image) =>
    (float[3, 4] boxes, int64[3] labels, float[3] scores) {
    boxes = Constant <value = float[3, 4]
        {2.0, 2.0, 6.0, 6.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 8.0, 8.0}> ()
    labels = Constant <value = int64[3] {5, 6, 7}> ()
    axis = Constant <value_ints = [0]> ()
    batch = Unsqueeze (image, axis)
    zeros = Constant <value = int64[3] {0, 0, 0}> ()
    pooled = RoiAlign <mode = "avg", sampling_ratio = 2> (batch, boxes, zeros)
    means = ReduceMean <axes = [1, 2, 3], keepdims = 0> (pooled)
    some = Constant <value = float[3] {1.0, 0.0, 1.0}> ()
    scores = Mul (means, some)
}"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "detector.onnx"
    onnx.save(onnx.parser.parse_model(DETECTOR), path)
    return path


@pytest.fixture
def module(monkeypatch):
    """Import a file of the folder anew."""
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module
    for name in ("app", "detector", "load_test", "model", "ray_app"):
        sys.modules.pop(name, None)


def picture(height=8, width=8, value=128):
    out = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), value, np.uint8)).save(out, "PNG")
    return out.getvalue()


def saved(image, kind="PNG", **given):
    out = io.BytesIO()
    image.save(out, kind, **given)
    return out.getvalue()


def test_pictures_are_upright(module):
    """Those of cameras are stored as the sensor lies, and EXIF says how it was held."""
    decode = module("detector").decode
    stored, exif = np.zeros((8, 24, 3), np.uint8), Image.Exif()
    stored[:, :8] = 255
    exif[0x0112] = 6  # the first column is the upper side
    for kind in ("PNG", "JPEG"):
        upright = decode(saved(Image.fromarray(stored), kind, exif=exif))
        np.testing.assert_allclose(upright, np.rot90(stored, -1), atol=2)
    other = saved(Image.fromarray(stored), exif=b"Exif\0\0nothing")
    np.testing.assert_array_equal(decode(other), stored)


def test_pictures_of_16_bits(module):
    numbers = np.arange(0, 65536, 1024, np.uint16).reshape(8, 8)
    found = module("detector").decode(saved(Image.fromarray(numbers)))
    np.testing.assert_array_equal(found, np.repeat(numbers[..., None] >> 8, 3, 2))


@pytest.mark.parametrize("with_roicy", [True, False])
def test_detector(model, module, with_roicy):
    found = module("detector").Detector(str(model), 1, with_roicy)(picture())
    assert found["size"] == [8, 8]
    assert found["boxes"] == [[2, 2, 6, 6], [0, 0, 8, 8]]
    assert found["labels"] == [5, 7]
    np.testing.assert_allclose(found["scores"], 128 / 255, atol=1e-4)
    np.testing.assert_allclose(found["means"], np.full((2, 3), 128 / 255), atol=1e-4)


def test_large_images_are_reduced(model, module, monkeypatch):
    """The model gets no more than LONGEST pixels a side, and boxes are those of the upload."""
    detector = module("detector")
    monkeypatch.setattr(detector, "LONGEST", 8)
    found = detector.Detector(str(model))(picture(24, 32))
    assert found["size"] == [24, 32]
    assert found["boxes"] == [[8, 8, 24, 24], [0, 0, 32, 32]]


class Tensor:
    """An array of Triton."""

    def __init__(self, name, array):
        self.name, self.array = name, array

    def as_numpy(self):
        return self.array


def test_triton_model(model, module, monkeypatch):
    named = types.SimpleNamespace
    stand = types.ModuleType("triton_python_backend_utils")
    stand.Tensor, stand.get_input_tensor_by_name = Tensor, operator.getitem
    stand.InferenceResponse = lambda output_tensors=(), error=None: named(
        tensors=output_tensors, error=error
    )
    stand.TritonError = lambda message, code=0: named(message=message, code=code)
    stand.TritonError.INVALID_ARG, stand.TritonError.INTERNAL = 3, 1
    monkeypatch.setitem(sys.modules, stand.__name__, stand)
    served = module("model").TritonPythonModel()
    parameters = {"model": {"string_value": str(model)}}
    served.initialize({"model_config": json.dumps({"parameters": parameters})})

    def request(data):
        return {"IMAGE": Tensor("IMAGE", np.array([data], np.object_))}

    good, bad = served.execute([request(picture()), request(b"no image")])
    assert good.error is None
    (found,) = good.tensors
    assert (found.name, found.array.dtype) == ("DETECTIONS", object)
    assert json.loads(found.array[0])["labels"] == [5, 7]
    assert (bad.error.code, bad.error.message) == (3, "no image of JPEG or PNG")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("(float[3, 4] boxes, int64[3] labels,", "(float[3, 4] boxes,", "outputs"),
        ("width] image)", "width] image, int64[1] other)", "inputs"),
        ("RoiAlign", "NoOperator", "cannot be opened"),
    ],
)
def test_models_that_cannot_be_served(before, after, words, tmp_path, module):
    """The server ends at its start, with one line."""
    made = onnx.parser.parse_model(DETECTOR.replace(before, after))
    onnx.save(made, tmp_path / "other.onnx")
    with pytest.raises(SystemExit, match=f"^MODEL: .*{words}") as ended:
        module("detector").Detector(str(tmp_path / "other.onnx"))
    assert "\n" not in str(ended.value)


def test_errors_by_cause(model, module, monkeypatch):
    """What the model does not take is the client's fault, and what it lacks is not."""
    detector = module("detector")
    served = detector.Detector(str(model))
    for error, status in (
        (detector.InvalidArgument("boxes[0]: batch index 3 is outside"), 400),
        (RuntimeError("[ONNXRuntimeError] Failed to allocate memory for a buffer"), 503),
        (RuntimeError("[ONNXRuntimeError] no room for 3 levels"), 503),
        (RuntimeError("[ONNXRuntimeError] Exiting due to terminate flag"), 500),
    ):

        def run(*_, error=error):
            raise error

        monkeypatch.setattr(served, "session", types.SimpleNamespace(run=run))
        with pytest.raises(detector.Refused) as refused:
            served(picture())
        assert refused.value.status == status


@pytest.fixture
def client(model, module, monkeypatch):
    """Give a client of the application."""
    for name in ("httpx", "python_multipart", "prometheus_client"):
        pytest.importorskip(name)
    client_of = pytest.importorskip("fastapi.testclient").TestClient
    monkeypatch.setenv("MODEL", str(model))
    registry = sys.modules["prometheus_client"].REGISTRY
    app = module("app")
    with client_of(app.app) as client:
        client.module = app
        yield client
    for name in ("began", "answered", "seconds", "inside"):
        registry.unregister(getattr(app, name))


def test_app(client, module):
    assert client.get("/health").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"status": "ready"}
    for given in ({"content": picture()}, {"files": {"image": picture()}}):
        answer = client.post("/detect", **given)
        assert answer.status_code == 200
        assert answer.json()["labels"] == [5, 7]
    for data in module("load_test").malformed().values():
        for given in ({"content": data}, {"files": {"image": data}}):
            assert 400 <= client.post("/detect", **given).status_code < 500
    for files in ({"other": picture()}, {"image": (None, "text")}):
        assert client.post("/detect", files=files).status_code == 422
    form = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/detect", content=b"--y--", headers=form).status_code == 400
    streamed = client.post("/detect", content=iter([b"--x--"]), headers=form)
    assert streamed.status_code == 411
    assert client.post("/detect", content=(bytes(1 << 20) for _ in range(18))).status_code == 413
    metrics = client.get("/metrics").text
    assert 'detect_answered_total{status="200"} 2.0' in metrics
    assert 'detect_answered_total{status="422"} 2.0' in metrics
    assert "detect_began_total 29.0" in metrics
    assert "detect_inside 0.0" in metrics


def test_overload(client, monkeypatch):
    """Beyond the places there is 503 at once; who waits too long, or takes too long, is told so."""
    app, desk = client.module, client.module.desks[0]
    monkeypatch.setattr(app, "WAITING", 2)
    monkeypatch.setattr(app, "DEADLINE", 0.5)
    started, go_on = threading.Event(), threading.Event()
    options = []

    def slow(data, run):
        options.append(run)
        started.set()
        go_on.wait(20)
        return {}

    monkeypatch.setattr(desk, "detector", slow)

    def send(_=None):
        return client.post("/detect", content=picture())

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(send)
        assert started.wait(20)
        others = [pool.submit(send) for _ in range(2)]
        while desk.inside < 3:
            pass
        assert client.get("/ready").status_code == 503
        turned_away = send()
        assert turned_away.status_code == 503
        assert int(turned_away.headers["Retry-After"]) >= 1
        assert [other.result().status_code for other in others] == [503, 503]
        assert first.result().status_code == 504
        assert options[0].terminate and len(options) == 1  # the others were not computed
        assert desk.inside == 1  # whose thread is not free yet
        go_on.set()
    while desk.inside:
        pass
    assert not desk.is_full  # although the first one took too long
    monkeypatch.setattr(app, "DEADLINE", 60.0)
    assert send().status_code == 200


def test_a_refused_upload_is_read_to_its_end(client):
    """What is left of it would be kept with its connection."""
    left = [{"type": "http.request", "body": b"x", "more_body": more} for more in (True, False)]

    async def receive():
        return left.pop(0)

    given = types.SimpleNamespace(scope={"type": "http"}, receive=receive)
    request = client.module.Incoming(given)
    for _ in range(2):  # the second time, there is nothing to wait for
        asyncio.run(request.drop())
        assert not left


def test_load_test_counts(module, monkeypatch):
    """An answer other than the first one is wrong, and who is turned away comes again."""
    httpx = pytest.importorskip("httpx")
    load_test = module("load_test")
    load = load_test.Load("http://x", (8, 8), 0, 0)
    monkeypatch.setattr(load_test.time, "sleep", lambda _: None)
    busy = httpx.Response(503, headers={"retry-after": "3"})
    answers = iter([httpx.Response(200, content=b"a"), busy, httpx.Response(200, content=b"b")])
    one = types.SimpleNamespace(post=lambda *_, **__: next(answers))
    for _ in range(3):
        load.send(one, False)
    assert (len(load.times), load.turned_away, load.failed) == (1, 1, {"a wrong answer": 1})
