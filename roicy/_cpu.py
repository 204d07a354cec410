"""The backend of NumPy arrays: it makes the plan of a call, and runs it.

Only this file makes plans and calls the kernels that carry them out; crops and masks have no
plan.  In each step, a plan takes as many boxes as its tables have room for, and the kernels of a
pass compute them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._checks import _arguments, _levels
from ._checks._arguments import INT32
from ._kernels import plan as kernels
from ._kernels.plan import Arguments, Plan, Rule
from ._machine import _memory
from ._table import MAX_PIXEL, WEIGHTED_SUM, Operator

array = _arguments.array
result = _memory.result


def indices(name: str, value: Any, plan: Plan) -> np.ndarray:
    """Return an int32 array of the shape of the output."""
    value = _arguments.taken(name, value)
    if value.dtype.char != INT32.char or not value.dtype.isnative:
        raise TypeError(f"{name}: dtype {_arguments.spell(value.dtype)}, expected int32")
    if value.shape != plan.output_shape:
        raise ValueError(f"{name}: shape {value.shape}, expected {plan.output_shape}")
    return _arguments.addressable(name, value)


def plan_with_maps(
    operator: Operator, rule: Rule, maps: Any, bins: Any, arguments: Arguments,
    gradient: bool = False,
) -> Plan:  # fmt: skip
    """Plan a forward pass, or a gradient that reads the maps: of boxes, or of largest samples."""
    reduction = operator.reduction
    purpose = reduction.with_maps if gradient else reduction.forward
    return Plan(purpose, operator, rule, maps, bins, arguments)


def plan_backward(
    operator: Operator, rule: Rule, grad: np.ndarray, shapes: dict[str, _levels.Shape],
    arguments: Arguments,
) -> Plan:  # fmt: skip
    """Plan the gradient of maps of these shapes (N, C, H, W); grad: seen as (K, C, PH, PW)."""
    named = dict(shapes, dtype=grad.dtype)
    return Plan(operator.reduction.of_maps, operator, rule, named, grad.shape[2:], arguments)


def box_arrays(plan: Plan) -> Sequence[np.ndarray]:
    """Return the memory of the boxes that a call reads."""
    boxes = plan.given_boxes
    return boxes if isinstance(boxes, (list, tuple)) else [boxes]


def output(plan: Plan) -> np.ndarray:
    """Return the array that a forward pass writes to: `out`, if it can take the result."""
    out = plan.arguments.out
    if out is None:
        return _memory.new(plan.output_shape, _arguments.pooled(plan.maps[0].dtype)[0])
    if plan.accepts_out(out):
        return out
    dtypes = _arguments.pooled(plan.maps[0].dtype)
    read = (*plan.maps, *box_arrays(plan))
    return result(out, plan.output_shape, dtypes, read)


def forward(
    plan: Plan, out: np.ndarray, argmax: np.ndarray | None = None, products: bool = False
) -> None:
    """Pool.  argmax: written for maxima of pixels; products: as of ``_call.forward``."""
    target, small, rounded = out, None, out
    if out.dtype != plan.dtype:  # each part is computed in target, and rounded to small
        target = _memory.new(out.shape, plan.dtype)
        rounded = out if out.flags.c_contiguous else _memory.new(out.shape, out.dtype)
        small = _bytes(rounded), ord(out.dtype.char)
    layout = plan.layout
    target_nchw = layout.nchw(target)
    if plan.operator.reduction is WEIGHTED_SUM:
        plan.forward(target_nchw, small)
    elif plan.operator.reduction is MAX_PIXEL:
        indices = None if argmax is None else layout.nchw(argmax)
        plan.max_pixel(target_nchw, indices, small)
    else:
        plan.max_sample(target_nchw, products, small)
    if rounded is not out:
        out[...] = rounded


def _bytes(array: np.ndarray) -> np.ndarray:
    """Return the bytes of a C-contiguous array."""
    return _arguments.bits(array).reshape(-1).view(np.uint8)


def narrow(values: np.ndarray, out: np.ndarray, threads: int) -> None:
    """Write new float32 values to an array of a small type."""
    rounded = out if out.flags.c_contiguous else _memory.new(out.shape, out.dtype)
    kernels.narrow(values.reshape(-1), _bytes(rounded), ord(out.dtype.char), threads)
    if rounded is not out:
        out[...] = rounded


def rounded(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return values of the type that `dtype` is computed in as numbers of `dtype`."""
    if values.dtype == dtype:
        return values
    out = np.empty(values.shape, dtype)
    narrow(values, out, 1)
    return out


def backward(plan: Plan, grad: np.ndarray, outs: list[np.ndarray]) -> None:
    """Write the gradients of the maps of weighted sums; grad: seen as (K, C, PH, PW)."""
    plan.bind(outs)
    plan.grad_input(grad)


def backward_max(
    plan: Plan, grad: np.ndarray, argmax: np.ndarray, out: np.ndarray, new: bool
) -> None:
    """Write the gradient of the map of maxima of pixels; new: whether nobody else has `out` yet.

    Nothing may be written to an array of the caller's if an index is wrong.  A new array is shown
    to nobody, so the kernel checks as it goes.
    """
    _, _, height, width = plan.map_size()
    grad, argmax = plan.layout.packed(grad), plan.layout.packed(argmax)
    target = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
    plan.bind([target])
    if plan.max_pixel_grad(grad, argmax, new):
        raise _outside(argmax, height * width)
    if target is not out:
        out[...] = target


def _outside(argmax: np.ndarray, pixels: int) -> ValueError:
    bad = ((argmax < -1) | (argmax >= pixels)).any(axis=(1, 2, 3)).argmax()
    return ValueError(
        f"argmax[{bad}]: an index that is neither -1 nor less than the {pixels} pixels of the map"
    )


def backward_samples(plan: Plan, grad: np.ndarray, out: np.ndarray, products: bool) -> None:
    """Write the gradient of the map of maxima of samples, or of products."""
    plan.max_sample_grad(grad, plan.layout.nchw(out), products)


def backward_boxes(plan: Plan, grad: np.ndarray) -> Any:
    """Return the gradients of the boxes of weighted sums, in the format that boxes came in."""
    boxes = plan.given_boxes
    listed = isinstance(boxes, (list, tuple))
    columns = plan.box_numbers if listed else boxes.shape[1]  # the first may be the image
    out = np.empty((plan.count, columns), plan.dtype)
    plan.grad_boxes(grad, out)
    if not listed:
        return out
    ends = list(itertools.accumulate(len(rows) for rows in boxes))
    return np.split(out, ends[:-1]) if boxes else []
