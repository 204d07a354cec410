"""roicy.torch gives roicy's numbers and gradients on tensors, also under PyTorch's compilers.

test_torch_derivatives.py, test_torch_onnx.py and test_torchvision.py have the rest.
"""

import numpy as np
import pytest
from conftest import WITH_BOX_GRADIENTS, pairs, python

import roicy

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch_calls import NAMES, PARAMETERS, PYRAMID, by_image, pack, problem, pyramid  # noqa: E402

from roicy.torch import _script, _tensors  # noqa: E402


def layouts(x):
    yield x
    yield x.to(memory_format=torch.channels_last)
    yield torch.stack([x, x], dim=-1)[..., 1]
    yield x.flip(3).flip(3).transpose(2, 3).contiguous().transpose(2, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_forward(name, dtype, rng):
    """Tensors of any strides and both formats of boxes give roicy's bits on the same memory."""
    x, boxes, size, parameters = problem(rng, name, dtype)
    expected = getattr(roicy, name)(x.numpy(), boxes.numpy(), size, **parameters)
    function, order = getattr(rt, name), torch.argsort(boxes[:, 0], stable=True)
    for view in layouts(x):
        out = function(view, boxes, size, **parameters)
        assert out.dtype == dtype
        np.testing.assert_array_equal(out, expected)
        listed = function(view, by_image(boxes), size, **parameters)
        np.testing.assert_array_equal(listed, expected[order])
    np.testing.assert_array_equal(function(x, boxes, 2, **parameters), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8])
def test_memory_is_shared(dtype, rng, monkeypatch):
    """No copy of the map is made, in any format."""
    pytest.importorskip("ml_dtypes")
    seen, original = [], roicy.roi_align
    monkeypatch.setattr(
        roicy, "roi_align", lambda input, **more: seen.append(input) or original(input, **more)
    )
    x, boxes, size, parameters = problem(rng, "roi_align", torch.float32)
    for view in layouts(x.to(dtype)):
        rt.roi_align(view, boxes, size, **parameters)
        assert seen[-1].__array_interface__["data"][0] == view.data_ptr()


MANY = {torch.float16: 2051, torch.bfloat16: 260, torch.int8: 131, torch.uint8: 259}


@pairs(dtype=MANY, name=NAMES)
def test_lists_of_boxes_keep_their_images(name, dtype):
    """Lists keep indices that the type of the boxes cannot hold."""
    count = MANY[dtype]
    images = torch.arange(count).float().reshape(-1, 1, 1, 1)
    x = images.expand(-1, 1, 4, 4).clone().requires_grad_()
    boxes = [torch.tensor([[0, 0, 2, 2]], dtype=dtype)] * count
    out = getattr(rt, name)(x, boxes, 1)
    grad = torch.autograd.grad(out.sum(), x)[0].sum((1, 2, 3))
    assert out[1] > 0  # a bin that reaches off the map gives less than 1, in each image
    np.testing.assert_allclose(out.detach().ravel(), out[1].item() * torch.arange(count), rtol=1e-6)
    np.testing.assert_allclose(grad, grad[0].expand(count), rtol=1e-6)


@pytest.mark.parametrize("dtype", MANY, ids=str)
def test_lists_of_boxes_of_pyramids_keep_their_images(dtype):
    """A module keeps the images of listed boxes, and so does TorchScript."""
    count = MANY[dtype]
    maps = torch.arange(count).float().reshape(-1, 1, 1, 1).expand(-1, 1, 4, 4)
    boxes = [torch.tensor([[0, 0, 2, 2]], dtype=dtype)] * count
    pooler = rt.MultiScaleRoIAlign(["0"], 1, 2)
    out = pooler({"0": maps}, boxes, [(4, 4)] * count)
    np.testing.assert_array_equal(out.ravel(), torch.arange(count))
    with pytest.warns(match="torch.jit.script"):
        scripted = torch.jit.script(rt.MultiScaleRoIAlign(["0"], 1, 2))
    np.testing.assert_array_equal(scripted({"0": maps}, boxes, [(4, 4)] * count), out)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint", "float", "bfloat"])
def test_rows_hold_any_index(kind, bits):
    dtype = getattr(torch, f"{kind}{bits}", None)
    if dtype is not None:
        for images in (3, 70_000, 2**24 + 2, 2**31):
            exact = _script.exact_type(dtype, images)
            last = torch.tensor([images - 1], dtype=exact)
            assert int(last) == images - 1
            rows = _script.rows_of([torch.ones(1, 4).to(dtype)] * 3, 3)
            assert rows.dtype == _script.exact_type(dtype, 3)
            assert rows.tolist() == [[i, 1, 1, 1, 1] for i in range(3)]


