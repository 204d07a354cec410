"""roicy.torch.deformable_attention is what PyTorch's grid_sample makes of it."""

import numpy as np
import pytest
from attended import RULES, SHAPES
from conftest import pairs

import roicy

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")
from torch_calls import tensors  # noqa: E402

from roicy.compat import onnx as compat  # noqa: E402
from roicy.onnxruntime._report import told  # noqa: E402
from roicy.torch import _attention  # noqa: E402


def by_grid_sample(value, locations, weights, points=None, **rule):
    rule = {"mode": "bilinear", "padding": "zeros", "align_corners": False} | rule
    if points is None:
        points = [locations.shape[4]] * locations.shape[3]
        locations, weights = locations.flatten(3, 4), weights.flatten(3)
    return _attention._by_grid_sample(value, SHAPES, locations, weights, list(points), **rule)


def test_tensors_without_numbers(rng):
    """All of them may be on the device meta; beside tensors with numbers one is an error."""
    given = dict(zip(("value", "locations", "weights"), tensors(rng), strict=False))
    meta = {name: one.to("meta") for name, one in given.items()}
    shape = rt.deformable_attention(shapes=SHAPES, **given).shape
    assert rt.deformable_attention(shapes=SHAPES, **meta).shape == shape
    for name, one in meta.items():
        other = name if name != "value" else "locations"
        with pytest.raises(ValueError, match=f"^{other}: a tensor on .*, as value is on"):
            rt.deformable_attention(shapes=SHAPES, **given | {name: one})
    x, boxes = torch.ones(1, 4, 6, 6), torch.tensor([[0.0, 1, 1, 4, 4]])
    assert rt.roi_align(x.to("meta"), boxes.to("meta"), 2).shape == (1, 4, 2, 2)
    for maps, rows in ((x.to("meta"), boxes), (x, boxes.to("meta"))):
        with pytest.raises(ValueError, match="^boxes: a tensor on .*, as input is on"):
            rt.roi_align(maps, rows, 2)


