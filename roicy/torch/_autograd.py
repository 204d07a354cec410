"""How the operators are differentiated, in both modes and twice.

Weighted sums are linear in their input, and the gradient of the input is the transpose of the
forward pass.  So each of the two is the derivative of the other in reverse mode, and its own in
forward mode.

``torch.library.register_autograd`` knows reverse mode only, and has forward mode give zeros
without a word.  So each operator has a kernel of its own for the dispatcher's key "Autograd":
where a derivative is wanted it records an autograd.Function, as PyTorch's own kernels do at that
place, and then computes below that key.

The dispatcher decides by the keys of the tensors and of the thread, which stand for modes, tracers
and transforms.  A call with ordinary keys alone goes to the kernel itself, which makes small calls
shorter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

# Function.apply asks which transform of torch.func is active, and records at its level.  A kernel
# of the dispatcher runs at the level that is to be recorded.
from torch.autograd.function import _SingleLevelFunction
from torch.overrides import has_torch_function

from ._operators import KERNELS, LIBRARY, OPERATORS, TorchOp, unpack

IN_REVERSE = "reverse mode has them: backward(), torch.func.grad, torch.func.jacrev"
RECORDERS: dict[Any, Callable[..., Any]] = {}  # what each operator calls for the key "Autograd"


def _keys(*names: str) -> int:
    sets = [DispatchKeySet(getattr(DispatchKey, name)) for name in names]
    return functools.reduce(DispatchKeySet.__or__, sets).raw_repr()


# Outside of inference mode, and in it.
_OF_TENSORS = (
    _keys("CPU", "AutogradCPU", "ADInplaceOrView", "AutocastCPU"),
    _keys("CPU", "AutocastCPU"),
)
_OF_THREADS = (_keys("BackendSelect", "ADInplaceOrView"), _keys("BackendSelect"))


def _is_plain(tensors: Sequence[Tensor]) -> bool:
    """Whether nothing but a kernel for the CPU, and autograd, has to see a call with these."""
    return (
        not torch.compiler.is_compiling()
        and not torch._C._autograd._profiler_enabled()
        and not has_torch_function(tensors)
        and torch._C._dispatch_tls_local_include_set().raw_repr() in _OF_THREADS
        and all([torch._C._dispatch_keys(one).raw_repr() in _OF_TENSORS for one in tensors])
    )


def _is_differentiated(tensors: Sequence[Tensor]) -> bool:
    # within a level of forward mode any tensor may have a tangent
    if forward_ad._current_level >= 0:
        return True
    return torch.is_grad_enabled() and any([tensor.requires_grad for tensor in tensors])


def call(operator: Any, tensors: Sequence[Tensor], *arguments: Any) -> Any:
    """Call an operator, and go around the dispatcher where that has nothing to do."""
    if not _is_plain(tensors):
        return operator(*arguments)
    kernels = RECORDERS if _is_differentiated(tensors) else KERNELS
    return kernels[operator](*arguments)


def _below_autograd(operator: Any, *arguments: Any) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments)


def _record(function: Any, *arguments: Any) -> Any:
    """Compute a function of below, and record it at the level of the kernel that calls this."""
    if not torch._C._are_functorch_transforms_active():
        return function.apply(*arguments)
    with enable_single_level_autograd_function():
        return function.apply(*arguments)


def _compute(operator: Any, tensors: Sequence[Tensor], *arguments: Any) -> Any:
    """Call an operator in the forward pass of a function of below.

    No gradients are recorded there, which must not hold for the transforms around this one.
    """
    if _is_plain(tensors):
        return KERNELS[operator](*arguments)
    if not torch._C._are_functorch_transforms_active():
        return _below_autograd(operator, *arguments)
    with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
        return _below_autograd(operator, *arguments)


def _refuse_tangent(own: TorchOp, of_boxes: Tensor | None) -> None:
    if of_boxes is not None and own.backward_boxes is not None:
        raise NotImplementedError(
            f"{own.name}: forward-mode derivatives by boxes are not computed; {IN_REVERSE}"
        )


def _extents(maps: Sequence[Tensor]) -> list[int]:
    """Return the extents of all maps as one list, as schemas have them."""
    return [extent for level in maps for extent in level.shape]


def _complete(tensors: Sequence[Tensor | None], extents: Sequence[int]) -> list[Tensor]:
    """Return tangents or gradients, of all maps of these extents if of any: zeros for None."""
    like = next(tensor for tensor in tensors if tensor is not None)
    return [
        like.new_zeros(tuple(extents[4 * i : 4 * i + 4])) if tensor is None else tensor
        for i, tensor in enumerate(tensors)
    ]


def _transformed(
    ctx: Any, is_transpose: bool, tensors: Sequence[Tensor], boxes: Tensor, argmax: Sequence[Tensor]
) -> list[Tensor]:
    """Return what is pooled from maps, or the transpose of that, of the operator of a context."""
    own = ctx.own
    if is_transpose:
        given = (*tensors, *argmax, boxes)
        return unpack(call(own.backward, given, *given, ctx.extents, *ctx.parameters))
    if argmax:
        return [_at_argmax(tensors[0], *argmax, boxes)]
    maps = own.pack(tensors)
    return [call(own.pool, (*tensors, boxes), maps, boxes, ctx.size, *ctx.parameters)]


def _at_argmax(maps: Tensor, argmax: Tensor, boxes: Tensor) -> Tensor:
    """Return the pixels of maps that RoIPool chose, and 0 of a bin that chose none."""
    if maps.shape[2] * maps.shape[3] == 0:
        return maps.new_zeros(argmax.shape)
    images = boxes[:, 0].long()[:, None, None]
    channels = torch.arange(maps.shape[1])[None, :, None]
    pixels = argmax.flatten(2)
    chosen = maps.flatten(2)[images, channels, pixels.clamp(min=0).long()]
    return torch.where(pixels >= 0, chosen, 0).unflatten(2, argmax.shape[2:])


class _Pool(_SingleLevelFunction):
    """A forward pass, or its transpose: (operators, boxes, size, extents, parameters, *tensors).

    Without extents the tensors are maps, and the results are what is pooled, and RoIPool's argmax.
    With the extents of maps the tensors are a gradient of what is pooled, and RoIPool's argmax, and
    the results are gradients of the maps.  RoIPool is linear, too, where argmax is known.
    """

    @staticmethod
    def forward(
        own: TorchOp, boxes: Tensor, size: Any, extents: Any, parameters: Any, *tensors: Tensor
    ) -> Any:
        given = (*tensors, boxes)
        if extents is not None:
            return tuple(unpack(_compute(own.backward, given, *given, extents, *parameters)))
        pool = own.pool_argmax or own.pool
        return _compute(pool, given, own.pack(tensors), boxes, size, *parameters)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        own, boxes, size, extents, parameters, *tensors = inputs
        values, results, argmax = tensors, unpack(output), tensors[:0]
        ctx.own, ctx.size, ctx.is_transpose = own, size, extents is not None
        if ctx.is_transpose:
            values, argmax = tensors[:1], tensors[1:]
        elif own.has_argmax:
            results, argmax = results[:1], results[1:]
            ctx.mark_non_differentiable(*argmax)
        ctx.extents = extents or _extents(values)
        ctx.parameters = parameters[-1:] if argmax else parameters
        ctx.results = [(tuple(result.shape), result.dtype) for result in results]
        by_boxes = own.backward_boxes is not None and ctx.needs_input_grad[1]
        ctx.save_for_backward(boxes, *argmax, *(values if by_boxes or not own.is_linear else ()))
        ctx.save_for_forward(boxes, *argmax)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        own, (boxes, *saved) = ctx.own, ctx.saved_tensors
        argmax, values = saved[: own.has_argmax], saved[own.has_argmax :]
        of_boxes: Any = None
        of_tensors: list[Any] = [None] * len(ctx.needs_input_grad[5:])
        given: Any = grads[: len(ctx.results)]  # argmax has none
        if all(grad is None for grad in given):
            return None, None, None, None, None, *of_tensors
        given = _complete(given, ctx.extents)
        if any(ctx.needs_input_grad[5:]) and own.is_linear:
            found = _transformed(ctx, not ctx.is_transpose, given, boxes, argmax)
            of_tensors[: len(found)] = found
        elif any(ctx.needs_input_grad[5:]):
            read = (*given, *values, boxes)
            of_tensors = [call(own.backward, read, *read, *ctx.parameters)]
        if own.backward_boxes is not None and values:
            (grad,), maps = (values, given) if ctx.is_transpose else (given, values)
            read = (grad, own.pack(maps), boxes)
            of_boxes = call(own.backward_boxes, (grad, *maps, boxes), *read, *ctx.parameters)
        return None, of_boxes, None, None, None, *of_tensors

    @staticmethod
    def jvp(ctx: Any, _: None, of_boxes: Any, *more: Any) -> Any:
        own, (boxes, *argmax) = ctx.own, ctx.saved_tensors
        tangents = more[3:4] if ctx.is_transpose else more[3:]
        _refuse_tangent(own, of_boxes)
        if all(tangent is None for tangent in tangents):  # boxes that have no gradient have one
            results = [boxes.new_zeros(shape, dtype=dtype) for shape, dtype in ctx.results]
        elif own.is_linear:
            given = _complete(tangents, ctx.extents)
            results = _transformed(ctx, ctx.is_transpose, given, boxes, argmax)
        else:
            raise NotImplementedError(
                f"{own.name}: forward-mode derivatives are not computed; {IN_REVERSE}"
            )
        if ctx.is_transpose:
            return tuple(results)
        return (*results, None) if argmax else results[0]


class _WithMaps(_SingleLevelFunction):
    """A gradient that reads maps: (operators, grad_output, boxes, parameters, *maps) -> grad."""

    @staticmethod
    def forward(own: TorchOp, grad: Tensor, boxes: Tensor, parameters: Any, *maps: Tensor) -> Any:
        tensors, packed = (grad, boxes, *maps), own.pack(maps)
        operator = own.backward_boxes if own.is_linear else own.backward
        return _compute(operator, tensors, grad, packed, boxes, *parameters)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.own, grad_output, boxes, ctx.parameters, *maps = inputs
        ctx.save_for_forward(grad_output, boxes, *maps)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Any, ...]:
        which = "the gradient of boxes" if ctx.own.is_linear else "its gradient"
        raise NotImplementedError(f"{ctx.own.name}: {which} cannot be differentiated again")

    @staticmethod
    def jvp(ctx: Any, _: None, of_grad: Any, of_boxes: Any, __: None, *tangents: Any) -> Any:
        own, (grad_output, boxes, *maps) = ctx.own, ctx.saved_tensors
        if not own.is_linear:
            _WithMaps.backward(ctx, None)
        _refuse_tangent(own, of_boxes)
        terms = []  # of a product of two factors
        if of_grad is not None:
            terms.append(own.backward_boxes(of_grad, own.pack(maps), boxes, *ctx.parameters))
        if any(tangent is not None for tangent in tangents):
            moved = own.pack(_complete(tangents, _extents(maps)))
            terms.append(own.backward_boxes(grad_output, moved, boxes, *ctx.parameters))
        return sum(terms[1:], terms[0]) if terms else None


def register(
    operator: Any, tensors_of: Callable[[Sequence[Any]], Sequence[Tensor]], record: Any
) -> None:
    """Have an operator recorded where one of the tensors of a call is differentiated.

    Parameters
    ----------
    operator : an operator
    tensors_of : the arguments of a call -> its tensors that can be differentiated
    record : what computes and records a call, of its arguments
    """

    def recorder(*given: Any) -> Any:
        if _is_differentiated(tensors_of(given)):
            return record(*given)
        return _below_autograd(operator, *given)

    RECORDERS[operator] = recorder
    LIBRARY.impl(operator.name(), recorder, "Autograd")


def _register(own: TorchOp, operator: Any, record: Callable[..., Any]) -> None:
    without = {"argmax"} if own.is_linear and not own.has_argmax else {"argmax", "boxes"}
    places = [
        i
        for i, argument in enumerate(operator._schema.arguments)
        if "Tensor" in str(argument.type) and argument.name not in without
    ]

    def tensors_of(given: Sequence[Any]) -> list[Tensor]:
        return [tensor for i in places for tensor in unpack(given[i])]

    register(operator, tensors_of, functools.partial(record, own))


def _record_pool(own: TorchOp, input: Any, boxes: Tensor, size: Any, *parameters: Any) -> Any:
    return _record(_Pool, own, boxes, size, None, parameters, *unpack(input))


def _record_pool_argmax(own: TorchOp, input: Tensor, boxes: Tensor, *given: Any) -> Any:
    return call(own.pool_argmax, (input, boxes), input, boxes, *given)[0]


def _record_backward(own: TorchOp, grad: Tensor, *given: Any) -> Any:
    argmax, (boxes, extents, *parameters) = given[: own.has_argmax], given[own.has_argmax :]
    tensors = (boxes, grad.shape[2:], extents, parameters, grad, *argmax)
    return own.pack(_record(_Pool, own, *tensors))


def _record_with_maps(own: TorchOp, grad: Tensor, input: Any, boxes: Tensor, *more: Any) -> Any:
    return _record(_WithMaps, own, grad, boxes, more, *unpack(input))


for _own in OPERATORS.values():
    _register(_own, _own.pool, _record_pool_argmax if _own.has_argmax else _record_pool)
    if _own.has_argmax:
        _register(_own, _own.pool_argmax, _record_pool)
    _register(_own, _own.backward, _record_backward if _own.is_linear else _record_with_maps)
    if _own.backward_boxes is not None:
        _register(_own, _own.backward_boxes, _record_with_maps)