def test_gradients_of_lists_of_boxes():
    """They are those of rows, in the type of the boxes."""
    x = torch.rand(300, 2, 8, 8)
    boxes = [torch.tensor([[1, 1, 5, 6]]).bfloat16().requires_grad_() for _ in range(300)]
    images = torch.arange(300.0)[:, None]
    rows = torch.cat([images, torch.cat(boxes).detach().float()], 1).requires_grad_()
    rt.roi_align(x, boxes, 2).sum().backward()
    rt.roi_align(x, rows, 2).sum().backward()
    found = torch.cat([part.grad for part in boxes])
    assert found.any()
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, rows.grad[:, 1:].bfloat16())


@pytest.mark.parametrize("dtype, largest", [(torch.float16, 2048), (torch.bfloat16, 256)])
@pytest.mark.parametrize("name", [*NAMES, PYRAMID])
def test_rounded_indices_are_refused(name, dtype, largest):
    """Boxes (K, 5) are refused if rounding may have changed their index."""
    function, scale = getattr(rt, name), pack(name, [1.0])
    for images in (largest + 1, largest + 2):
        maps = torch.arange(images).float().reshape(-1, 1, 1, 1).expand(-1, 1, 4, 4)
        maps = maps.clone().requires_grad_()
        given = pack(name, [maps])
        boxes = torch.tensor([[0, 0, 0, 3, 3], [largest, 0, 0, 3, 3]], dtype=dtype)
        if images == largest + 1:
            # so few images have indices that are exact
            assert function(given, boxes, 1, scale)[1, 0, 0, 0] > 0
            continue
        with pytest.raises(ValueError, match=rf"boxes\[1\]: batch index {largest} in \w+16"):
            function(given, boxes, 1, scale)
        function(given, boxes[:1], 1, scale)
        function(given, boxes.float(), 1, scale)
        for index, message in ((4 * largest, f"{4 * largest} is outside"), (np.inf, "inf, expect")):
            boxes[1, 0] = index
            with pytest.raises(ValueError, match=rf"boxes\[1\]: batch index {message}"):
                function(given, boxes, 1, scale)


def test_only_what_is_asked_for_is_differentiated(rng):
    x, boxes, size, parameters = problem(rng, "roi_align", torch.float32)
    rows = boxes.double().requires_grad_()  # these boxes have another type
    rt.roi_align(x, rows, size, **parameters).sum().backward()
    assert rows.grad.any()
    assert x.grad is None
    rt.roi_align(x.requires_grad_(), boxes, size, **parameters).sum().backward()
    assert x.grad.any()
    assert boxes.grad is None
    with torch.no_grad():
        assert not rt.roi_align(x, boxes, size).requires_grad
    maps, boxes, scales = pyramid(rng, torch.float64)
    maps[1].requires_grad_()
    rt.multiscale_roi_align(maps, boxes, 2, scales, 2, True, 60.0, 3).sum().backward()
    assert maps[1].grad.any()
    assert maps[0].grad is None


# test_opcheck of test_torch_scales.py looks at the shapes and at the tracing of each operator.
@pytest.mark.parametrize(
    ("name", "strict"), [("roi_align", True), ("ps_roi_pool", False), ("roi_pool", False)]
)
def test_export(name, strict, rng):
    """Exported programs take maps of any size and any number of boxes."""
    x, boxes, size, parameters = problem(rng, name, torch.float32)

    class Pool(torch.nn.Module):
        def forward(self, x, boxes):
            return getattr(rt, name)(x, boxes, size, **parameters)

    height, count = torch.export.Dim("height"), torch.export.Dim("count")
    shapes = {"x": {2: height}, "boxes": {0: count}}
    exported = torch.export.export(Pool(), (x, boxes), strict=strict, dynamic_shapes=shapes)
    given = x[:, :, :9], boxes[:4]
    assert torch.equal(exported.module()(*given), Pool()(*given))


@pytest.mark.parametrize("name", NAMES)
def test_errors(name, rng):
    x, boxes, size, parameters = problem(rng, name, torch.float32)
    function = getattr(rt, name)
    for wrong in (boxes[:, 1:], boxes[0], [boxes, boxes], [boxes[:, 1:3]] * 2):
        with pytest.raises(AssertionError, match="boxes: "):
            function(x, wrong, size, **parameters)
    assert len(function(x, [], size, **parameters)) == 0
    bad = boxes.clone()
    bad[2, 0] = 5
    message = r"boxes\[2\]: batch index 5 is outside the input's 2 images"
    with pytest.raises(ValueError, match=message):
        function(x, bad, size, **parameters)
    with pytest.raises(TypeError, match="input: dtype int64"):
        function(x.long(), boxes, size, **parameters)
    with pytest.raises(NotImplementedError, match="SparseCPU"):
        function(x.to_sparse(), boxes, size, **parameters)


