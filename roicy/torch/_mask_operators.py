"""The operators of ``torch.ops.roicy`` that return labels and masks, their batches in torch.vmap,
and the nodes that ONNX has for them.

Their arguments are those of the functions on arrays.  Results that are lists, such as run-length
codes, depend on the numbers of maps, so no operator returns them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.nn.functional import interpolate

from .. import labels, masks
from . import _onnx, _tensors
from ._autograd import _is_plain
from ._operators import LIBRARY, define
from ._vmap import folded

NODE = "roicy::PasteMasks"
_PLACED = "SymInt[]? via, float[]? box"
_DECLARED = {
    "label_map": (
        "Tensor maps, SymInt[] size, str layout, bool align_corners, str mode, "
        f"{_PLACED}, Tensor? weights, int[]? labels, float? threshold, int? below, bool values, "
        "ScalarType dtype, int? num_threads"
    ),
    "resize_masks": (
        f"Tensor masks, SymInt[] size, float[] threshold, bool align_corners, {_PLACED}, "
        "int? num_threads"
    ),
    "paste_masks": (
        "Tensor masks, Tensor boxes, SymInt[] image_shape, float? threshold, int padding, "
        "str rule, int? num_threads"
    ),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "label_map": labels.label_map,
    "resize_masks": labels.resize_masks,
    "paste_masks": masks.paste_masks,
}


def _label_map(maps: Tensor, size: Sequence[int], layout: str, *rest: Any) -> list[Tensor]:
    values, dtype, _ = rest[-3:]
    images = maps.shape[: maps.dim() - len(size) - 1]
    made = [maps.new_empty((*images, *size), dtype=dtype)]
    if values:
        computed = torch.float64 if maps.dtype is torch.float64 else torch.float32
        made.append(maps.new_empty((*images, *size), dtype=computed))
    return made


def _resize_masks(masks: Tensor, size: Sequence[int], *_: Any) -> Tensor:
    return masks.new_empty((*masks.shape[:-2], *size), dtype=torch.bool)


def _paste_masks(masks: Tensor, _: Tensor, size: Sequence[int], threshold: Any, *__: Any) -> Tensor:
    number = torch.float64 if masks.dtype is torch.float64 else torch.float32
    dtype = number if threshold is None else torch.bool
    return masks.new_empty((masks.shape[0], *size), dtype=dtype)


def _define(name: str, fake: Callable[..., Any]) -> Any:
    names = [argument.split()[-1] for argument in _DECLARED[name].split(", ")]

    def kernel(*values: Any) -> Any:
        call = dict(zip(names, values, strict=True))
        arrays = {name: _tensors.array(x) for name, x in call.items() if isinstance(x, Tensor)}
        call |= {**arrays, "num_threads": _tensors.threads(call["num_threads"])}
        if name == "resize_masks" and len(call["threshold"]) == 1:
            call["threshold"] = call["threshold"][0]
        if "dtype" in call:
            call["mode"] = modes(call["mode"])
            call["dtype"] = str(call["dtype"]).removeprefix("torch.")
        found = _FUNCTIONS[name](**call)
        if name != "label_map":
            return torch.from_numpy(found)
        return [torch.from_numpy(one) for one in (found if call["values"] else (found,))]

    def batched(info: Any, dims: Any, *given: Any) -> Any:
        """Make images, or masks, of the elements of a batch."""
        call, of = dict(zip(names, given, strict=True)), dict(zip(names, dims, strict=True))
        first, size = names[0], info.batch_size
        if of.get("weights") is not None:
            raise NotImplementedError(
                "weights: not batched by vmap, expected those of all elements"
            )
        inner = call[first].dim() - (of[first] is not None)
        # maps (C, h, w) become the images of a batch; there is nothing to fold
        is_one = name == "label_map" and inner == len(call["size"]) + 1
        is_kept = is_one or (name == "resize_masks" and inner == 2)
        for tensor in ("maps", "masks", "boxes"):
            if tensor in call:
                one = call[tensor]
                call[tensor] = (
                    one.movedim(of[tensor], 0) if is_kept else folded(one, of[tensor], size)
                )
        if name == "resize_masks" and len(call["threshold"]) > 1:  # one for each mask of an element
            call["threshold"] = [*call["threshold"]] * size
        result = operator(*call.values())
        found = [
            one if is_kept else one.unflatten(0, (size, one.shape[0] // size))
            for one in (result if name == "label_map" else [result])
        ]
        return (found, [0] * len(found)) if name == "label_map" else (found[0], 0)

    returns = "Tensor[]" if name == "label_map" else "Tensor"
    operator = define(name, f"({_DECLARED[name]}) -> {returns}", kernel, fake)
    torch.library.register_vmap(operator.name(), batched, lib=LIBRARY)
    return operator


OPERATORS = {
    "label_map": _define("label_map", _label_map),
    "resize_masks": _define("resize_masks", _resize_masks),
    "paste_masks": _define("paste_masks", _paste_masks),
}


def is_plain(*given: Any) -> bool:
    """Whether nothing but roicy has to see a call with these tensors."""
    return not torch.jit.is_tracing() and _is_plain([x for x in given if isinstance(x, Tensor)])


_WHY = (
    "how long this result is depends on the numbers of the maps, so it cannot be traced, exported "
    "or batched; call it on the tensors that the model returns"
)


def refuse(what: str, *given: Any) -> None:
    """Refuse a result that is a list where a call is recorded or batched."""
    if torch.jit.is_tracing() or any(
        torch._C._functorch.is_functorch_wrapped_tensor(one) or isinstance(one, FakeTensor)
        for one in given
        if isinstance(one, Tensor)
    ):
        raise NotImplementedError(f"{what}: {_WHY}")


def listed(what: str, function: Callable[..., Any], *given: Any) -> Any:
    """Return a result that is a list; compilers call this between their graphs."""
    refuse(what, *given)
    return function()


# As torch.compiler.disable says it, which would import the compilers here: seconds of each import.
listed._torchdynamo_disable = True  # type: ignore[attr-defined]
listed._torchdynamo_disable_msg = f"a list: {_WHY}"  # type: ignore[attr-defined]


def numbers(name: str, values: Any, kind: Any = float) -> list[Any] | None:
    """Return an optional sequence of numbers as schemas have it; kind: float, int, or None."""
    inside = values if isinstance(values, (list, tuple)) else (values,)
    if any(isinstance(one, Tensor) for one in inside):
        if torch.jit.is_tracing() or torch.compiler.is_compiling():
            raise TypeError(
                f"{name}: a torch.Tensor, expected numbers, since those of the example would be "
                "recorded"
            )
        values = torch.as_tensor(values).tolist()
    if values is None or kind is None:
        return None if values is None else list(values)
    return [kind(one) for one in values]


def modes(given: Any) -> Any:
    """Return modes of axes as a text, which schemas have, or a text of several as a list."""
    if isinstance(given, (list, tuple)):
        return ",".join(map(str, given))
    return given.split(",") if "," in given else given


def constant(like: Tensor, values: Any, dtype: torch.dtype) -> Tensor:
    """Return numbers as a tensor; torch.tensor would warn of them in each trace."""
    return torch.empty(0, device=like.device).new_tensor(values, dtype=dtype)


def sides(size: Any) -> Any:
    """Return extents as an operator takes them, and a trace, in which some may be tensors."""
    if isinstance(size, Tensor) or not torch.jit.is_tracing():
        return size if isinstance(size, Tensor) else list(size)
    if not any(isinstance(side, Tensor) for side in size):
        return [int(side) for side in size]
    traced = next(side for side in size if isinstance(side, Tensor))
    return torch.stack([
        side.to(torch.int64) if isinstance(side, Tensor) else constant(traced, side, torch.int64)
        for side in size
    ])  # fmt: skip


def call(name: str, *given: Any) -> Any:
    """Call an operator; given: its arguments, of which extents may be a tensor in a trace."""
    place = 2 if name == "paste_masks" else 1
    if not torch.jit.is_tracing() or not isinstance(given[place], Tensor):
        return OPERATORS[name](*given)
    # The dispatcher takes no tensors for numbers, but a function of TorchScript makes numbers of
    # them in the trace.
    return _of_traced(name)(*given)


def _of_traced(name: str) -> Any:
    if name not in _traced:
        kinds = {
            "Tensor": "Tensor", "Tensor?": "Optional[Tensor]", "str": "str", "bool": "bool",
            "SymInt[]?": "Optional[List[int]]", "float[]?": "Optional[List[float]]",
            "int[]?": "Optional[List[int]]", "float?": "Optional[float]", "int?": "Optional[int]",
            "ScalarType": "int", "float[]": "List[float]", "int": "int", "SymInt[]": "Tensor",
        }  # fmt: skip
        declared = [one.rsplit(" ", 1) for one in _DECLARED[name].split(", ")]
        arguments = ", ".join(f"{argument}: {kinds[kind]}" for kind, argument in declared)
        extents = next(argument for kind, argument in declared if kind == "SymInt[]")
        passed = ", ".join("extents" if one == extents else one for _, one in declared)
        unit = torch.jit.CompilationUnit(
            f"def {name}({arguments}):\n"
            f"    extents: List[int] = {extents}.tolist()\n"
            f"    return torch.ops.roicy.{name}({passed})\n"
        )
        _traced[name] = getattr(unit, name)
    return _traced[name]


_traced: dict[str, Any] = {}


def exported(name: str, *given: Any) -> Any:
    """Return what an operator returns, of nodes of ONNX; given: as in the schema."""
    return {"label_map": _labels, "resize_masks": _masks, "paste_masks": _pasted}[name](*given)


def _enlarged(
    maps: Tensor, size: Any, align_corners: bool, mode: str, via: Any, box: Any
) -> Tensor:  # fmt: skip
    """Return enlarged maps (N, C, H, W), or those of a volume."""
    maps = maps.float() if maps.dtype in _tensors.HALVES else maps
    if "," in mode:
        raise NotImplementedError(f"mode: {modes(mode)}, expected one for an export to ONNX")
    if mode == "bilinear":
        named: dict[str, Any] = {
            "mode": "trilinear" if maps.dim() == 5 else mode, "align_corners": align_corners
        }  # fmt: skip
    else:
        named = {"mode": mode}
    if via is not None:
        maps = interpolate(maps, tuple(via), **named)
    if box is not None:
        if not all(math.isfinite(one) and one == int(one) for one in box):
            raise NotImplementedError(f"box: {box}, expected whole numbers for an export to ONNX")
        x1, y1, x2, y2 = map(int, box)
        maps = maps[..., y1:y2, x1:x2]
    size = [*size.unbind()] if isinstance(size, Tensor) else size
    return interpolate(maps, tuple(size), **named)


def _labels(maps: Tensor, size: Any, layout: str, *given: Any) -> list[Tensor]:
    *placed, weights, labels, threshold, below, values, dtype, _ = given
    align_corners, mode, via, box = placed
    is_one = maps.dim() == len(size) + 1
    maps = maps[None] if is_one else maps
    if layout.upper() == "NHWC":
        last = maps.dim() - 1
        maps = maps.permute(0, last, *range(1, last))
    enlarged = _enlarged(maps, size, align_corners, mode, via, box)
    if weights is not None:
        enlarged = enlarged * weights.to(enlarged.dtype).reshape(-1, *[1] * len(size))
    found = enlarged.argmax(1)
    if labels is not None:
        found = constant(maps, labels, torch.int64)[found]
    if values or threshold is not None:
        largest = enlarged.amax(1)
    if threshold is not None:
        beside = constant(maps, 255 if below is None else below, torch.int64)
        found = torch.where(largest >= threshold, found, beside)
    found = found if dtype is torch.int64 else found.to(dtype)
    results = [found, largest] if values else [found]
    return [one[0] for one in results] if is_one else results


def _masks(
    masks: Tensor, size: Any, threshold: list[float], align_corners: bool, via: Any, box: Any,
    _: Any,
) -> Tensor:  # fmt: skip
    missing = max(4 - masks.dim(), 0)
    given = masks[(None,) * missing] if missing else masks.flatten(0, masks.dim() - 4)
    enlarged = _enlarged(given, size, align_corners, "bilinear", via, box)
    limits = constant(masks, threshold, enlarged.dtype)
    found = enlarged > (limits if len(threshold) == 1 else limits.reshape(*given.shape[:2], 1, 1))
    if missing:
        return found[(0,) * missing]
    return found if masks.dim() == 4 else found.unflatten(0, masks.shape[:-3])


def _pasted(
    masks: Tensor, boxes: Tensor, size: Any, threshold: float | None, padding: int, rule: str,
    _: Any,
) -> Tensor:  # fmt: skip
    masks = masks.float() if masks.dtype in _tensors.HALVES else masks
    masks, boxes = masks[:, None] if masks.dim() == 3 else masks, boxes.to(masks.dtype)
    attributes = {"padding": padding, "rule": rule}
    extents = size if isinstance(size, Tensor) else constant(masks, list(size), torch.int64)
    if torch.jit.is_tracing():
        pasted = _TracedMasks.apply(attributes, masks, boxes, extents)
    else:
        shape = (masks.shape[0], *size)
        given = (masks, boxes, extents)
        pasted = torch.onnx.ops.symbolic(
            NODE, given, attributes, dtype=masks.dtype, shape=shape, version=1
        )
    return pasted if threshold is None else pasted >= threshold


class _TracedMasks(torch.autograd.Function):
    """PasteMasks in a trace: (attributes, masks, boxes, image shape) -> masks of pictures."""

    @staticmethod
    def forward(_: Any, attributes: Any, masks: Tensor, boxes: Tensor, size: Tensor) -> Tensor:
        padding, rule = attributes.values()
        result: Tensor = OPERATORS["paste_masks"](
            masks, boxes, size.tolist(), None, padding, rule, None
        )
        return result

    @staticmethod
    def symbolic(graph: Any, attributes: Any, masks: Any, boxes: Any, size: Any) -> Any:
        """Add the node to a graph."""
        padding, rule = attributes.values()
        return graph.op(NODE, masks, boxes, size, padding_i=padding, rule_s=rule)


def compute(name: str, *given: Any) -> Any:
    """Return what an operator returns, in a form that whoever records the call understands."""
    return exported(name, *given) if _onnx.is_exporting() else call(name, *given)
