"""
How the operators are differentiated, in both modes and twice.

Weighted sums are linear in their input.  So the derivative of a forward pass in forward mode is
the forward pass of the tangent, and the derivative of its gradient is a forward pass again.

``torch.library.register_autograd`` knows reverse mode only, and has forward mode give zeros
without a word.  So each operator has a kernel of its own for the dispatcher's key "Autograd":
where a derivative is wanted it records an autograd.Function, as PyTorch's own kernels do at that
place, and then computes below that key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

# Function.apply asks which transform of torch.func is active, and records at its level.  A kernel
# of the dispatcher runs at the level that is to be recorded.
from torch.autograd.function import _SingleLevelFunction

from ._operators import KERNELS, LIBRARY, OPERATORS, Operator
from ._plain import is_plain

IN_REVERSE = "reverse mode has them: backward(), torch.func.grad, torch.func.jacrev"
RECORDERS: dict[Any, Callable[..., Any]] = {}  # what each operator calls for the key "Autograd"


def _is_differentiated(tensors: Sequence[Tensor]) -> bool:
    # within a level of forward mode any tensor may have a tangent
    if forward_ad._current_level >= 0:
        return True
    return torch.is_grad_enabled() and any([tensor.requires_grad for tensor in tensors])


def call(operator: Any, tensors: Sequence[Tensor], *arguments: Any) -> Any:
    """Call an operator, and go around the dispatcher where that has nothing to do."""
    if not is_plain(tensors):
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
    """
    Call an operator in the forward pass of a function of below.

    No gradients are recorded there, which must not hold for the transforms around this one.
    """
    if is_plain(tensors):
        return KERNELS[operator](*arguments)
    if not torch._C._are_functorch_transforms_active():
        return _below_autograd(operator, *arguments)
    with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
        return _below_autograd(operator, *arguments)


def _refuse_tangent(name: str, of_boxes: Tensor | None) -> None:
    if of_boxes is not None:
        raise NotImplementedError(
            f"{name}: forward-mode derivatives by boxes are not computed; {IN_REVERSE}"
        )


def _complete(
    tensors: Sequence[Tensor | None], shapes: Sequence[int], like: Tensor
) -> list[Tensor]:
    """Return tangents or gradients of all maps, zeros where there are none."""
    return [
        like.new_zeros(tuple(shapes[4 * i : 4 * i + 4])) if tensor is None else tensor
        for i, tensor in enumerate(tensors)
    ]


def _at_argmax(maps: Tensor, argmax: Tensor, boxes: Tensor) -> Tensor:
    """Return the pixels of maps that RoIPool chose, and 0 of a bin that chose none."""
    if maps.shape[2] * maps.shape[3] == 0:
        return maps.new_zeros(argmax.shape)
    images = boxes[:, 0].long()[:, None, None]
    channels = torch.arange(maps.shape[1])[None, :, None]
    pixels = argmax.flatten(2)
    chosen = maps.flatten(2)[images, channels, pixels.clamp(min=0).long()]
    return torch.where(pixels >= 0, chosen, 0).unflatten(2, argmax.shape[2:])


def _pool_others(ctx: Any, maps: Sequence[Tensor], boxes: Tensor, argmax: Sequence[Tensor]) -> Any:
    """Return the forward pass of other maps, in which the largest pixels lie where they lay."""
    if argmax:
        return _at_argmax(maps[0], *argmax, boxes)
    return ctx.own.pool(ctx.own.pack(maps), boxes, ctx.pooled_shape[2:], *ctx.parameters)


# RoIPool is linear, too, where it is known which pixels are the largest: `argmax` is a list of the
# tensor that says so, or an empty one of other operators.


class _Pool(_SingleLevelFunction):
    """A forward pass: (operators, boxes, output_size, parameters, *maps) -> pooled, *argmax."""

    @staticmethod
    def forward(own: Operator, boxes: Tensor, size: Any, parameters: Any, *maps: Tensor) -> Any:
        pool = own.pool_argmax or own.pool
        return _compute(pool, (boxes, *maps), own.pack(maps), boxes, size, *parameters)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        own, boxes, _, parameters, *maps = inputs
        pooled, *argmax = output if own.has_argmax else (output,)
        ctx.own, ctx.parameters = own, parameters[-1:] if argmax else parameters
        ctx.shapes = [extent for level in maps for extent in level.shape]
        ctx.pooled_shape, ctx.pooled_type = tuple(pooled.shape), pooled.dtype
        by_boxes = own.backward_boxes is not None and ctx.needs_input_grad[1]
        ctx.save_for_backward(boxes, *argmax, *(maps if by_boxes or not own.is_linear else ()))
        ctx.save_for_forward(boxes, *argmax)
        ctx.mark_non_differentiable(*argmax)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor | None, *_: None) -> tuple[Any, ...]:
        own, (boxes, *saved) = ctx.own, ctx.saved_tensors
        argmax, maps = saved[: own.has_argmax], saved[own.has_argmax :]
        grads: list[Any] = [None] * (len(ctx.shapes) // 4)
        grad_boxes = None
        if grad_output is None:
            return (None, None, None, None, *grads)
        tensors = (grad_output, boxes, *saved)
        if any(ctx.needs_input_grad[4:]):
            read = (*argmax, boxes, ctx.shapes) if own.is_linear else (own.pack(maps), boxes)
            arguments = (grad_output, *read, *ctx.parameters)
            grads = own.unpack(call(own.backward, tensors, *arguments))
        if own.backward_boxes is not None and maps:
            arguments = (grad_output, own.pack(maps), boxes, *ctx.parameters)
            grad_boxes = call(own.backward_boxes, tensors, *arguments)
        return (None, grad_boxes, None, None, *grads)

    @staticmethod
    def jvp(ctx: Any, _: None, of_boxes: Any, __: None, ___: None, *tangents: Any) -> Any:
        own, (boxes, *saved) = ctx.own, ctx.saved_tensors
        argmax = saved[: own.has_argmax]
        if own.backward_boxes is not None:
            _refuse_tangent(own.name, of_boxes)
        given = [tangent for tangent in tangents if tangent is not None]
        if not given:  # boxes that have no gradient have a tangent
            pooled = boxes.new_zeros(ctx.pooled_shape, dtype=ctx.pooled_type)
        elif own.is_linear:
            pooled = _pool_others(ctx, _complete(tangents, ctx.shapes, given[0]), boxes, argmax)
        else:
            raise NotImplementedError(
                f"{own.name}: forward-mode derivatives are not computed; {IN_REVERSE}"
            )
        return (pooled, None) if argmax else pooled


class _Backward(_SingleLevelFunction):
    """
    The gradient of maps: (operators, grad_output, boxes, shapes, parameters, *argmax) -> grads.

    It is linear, too, and the transpose of the forward pass.
    """

    @staticmethod
    def forward(
        own: Operator, grad: Tensor, boxes: Tensor, shapes: Any, parameters: Any, *argmax: Tensor
    ) -> Any:
        given = (grad, *argmax, boxes)
        return tuple(own.unpack(_compute(own.backward, given, *given, shapes, *parameters)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.own, grad_output, boxes, ctx.shapes, ctx.parameters, *argmax = inputs
        ctx.pooled_shape, ctx.pooled_type = tuple(grad_output.shape), grad_output.dtype
        by_boxes = ctx.own.backward_boxes is not None and ctx.needs_input_grad[2]
        ctx.save_for_backward(boxes, *argmax, *([grad_output] if by_boxes else ()))
        ctx.save_for_forward(boxes, *argmax)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        own, (boxes, *saved) = ctx.own, ctx.saved_tensors
        argmax, grad_output = saved[: own.has_argmax], saved[own.has_argmax :]
        given = [grad for grad in grads if grad is not None]
        by_grad, by_boxes = None, None
        if given:
            maps = _complete(grads, ctx.shapes, given[0])
            if ctx.needs_input_grad[1]:
                by_grad = _pool_others(ctx, maps, boxes, argmax)
            if grad_output:
                packed = own.pack(maps)
                by_boxes = own.backward_boxes(grad_output[0], packed, boxes, *ctx.parameters)
        return None, by_grad, by_boxes, None, None, *[None] * len(argmax)

    @staticmethod
    def jvp(ctx: Any, _: None, tangent: Any, of_boxes: Any, *__: None) -> Any:
        own, (boxes, *saved) = ctx.own, ctx.saved_tensors
        if own.backward_boxes is not None:
            _refuse_tangent(own.name, of_boxes)
        if tangent is None:
            tangent = boxes.new_zeros(ctx.pooled_shape, dtype=ctx.pooled_type)
        given = (tangent, *saved[: own.has_argmax], boxes)
        return tuple(own.unpack(own.backward(*given, ctx.shapes, *ctx.parameters)))


class _WithMaps(_SingleLevelFunction):
    """A gradient that reads maps: (operators, grad_output, boxes, parameters, *maps) -> grad."""

    @staticmethod
    def forward(own: Operator, grad: Tensor, boxes: Tensor, parameters: Any, *maps: Tensor) -> Any:
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
        _refuse_tangent(own.name, of_boxes)
        terms = []  # of a product of two factors
        if of_grad is not None:
            terms.append(own.backward_boxes(of_grad, own.pack(maps), boxes, *ctx.parameters))
        if any(tangent is not None for tangent in tangents):
            shapes = [extent for level in maps for extent in level.shape]
            moved = own.pack(_complete(tangents, shapes, maps[0]))
            terms.append(own.backward_boxes(grad_output, moved, boxes, *ctx.parameters))
        return sum(terms[1:], terms[0]) if terms else None


def _register(
    operator: Any, tensors: Callable[..., Sequence[Tensor]], record: Callable[..., Any]
) -> None:
    """Have an operator recorded where one of the tensors of a call is differentiated."""

    def recorder(*given: Any) -> Any:
        if _is_differentiated(tensors(*given)):
            return record(*given)
        return _below_autograd(operator, *given)

    RECORDERS[operator] = recorder
    LIBRARY.impl(operator.name(), recorder, "Autograd")


def _register_pool(own: Operator) -> None:
    def tensors(input: Any, boxes: Tensor, *_: Any) -> Sequence[Tensor]:
        return (boxes, *own.unpack(input)) if own.is_linear and not own.has_argmax else (input,)

    def record(input: Any, boxes: Tensor, size: list[int], *parameters: Any) -> Any:
        return _record(_Pool, own, boxes, size, parameters, *own.unpack(input))

    def record_argmax(input: Tensor, boxes: Tensor, *given: Any) -> Any:
        return call(own.pool_argmax, (input, boxes), input, boxes, *given)[0]

    if own.has_argmax:
        _register(own.pool, tensors, record_argmax)
    _register(own.pool_argmax or own.pool, tensors, record)


def _register_backward(own: Operator) -> None:
    def tensors(grad_output: Tensor, boxes: Tensor, *_: Any) -> Sequence[Tensor]:
        return (grad_output,) if own.has_argmax else (grad_output, boxes)

    def record(grad_output: Tensor, *given: Any) -> Any:
        argmax, (boxes, shapes, *parameters) = given[: own.has_argmax], given[own.has_argmax :]
        return own.pack(_record(_Backward, own, grad_output, boxes, shapes, parameters, *argmax))

    _register(own.backward, tensors, record)


def _register_with_maps(own: Operator, operator: Any) -> None:
    def tensors(grad_output: Tensor, input: Any, boxes: Tensor, *_: Any) -> Sequence[Tensor]:
        return (grad_output, *own.unpack(input), *([boxes] if own.is_linear else ()))

    def record(grad_output: Tensor, input: Any, boxes: Tensor, *parameters: Any) -> Any:
        return _record(_WithMaps, own, grad_output, boxes, parameters, *own.unpack(input))

    _register(operator, tensors, record)


for _own in OPERATORS:
    _register_pool(_own)
    if _own.is_linear:
        _register_backward(_own)
    else:
        _register_with_maps(_own, _own.backward)
    if _own.backward_boxes is not None:
        _register_with_maps(_own, _own.backward_boxes)
