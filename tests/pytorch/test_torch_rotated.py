"""roi_align_rotated on tensors: values, gradients, compilers and the module."""

import numpy as np
import pytest
from turned import make

import roicy

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")
from torch_calls import by_image  # noqa: E402


def problem(rng, dtype=torch.float64):
    x, boxes, bins = make(rng, "blocks", 1.0, np.float64)
    return torch.from_numpy(x).to(dtype), torch.from_numpy(boxes).to(dtype), bins


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_values(dtype, rng):
    x, boxes, bins = problem(rng, dtype)
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    expected = roicy.roi_align_rotated(
        x.to(wide).numpy(), boxes.to(wide).numpy(), bins, 0.5, 2, False, True
    )
    for view in (x, x.to(memory_format=torch.channels_last)):
        out = rt.roi_align_rotated(view, boxes, bins, 0.5, 2, False, True)
        assert out.dtype == dtype
        np.testing.assert_array_equal(out.to(wide), torch.from_numpy(expected).to(dtype).to(wide))
    listed = rt.roi_align_rotated(x, by_image(boxes), bins, 0.5, 2, False, True)
    assert torch.equal(listed, out[torch.argsort(boxes[:, 0], stable=True)])


def test_gradcheck(rng):
    x = torch.from_numpy(rng.standard_normal((1, 3, 7, 8))).requires_grad_()
    boxes = torch.tensor([[0, 3.93, 3.71, 4.17, 2.61, 0.4], [0, 5.03, 4.2, 3.31, 3.77, -1.3]])
    boxes = boxes.double().requires_grad_()

    def pooled(x, numbers):
        rows = torch.cat([torch.zeros(2, 1, dtype=numbers.dtype), numbers], 1)
        return rt.roi_align_rotated(x, rows, 2, 1.0, 2)

    numbers = boxes.detach()[:, 1:].requires_grad_()
    assert torch.autograd.gradcheck(pooled, (x, numbers))
    assert torch.autograd.gradgradcheck(lambda x: pooled(x, numbers.detach()), (x,))


def test_compilers(rng):
    x, boxes, bins = problem(rng, torch.float32)
    expected = rt.roi_align_rotated(x, boxes, bins, 0.5, 2)
    module = rt.RoIAlignRotated(bins, 0.5, 2)
    assert "clockwise=False" in repr(module)
    scripted = torch.jit.script(module)
    for one in (module, torch.compile(module, backend="eager", fullgraph=True), scripted):
        assert torch.equal(one(x, boxes), expected)
    assert torch.equal(scripted(x, by_image(boxes)), module(x, by_image(boxes)))
    given = {"input": x, "boxes": boxes, "output_size": bins, "spatial_scale": [0.5, 0.5]}
    given |= {"sampling_ratio": 2, "aligned": True, "clockwise": False, "num_threads": None}
    torch.library.opcheck(torch.ops.roicy.roi_align_rotated.default, (), given)


def test_vmap(rng):
    x, boxes, bins = problem(rng, torch.float32)
    maps = torch.stack([x, x + 1])
    out = torch.vmap(lambda x: rt.roi_align_rotated(x, boxes, bins))(maps)
    for n in range(2):
        assert torch.equal(out[n], rt.roi_align_rotated(maps[n], boxes, bins))


def test_errors(rng):
    x, boxes, bins = problem(rng, torch.float32)
    with pytest.raises(AssertionError, match="rows \\[batch_index, cx, cy, w, h, angle\\]"):
        rt.roi_align_rotated(x, boxes[:, :5], bins)
    with pytest.raises(TypeError, match="clockwise: 1, expected True or False"):
        rt.roi_align_rotated(x, boxes, bins, clockwise=1)
    with pytest.raises(ValueError, match="spatial_scale: .* expected one number"):
        rt.roi_align_rotated(x, boxes, bins, (0.5, 0.25))