@pytest.mark.parametrize("name", NAMES)
def test_nested_lists_of_boxes(name, rng):
    x, boxes, size, parameters = problem(rng, name, torch.float32)
    function = getattr(rt, name)
    boxes = boxes[boxes[:, 0].argsort(stable=True)]
    listed = by_image(boxes)
    x.requires_grad_()
    expected = function(x, boxes, size, **parameters)
    grad = torch.autograd.grad(expected.sum(), x)[0]
    mixed = [part if n % 2 else part.tolist() for n, part in enumerate(listed)]
    for rows in (boxes.tolist(), [part.tolist() for part in listed], mixed):
        pooled = function(x, rows, size, **parameters)
        assert torch.equal(pooled, expected)
        assert torch.equal(torch.autograd.grad(pooled.sum(), x)[0], grad)
    whole = {key: float(p) if type(p) is int else p for key, p in parameters.items()}
    assert torch.equal(function(x, boxes, size, **whole), expected)
    with pytest.raises(AssertionError, match=r"boxes: expected a Tensor\[K, 5\] .* one image"):
        function(x, boxes[:, 1:], size, **parameters)
    with pytest.raises(TypeError, match=r"boxes\[0\]\[4\]: builtins\.str, expected a number"):
        function(x, [[0, 1, 1, 4, "4"]], size, **parameters)
    with pytest.raises(ValueError, match=r"boxes\[1\]: 4 numbers, expected 5"):
        function(x, [[0, 1, 1, 4, 4], [0, 1, 1, 4]], size, **parameters)


@pytest.mark.parametrize("kind", ["eager", "script", "compile"])
@pytest.mark.parametrize("name", ["roi_align", "roi_pool", "ps_roi_pool", PYRAMID])
def test_boxes_of_one_image(name, kind, rng):
    """Boxes (K, 4) need nothing else, and get a gradient of their shape."""
    x = pack(name, [torch.from_numpy(rng.standard_normal((1, 8, 20, 20)))])
    function, scale = getattr(rt, name), pack(name, [0.5])

    def call(x, boxes):
        return function(x, boxes, [2, 2], scale)

    boxes = torch.tensor([[2.0, 3.0, 20.0, 30.0], [1.0, 1.5, 9.0, 12.0]], dtype=torch.float64)
    rows = torch.cat([torch.zeros(2, 1), boxes], dim=1)
    expected = call(x, rows)
    if kind == "compile":
        torch._dynamo.reset()  # the limit of compilations is of all operators together
        call = torch.compile(call, backend="eager", fullgraph=True)
    if kind == "script":
        with pytest.warns(match="torch.jit.script"):
            function = torch.jit.script(function)
    assert torch.equal(call(x, boxes), expected)
    if kind == "script":  # takes no nested lists of numbers
        return
    for nested in (boxes.tolist(), rows.tolist(), [boxes.tolist()]):
        assert torch.equal(call(x, nested), expected)
    assert call(x, [[]]).shape == (0, *expected.shape[1:])
    if name.endswith("roi_align"):
        grads = [
            torch.autograd.grad(call(x, one.requires_grad_()).sum(), one)[0]
            for one in (boxes, rows)
        ]
        assert torch.equal(grads[0], grads[1][:, 1:])


def test_whole_floats_of_modules():
    x, boxes = torch.ones(1, 4, 8, 8), torch.tensor([[0.0, 1, 1, 5, 5]])
    for module in (rt.RoIAlign, rt.PSRoIAlign):
        whole = module(2, 1.0, 2.0)
        assert torch.equal(whole(x, boxes), module(2, 1.0, 2)(x, boxes))
        with pytest.warns(match="torch.jit.script"):
            assert torch.equal(torch.jit.script(whole)(x, boxes), whole(x, boxes))
        with pytest.raises(ValueError, match="sampling_ratio: 2.5, expected a whole number"):
            module(2, 1.0, 2.5)
    with pytest.raises(ValueError, match="sampling_ratio: 2.5, expected a whole number"):
        rt.roi_align(x, boxes, 2, sampling_ratio=2.5)


