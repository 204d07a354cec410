"""Labels and masks of tensors in traces, exports, compilers and vmap: no constants."""

import io
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning",
    "error::torch.jit.TracerWarning",
)  # fmt: skip
BOXES = torch.tensor([[1.0, 2.0, 20.0, 15.0], [3.0, 0.0, 9.5, 12.0]])
CALLS = {
    "labels": lambda x: rt.label_map(x, (33, 70)),
    "labels of one": lambda x: rt.label_map(x[0], (33, 70), dtype=torch.uint8),
    "labels, two steps": lambda x: rt.label_map(
        x, (33, 70), via=(64, 64), box=[0, 0, 60, 40], weights=[0.5, 1, 0.9, 0.8]
    ),
    "labels, values": lambda x: rt.label_map(
        x, (33, 70), values=True, labels=[3, 1, 7, 2], threshold=0.1
    ),
    "labels, nearest": lambda x: rt.label_map(
        x.permute(0, 2, 3, 1), (33, 70), mode="nearest", layout="NHWC"
    ),
    "labels, corners": lambda x: rt.label_map(x, (33, 70), align_corners=True),
    "volumes": lambda x: rt.label_map(x[:, :, None].repeat(1, 1, 3, 1, 1), (5, 33, 70)),
    "masks": lambda x: rt.resize_masks(x, (33, 70), threshold=0.2),
    "labels, two modes": lambda x: rt.label_map(x, (33, 70), mode=("nearest", "bilinear")),
    "masks, limits": lambda x: rt.resize_masks(x, (33, 70), threshold=[-0.1, 0.5, 0, 1] * 2),
    "masks of one": lambda x: rt.resize_masks(x[0], (33, 70)),
    "mask": lambda x: rt.resize_masks(x[0, 0], (33, 70)),
    "pasted": lambda x: rt.paste_masks(x[:, :1], BOXES.to(x.device), (33, 70)),
    "pasted numbers": lambda x: rt.paste_masks(
        x[:, 0], BOXES.to(x.device), (33, 70), threshold=None, rule="detectron2"
    ),
}  # fmt: skip


def maps(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def negated(x):
    bits = torch.complex(torch.zeros_like(x), x).conj().imag
    assert bits.is_neg()
    return bits


def equal(found, expected):
    found, expected = ([x] if torch.is_tensor(x) else list(x) for x in (found, expected))
    assert all(
        a.dtype is b.dtype and torch.equal(a, b) for a, b in zip(found, expected, strict=True)
    )


FIRST, OTHER = maps(0, 2, 4, 12, 16), maps(1, 2, 4, 12, 16)


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("name", CALLS)
def test_traces(name):
    """What is recorded of one input computes another one."""
    call = CALLS[name]
    expected = call(OTHER)
    equal(torch.jit.trace(call, FIRST)(OTHER), expected)
    equal(torch.export.export(Model(call), (FIRST,)).module()(OTHER), expected)
    torch._dynamo.reset()
    equal(torch.compile(call, fullgraph=True, backend="aot_eager")(OTHER), expected)
    assert call(FIRST.to("meta")) is not None


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("pasted")])
def test_vmap(name):
    call, given = CALLS[name], maps(2, 3, 2, 4, 12, 16)
    found = torch.vmap(call)(given)
    expected = [call(one) for one in given]
    if not torch.is_tensor(found):
        expected = [torch.stack(one) for one in zip(*expected, strict=True)]
    equal(found, expected if not torch.is_tensor(found) else torch.stack(expected))


def test_vmap_of_boxes():
    given, boxes = maps(2, 3, 2, 12, 16), BOXES + maps(3, 3, 1, 4)
    found = torch.vmap(lambda m, b: rt.paste_masks(m, b, (33, 70)), (0, 0))(given, boxes)
    equal(
        found,
        torch.stack([rt.paste_masks(*one, (33, 70)) for one in zip(given, boxes, strict=True)]),
    )


def test_extents_of_a_trace():
    """Extents that a trace computes are not those of the example, either."""

    def call(x, picture):
        size = picture.shape[-2:]
        return rt.label_map(x, size), rt.resize_masks(x, size), rt.paste_masks(
            x[:, :1], BOXES.to(x.device), size
        )  # fmt: skip

    traced = torch.jit.trace(call, (FIRST, torch.zeros(33, 70)))
    for a, b in zip(
        traced(OTHER, torch.zeros(50, 41)), call(OTHER, torch.zeros(50, 41)), strict=True
    ):
        equal(a, b)
    out = torch.export.export(
        _Two(call), (FIRST, torch.zeros(33, 70)),
        dynamic_shapes=({}, {0: torch.export.Dim("h"), 1: torch.export.Dim("w")}),
    )  # fmt: skip
    for a, b in zip(
        out.module()(OTHER, torch.zeros(50, 41)), call(OTHER, torch.zeros(50, 41)), strict=True
    ):
        equal(a, b)


class _Two(Model):
    def forward(self, x, picture):
        return self.function(x, picture)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: rt.resize_masks(x, (33, 70), format="rle"),
        lambda x: rt.label_segments(x, (33, 70))[0],
        lambda x: rt.paste_masks(x[:, :1], BOXES.to(x.device), (33, 70), format="rle"),
    ],
)
def test_lists_are_refused(call):
    """A list of codes would be that of the example."""
    for record in (
        lambda: torch.jit.trace(call, FIRST),
        lambda: torch.export.export(Model(call), (FIRST,)),
        lambda: torch.vmap(call)(FIRST[None]),
        lambda: torch.compile(call, fullgraph=True, backend="eager")(FIRST),
    ):
        with pytest.raises(Exception, match="depends on the numbers of the maps"):
            record()
    torch._dynamo.reset()
    made = torch.compile(call, backend="eager")(FIRST)
    if torch.is_tensor(made):
        equal(made, call(FIRST))
    else:
        assert made == call(FIRST)


