"""roicy.torch with scales of their own for y and x, as test_two_scales.py has it of arrays."""

import numpy as np
import pytest
from conftest import WITH_BOX_GRADIENTS, random_boxes

import roicy
from roicy._keywords import keywords_of

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")
from torch_calls import NAMES as FUNCTIONS  # noqa: E402
from torch_calls import PARAMETERS, PYRAMID, by_image, named, pack  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf"  # of PyTorch's opcheck
)

PAIR = (0.5, 0.25)
PAIRS = [(0.5, 0.125), (0.25, 0.0625)]
NAMES = [*FUNCTIONS, PYRAMID]
DIFFERENTIABLE_BOXES = [*WITH_BOX_GRADIENTS, PYRAMID]
CLASSES = {
    name: getattr(rt, one)
    for name in FUNCTIONS
    for one in rt.modules.__all__
    if one.lower() == name.replace("_", "")
}


def problem(rng, name, dtype=torch.float32):
    """Return (maps, boxes, scale) of an image of 30 x 68."""
    sides = [(15, 17), (8, 9)] if name == PYRAMID else [(15, 17)]
    maps = [torch.from_numpy(rng.standard_normal((2, 8, *side))).to(dtype) for side in sides]
    boxes = random_boxes(rng, 2, 12, (30, 68), np.float64, least=6)
    # neither empty nor on whole pixels
    boxes[:, 1:3] += 0.13
    boxes[:, 3:] = np.maximum(boxes[:, 3:], boxes[:, 1:3] + 3.37)
    return maps, torch.from_numpy(boxes).to(dtype), PAIRS if name == PYRAMID else PAIR


def pool(name, maps, boxes, scale, function=None):
    function = function or getattr(rt, name)
    return function(pack(name, maps), boxes, 2, scale, **PARAMETERS.get(name, {}))


def swapped(scale):
    return [pair[::-1] for pair in scale] if isinstance(scale, list) else scale[::-1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_are_those_of_arrays(name, dtype, rng):
    maps, boxes, scale = problem(rng, name, dtype)
    arrays = [level.numpy() for level in maps]
    parameters = PARAMETERS.get(name, {})
    expected = pool(name, arrays, boxes.numpy(), scale, getattr(roicy, name))
    given = [level.clone().requires_grad_() for level in maps]
    rows = boxes.clone().requires_grad_()
    out = pool(name, given, rows, scale)
    np.testing.assert_array_equal(out.detach(), expected)
    assert (out - pool(name, maps, boxes, swapped(scale))).abs().max() > 0.1
    g = torch.from_numpy(rng.standard_normal(out.shape)).to(dtype)
    out.backward(g)
    backward, rois = getattr(roicy, f"{name}_backward"), boxes.numpy()
    shapes = [level.shape for level in arrays]
    if name == "roi_pool":
        _, argmax = roicy.roi_pool(arrays[0], rois, 2, scale, return_argmax=True)
        grads = [backward(g.numpy(), argmax, rois, shapes[0])]
    elif name == "roi_align_max":
        grads = [backward(g.numpy(), arrays[0], rois, scale, **parameters)]
    elif name == PYRAMID:
        grads = backward(g.numpy(), rois, shapes, scale, **parameters)
    else:
        grads = [backward(g.numpy(), rois, shapes[0], scale, **parameters)]
    for level, grad in zip(given, grads, strict=True):
        np.testing.assert_array_equal(level.grad, grad)
        assert np.abs(grad).max() > 0.1
    if name in DIFFERENTIABLE_BOXES:
        backward = getattr(roicy, f"{name}_backward_boxes")
        expected = backward(g.numpy(), pack(name, arrays), rois, scale, **parameters)
        np.testing.assert_array_equal(rows.grad, expected)
    else:
        assert rows.grad is None


@pytest.mark.parametrize("name", NAMES)
def test_what_a_scale_may_be(name, rng):
    maps, boxes, scale = problem(rng, name)
    several = name == PYRAMID
    expected = pool(name, maps, boxes, scale)
    if several:
        others = [tuple(scale), [list(pair) for pair in scale], np.array(scale)]
        equal, single = [(0.5, 0.5), 0.25], [0.5, 0.25]
    else:
        others = [list(scale), np.array(scale), (np.float64(0.5), 0.25)]
        equal, single = (0.5, 0.5), 0.5
    for other in others:
        assert torch.equal(pool(name, maps, boxes, other), expected)
    assert torch.equal(pool(name, maps, boxes, equal), pool(name, maps, boxes, single))
    expected = pool(name, maps, boxes, pack(name, [1.0, 1.0]))
    for whole in (1, np.float32(1), torch.tensor(1.0)):
        assert torch.equal(pool(name, maps, boxes, pack(name, [whole, whole])), expected)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, torch.float32) for name in NAMES),
        # types of results do not depend on the operator
        ("roi_pool", torch.float16),
        ("roi_pool", torch.bfloat16),
    ],
)
def test_opcheck(name, dtype, rng):
    """PyTorch's own check of an operator, whose arguments are all given by their names."""
    maps, boxes, scale = problem(rng, name, dtype)
    maps = [level.requires_grad_() for level in maps]
    given = {"features": maps} if name == PYRAMID else {"input": maps[0]}
    given |= {"boxes": boxes, "output_size": [2, 2], "num_threads": None}
    given["spatial_scale"] = np.ravel(scale).tolist()
    operator = getattr(torch.ops.roicy, name).default
    given |= keywords_of(name) | PARAMETERS.get(name, {})
    torch.library.opcheck(operator, (), given)


