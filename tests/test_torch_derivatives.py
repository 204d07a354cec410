"""roicy.torch supports second derivatives, forward mode, and the transforms of torch.func.

Gradients of boxes are tested in test_torch.py.
"""

import numpy as np
import pytest
from conftest import SUMS, WITH_BOX_GRADIENTS

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")

# PyTorch compiles its own rules of forward mode by TorchScript.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning", "ignore:.*torch.jit:FutureWarning"
)

NAMES = [*SUMS, "roi_pool", "multiscale_roi_align"]
DIFFERENTIABLE_BOXES = [*WITH_BOX_GRADIENTS, "multiscale_roi_align"]
# Some operators have scales of their own for y and x.
PARAMETERS = {
    "roi_align": ((0.5, 0.4), 2, True),
    "ps_roi_align": (0.5, 2),
    "roi_pool": ((0.4, 0.5),),
    "multiscale_roi_align": ([(0.5, 0.4), (0.25, 0.2)], 2, True, 8.0, 1),
}


def make_maps(rng, name, channels=4, dtype=torch.float64):
    """Return one map, or the maps of two levels."""
    sides = [(9, 11), (5, 6)] if name == "multiscale_roi_align" else [(9, 11)]
    return [torch.from_numpy(rng.standard_normal((2, channels, *side))).to(dtype) for side in sides]


def make_boxes(rng, count=4):
    """Return boxes (K, 5) of several sizes that keep away from the kinks of the surface."""
    low = rng.integers(0, 4, (count, 2)) + rng.uniform(0.1, 0.4, (count, 2))
    high = low + rng.integers(5, 13, (count, 2)) + rng.uniform(0.1, 0.4, (count, 2))
    images = np.arange(count)[:, None] % 2
    return torch.from_numpy(np.concatenate([images, low, high], axis=1))


def pooler(name):
    """Return a function of boxes and maps; the maps of a pyramid are separate arguments."""

    def pool(boxes, *maps):
        input = list(maps) if name == "multiscale_roi_align" else maps[0]
        return getattr(rt, name)(input, boxes, 2, *PARAMETERS.get(name, (0.5,)))

    return pool


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_by_the_input(name, rng):
    """First and second derivatives in both modes, and forward over reverse, fit differences."""
    boxes, maps = make_boxes(rng), [level.requires_grad_() for level in make_maps(rng, name)]
    pool = pooler(name)

    def of_maps(*maps):
        return pool(boxes, *maps)

    assert torch.autograd.gradcheck(of_maps, maps, check_forward_ad=True)
    # The operator is linear, but its square has a second derivative.
    assert torch.autograd.gradgradcheck(
        lambda *maps: of_maps(*maps) ** 2, maps, check_fwd_over_rev=True
    )


@pytest.mark.parametrize("name", NAMES)
def test_gradient_of_the_input_is_differentiated_by_boxes(name, rng):
    boxes, maps = make_boxes(rng), make_maps(rng, name)
    pool, weights = pooler(name), torch.from_numpy(rng.standard_normal((4, 4, 2, 2)))
    maps[0].requires_grad_()
    channels = pool(boxes, *maps).shape[1]

    def grad_of_input(boxes, weights):
        out = pool(boxes, *maps)
        return torch.autograd.grad(out, maps[0], weights, create_graph=True)[0]

    weights = weights[:, :channels].clone().requires_grad_()
    if name in DIFFERENTIABLE_BOXES:
        corners = boxes[:, 1:].clone().requires_grad_()
        assert torch.autograd.gradcheck(
            lambda corners, weights: grad_of_input(
                torch.cat([boxes[:, :1], corners], dim=1), weights
            ),
            (corners, weights),
        )
    else:
        assert torch.autograd.gradcheck(lambda weights: grad_of_input(boxes, weights), (weights,))