def test_box_of_a_trace():
    with pytest.raises(TypeError, match="via: a torch.Tensor, expected numbers"):
        torch.jit.trace(lambda x: rt.resize_masks(x, (99, 99), via=x.shape[-2:]), FIRST)
    with pytest.raises(TypeError, match="box: a torch.Tensor, expected numbers"):
        torch.jit.trace(lambda x: rt.label_map(x, (33, 70), box=x[0, 0, 0, :4]), FIRST)
    for call in (
        lambda x: rt.label_map(x, (33, 70), threshold=x.mean(), below=9),
        lambda x: rt.resize_masks(x, (33, 70), threshold=x.mean()),
        lambda x: rt.paste_masks(x[:, :1], BOXES.to(x.device), (33, 70), threshold=x.mean()),
    ):
        with pytest.raises(TypeError, match="threshold: a torch.Tensor, expected numbers"):
            torch.jit.trace(call, FIRST)


def test_limits_of_a_trace():
    with pytest.raises(ValueError, match="^threshold: 2 numbers, expected 8, one for a mask"):
        torch.jit.trace(lambda x: rt.resize_masks(x, (33, 70), threshold=[0, 1]), FIRST)


def test_out():
    for call, dtype in (
        (lambda x, out: rt.label_map(x, (33, 70), out=out), torch.uint8),
        (lambda x, out: rt.resize_masks(x[:, 0], (33, 70), out=out), torch.bool),
    ):
        expected, out = (
            call(OTHER, torch.empty(2, 33, 70, dtype=dtype)),
            torch.empty(2, 33, 70, dtype=dtype),
        )
        traced = torch.jit.trace(call, (FIRST, out))
        traced(OTHER, out)
        equal(out, expected)
        with pytest.raises(ValueError, match="out: shape"):
            call(negated(FIRST), torch.empty(1, 33, 70, dtype=dtype))


def test_negative_bit():
    """Tensors that PyTorch negates as they are read."""
    bits = negated(FIRST)
    for call in [*CALLS.values(), lambda x: rt.label_segments(x, (33, 70))[0]]:
        equal(call(bits), call(-FIRST))
    assert rt.resize_masks(bits, (33, 70), format="rle") == rt.resize_masks(
        -FIRST, (33, 70), format="rle"
    )
    pasted = rt.paste_masks(-FIRST[:, :1], BOXES, (33, 70), format="rle")
    assert rt.paste_masks(bits[:, :1], BOXES, (33, 70), format="rle") == pasted
    out = torch.zeros(2, 33, 70, dtype=torch.complex64).conj().imag
    rt.paste_masks(FIRST[:, 0], BOXES, (33, 70), threshold=None, out=out)
    equal(out.resolve_neg(), rt.paste_masks(FIRST[:, 0], BOXES, (33, 70), threshold=None))
    for make in (lambda x: negated(-x), torch.nn.Parameter):  # numbers that NumPy does not read
        weights, box = make(torch.rand(FIRST.shape[1])), make(torch.tensor([0.0, 0, 5, 4]))
        given = {"weights": weights, "box": box, "threshold": make(torch.tensor(0.1)), "below": 99}
        plain = {k: v.tolist() if isinstance(v, torch.Tensor) else v for k, v in given.items()}
        for call in (rt.label_map, lambda *a, **b: rt.label_segments(*a, **b)[0]):
            equal(call(FIRST, (33, 70), **given), call(FIRST, (33, 70), **plain))
        for masks in (FIRST, bits):
            of = {"threshold": make(torch.tensor(0.1)), "box": box}
            limits = {**of, "threshold": of["threshold"].item()}
            found = rt.resize_masks(masks, (33, 70), **of)
            equal(found, rt.resize_masks(masks, (33, 70), **limits))
    with pytest.raises(TypeError, match="maps: .*complex64"):
        rt.label_map(torch.zeros(1, 2, 2, dtype=torch.complex64).conj(), (3, 3))


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("name", [n for n in CALLS if n not in ("volumes", "labels, two modes")])
def test_onnx(name, dynamo):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    own = pytest.importorskip("roicy.onnxruntime")
    written, call = io.BytesIO(), CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            written = torch.onnx.export(Model(call).eval(), (FIRST,), dynamo=True, verbose=False)
            model = written.model_proto.SerializeToString()
        else:
            torch.onnx.export(
                Model(call).eval(), (FIRST,), written, dynamo=False, opset_version=18,
                input_names=["x"],
            )  # fmt: skip
            model = written.getvalue()
    session = runtime.InferenceSession(model, own.use(runtime.SessionOptions()))
    found = session.run(None, {session.get_inputs()[0].name: OTHER.numpy()})
    expected = call(OTHER)
    for a, b in zip(
        found, [expected] if torch.is_tensor(expected) else list(expected), strict=True
    ):
        assert a.dtype == b.numpy().dtype
        if b.dtype.is_floating_point:
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
        else:
            assert (a != b.numpy()).mean() < 1e-3  # resized in another order
