"""The operators and models of torchvision give the same results on roicy's kernels."""

import contextlib
import copy
import importlib
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")
from torch_calls import by_image, named, problem, pyramid  # noqa: E402


@pytest.fixture
def vision():
    try:
        return importlib.import_module("torchvision")
    # the latter where its build does not fit that of PyTorch
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision cannot be imported: {error}")


def assert_close(mine, theirs, eps):
    """Check results of roicy and of torchvision, relative to the largest of each."""
    for one, other in zip(mine, theirs, strict=True):
        if other is None:  # no box is pooled from that map
            assert one is None or not one.any()
            continue
        largest = float(other.abs().max())
        np.testing.assert_allclose(one, other, rtol=0, atol=eps * largest)


def assert_detected(mine, theirs):
    """Pooled features differ by roundings of float32, which the network passes on."""
    assert len(theirs["boxes"]) > 0
    assert mine.keys() == theirs.keys()
    for key in theirs:
        np.testing.assert_allclose(mine[key], theirs[key], rtol=1e-3, atol=2e-3, err_msg=key)


@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"])
def test_operators(vision, name, rng):
    x, boxes, size, parameters = problem(rng, name, torch.float64)
    # torchvision's ps_roi_align gives NaN for boxes of no size.
    boxes[:, 3:] = torch.maximum(boxes[:, 3:], boxes[:, 1:3] + 1)
    x.requires_grad_()
    function = getattr(vision.ops, name)

    def both():
        out = function(x, boxes, size, **parameters)
        return out.detach(), torch.autograd.grad((out**2).sum(), x)[0]

    original = both()
    with rt.patch_torchvision():
        patched = both()
        out = getattr(rt, name)(x, boxes, size, **parameters)
        np.testing.assert_array_equal(patched[0], out.detach())
    restored = both()
    assert all(map(torch.equal, restored, original))
    # The gradient of torchvision's ps_roi_pool gives the last row and column a share, though its
    # forward pass never reads them.
    count = 1 if name == "ps_roi_pool" else 2
    assert_close(patched[:count], original[:count], 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("names", [["0", "1", "2"], ["0", "2"], ["1"]])
def test_multiscale(vision, names, dtype, rng):
    """Levels agree at their borders too: at sides of 56, 112 and 224 pixels and close to them."""
    maps, boxes, _ = pyramid(rng, dtype)
    sides = torch.tensor(
        [55.9999, 56, 56.0001, 111.9999, 112, 112.0001, 223.9999, 224, 224.0001], dtype=dtype
    )
    square = torch.stack([sides * 0, sides * 0, sides, sides], dim=1)
    parts = [torch.cat([part, square + n]) for n, part in enumerate(by_image(boxes))]
    if len(names) == 2:  # torchvision gives zeros for boxes beyond the level that is left out
        parts = [
            part[(part[:, 2] - part[:, 0]) * (part[:, 3] - part[:, 1]) < 99**2] for part in parts
        ]
    shapes = [(250, 320), (256, 300)]
    for extra in ({}, {"canonical_scale": 100, "canonical_level": 3}):
        results = []
        for library in (rt, vision.ops):
            levels = [level.clone().requires_grad_() for level in maps]
            out = library.MultiScaleRoIAlign(names, 3, 2, **extra)(named(levels), parts, shapes)
            (out**2).sum().backward()
            results.append([out.detach(), *(level.grad for level in levels)])
        # Positions go up to 80 pixels, and sums are over the bins of up to 27 boxes.
        assert_close(*results, 200 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("kind", ["mask", "keypoint"])
def test_detectors(vision, kind):
    """Detectors find the same with roicy's modules as poolers, and on patched functions."""
    detection = vision.models.detection
    names = ["0", "1", "2", "3"]

    def network(library):
        torch.manual_seed(0)
        poolers = {
            "box_roi_pool": library.MultiScaleRoIAlign(names, 7, 2),
            f"{kind}_roi_pool": library.MultiScaleRoIAlign(names, 14, 2),
        }
        backbone = detection.backbone_utils.resnet_fpn_backbone(
            backbone_name="resnet18", weights=None
        )
        return getattr(detection, f"{kind.title()}RCNN")(
            backbone, num_classes=2 if kind == "keypoint" else 5, box_score_thresh=0.0,
            box_detections_per_img=10, rpn_post_nms_top_n_test=60, min_size=96, max_size=128,
            **poolers,
        ).eval()  # fmt: skip

    images = [torch.rand(3, 96, 128), torch.rand(3, 90, 128)]
    with torch.no_grad():
        mine = network(rt)(images)
        other = network(vision.ops)
        theirs = other(images)
        with rt.patch_torchvision():
            patched = other(images)
    for i in range(2):
        assert_detected(mine[i], theirs[i])
        assert_detected(patched[i], theirs[i])


def test_the_module_is_one_of_torchvision(vision):
    pooler = rt.MultiScaleRoIAlign(["0"], 7, 2)
    assert isinstance(pooler, vision.ops.MultiScaleRoIAlign)
    maps = {"0": torch.rand(1, 3, 20, 20)}
    boxes, shapes = [torch.tensor([[3, 4, 50, 60.0]])], [(80, 80)]
    with pytest.warns(match="torch.jit.script"):
        scripted = torch.jit.script(pooler)
    assert torch.equal(scripted(maps, boxes, shapes), pooler(maps, boxes, shapes))
    for copied in (copy.deepcopy(pooler), pickle.loads(pickle.dumps(pooler))):
        assert type(copied) is type(pooler)
        assert repr(copied) == repr(vision.ops.MultiScaleRoIAlign(["0"], 7, 2))


NAMES_IN_PLACE = """
import importlib, sys
for name in sys.argv[2:]:
    # roicy.torch does not import torchvision
    assert name != "torchvision" or name not in sys.modules
    importlib.import_module(name)
import torch, torchvision
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

library, ops = sys.modules[sys.argv[1]], torchvision.ops
shared = {name: getattr(ops, name) for name in library.__all__ if hasattr(ops, name)}
assert len(shared) == 9
x, boxes = torch.arange(256.0).reshape(1, 4, 8, 8) % 7, torch.tensor([[0, 1, 1, 6, 5.0]])
given = (x, boxes) if library.__name__ == "roicy.torch" else (x.numpy(), boxes.numpy())

def pooled(given):
    for name in sorted(shared.keys() - {"MultiScaleRoIAlign"}):
        parameters = (1.0, 2) if "lign" in name else (1.0,)
        found = getattr(ops, name)
        out = found(*given, 2, *parameters) if name.islower() else found(2, *parameters)(*given)
        yield torch.as_tensor(out)

def detections(**pooler):
    torch.manual_seed(0)
    model = fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=3, min_size=64, max_size=80,
        box_score_thresh=0.0, box_detections_per_img=10, **pooler,
    )
    with torch.no_grad():
        return model.eval()([torch.rand(3, 64, 80)])[0]["boxes"]

expected = [*pooled((x, boxes)), detections()]
for modules in [ops], [*sys.modules.values()]:
    for module in modules:
        for name, theirs in shared.items():
            if module.__name__.startswith("torchvision") and vars(module).get(name) is theirs:
                setattr(module, name, getattr(library, name))
    pooler = {"box_roi_pool": ops.MultiScaleRoIAlign(["0", "1", "2"], 7, 2)}
    if library.__name__ != "roicy.torch":
        pooler = {}  # a model of tensors has no use for a pooler of arrays
    for mine, theirs in zip([*pooled(given), detections(**pooler)], expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=2e-3)
    if not pooler:
        break
"""


@pytest.mark.parametrize(
    "imports",
    [
        ("roicy.torch", "torchvision"),
        pytest.param(("torchvision", "roicy.torch"), marks=pytest.mark.slow),
        pytest.param(("roicy.compat.torchvision",), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_names_in_place(vision, imports):
    """Names of roicy in torchvision's place, whichever was imported first; models run with them."""
    library = max(imports, key=lambda name: name.startswith("roicy"))
    subprocess.run([sys.executable, "-c", NAMES_IN_PLACE, library, *imports], check=True)


@pytest.mark.parametrize("sides", [(5, 5), (2, 2, 1), (12, 6, 6), (4, 4, 4)])
def test_maps_of_equal_scales(vision, sides, rng):
    """MobileNet's detectors have two maps of stride 32, and more of them for small images."""
    low = rng.uniform(0, 20, (40, 2))
    boxes = np.concatenate([low, low + np.exp(rng.uniform(1, 6.5, (40, 2)))], axis=1)
    results = []
    for library in (rt, vision.ops):
        maps = {
            str(i): torch.from_numpy(np.random.default_rng(i).random((1, 3, side, side)))
            for i, side in enumerate(sides)
        }
        pooler = library.MultiScaleRoIAlign(list(maps), 3, 2)
        for level in maps.values():
            level.requires_grad_()
        out = pooler(maps, [torch.from_numpy(boxes)], [(45, 45)])
        (out**2).sum().backward()
        results.append([out.detach(), *(level.grad for level in maps.values())])
    assert_close(*results, 1e-12)


@pytest.mark.parametrize("size", [0, (0, 2), (3, 0)])
def test_no_bins(vision, size):
    """Through torchvision, outputs without bins are empty; roicy's functions raise errors."""
    boxes = torch.tensor([[0, 1, 1, 5, 5.0]])
    for function in (vision.ops.roi_align, vision.ops.roi_pool):
        results = []
        for patch in (contextlib.nullcontext, rt.patch_torchvision):
            x = torch.rand(1, 4, 8, 8).requires_grad_()
            with patch():
                out = function(x, boxes, size)
                out.sum().backward()
            results.append((out.detach(), x.grad))
        for mine, theirs in zip(*results, strict=True):
            assert mine.dtype == theirs.dtype
            assert torch.equal(mine, theirs)


def test_contexts_overlap(vision, rng):
    """The last context ends the patch; before, and afterwards, all have the right kernels."""
    x, boxes, size, _ = problem(rng, "roi_align", torch.float32)
    theirs, mine = vision.ops.roi_align(x, boxes, size), rt.roi_align(x, boxes, size)
    assert not torch.equal(theirs, mine)
    first, second = rt.patch_torchvision(), rt.patch_torchvision()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.equal(vision.ops.roi_align(x, boxes, size), mine)
    with rt.install("torchvision"):
        second.__exit__(None, None, None)
        assert torch.equal(vision.ops.roi_align(x, boxes, size), mine)
        empty = vision.ops.roi_align(x.to("meta"), boxes.to("meta"), size)
        assert empty.shape == mine.shape
    with pytest.raises(ValueError, match="batch index nan"), rt.patch_torchvision():
        vision.ops.roi_align(x, boxes * np.nan, size)
    assert torch.equal(vision.ops.roi_align(x, boxes, size), theirs)
    compiled = torch.compile(lambda: vision.ops.roi_align(x, boxes, size), backend="aot_eager")
    for context, expected in 2 * ((contextlib.nullcontext, theirs), (rt.patch_torchvision, mine)):
        with context():
            assert torch.equal(compiled(), expected)


THREADS = """
import threading, time, torch, torchvision, roicy.torch
torch.set_num_threads(1)
x, boxes, end = torch.rand(1, 4, 8, 8), torch.tensor([[0, 1, 1, 6, 5.0]]), time.time() + 1
expected, differ = torchvision.ops.roi_align(x, boxes, 2), []

def work(patch):
    while time.time() < end:
        with patch():
            leaf = x.clone().requires_grad_()
            out = torchvision.ops.roi_align(leaf, boxes, 2)
            out.sum().backward()
            if not torch.allclose(out, expected, atol=1e-5):
                differ.append(out)

patches = [roicy.torch.patch_torchvision, roicy.torch.patch_torchvision, torch.enable_grad]
threads = [threading.Thread(target=work, args=(patch,)) for patch in patches]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not differ
"""


def test_threads(vision):
    """Threads that begin and end contexts, and one that calls, come to their ends."""
    subprocess.run([sys.executable, "-c", THREADS], check=True, timeout=300)


def test_page(vision, monkeypatch):
    """The first examples of docs/pytorch.md run as printed; no weights are downloaded."""
    text = (Path(__file__).parents[2] / "docs/pytorch.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text.partition("\n## ")[0], re.DOTALL)
    network = vision.models.detection.maskrcnn_resnet50_fpn
    monkeypatch.setattr(
        vision.models.detection,
        "maskrcnn_resnet50_fpn",
        lambda weights: network(weights_backbone=None, min_size=100, max_size=160),
    )
    names = {}
    with torch.no_grad():
        exec("".join(examples), names)
    assert names["pooled"].shape == (1, 256, 7, 7)
    assert names["detections"][0].keys() >= {"boxes", "masks"}
