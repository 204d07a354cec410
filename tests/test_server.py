"""The servers in examples/server answer, and refuse what is no image."""

import importlib
import io
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx.parser")
Image = pytest.importorskip("PIL.Image")

FOLDER = Path(__file__).parent.parent / "examples" / "server"
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
    names = ("app", "detector", "load_test", "model", "ray_app")

    def get(name):
        return importlib.import_module(name)

    yield get
    for name in names:
        sys.modules.pop(name, None)


def picture(height=8, width=8, value=128):
    out = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), value, np.uint8)).save(out, "PNG")
    return out.getvalue()


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


class Stand:
    """What model.py uses of Triton's module."""

    class TritonError:
        INVALID_ARG = 3

        def __init__(self, message, code=0):
            self.message, self.code = message, code

    class InferenceResponse:
        def __init__(self, output_tensors=(), error=None):
            self.tensors, self.error = {one.name: one for one in output_tensors}, error

    class Tensor:
        def __init__(self, name, array):
            self.name, self.array = name, array

        def as_numpy(self):
            return self.array

    @staticmethod
    def get_input_tensor_by_name(request, name):
        return request[name]


def test_triton_model(model, module, monkeypatch):
    stand = types.ModuleType("triton_python_backend_utils")
    stand.__dict__.update({n: v for n, v in vars(Stand).items() if not n.startswith("_")})
    stand.get_input_tensor_by_name = Stand.get_input_tensor_by_name
    monkeypatch.setitem(sys.modules, stand.__name__, stand)
    served = module("model").TritonPythonModel()
    parameters = {"model": {"string_value": str(model)}}
    served.initialize({"model_config": json.dumps({"parameters": parameters})})

    def request(data):
        return {"IMAGE": Stand.Tensor("IMAGE", np.array([data], np.object_))}

    good, bad = served.execute([request(picture()), request(b"no image")])
    assert good.error is None
    array = good.tensors["DETECTIONS"].as_numpy()
    assert array.dtype == object
    assert json.loads(array[0])["labels"] == [5, 7]
    assert (bad.error.code, bad.error.message) == (3, "no image of JPEG or PNG")


def test_app(model, module, monkeypatch):
    pytest.importorskip("httpx")
    pytest.importorskip("python_multipart")
    client_of = pytest.importorskip("fastapi.testclient").TestClient
    monkeypatch.setenv("MODEL", str(model))
    app, load_test = module("app"), module("load_test")
    with client_of(app.app) as client:
        assert client.get("/health").json() == {"status": "ready"}
        for given in ({"content": picture()}, {"files": {"image": picture()}}):
            answer = client.post("/detect", **given)
            assert answer.status_code == 200
            assert answer.json()["labels"] == [5, 7]
        for data in load_test.malformed().values():
            for given in ({"content": data}, {"files": {"image": data}}):
                assert 400 <= client.post("/detect", **given).status_code < 500
        for files in ({"other": picture()}, {"image": (None, "text")}):
            assert client.post("/detect", files=files).status_code == 422
        form = {"content-type": "multipart/form-data; boundary=x"}
        assert client.post("/detect", content=b"--y--", headers=form).status_code == 400
        streamed = client.post("/detect", content=iter([b"--x--"]), headers=form)
        assert streamed.status_code == 411
        assert (
            client.post("/detect", content=(bytes(1 << 20) for _ in range(18))).status_code == 413
        )
