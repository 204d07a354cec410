"""roicy.torch.paste_masks has the numbers of torchvision, Detectron2 and mmdet."""

import math

import numpy as np
import pytest

import roicy
from roicy._machine import _dispatch

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")

SHAPE = (130, 190)
# PyTorch's kernels have fused multiply-adds where the processor has them.
FUSED = _dispatch.ISA != "baseline"


def problem(dtype, count=40, size=28):
    """Return masks, and boxes that torchvision takes: a part of each is in the image."""
    made = torch.Generator().manual_seed(0)
    height, width = SHAPE
    sides = torch.exp(torch.rand(count, 2, generator=made) * math.log(300))
    centre = torch.rand(count, 2, generator=made) * torch.tensor([width, height])
    boxes = torch.cat([centre - sides / 2, centre + sides / 2], 1).to(dtype)
    return torch.rand(count, 1, size, size, generator=made).to(dtype), boxes


def assert_equal(out, expected):
    """Check bits of float32 where products are fused, and else some units in the last place."""
    if FUSED and out.dtype is torch.float32:
        assert torch.equal(out, expected)
    torch.testing.assert_close(out, expected, rtol=0, atol=16 * torch.finfo(out.dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [28, 14, 57])
def test_torchvision(size, dtype):
    heads = pytest.importorskip("torchvision.models.detection.roi_heads")
    masks, boxes = problem(dtype, size=size)
    boxes[:3] = torch.tensor([[-40, -30, 400, 500], [1, 2, 1, 2], [5, 5, 60, 5]])
    for padding in (1, 2):
        expected = heads.paste_masks_in_image(masks, boxes, SHAPE, padding)[:, 0]
        given = {"padding": padding, "threshold": None}
        assert_equal(rt.paste_masks(masks, boxes, SHAPE, **given), expected)
    reached = rt.paste_masks(masks, boxes, SHAPE, padding=2)
    if FUSED:
        assert torch.equal(reached, expected >= 0.5)


def sampled(mask, box, middle):
    """Detectron2's and mmdet's formula for one mask and box."""
    height, width = SHAPE
    x1, y1, x2, y2 = box
    left, top = max(math.floor(x1) - 1, 0), max(math.floor(y1) - 1, 0)
    right, bottom = min(math.ceil(x2) + 1, width), min(math.ceil(y2) + 1, height)
    x = (torch.arange(left, right).to(mask.dtype) + 0.5 - x1) / (x2 - x1) * 2 - 1
    y = (torch.arange(top, bottom).to(mask.dtype) + 0.5 - y1) / (y2 - y1) * 2 - 1
    if middle:
        x[torch.isinf(x)], y[torch.isinf(y)] = 0, 0
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)[None]
    out = torch.zeros(SHAPE, dtype=mask.dtype)
    out[top:bottom, left:right] = torch.nn.functional.grid_sample(
        mask[None], grid, align_corners=False
    )[0, 0]
    return out.nan_to_num(nan=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", ["detectron2", "mmdet"])
def test_sampled_masks(rule, dtype):
    masks, boxes = problem(dtype)
    boxes[0] = torch.tensor([20, 30, 20, 50])
    expected = torch.stack(
        [sampled(mask, box, rule == "mmdet") for mask, box in zip(masks, boxes, strict=True)]
    )
    assert expected[0].any() == (rule == "mmdet")
    assert_equal(rt.paste_masks(masks, boxes, SHAPE, rule=rule, threshold=None), expected)


def test_codes():
    coco = pytest.importorskip("pycocotools.mask")
    masks, boxes = problem(torch.float32)
    images = rt.paste_masks(masks, boxes, SHAPE).numpy().astype(np.uint8)
    codes = rt.paste_masks(masks, boxes, SHAPE, format="rle")
    for image, code in zip(images, codes, strict=True):
        assert coco.encode(np.asfortranarray(image)) == code


def test_tensors():
    masks, boxes = problem(torch.float32, 3)
    masks.requires_grad_()
    expected = roicy.paste_masks(masks.detach().numpy(), boxes.numpy(), SHAPE)
    out = torch.ones((3, *SHAPE), dtype=torch.bool)
    assert rt.paste_masks(masks, boxes, SHAPE, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert rt.paste_masks(masks.bfloat16(), boxes, SHAPE, threshold=None).dtype is torch.float32
    with pytest.raises(TypeError, match="boxes: numpy.ndarray, expected a torch.Tensor"):
        rt.paste_masks(masks, boxes.numpy(), SHAPE)


@pytest.mark.skipif(not FUSED, reason="values at the threshold may be on its other side")
@pytest.mark.parametrize("name", ["paste_masks", "paste_masks_values", "paste_masks_rle"])
def test_what_the_benchmark_times(name):
    """The calls of other libraries that stand beside roicy's compute the same."""
    pytest.importorskip("torchvision")
    pytest.importorskip("pycocotools")
    from roicy.bench.beside import prepared
    from roicy.bench.peers import TorchVision

    calls = prepared(name, "forward", "float32", 1, [TorchVision(1)])[0]
    first, *others = (function() for function in calls.values())
    assert others
    for result in others:
        for one, other in zip(result, first, strict=True):
            np.testing.assert_array_equal(one, other)
