"""roicy.torch supports second derivatives, forward mode, and the transforms of torch.func.

test_torch_scales.py compares gradients with those of arrays.
"""

import numpy as np
import pytest
from conftest import WITH_BOX_GRADIENTS

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")
from torch_calls import NAMES as FUNCTIONS  # noqa: E402
from torch_calls import PARAMETERS, PYRAMID, pack  # noqa: E402

NAMES = [*FUNCTIONS, PYRAMID]
# all but the largest samples, whose gradient has no derivative
TWICE = [name for name in NAMES if name != "roi_align_max"]
DIFFERENTIABLE_BOXES = [*WITH_BOX_GRADIENTS, PYRAMID]
# Some operators have scales of their own for y and x.
SCALES = {
    "roi_align": (0.5, 0.4),
    "roi_pool": (0.4, 0.5),
    PYRAMID: [(0.5, 0.4), (0.25, 0.2)],
}


def make_maps(rng, name, channels=4, dtype=torch.float64):
    """Return one map, or the maps of two levels."""
    sides = [(7, 8), (4, 5)] if name == PYRAMID else [(7, 8)]
    return [torch.from_numpy(rng.standard_normal((2, channels, *side))).to(dtype) for side in sides]


def make_boxes(rng, count=4):
    """Return boxes (K, 5) of several sizes that keep away from the kinks of the surface."""
    low = rng.integers(0, 4, (count, 2)) + rng.uniform(0.1, 0.4, (count, 2))
    high = low + rng.integers(5, 12, (count, 2)) + rng.uniform(0.1, 0.4, (count, 2))
    images = np.arange(count)[:, None] % 2
    return torch.from_numpy(np.concatenate([images, low, high], axis=1))


def pooler(name):
    """Return a function of boxes and maps; the maps of a pyramid are separate arguments."""

    def pool(boxes, *maps):
        parameters = {"spatial_scale": SCALES.get(name, 0.5), **PARAMETERS.get(name, {})}
        return getattr(rt, name)(pack(name, maps), boxes, 2, **parameters)

    return pool


@pytest.mark.parametrize("name", TWICE)
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


@pytest.mark.parametrize("name", TWICE)
def test_gradient_of_the_input_is_differentiated_by_boxes(name, rng):
    boxes, maps = make_boxes(rng), make_maps(rng, name)
    pool, weights = pooler(name), torch.from_numpy(rng.standard_normal((4, 4, 2, 2)))
    maps[0].requires_grad_()
    channels = pool(boxes, *maps).shape[1]

    def grad_of_input(boxes, weights):
        out = pool(boxes, *maps)
        return torch.autograd.grad(out, maps[0], weights, create_graph=True)[0]

    def by_corners(corners, weights):
        return grad_of_input(torch.cat([boxes[:, :1], corners], dim=1), weights)

    weights = weights[:, :channels].clone().requires_grad_()
    corners = boxes[:, 1:].clone().requires_grad_(name in DIFFERENTIABLE_BOXES)
    assert torch.autograd.gradcheck(by_corners, (corners, weights))


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


def test_what_the_largest_samples_do_not_offer_says_so(rng):
    boxes, (level,) = make_boxes(rng), make_maps(rng, "roi_align_max")
    pool = pooler("roi_align_max")
    level.requires_grad_()
    loss = (pool(boxes, level) ** 2).sum()
    (grad,) = torch.autograd.grad(loss, level, create_graph=True)
    with pytest.raises(NotImplementedError, match="roi_align_max: its gradient cannot be diff"):
        grad.sum().backward()
    with pytest.raises(NotImplementedError, match="roi_align_max: forward-mode derivatives"):
        torch.func.jvp(lambda level: pool(boxes, level), (level,), (level,))


@pytest.mark.parametrize("name", sorted({*NAMES} - {*DIFFERENTIABLE_BOXES}))
def test_boxes_of_other_operators_have_no_derivative(name, rng):
    boxes, maps = make_boxes(rng), make_maps(rng, name)
    pool = pooler(name)
    out, tangent = torch.func.jvp(lambda boxes: pool(boxes, *maps), (boxes,), (boxes,))
    assert torch.equal(tangent, torch.zeros_like(out))
    if name == "roi_align_max":
        return

    def grad_of_input(boxes):
        return torch.func.grad(lambda level: pool(boxes, level).sum())(*maps)

    grad, tangent = torch.func.jvp(grad_of_input, (boxes,), (boxes,))
    assert torch.equal(tangent, torch.zeros_like(grad))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", TWICE)
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
    if name == "roi_pool" and dtype == torch.float64:  # small steps do not move the maxima
        step = of_maps(maps[0] + 1e-9 * tangents[0])
        np.testing.assert_allclose((step - out) / 1e-9, tangent, atol=1e-6)


def test_a_tangent_of_one_level(rng):
    boxes, maps = make_boxes(rng), make_maps(rng, PYRAMID)
    pool = pooler(PYRAMID)
    _, tangent = torch.func.jvp(lambda first: pool(boxes, first, *maps[1:]), (maps[0],), (maps[0],))
    zeros = [torch.zeros_like(level) for level in maps[1:]]
    assert torch.equal(tangent, pool(boxes, maps[0], *zeros))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("of_boxes", "of_maps"), [(None, 0), (0, None), (1, 0), (0, 2), (1, -1), (None, -1)]
)
def test_vmap(name, of_boxes, of_maps, rng):
    """A call under vmap has the bits of one call for each element, for all batched dimensions."""
    pool, size = pooler(name), 3
    boxes = [make_boxes(rng) for _ in range(size)]
    maps = [make_maps(rng, name) for _ in range(size)]
    elements = [boxes, *zip(*maps, strict=True)]
    dims = [of_boxes, *[of_maps] * len(maps[0])]
    given = [
        one[0] if dim is None else torch.stack(one, dim)
        for one, dim in zip(elements, dims, strict=True)
    ]
    single = [
        [one[0 if dim is None else i] for one, dim in zip(elements, dims, strict=True)]
        for i in range(size)
    ]
    expected = torch.stack([pool(*one) for one in single])
    assert torch.equal(torch.vmap(pool, tuple(dims))(*given), expected)


@pytest.mark.parametrize("name", TWICE)
def test_vmap_keeps_images_apart(name, rng):
    """Images are kept apart even if the type of the boxes cannot hold their folded indices."""
    size = 150
    images = torch.arange(2.0 * size).reshape(size, 2)
    maps = [images[..., None, None, None].expand(-1, -1, 4, 9, 11) for _ in make_maps(rng, name)]
    boxes = torch.tensor([[1, 2, 2, 5, 5], [0, 2, 2, 5, 5]]).bfloat16()
    out = torch.vmap(pooler(name), (None, *[0] * len(maps)))(boxes, *maps)
    # The weights sum to 1 but for their rounding.
    np.testing.assert_allclose(out[:, :, 0, 0, 0], images.flip(1), rtol=1e-6)


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
    samples = torch.stack([maps[0], maps[0] * 2])
    by_sample = torch.vmap(torch.func.grad(loss))(samples)
    assert torch.equal(by_sample, torch.stack([torch.func.grad(loss)(one) for one in samples]))
    if name not in TWICE:
        return
    close = {"rtol": 0, "atol": 1e-14}
    torch.testing.assert_close(torch.func.jacfwd(of_first)(maps[0]), jacobian, **close)
    hessian = torch.autograd.functional.hessian(loss, maps[0])
    torch.testing.assert_close(torch.func.hessian(loss)(maps[0]), hessian, rtol=0, atol=1e-13)


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
