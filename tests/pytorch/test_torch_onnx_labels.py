"""Segmentation networks that PyTorch exports: their labels are one call of label_map."""

import numpy as np
import pytest
from conftest import pairs

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from onnx_models import claimed, quiet  # noqa: E402
from torch_calls import OF_EXPORTERS  # noqa: E402

pytestmark = OF_EXPORTERS
# How maps are enlarged; None: to the size of the image
ENLARGED = {
    "image": {"size": None},
    "corners": {"size": None, "align_corners": True},
    "size": {"size": (33, 70)},
    "scale": {"scale_factor": 4},
    "fraction": {"scale_factor": 2.3},
    "size of fraction": {"scale_factor": 2.3, "recompute_scale_factor": True},
}
BETWEEN = {
    "nothing": lambda x: x,
    "softmax": lambda x: x.softmax(1),
    "softmax of -3": lambda x: x.softmax(-3),
    "logarithms": lambda x: x.log_softmax(1),
    "float": lambda x: x.float().softmax(1),
}
LARGEST = {
    "argmax": lambda x: x.argmax(1),
    "axes stay": lambda x: x.argmax(-3, keepdim=True),
    "bytes": lambda x: x.argmax(-3).to(torch.uint8),
    "int32": lambda x: x.argmax(1, keepdim=True).squeeze(1).int(),
}
# Both exporters, by their opsets
EXPORTERS = [*(("TorchScript", opset) for opset in (11, 12, 13, 16, 17, 20)),
             *(("dynamo", opset) for opset in (18, 21, 23))]  # fmt: skip


class Net(torch.nn.Module):
    """A network of one layer, which labels an image."""

    def __init__(self, enlarged, between, largest):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Conv2d(3, 5, 3, 4, 1)
        self.enlarged, self.between, self.largest = enlarged, between, largest

    def maps(self, x):
        given = {"align_corners": False} | self.enlarged
        if given.get("size", 0) is None:
            given["size"] = x.shape[2:]
        return torch.nn.functional.interpolate(self.layer(x), mode="bilinear", **given)

    def forward(self, x):
        return self.largest(self.between(self.maps(x)))


def exported(path, exporter, opset, net, x, is_any):
    """Export a network for images of one size, or of any."""
    if exporter == "dynamo":
        free = torch.export.Dim.DYNAMIC
        shapes = {"dynamic_shapes": ({0: free, 2: free, 3: free},)} if is_any else {}
        more = {"dynamo": True, "external_data": False}
    else:
        shapes = {"dynamic_axes": {"x": {0: "n", 2: "h", 3: "w"}}} if is_any else {}
        more = {"dynamo": False, "input_names": ["x"]}
    torch.onnx.export(net, (x,), path, opset_version=opset, verbose=False, **shapes, **more)
    return onnx.load(path)


@pairs(exporter=EXPORTERS, is_any=[False, True], enlarged=ENLARGED, between=BETWEEN,
       largest=LARGEST, dtype=[torch.float32, torch.float16],
       level=["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"])  # fmt: skip
def test_exported(exporter, is_any, enlarged, between, largest, dtype, level, rng, tmp_path):
    """Labels are PyTorch's, but where two classes nearly tie.

    Maps of float16 are ONNX Runtime's, which makes them in float32 and does not round them.
    """
    net = Net(ENLARGED[enlarged], BETWEEN[between], LARGEST[largest]).eval()
    images = torch.from_numpy(rng.standard_normal((2, 3, 32, 48)).astype(np.float32))
    model = exported(str(tmp_path / "net.onnx"), *exporter, net.to(dtype), images.to(dtype), is_any)
    options = quiet(graph_optimization_level=getattr(runtime.GraphOptimizationLevel, level))
    titles, session = claimed(model, options)
    is_rounded = dtype is torch.float16
    assert [title.partition(" of ")[0] for title in titles] == ["labels"] * (not is_rounded)
    for some in (images, images[:1, :, :24]) if is_any else (images,):
        some = some.to(dtype)
        (labels,) = session.run(None, {session.get_inputs()[0].name: some.numpy()})
        with torch.no_grad():
            expected = net(some).numpy()
            first, second = net.float().maps(some.float()).topk(2, dim=1).values.unbind(1)
        net.to(dtype)
        assert labels.dtype == expected.dtype
        assert labels.shape == expected.shape
        # Maps are rounded once to their type, and PyTorch rounds probabilities of float16 too.
        near = (first - second < 8 * torch.finfo(dtype).eps).numpy().reshape(labels.shape)
        assert not (labels != expected)[~near].any()
        assert near.mean() < 0.05


@pytest.mark.parametrize("tool", ["onnxsim", "onnxslim"])
@pytest.mark.parametrize("exporter", [("TorchScript", 12), ("TorchScript", 17), ("dynamo", 18)])
@pytest.mark.parametrize("is_any", [False, True])
def test_simplified(tool, exporter, is_any, rng, tmp_path):
    simplify = {"onnxsim": lambda module, model: module.simplify(model)[0],
                "onnxslim": lambda module, model: module.slim(model)}  # fmt: skip
    module = pytest.importorskip(tool)
    net = Net(ENLARGED["image"], BETWEEN["softmax"], LARGEST["bytes"]).eval()
    images = torch.from_numpy(rng.standard_normal((2, 3, 32, 48)).astype(np.float32))
    model = exported(str(tmp_path / "net.onnx"), *exporter, net, images, is_any)
    titles, session = claimed(simplify[tool](module, model))
    assert [title.partition(" of ")[0] for title in titles] == ["labels"]
    (labels,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    with torch.no_grad():
        expected = net(images).numpy()
    assert (labels != expected).mean() < 1e-3