@pairs(rule=RULES, points=[None, (3, 0, 2)], dtype=[np.float32, np.float64])
def test_values_and_gradients(rule, points, dtype, rng):
    *given, grad = tensors(rng, dtype, points=points)
    given = [tensor.requires_grad_() for tensor in given]
    expected = by_grid_sample(*given, points=points, **RULES[rule])
    found = rt.deformable_attention(given[0], SHAPES, *given[1:], points=points, **RULES[rule])
    close = {"rtol": 0, "atol": 500 * np.finfo(dtype).eps}
    torch.testing.assert_close(found, expected, **close)
    grads = torch.autograd.grad(found, given, grad)
    for a, b in zip(grads, torch.autograd.grad(expected, given, grad), strict=True):
        torch.testing.assert_close(a, b, **close)
    for i, tensor in enumerate(given):  # the gradient of one alone
        rows = [one.detach() for one in given]
        rows[i] = tensor
        out = rt.deformable_attention(rows[0], SHAPES, *rows[1:], points=points, **RULES[rule])
        assert torch.equal(*torch.autograd.grad(out, tensor, grad), grads[i])


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf"  # of PyTorch's opcheck
)
def test_opcheck(rng):
    value, locations, weights, grad = tensors(rng, points=(3, 0, 2))
    given = {"value": value, "locations": locations, "weights": weights}
    rule = {"shapes": np.ravel(SHAPES).tolist(), "points": [3, 0, 2], "mode": "bilinear"}
    rule |= {"padding": "zeros", "align_corners": False, "num_threads": 1}
    leaves = {name: one.clone().requires_grad_() for name, one in given.items()}
    torch.library.opcheck(torch.ops.roicy.deformable_attention.default, (), leaves | rule)
    backward = torch.ops.roicy.deformable_attention_backward.default
    for wanted in ([True, True, True], [False, True, False], [True, False, False]):
        more = {"grad_output": grad, "wanted": wanted}
        torch.library.opcheck(backward, (), given | rule | more)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic, rng):
    *given, grad = tensors(rng, np.float32)
    given = [tensor.requires_grad_() for tensor in given]

    def call(value, locations, weights):
        return rt.deformable_attention(value * 2, SHAPES, locations, weights).sin()

    compiled = torch.compile(call, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    out, expected = compiled(*given), call(*given)
    assert torch.equal(out, expected)
    for a, b in zip(
        torch.autograd.grad(out, given, grad),
        torch.autograd.grad(expected, given, grad),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


class Attend(torch.nn.Module):
    def forward(self, value, locations, weights):
        return rt.deformable_attention(value, SHAPES, locations, weights, num_threads=1)


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict, rng):
    given = tensors(rng, np.float32)[:3]
    images = torch.export.Dim("images")
    exported = torch.export.export(
        Attend(), tuple(given), strict=strict, dynamic_shapes=[{0: images}] * 3
    )
    assert "roicy.deformable_attention" in exported.graph_module.code
    more = [torch.cat([tensor, tensor[:1]]) for tensor in given]
    assert torch.equal(exported.module()(*more), Attend()(*more))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # extents are those of the trace
def test_trace(rng):
    given = tensors(rng, np.float32)[:3]
    more = [torch.cat([tensor, tensor[:1]]) for tensor in given]

    def call(value, locations, weights):
        shapes = [(value.shape[1] // 6 * 0 + height, width) for height, width in SHAPES]
        return rt.deformable_attention(value, shapes, locations, weights)

    traced = torch.jit.trace(call, tuple(given))
    assert "roicy::deformable_attention" in str(traced.graph)
    assert torch.equal(traced(*more), rt.deformable_attention(more[0], SHAPES, *more[1:]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dynamo", "of_any_batch"), [(False, False), (False, True), (True, True)])
def test_onnx(dynamo, of_any_batch, rng, tmp_path):
    """ONNX has no such operator, but GridSample.  The provider computes all of it."""
    onnxruntime = pytest.importorskip("onnxruntime")
    if dynamo:
        pytest.importorskip("onnxscript")
    given = tensors(rng, np.float32)[:3]
    path, names = str(tmp_path / "model.onnx"), ["value", "locations", "weights"]
    free = {}
    if of_any_batch and dynamo:
        free = {"dynamic_shapes": [{0: torch.export.Dim.DYNAMIC}] * 3}
    elif of_any_batch:
        free = {"dynamic_axes": {name: {0: "images"} for name in names}}
    torch.onnx.export(
        Attend(), tuple(given), path, input_names=names, dynamo=dynamo, opset_version=18, **free
    )
    feed = {name: tensor.numpy() for name, tensor in zip(names, given, strict=True)}
    alone = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with told() as (titles, _):
        session = compat.InferenceSession(path)
    assert len(titles) == 1
    for one in (alone, session):
        np.testing.assert_allclose(one.run(None, feed)[0], Attend()(*given), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dims", [(0, 0, 0), (None, 0, 1), (1, None, None), (None, None, 2)])
def test_vmap(dims, rng):
    """A call under vmap has the bits of one call for each element."""
    plain = tensors(rng)[:3]
    given = [
        one if dim is None else torch.stack([one, one.flip(0), one / 2], dim)
        for one, dim in zip(plain, dims, strict=True)
    ]

    def loss(value, locations, weights):
        return rt.deformable_attention(value, SHAPES, locations, weights).sin().sum()

    gradients = torch.func.grad(loss, (0, 1, 2))
    found = torch.vmap(gradients, dims)(*given)
    for b in range(3):
        element = [
            one if dim is None else one.select(dim, b) for one, dim in zip(given, dims, strict=True)
        ]
        for a, right in zip(found, gradients(*element), strict=True):
            assert torch.equal(a[b], right)


def test_derivatives_that_are_not_there(rng):
    value, locations, weights, _ = tensors(rng)

    def call(value):
        return rt.deformable_attention(value, SHAPES, locations, weights)

    with pytest.raises(NotImplementedError, match="^deformable_attention: forward-mode"):
        torch.func.jvp(call, (value,), (value,))
    value.requires_grad_()
    (grad,) = torch.autograd.grad(call(value).square().sum(), value, create_graph=True)
    with pytest.raises(NotImplementedError, match="cannot be differentiated again"):
        grad.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_types(dtype, rng):
    given = [tensor.to(dtype).requires_grad_() for tensor in tensors(rng)[:3]]
    wide = [tensor.detach().float().requires_grad_() for tensor in given]
    out = rt.deformable_attention(given[0], SHAPES, *given[1:])
    expected = rt.deformable_attention(wide[0], SHAPES, *wide[1:])
    assert out.dtype is dtype
    assert torch.equal(out, expected.to(dtype))
    grads = torch.autograd.grad(out, given, torch.ones_like(out))
    for a, b in zip(grads, torch.autograd.grad(expected.sum(), wide), strict=True):
        assert torch.equal(a, b.to(dtype))


def test_arguments(rng):
    value, locations, weights, _ = tensors(rng)
    expected = rt.deformable_attention(value, SHAPES, locations, weights)
    np.testing.assert_array_equal(
        expected, roicy.deformable_attention(value, SHAPES, locations, weights)
    )
    lists, rows = [list(shape) for shape in SHAPES], [torch.tensor(shape) for shape in SHAPES]
    for shapes in (torch.tensor(SHAPES), lists, rows):
        found = rt.deformable_attention(value, shapes, locations, weights)
        assert torch.equal(found, expected)
    right = {"value": value, "shapes": SHAPES, "locations": locations, "weights": weights}
    for message, wrong in {
        "value: builtins.int, expected a torch.Tensor of the CPU": {"value": 1},
        r"locations: shape .*, expected \(N, Q, M, 3, P, 2\)": {
            "locations": locations[..., :2, :, :]
        },
        r"locations: shape .*; locations and weights seem to be": {
            "locations": weights,
            "weights": locations,
        },
        r"weights: shape .*, expected \(2, 5, 3, 3, 4\)": {"weights": weights[:1]},
        r"locations: shape .*, expected \(1, 5, ": {"value": value[:1]},
        r"shapes: \[\(5, 7, 1\)\], expected \(height, width\)": {"shapes": [(5, 7, 1)]},
        "shapes: builtins.int, expected": {"shapes": 5},
        "points: 4, expected 3 integers": {"points": 4},
    }.items():
        with pytest.raises((TypeError, ValueError), match=f"^{message}"):
            rt.deformable_attention(**right | wrong)