# operators of one kind pass scales on alike
@pytest.mark.parametrize("name", ["roi_align", "roi_align_max", "roi_pool", PYRAMID])
def test_compile(name, rng):
    """One graph is for maps of any height, and for any number of boxes, with its gradient."""
    maps, boxes, scale = problem(rng, name)
    rules = (
        lambda _: scale if name == PYRAMID else [scale],
        # numbers that are not known when the graph is made
        lambda maps: [(level.shape[2] / 40, level.shape[3] / 80) for level in maps],
        lambda maps: [level.shape[2] / 40 for level in maps],
    )
    for rule in rules:

        def call(boxes, first, *rest, rule=rule):
            scales = rule((first, *rest))
            return pool(name, [first * 2, *rest], boxes, pack(name, scales))

        torch._dynamo.reset()
        compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=True)
        for height, count in ((15, 12), (12, 7), (9, 3)):
            first = maps[0][:, :, :height].clone().requires_grad_()
            given = (boxes[:count], first, *maps[1:])
            out, expected = compiled(*given), call(*given)
            assert torch.equal(out, expected)
            grads = [torch.autograd.grad(result.sum(), first)[0] for result in (out, expected)]
            assert torch.equal(*grads)


@pytest.mark.parametrize("name", NAMES)
def test_torchscript(name, rng):
    maps, boxes, scale = problem(rng, name)
    scripted = torch.jit.script(getattr(rt, name))
    for one in (scale,) if name == PYRAMID else (scale, list(scale), 0.5, 1):
        assert torch.equal(pool(name, maps, boxes, one, scripted), pool(name, maps, boxes, one))
    if name == PYRAMID:
        for wrong in ([0.5], [0.5] * 4, PAIRS[:1]):
            with pytest.raises(torch.jit.Error, match="spatial_scale: expected a scale for each"):
                pool(name, maps, boxes, wrong, scripted)
        return
    assert torch.equal(scripted(maps[0], boxes, 2), getattr(rt, name)(maps[0], boxes, 2))
    with pytest.raises(RuntimeError, match="expected a number or two, "):
        pool(name, maps, boxes, [0.5, 0.25, 0.125], scripted)


@pytest.mark.parametrize(
    ("name", "scale"),
    [*((name, PAIR) for name in CLASSES), *(("roi_align", one) for one in (0.5, 1, list(PAIR)))],
    ids=str,
)
def test_modules(name, scale, rng, seen_threads):
    maps, boxes, _ = problem(rng, name)
    given = PARAMETERS.get(name, {})
    expected = pool(name, maps, boxes, scale)
    for threads, shown in ((None, ""), (5, ", num_threads=5")):
        module = CLASSES[name](2, scale, **given, num_threads=threads)
        assert f"spatial_scale={scale}" in repr(module)
        assert ("num_threads" in repr(module)) == (threads is not None)
        assert repr(module).endswith(f"{shown})")
        forms = [module, torch.jit.script(module), torch.fx.symbolic_trace(module)]
        for form in forms:
            assert torch.equal(form(maps[0], boxes), expected)
    seen_threads.clear()
    x, grads = maps[0].requires_grad_(), []
    for form in forms:
        out = form(x, by_image(boxes))
        assert torch.equal(out, expected[boxes[:, 0].argsort(stable=True)])
        grads += torch.autograd.grad(out.sum(), x)
    assert all(torch.equal(grads[0], grad) for grad in grads[1:])
    assert seen_threads == [5] * 6


def test_modules_of_pyramids(rng, seen_threads):
    maps, boxes, _ = problem(rng, PYRAMID)
    module = rt.MultiScaleRoIAlign(["0", "1"], 2, 2, num_threads=5)
    assert repr(module).endswith("sampling_ratio=2, num_threads=5)")
    assert "num_threads" not in repr(rt.MultiScaleRoIAlign(["0", "1"], 2, 2))
    given = (named(maps), by_image(boxes), [(30, 34), (25, 36)])
    expected = rt.multiscale_roi_align(maps, by_image(boxes), 2, [0.5, 0.25], 2, num_threads=5)
    for form in (module, torch.jit.script(module)):
        assert torch.equal(form(*given), expected)
    assert seen_threads == [5] * 3
    with pytest.raises(ValueError, match="image_shapes: none"):
        rt.MultiScaleRoIAlign(["0"], 2, 2)({"0": maps[0]}, [], [])


@pytest.mark.parametrize(
    ("scale", "error", "message"),
    [
        ((1, 2, 3), ValueError, r"spatial_scale: \(1, 2, 3\), expected a number or two, \(vert"),
        ([], ValueError, r"spatial_scale: \[\], expected a number or two"),
        ((1.0, 0.0), ValueError, r"spatial_scale: 0.0, expected a finite number above 0"),
        (float("nan"), ValueError, "spatial_scale: nan, expected a finite number above 0"),
        ((1, "1"), TypeError, "spatial_scale: '1', expected a number"),
        (None, TypeError, "spatial_scale: None, expected a number"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_errors(name, scale, error, message, rng):
    maps, boxes, _ = problem(rng, name)
    for given in (maps, [level.requires_grad_() for level in maps]):
        with pytest.raises(error, match=message):
            pool(name, given, boxes, [scale] * 2 if name == PYRAMID else scale)


def test_errors_of_pyramids(rng):
    """As many numbers as two for each level are not taken for pairs."""
    maps, boxes, _ = problem(rng, PYRAMID)
    for scale in ([0.5], [0.5, 0.5, 0.25, 0.25], PAIRS[:1], 0.5, None):
        with pytest.raises(ValueError, match=r"spatial_scale: .*, expected a scale for each of"):
            pool(PYRAMID, maps, boxes, scale)
    with pytest.raises(ValueError, match=r"spatial_scale: \[0.5, \(0.25, 1.0\)\]; expected levels"):
        pool(PYRAMID, maps, boxes, [0.5, (0.25, 1.0)])
