"""roi_align_max of roicy.torch: values, its gradient, and what is not offered."""

import numpy as np
import pytest
from conftest import random_boxes

import roicy

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")

PARAMETERS = (0.5, 2, True)
# TorchScript is deprecated.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning",
    "ignore:.*torch.jit:FutureWarning",
)
both = pytest.mark.parametrize("products", [False, True], ids=["samples", "products"])


def problem(rng, dtype):
    x = torch.from_numpy(rng.standard_normal((2, 5, 9, 11))).to(dtype)
    boxes = torch.from_numpy(random_boxes(rng, 2, 7, (18, 22), np.float64)).to(dtype)
    return x, boxes


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradient(products, dtype, rng):
    """The bits of roicy, for tensors of both memory formats, and both formats of boxes."""
    x, boxes = problem(rng, dtype)
    boxes = boxes[torch.argsort(boxes[:, 0], stable=True)]
    weights = torch.from_numpy(rng.standard_normal((7, 5, 2, 3))).to(dtype)
    options = {"products": products}
    expected = roicy.roi_align_max(x.numpy(), boxes.numpy(), (2, 3), *PARAMETERS, **options)
    grad = roicy.roi_align_max_backward(
        weights.numpy(), x.numpy(), boxes.numpy(), *PARAMETERS, **options
    )
    assert grad.any()
    parts = [boxes[boxes[:, 0] == n, 1:] for n in range(2)]
    for view in (x, x.to(memory_format=torch.channels_last)):
        for given in (boxes, parts):
            level = view.clone().requires_grad_()
            out = rt.roi_align_max(level, given, (2, 3), *PARAMETERS, products)
            np.testing.assert_array_equal(out.detach(), expected)
            out.backward(weights)
            np.testing.assert_array_equal(level.grad, grad)
    with torch.no_grad():
        assert not rt.roi_align_max(x.requires_grad_(), boxes, 2).requires_grad


@both
def test_gradcheck(products, rng):
    x, boxes = problem(rng, torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: rt.roi_align_max(x, boxes, (2, 3), *PARAMETERS, products), (x.requires_grad_(),)
    )


def test_compilers(rng):
    """TorchScript and torch.fx; test_torch.py compiles it."""
    x, boxes = problem(rng, torch.float32)
    expected = rt.roi_align_max(x, boxes, 2, 0.5, 2, True, True)

    class Pool(torch.nn.Module):
        def forward(self, x: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
            return rt.roi_align_max(x, boxes, [2, 2], 0.5, 2, True, True)

    assert torch.equal(torch.fx.symbolic_trace(Pool())(x, boxes), expected)
    scripted = torch.jit.script(rt.roi_align_max)
    assert torch.equal(scripted(x, boxes, [2, 2], 0.5, 2, True, True), expected)


@both
def test_vmap(products, rng):
    """The values of single calls, of gradients by sample too."""
    x = torch.from_numpy(rng.standard_normal((3, 2, 4, 9, 11)))
    boxes = torch.from_numpy(random_boxes(rng, 2, 5, (18, 22), np.float64))

    def loss(x, boxes):
        return (rt.roi_align_max(x, boxes, 2, *PARAMETERS, products) ** 2).sum()

    assert torch.equal(
        torch.vmap(lambda x: rt.roi_align_max(x, boxes, 2, *PARAMETERS, products))(x),
        torch.stack([rt.roi_align_max(one, boxes, 2, *PARAMETERS, products) for one in x]),
    )
    grads = torch.vmap(torch.func.grad(loss), in_dims=(0, None))(x, boxes)
    alone = []
    for one in x:
        one = one.clone().requires_grad_()
        loss(one, boxes).backward()
        alone.append(one.grad)
    torch.testing.assert_close(grads, torch.stack(alone), rtol=0, atol=0)


def test_what_is_not_offered_says_so(rng):
    x, boxes = problem(rng, torch.float64)
    level = x.clone().requires_grad_()
    out = rt.roi_align_max(level, boxes, 2, *PARAMETERS)
    (grad,) = torch.autograd.grad((out**2).sum(), level, create_graph=True)
    with pytest.raises(NotImplementedError, match="roi_align_max: its gradient cannot be diff"):
        grad.sum().backward()
    with pytest.raises(NotImplementedError, match="roi_align_max: forward-mode derivatives"):
        torch.func.jvp(lambda x: rt.roi_align_max(x, boxes, 2, *PARAMETERS), (x,), (x,))
    _, tangent = torch.func.jvp(
        lambda boxes: rt.roi_align_max(x, boxes, 2, *PARAMETERS), (boxes,), (boxes,)
    )
    assert not tangent.any()
    rt.roi_align_max(level, boxes.requires_grad_(), 2).sum().backward()
    assert boxes.grad is None


def test_errors(rng):
    x, boxes = problem(rng, torch.float32)
    with pytest.raises(TypeError, match="products: 1, expected True or False"):
        rt.roi_align_max(x, boxes, 2, *PARAMETERS, 1)
    with pytest.raises(TypeError, match="input: "):
        rt.roi_align_max(x.numpy(), boxes, 2)
    with pytest.raises(AssertionError, match="boxes: "):
        rt.roi_align_max(x, boxes[:, 1:], 2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [True, False])
def test_not_exported(dynamo, rng, tmp_path):
    for module in ("onnx", "onnxscript") if dynamo else ("onnx",):
        pytest.importorskip(module)
    x, boxes = problem(rng, torch.float32)

    class Pool(torch.nn.Module):
        def forward(self, x, boxes):
            return rt.roi_align_max(x, boxes, [2, 2])

    # the exporter of dynamo=True traces in other ways where one fails, and sees the operator then
    message = "roi_align_max: not exported|No ONNX function found.*roi_align_max"
    with pytest.raises(Exception, match=message):
        torch.onnx.export(Pool(), (x, boxes), str(tmp_path / "m.onnx"), dynamo=dynamo)
