"""Detectors that PyTorch exports give the same by InferenceSession, ONNX Runtime and PyTorch."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from roicy.compat import onnx as compat

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")
pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from roicy.onnxruntime import _patterns  # noqa: E402
from roicy.onnxruntime._report import told  # noqa: E402

SCRIPT = Path(__file__).parents[2] / "examples" / "export_detectors.py"
pytestmark = [
    pytest.mark.skipif(not SCRIPT.exists(), reason="the examples are not here"),
    # of the exporters and what they call; which of them warn differs between versions of PyTorch
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]
SIZE = (96, 128)


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("export_detectors", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exported(script, name, opset, folder, size=SIZE):
    """Return the path of a model, its inputs, and what PyTorch computes."""
    model, inputs = script.build(name, *size), script.inputs_of(name, *size)
    path = folder / f"{name}.onnx"
    script.export(name, model, inputs, path, opset)
    return path, inputs, script.detect(name, model, inputs)


def session_of(path):
    """Return a session, and how many pyramids, Loops and single nodes roicy has in it."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    with told() as (titles, _):
        session = compat.InferenceSession(path, options)
    pyramids = sum(title.startswith("pyramid") for title in titles)
    loops = sum(title.endswith("that pastes masks") for title in titles)
    return session, (pyramids, loops, len(titles) - pyramids - loops)


def run(session, inputs):
    names = [value.name for value in session.get_inputs()]
    feed = dict(zip(names, [tensor.numpy() for tensor in inputs], strict=True))
    results = session.run(None, feed)
    return dict(zip([value.name for value in session.get_outputs()], results, strict=True))


def assert_close(got, expected):
    """Scores agree to 1e-4 of the largest, boxes to 1e-2 pixel, and nearly all pixels of masks."""
    assert list(got) == list(expected)
    for name, array in got.items():
        other = np.asarray(expected[name])
        assert array.shape == other.shape
        if name == "masks":
            # Corners of boxes are cut to whole pixels, so a mask may move by one.
            assert (np.abs(array - other).max(axis=(1, 2, 3)) < 1e-3).mean() > 0.8
        elif name == "labels":
            np.testing.assert_array_equal(array, other)
        else:
            atol = 1e-2 if name == "boxes" else 1e-4 * np.abs(other).max()
            np.testing.assert_allclose(array, other, rtol=0, atol=atol)


def test_mask_rcnn(script, tmp_path, monkeypatch):
    """Both pyramids and the Loop that pastes are found, whatever the size of the image is."""
    path, inputs, expected = exported(script, "small_maskrcnn", 16, tmp_path)
    session, taken = session_of(path)
    assert taken == (2, 1, 0)
    got = run(session, inputs)
    assert got["masks"].max() > 0.1
    assert_close(got, expected)
    alone = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert_close(got, run(alone, inputs))
    # an image of another size, and boxes whose levels the graph would choose in another way
    other = (torch.rand(3, 70, 110),)
    assert_close(run(session, other), run(alone, other))
    monkeypatch.setattr(_patterns, "levels_of", lambda *_: None)
    assert_close(run(session, inputs), run(alone, inputs))


def test_an_opset_that_onnx_runtime_lacks(script, tmp_path):
    size = (160, 192)
    path, inputs, expected = exported(script, "fasterrcnn_mobilenet_320", 22, tmp_path, size)
    with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
        runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    session, taken = session_of(path)
    assert taken == (1, 0, 0)
    assert_close(run(session, inputs), expected)


@pytest.mark.parametrize("name", ["rfcn", "iounet"])
def test_operators_that_onnx_lacks(name, script, tmp_path):
    path, inputs, expected = exported(script, name, 17, tmp_path)
    session, taken = session_of(path)
    assert taken == (0, 0, {"rfcn": 1, "iounet": 3}[name])
    assert_close(run(session, inputs), expected)


class Pooling(torch.nn.Module):
    """A pyramid, and a layer that reads what is pooled."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        strides = (4, 8, 16)
        self.convolutions = torch.nn.ModuleList(
            torch.nn.Conv2d(3, 8, 3, stride=stride, padding=1) for stride in strides
        )
        self.pool = torchvision.ops.MultiScaleRoIAlign(["0", "1", "2"], 7, 2)
        self.layer = torch.nn.Linear(8 * 49, 5)

    def forward(self, image, boxes):
        maps = {str(i): layer(image) for i, layer in enumerate(self.convolutions)}
        pooled = self.pool(maps, [boxes], [SIZE])
        return self.layer(pooled.flatten(1)), pooled


def pooling_inputs(count):
    torch.manual_seed(1)
    low = torch.rand(count, 2) * torch.tensor([70.0, 50.0])
    boxes = torch.cat([low, low + 4 + torch.rand(count, 2) ** 2 * 60], dim=1)
    boxes[:3] = torch.tensor([[0, 0, 128, 96], [-500, -500, 600, 500], [3, 4, 3, 4]])
    return torch.rand(1, 3, *SIZE), boxes


@pytest.mark.parametrize(("count", "opset"), [("any", 18), ("one", 22)])
def test_pyramids_of_torch_export(count, opset, tmp_path, monkeypatch):
    """The exporter of dynamo=True joins levels by ScatterND, on zeros of fixed rows or not."""
    pytest.importorskip("onnxscript")
    path, model = tmp_path / "pooling.onnx", Pooling().eval()
    counts = {0: torch.export.Dim.DYNAMIC} if count == "any" else {}
    with torch.no_grad():
        torch.onnx.export(
            model, pooling_inputs(20), str(path), opset_version=opset, dynamo=True, verbose=False,
            dynamic_shapes=({}, counts), output_names=["scores", "pooled"], external_data=False,
        )  # fmt: skip
    session, taken = session_of(path)
    assert taken == (1, 0, 0)
    for rows in (20, 33, 3) if count == "any" else (20,):
        inputs = pooling_inputs(rows)
        with torch.no_grad():
            expected = dict(zip(("scores", "pooled"), model(*inputs), strict=True))
        got = run(session, inputs)
        assert_close(got, expected)
        if opset < 22:
            assert_close(
                got, run(runtime.InferenceSession(path, providers=["CPUExecutionProvider"]), inputs)
            )
    monkeypatch.setattr(_patterns, "levels_of", lambda *_: None)
    assert_close(run(session, inputs), expected)


def test_nms_that_can_be_exported(script):
    """It keeps the boxes that torchvision's keeps, and torchvision's is back after it."""
    torch.manual_seed(0)
    given = torchvision.ops.boxes.batched_nms
    low = torch.rand(200, 2) * 60
    boxes = torch.cat([low, low + 5 + torch.rand(200, 2) * 30], dim=1)
    scores, groups = torch.rand(200), torch.randint(0, 3, (200,))
    with script.exportable():
        assert torchvision.ops.boxes.batched_nms is not given
        kept = torchvision.ops.boxes.batched_nms(boxes, scores, groups, 0.3)
    assert torchvision.ops.boxes.batched_nms is given
    assert 0 < len(kept) < 200
    assert torch.equal(kept, given(boxes, scores, groups, 0.3))
