"""Models with roicy.torch that torch.onnx.export makes give the same in ONNX Runtime."""

import io

import numpy as np
import pytest
from conftest import pairs, random_boxes

import roicy

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
rt = pytest.importorskip("roicy.torch")
from onnx.reference import ReferenceEvaluator  # noqa: E402
from onnx.reference.op_run import OpRun  # noqa: E402
from torch_calls import OF_EXPORTERS, PARAMETERS  # noqa: E402

pytestmark = OF_EXPORTERS
PAIR = (0.5, 0.375)
OF_ROICY = {
    "prroi_pool": "PrRoIPool",
    "ps_prroi_pool": "PSPrRoIPool",
    "ps_roi_align": "PSRoIAlign",
    "ps_roi_pool": "PSRoIPool",
}


class Pool(torch.nn.Module):
    """A function of roicy.torch with its parameters."""

    def __init__(self, name, size, scale=0.5, **parameters):
        super().__init__()
        self.function, self.given = getattr(rt, name), (size, scale)
        self.options = PARAMETERS.get(name, {}) | parameters

    def forward(self, x, boxes):
        return self.function(x, boxes, *self.given, **self.options)


def export(path, dynamo, model, x, boxes, opset=17, fewest=None, axes=(2,)):
    """Export a model that takes any number of boxes from `fewest` on, and maps of any extent along
    these axes; opset: without dynamo.
    """
    if dynamo:
        extents = {axis: torch.export.Dim(f"extent{axis}") for axis in axes}
        count = torch.export.Dim("count", min=fewest)
        free = {"dynamic_shapes": {"x": extents, "boxes": {0: count}}}
    else:
        extents = {axis: f"extent{axis}" for axis in axes}
        free = {"dynamic_axes": {"x": extents, "boxes": {0: "count"}}, "opset_version": opset}
    names = {"input_names": ["x", "boxes"], "output_names": ["y"]}
    torch.onnx.export(model, (x, boxes), path, dynamo=dynamo, verbose=False, **names, **free)
    return onnx.load(path)


def problem(rng, rows, count, dtype=torch.float32):
    x = torch.from_numpy(rng.standard_normal((2, 8, rows, 17))).to(dtype)
    boxes = random_boxes(rng, 2, count, (2 * rows, 34), np.float32)
    return x, torch.from_numpy(boxes).to(dtype)


def run(path, x, boxes):
    return runtime.InferenceSession(path).run(None, {"x": x.numpy(), "boxes": boxes.numpy()})[0]


@pairs(
    dtype=[torch.float32, torch.float16, torch.float64],
    dynamo=[True, False],
    scale=[0.5, PAIR],
    ratio=[2, -1, 3, 0],
    aligned=[True, False],
)
def test_roi_align(dtype, dynamo, scale, ratio, aligned, rng, tmp_path):
    path = str(tmp_path / "model.onnx")
    x, boxes = problem(rng, 15, 9, dtype)
    model = Pool("roi_align", (2, 3), scale, sampling_ratio=ratio, aligned=aligned)
    exported = export(path, dynamo, model, x, boxes)
    assert "RoiAlign" in [node.op_type for node in exported.graph.node]
    assert [opset.domain for opset in exported.opset_import] == [""]
    for given in ((x, boxes), problem(rng, 11, 4, dtype)):
        expected = model(*given)
        got = run(path, *given)
        assert got.dtype == expected.numpy().dtype
        # Positions go up to 34 pixels, and float16 is rounded once.
        eps = max(torch.finfo(dtype).eps, 34 * torch.finfo(torch.float32).eps)
        if dtype == torch.float64:
            eps = 34 * torch.finfo(dtype).eps
        np.testing.assert_allclose(got, expected, rtol=0, atol=eps * float(given[0].abs().max()))


@pairs(
    dynamo=[True, False],
    dtype=[torch.float32, torch.float16, torch.uint8],
    scale=[0.5, PAIR],
)
def test_roi_pool(scale, dynamo, dtype, rng, tmp_path):
    path = str(tmp_path / "model.onnx")
    x, boxes = problem(rng, 15, 9)
    x = (10 * x + 100).to(dtype)
    model = Pool("roi_pool", (2, 3), scale)
    exported = export(path, dynamo, model, x, boxes)
    assert "MaxRoiPool" in [node.op_type for node in exported.graph.node]
    np.testing.assert_array_equal(run(path, x, boxes), model(x, boxes))


@pytest.mark.parametrize("opset", [7, 9, 12, 15])
def test_roi_pool_of_old_opsets(opset, rng, tmp_path):
    """MaxRoiPool is of opset 1, and 7 is the oldest that PyTorch exports to."""
    path = str(tmp_path / "model.onnx")
    x, boxes = problem(rng, 15, 9)
    model = Pool("roi_pool", (2, 3), PAIR)
    exported = export(path, False, model, x, boxes, opset)
    assert [version.version for version in exported.opset_import] == [opset]
    np.testing.assert_array_equal(run(path, x, boxes), model(x, boxes))


