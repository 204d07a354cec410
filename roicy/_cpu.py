"""The backend of NumPy arrays: it makes the plan of a call, and runs it.

Only this file makes plans and calls the kernels that carry them out; crops and masks have no
plan.  In each step, a plan takes as many boxes as its
tables have room for, and the kernels of a pass compute them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _arguments, _levels, _memory, _results
from ._arguments import INT32
from ._kernels import isa
from ._kernels.plan import Arguments, Plan, Rule
from ._table import MAX_PIXEL, WEIGHTED_SUM, Operator

PARTIAL_SUMS_BYTES = 16 << 20  # partial sums of the gradients of the boxes of a step
MAX_BOXES = 2**31 - 1  # boxes of a level in one step; tests take fewer

array = _arguments.array
result = _results.result


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


def forward(plan: Plan, out: np.ndarray, extra: Any) -> None:
    """Pool; extra: argmax, or the option of ``_call.forward``."""
    target = out if out.dtype == plan.dtype else _memory.new(out.shape, plan.dtype)
    layout = plan.layout
    target_nchw = layout.nchw(target)
    argmax = layout.nchw(extra) if isinstance(extra, np.ndarray) else None
    empty = plan.empty_levels()
    while plan.next(MAX_BOXES):
        if plan.operator.reduction is WEIGHTED_SUM:
            plan.forward(target_nchw)
        elif plan.operator.reduction is MAX_PIXEL:
            plan.max_pixel(target_nchw, argmax)
        else:
            plan.max_sample(target_nchw, bool(extra))
    # At last, since nothing is to be written if a plan lacks memory; and row by row, since NumPy
    # has no right error where a list of rows lacks memory.
    for _, rows in empty:
        for row in rows:
            target_nchw[row] = 0
            if argmax is not None:
                argmax[row] = -1
    if target is not out:
        narrow(target, out, plan.max_threads)


def narrow(values: np.ndarray, out: np.ndarray, threads: int) -> None:
    """Write new float32 values to an array of a small type."""
    rounded = out if out.flags.c_contiguous else _memory.new(out.shape, out.dtype)
    isa.narrow(values, _arguments.bits(rounded), ord(out.dtype.char), threads)
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
    empty = plan.empty_levels()
    plan.bind(outs)
    while plan.next(MAX_BOXES):
        plan.grad_input(grad)
    for level, _ in empty:  # at last: nothing is written where a plan lacks memory
        outs[level][...] = 0


def backward_max(
    plan: Plan, grad: np.ndarray, argmax: np.ndarray, out: np.ndarray, new: bool
) -> None:
    """Write the gradient of the map of maxima of pixels; new: whether nobody else has `out` yet."""
    _, _, height, width = plan.map_size()
    pixels = height * width
    grad, argmax = plan.layout.packed(grad), plan.layout.packed(argmax)
    target = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
    # Nothing may be written to an array of the caller's if an index is wrong.  A new array is
    # shown to nobody, so the kernel checks as it goes.
    if not new or plan.empty_levels():
        flat = argmax.ravel("K")  # as it lies in memory, if it has no gaps
        if isa.outside(flat, pixels, plan.max_threads):
            raise _outside(argmax, pixels)
    for _ in plan.empty_levels():
        target[...] = 0
    plan.bind([target])
    while plan.next():
        if plan.max_pixel_grad(grad, argmax):
            raise _outside(argmax, pixels)
    if target is not out:
        out[...] = target


def _outside(argmax: np.ndarray, pixels: int) -> ValueError:
    bad = ((argmax < -1) | (argmax >= pixels)).any(axis=(1, 2, 3)).argmax()
    return ValueError(
        f"argmax[{bad}]: an index that is neither -1 nor less than the {pixels} pixels of the map"
    )


def backward_samples(plan: Plan, grad: np.ndarray, out: np.ndarray, products: bool) -> None:
    """Write the gradient of the map of maxima of samples, or of products."""
    for _ in plan.empty_levels():
        out[...] = 0
    target = plan.layout.nchw(out)
    while plan.next(MAX_BOXES):
        plan.max_sample_grad(grad, target, products)


def backward_boxes(plan: Plan, grad: np.ndarray) -> Any:
    """Return the gradients of the boxes of weighted sums, in the format that boxes came in."""
    out = np.zeros((plan.count, plan.edges), plan.dtype)
    count = plan.sums_per_box()
    bytes_per_box = plan.edges * count * np.dtype(np.float64).itemsize
    most = max(PARTIAL_SUMS_BYTES // max(bytes_per_box * plan.levels, 1), 1)
    while plan.next(most):
        rows = plan.rows()
        sums = np.zeros((count, len(rows), plan.edges))
        plan.grad_boxes(grad, sums)
        with np.errstate(all="ignore"):  # infinite pixels give infinite gradients, or NaN
            out[rows] = sums.sum(axis=0)
    boxes = plan.given_boxes
    if isinstance(boxes, (list, tuple)):
        ends = list(itertools.accumulate(len(rows) for rows in boxes))
        return np.split(out, ends[:-1]) if boxes else []
    if boxes.shape[1] == plan.edges:
        return out
    return np.concatenate([np.zeros((len(out), 1), out.dtype), out], axis=1)