@pytest.mark.parametrize("name", DIFFERENTIABLE_BOXES)
def test_what_is_not_offered_says_so(name, rng):
    boxes, maps = make_boxes(rng).requires_grad_(), make_maps(rng, name)
    pool = pooler(name)
    (grad,) = torch.autograd.grad(pool(boxes, *maps).sum(), boxes, create_graph=True)
    with pytest.raises(NotImplementedError, match=f"{name}: the gradient of boxes cannot"):
        grad.sum().backward()
    message = f"{name}: forward-mode derivatives by boxes are not computed"
    with pytest.raises(NotImplementedError, match=message):
        torch.func.jvp(lambda boxes: pool(boxes, *maps), (boxes,), (boxes,))
    # second derivatives by the input go past them
    level = maps[0].requires_grad_()
    out = pool(boxes, *maps)
    (grad,) = torch.autograd.grad((out**2).sum(), level, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), level)
    assert second.abs().sum() > 0


@pytest.mark.parametrize("name", ["ps_roi_pool", "roi_pool"])
def test_boxes_of_whole_pixels_have_no_derivative(name, rng):
    boxes, maps = make_boxes(rng), make_maps(rng, name)
    pool = pooler(name)
    out, tangent = torch.func.jvp(lambda boxes: pool(boxes, *maps), (boxes,), (boxes,))
    assert torch.equal(tangent, torch.zeros_like(out))

    def grad_of_input(boxes):
        return torch.func.grad(lambda level: pool(boxes, level).sum())(*maps)

    grad, tangent = torch.func.jvp(grad_of_input, (boxes,), (boxes,))
    assert torch.equal(tangent, torch.zeros_like(grad))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_forward_mode(name, dtype, rng):
    """For weighted sums, the tangent is the operator of the tangent, bit for bit.  For maxima, the
    places of the maxima are kept.
    """
    boxes = make_boxes(rng)
    maps, tangents = make_maps(rng, name, dtype=dtype), make_maps(rng, name, dtype=dtype)
    pool = pooler(name)

    def of_maps(*maps):
        return pool(boxes, *maps)

    out, tangent = torch.func.jvp(of_maps, tuple(maps), tuple(tangents))
    assert torch.equal(out, of_maps(*maps))
    assert tangent.dtype == dtype
    if name != "roi_pool":
        assert torch.equal(tangent, of_maps(*tangents))
    with torch.autograd.forward_ad.dual_level():
        duals = [
            torch.autograd.forward_ad.make_dual(*pair) for pair in zip(maps, tangents, strict=True)
        ]
        again = torch.autograd.forward_ad.unpack_dual(of_maps(*duals)).tangent
    assert torch.equal(again, tangent)
    if name == "roi_pool":
        if dtype == torch.float64:  # small steps do not move the maxima
            steps = [level + 1e-9 * step for level, step in zip(maps, tangents, strict=True)]
            np.testing.assert_allclose((of_maps(*steps) - out) / 1e-9, tangent, atol=1e-6)


def test_a_tangent_of_one_level(rng):
    boxes, maps = make_boxes(rng), make_maps(rng, "multiscale_roi_align")
    pool = pooler("multiscale_roi_align")
    _, tangent = torch.func.jvp(lambda first: pool(boxes, first, *maps[1:]), (maps[0],), (maps[0],))
    zeros = [torch.zeros_like(level) for level in maps[1:]]
    assert torch.equal(tangent, pool(boxes, maps[0], *zeros))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("of_boxes", [None, 0, 1])