@pairs(name=OF_ROICY, scale=[0.5, PAIR], dynamo=[True, False])
def test_operators_that_onnx_lacks(name, scale, dynamo, rng, tmp_path):
    """Operators that ONNX lacks have their own domain, and attributes that say what to compute."""
    path = str(tmp_path / "model.onnx")
    x, boxes = problem(rng, 15, 9)
    model = Pool(name, (2, 4), scale)
    exported = export(path, dynamo, model, x, boxes)
    assert ("roicy", 1) in [(opset.domain, opset.version) for opset in exported.opset_import]

    def compute(self, x, boxes, output_height, output_width, spatial_scale, sampling_ratio=None):
        assert list(spatial_scale) == (list(PAIR) if scale == PAIR else [0.5, 0.5])
        more = () if sampling_ratio is None else (sampling_ratio,)
        size = (output_height, output_width)
        return (getattr(roicy, name)(x, boxes, size, spatial_scale, *more),)

    members = {"op_domain": "roicy", "_run": compute}
    operator = type(OF_ROICY[name], (OpRun,), members)
    for given in ((x, boxes), problem(rng, 11, 4)):
        got = ReferenceEvaluator(exported, new_ops=[operator]).run(
            None, {"x": given[0].numpy(), "boxes": given[1].numpy()}
        )
        np.testing.assert_array_equal(got[0], model(*given))


class Pyramid(torch.nn.Module):
    """MultiScaleRoIAlign with lists of boxes, on maps that are made from one map."""

    def __init__(self, **keywords):
        super().__init__()
        self.pooler = rt.MultiScaleRoIAlign(["0", "1", "2"], 3, 2, **keywords)

    def forward(self, x, boxes):
        maps = {str(i): x[:, :, :: 2**i, :: 2**i] * (i + 1) for i in range(3)}
        return self.pooler(maps, [boxes, boxes[:2] + 1], [(256, 320), (250, 300)])


class PyramidOfPairs(torch.nn.Module):
    """Levels whose scales of y and x differ, on maps that are made of one."""

    def forward(self, x, boxes):
        maps = [x[:, :, :: 2**i, :: 2**i] * (i + 1) for i in range(2)]
        scales = [(1 / 2, 1 / 8), (1 / 4, 1 / 16)]
        boxes = [boxes, boxes[:2] + 1]
        return rt.multiscale_roi_align(maps, boxes, 3, scales, 2, False, 30.0, 3)


OF_100 = Pyramid(canonical_scale=100, canonical_level=3)


@pytest.mark.parametrize(
    ("model", "dynamo"),
    [
        (Pyramid(), False), (OF_100, False), (OF_100, True), (PyramidOfPairs(), False),
        (PyramidOfPairs(), True),
    ],
)  # fmt: skip
def test_pyramids(model, dynamo, rng, tmp_path):
    path = str(tmp_path / "model.onnx")
    x = torch.from_numpy(rng.standard_normal((2, 4, 64, 80))).float()
    low = rng.uniform(0, 60, (12, 2))
    high = low + np.exp(rng.uniform(2, 5.3, (12, 2)))
    high[3] = low[3]  # this box has no area
    boxes = torch.from_numpy(np.concatenate([low, high], axis=1)).float()
    export(path, dynamo, model, x, boxes, fewest=2, axes=())
    for given in (boxes, boxes[3:8]):
        expected = model(x, given)
        largest = float(expected.abs().max())
        # Positions go up to 80 pixels.
        np.testing.assert_allclose(run(path, x, given), expected, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("dynamo", [True, False])
def test_the_largest_samples_are_not_exported(dynamo, rng, tmp_path):
    # the exporter of dynamo=True traces in other ways where one fails, and sees the operator then
    message = "roi_align_max: not exported|No ONNX function found.*roi_align_max"
    with pytest.raises(Exception, match=message):
        export(str(tmp_path / "m.onnx"), dynamo, Pool("roi_align_max", 2), *problem(rng, 15, 9))


@pytest.mark.parametrize("clockwise", [False, True])
def test_keywords_that_a_node_lacks(clockwise, rng, monkeypatch):
    """Only their defaults are exported."""
    monkeypatch.setattr("roicy.torch._onnx.KNOWN", ("sampling_ratio", "aligned"))
    buffer, boxes = io.BytesIO(), torch.tensor([[0, 8.0, 8, 6, 4, 0.3]])
    model = Pool("roi_align_rotated", 2, clockwise=clockwise)
    if clockwise:
        with pytest.raises(NotImplementedError, match="^roi_align_rotated: clockwise=True is not"):
            export(buffer, False, model, problem(rng, 15, 9)[0], boxes)
    else:
        torch.onnx.export(model, (problem(rng, 15, 9)[0], boxes), buffer, dynamo=False)
        (node,) = [one for one in onnx.load_from_string(buffer.getvalue()).graph.node if one.domain]
        assert "clockwise" not in [one.name for one in node.attribute]