@pairs(
    dtype=[torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.uint16, torch.int16],
    name=NAMES,
    has_ml_dtypes=[True, False],
)
def test_small_types(name, dtype, has_ml_dtypes, rng, monkeypatch):
    """Small types are computed in float32, in the forward pass and in both gradients.  Boxes may
    have a small type, too.  Results of maps of integers are float32.
    """
    if has_ml_dtypes:
        pytest.importorskip("ml_dtypes")
    monkeypatch.setattr(_tensors, "HAS_ML_DTYPES", has_ml_dtypes)
    x, boxes, size, parameters = problem(rng, name, torch.float32)
    x = (x * 10 + 100).to(dtype)
    function = getattr(rt, name)
    if not dtype.is_floating_point:
        out = function(x, boxes, size, **parameters)
        assert torch.equal(out, function(x.float(), boxes, size, **parameters))
        return
    boxes = boxes.to(dtype)
    results = []
    for type_ in (dtype, torch.float32):
        given = [x.to(type_).clone().requires_grad_(), boxes.to(type_).clone()]
        given[1].requires_grad_(name in WITH_BOX_GRADIENTS)
        out = function(*given, size, **parameters)
        assert out.dtype == type_
        leaves = [one for one in given if one.requires_grad]
        results.append([out.detach(), *torch.autograd.grad(out.sum(), leaves)])
    for narrow, expected in zip(*results, strict=True):
        assert narrow.dtype == dtype
        assert torch.equal(narrow, expected.to(dtype))
    for view in layouts(x):
        assert torch.equal(function(view, boxes, size, **parameters), results[0][0])


def test_products(rng):
    x, boxes, size, parameters = problem(rng, "roi_align_max", torch.float32)
    found = []
    for products in (False, True):
        given = parameters | {"products": products}
        found.append(rt.roi_align_max(x, boxes, size, **given))
        expected = roicy.roi_align_max(x.numpy(), boxes.numpy(), size, **given)
        np.testing.assert_array_equal(found[-1], expected)
    assert not torch.equal(*found)
    with pytest.raises(TypeError, match="products: 1, expected True or False"):
        rt.roi_align_max(x, boxes, size, **parameters | {"products": 1})


@pytest.mark.parametrize("name", [*NAMES, PYRAMID])
def test_errors_of_types(name):
    """Errors of types name the argument, where the dispatcher would accept it or name none."""
    array, rows = np.ones((1, 4, 8, 8)), np.array([[0, 1, 1, 5, 5.0]])
    maps, single = ("features", r"features\[0\]") if name == PYRAMID else ("input", "input")
    x = pack(name, [torch.from_numpy(array)])
    right = {maps: x, "boxes": torch.from_numpy(rows), "output_size": 2}
    right["spatial_scale"] = pack(name, [1.0])
    errors = [
        ({maps: pack(name, [array])}, f"{single}: numpy.ndarray, expected a torch.Tensor"),
        ({"boxes": rows}, r"boxes: numpy.ndarray, expected a torch.Tensor or a list"),
        ({"boxes": [rows[:, 1:]]}, r"boxes\[0\]: numpy.ndarray, expected a torch.Tensor"),
        ({"num_threads": 0}, "num_threads: 0, expected an integer from 1"),
        ({"output_size": 0}, "output_size: 0, expected an integer from 1"),
    ]
    if name == PYRAMID:
        errors.append(({maps: []}, "features: an empty list, expected a list of tensors"))
        errors.append(({maps: x[0]}, "features: torch.Tensor, expected a list of tensors"))
    else:
        errors.append(({maps: [x]}, "input: builtins.list, expected a torch.Tensor"))
    function, has_aligned = getattr(rt, name), "aligned" in PARAMETERS.get(name, {})
    if has_aligned:
        for wrong in (1, 0, "True", None):
            errors.append(({"aligned": wrong}, f"aligned: {wrong!r}, expected True or False"))
        assert torch.equal(function(**right, aligned=np.True_), function(**right, aligned=True))
    for wrong, message in errors:
        with pytest.raises((TypeError, ValueError), match=f"^{message}"):
            function(**right | wrong)


@pytest.mark.parametrize("name", [*NAMES, PYRAMID])
def test_threads(name, rng, seen_threads, monkeypatch):
    """A call and its gradients use the number given, or the lesser of roicy's and PyTorch's."""
    maps, boxes, scales = pyramid(rng, torch.float32)
    input = pack(name, [level.requires_grad_() for level in maps])
    arguments = (input, boxes.requires_grad_(), 1, pack(name, scales))
    function, before = getattr(rt, name), torch.get_num_threads()
    monkeypatch.setattr("roicy._machine._threads._set", 3)
    try:
        for of_torch, given, expected in ((8, None, 3), (2, None, 2), (1, None, 1), (1, 5, 5)):
            torch.set_num_threads(of_torch)
            function(*arguments, num_threads=given).sum().backward()
            differentiable = name in (*WITH_BOX_GRADIENTS, PYRAMID)
            assert seen_threads == [expected] * (3 if differentiable else 2)
            seen_threads.clear()
    finally:
        torch.set_num_threads(before)