@pytest.mark.parametrize("of_maps", [None, 0, 2, -1])
def test_vmap(name, of_boxes, of_maps, rng):
    """A call under vmap has the bits of one call for each element, for all batched dimensions."""
    pool, size = pooler(name), 3
    boxes = [make_boxes(rng) for _ in range(size)]
    maps = [make_maps(rng, name) for _ in range(size)]
    for i in range(size):
        if of_boxes is None:
            boxes[i] = boxes[0]
        if of_maps is None:
            maps[i] = maps[0]
    expected = torch.stack([pool(boxes[i], *maps[i]) for i in range(size)])
    dims = (of_boxes, *[of_maps] * len(maps[0]))
    if all(dim is None for dim in dims):
        return
    given = [
        boxes[0] if of_boxes is None else torch.stack(boxes, dim=of_boxes),
        *[
            level[0] if of_maps is None else torch.stack(level, dim=of_maps)
            for level in zip(*maps, strict=True)
        ],
    ]
    assert torch.equal(torch.vmap(pool, dims)(*given), expected)


@pytest.mark.parametrize("name", NAMES)
def test_vmap_keeps_images_apart(name, rng):
    """Images are kept apart even if the type of the boxes cannot hold their folded indices."""
    size = 150
    maps = [
        torch.arange(2 * size).reshape(size, 2, 1, 1, 1).expand(-1, -1, 1, 9, 11).float()
        for _ in make_maps(rng, name)
    ]
    boxes = torch.tensor([[1, 2, 2, 5, 5], [0, 2, 2, 5, 5]]).bfloat16()
    input = maps if name == "multiscale_roi_align" else maps[0]
    function = getattr(rt, name)
    out = torch.vmap(
        lambda input, boxes: function(input, boxes, 1, *PARAMETERS.get(name, (0.5,))),
        (0 if name != "multiscale_roi_align" else [0, 0], None),
    )(input, boxes)
    expected = torch.arange(2 * size).reshape(size, 2).flip(1).float()
    # The weights sum to 1 but for their rounding.
    np.testing.assert_allclose(out[:, :, 0, 0, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_transforms_compose(name, rng):
    """The results of grad, jacrev, jacfwd, hessian and gradients by sample fit backward()."""
    boxes, maps = make_boxes(rng), make_maps(rng, name)
    pool = pooler(name)

    def of_first(first):
        return pool(boxes, first, *maps[1:])

    def loss(first):
        return (of_first(first) ** 2).sum()

    first = maps[0].clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(first), first)
    assert torch.equal(torch.func.grad(loss)(maps[0]), expected)
    jacobian = torch.autograd.functional.jacobian(of_first, maps[0])
    assert torch.equal(torch.func.jacrev(of_first)(maps[0]), jacobian)
    close = {"rtol": 0, "atol": 1e-14}
    torch.testing.assert_close(torch.func.jacfwd(of_first)(maps[0]), jacobian, **close)
    hessian = torch.autograd.functional.hessian(loss, maps[0])
    torch.testing.assert_close(torch.func.hessian(loss)(maps[0]), hessian, rtol=0, atol=1e-13)
    samples = torch.stack([maps[0], maps[0] * 2])
    assert torch.equal(torch.vmap(torch.func.grad(loss))(samples)[0], expected)


@pytest.mark.parametrize("name", DIFFERENTIABLE_BOXES)
def test_transforms_of_boxes(name, rng):
    boxes, maps = make_boxes(rng), make_maps(rng, name)
    pool = pooler(name)

    def of_boxes(boxes):
        return pool(boxes, *maps)

    rows = boxes.clone().requires_grad_()
    (expected,) = torch.autograd.grad(of_boxes(rows).sum(), rows)
    assert torch.equal(torch.func.grad(lambda boxes: of_boxes(boxes).sum())(boxes), expected)
    jacobian = torch.autograd.functional.jacobian(of_boxes, boxes)
    assert torch.equal(torch.func.jacrev(of_boxes)(boxes), jacobian)
    weights = torch.rand(3, *jacobian.shape[:4], dtype=torch.float64)
    _, vjp = torch.func.vjp(pool, boxes, *maps)
    both = torch.vmap(vjp)(weights)
    for i in range(3):
        for batched, single in zip(both, vjp(weights[i]), strict=True):
            assert torch.equal(batched[i], single)