class Pooled(torch.utils.data.Dataset):
    """A data set whose items are the number of threads of a call, and its result."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        out = rt.roi_align(torch.ones(1, 16, 32, 32), torch.tensor([[0, 1, 1, 9, 9.0]] * 64), 7)
        return _tensors.threads(None), out.mean().item()


def test_workers_of_a_loader_have_one_thread(monkeypatch):
    monkeypatch.setattr("roicy._machine._threads._set", 2)
    loader = torch.utils.data.DataLoader(Pooled(), num_workers=1, batch_size=None)
    assert [tuple(seen) for seen in loader] == [(1, 1.0)] * 2


class Marked(torch.Tensor):
    """A subclass of tensors, which PyTorch's own functions keep."""


class Seen(TorchDispatchMode):
    """A mode that records the operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name", [*NAMES, PYRAMID])
def test_whoever_watches_sees_the_operators(name, rng):
    """Calls bypass PyTorch's dispatcher, unless something has to see them."""
    function = getattr(rt, name)
    (x, *_), boxes, scales = pyramid(rng, torch.float32)
    x = torch.cat([x, x[:, :1]], dim=1).requires_grad_()

    def pool(x):
        return function(pack(name, [x]), boxes, 2, pack(name, scales[:1]))

    expected = pool(x)
    (grad,) = torch.autograd.grad(expected.sum(), x)
    with Seen() as seen:
        again = pool(x)
        assert torch.equal(torch.autograd.grad(again.sum(), x)[0], grad)
    forward = "roi_pool_argmax" if name == "roi_pool" else name
    assert {f"roicy.{forward}.default", f"roicy.{name}_backward.default"} <= set(seen.names)
    with torch.no_grad(), Seen() as seen:
        pool(x)
    assert f"roicy.{name}.default" in seen.names
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        pool(x)
    assert f"roicy::{forward}" in {event.name for event in profile.events()}
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = pool(mode.from_tensor(x))
        assert fake.shape == expected.shape
    negated = torch._neg_view(-x.detach())
    assert negated.is_neg()
    assert torch.equal(pool(negated), expected.detach())
    assert type(pool(x.detach().as_subclass(Marked))) is Marked
    assert torch.equal(make_fx(pool)(x.detach())(x.detach()), expected.detach())
    traced = torch.jit.trace(pool, x.detach(), check_trace=False)
    assert f"roicy::{name}" in str(traced.graph)
    with torch.inference_mode():
        assert torch.equal(pool(x.clone()), expected.detach())
    with torch.autocast("cpu"):
        assert torch.equal(pool(x), expected)


def test_argmax_only_where_it_is_wanted(rng, monkeypatch):
    """RoIPool computes argmax only for its gradient, since it takes several times as long."""
    seen, original = [], roicy.roi_pool

    def recorded(*given, return_argmax=False, **more):
        seen.append(return_argmax)
        return original(*given, return_argmax=return_argmax, **more)

    monkeypatch.setattr(roicy, "roi_pool", recorded)
    x, boxes, size, _ = problem(rng, "roi_pool", torch.float32)
    expected = rt.roi_pool(x, boxes.requires_grad_(), size)
    x.requires_grad_()
    for context in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with context():
            assert torch.equal(rt.roi_pool(x, boxes, size), expected)
    assert seen == [False, True, False, False]


def test_a_second_import():
    """Operators are registered once in a process, in which modules may be imported again."""
    code = """
import sys
from unittest import mock
import numpy, torch
with mock.patch.dict(sys.modules):
    import roicy.torch as first
for lost in ("roicy", "roicy.torch", "roicy"):
    for name in [name for name in sys.modules if (name + ".").startswith(lost + ".")]:
        del sys.modules[name]
    import roicy.torch as second
    assert second is not first
    assert second.RoIAlign is first.RoIAlign
    maps = torch.ones(1, 4, 8, 8, requires_grad=True)
    boxes = torch.tensor([[0, 1.0, 1, 5, 5]])
    second.roi_align(maps, boxes, 2).sum().backward()
    pooled = torch.compile(second.roi_align, backend="eager")(maps.detach(), boxes, 2)
    print(int(maps.grad.sum()), int(pooled.sum()))
"""
    found = python(code)
    assert found.stdout.split() == ["16", "16"] * 3, found.stderr
