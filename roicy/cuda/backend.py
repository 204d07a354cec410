"""
The backend of CuPy arrays: the functions of ``_cpu.py``, with the kernels of the GPU.

Nothing here waits for the device, so the values of boxes and of argmax are not looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _arguments, _levels, _results
from .._arguments import Arguments, Layout
from .._levels import Shape
from .._table import CORNERS, MAX_SAMPLE, Operator, Rule
from . import _passes
from ._arrays import Boxes, addressable, check_device, check_devices, floats, of_cupy, overlap
from ._arrays import indices as indices
from ._arrays import restore as restore_boxes
from ._kept import KEPT
from ._kept import key_of as key_of
from ._launch import cupy
from ._passes import Call, inside
from ._plan import Plan

array = floats
maps = floats


def _planned(
    row: Operator,
    rule: Rule,
    first: Any,
    bins: tuple[int, int],
    shapes: dict[str, Shape],
    arguments: Arguments,
) -> Call:
    """Check the arguments that all passes share; first: an array of the dtype of the data."""
    layout = Layout(arguments.layout)
    scales = _levels.scales(arguments, shapes)
    if row.box != CORNERS:
        _levels.check_same_scales(scales)
    of_levels = tuple(shapes.values())
    with inside(first.device):
        boxes = Boxes(arguments, of_levels[0][0], first.dtype, first.device, row.box)
    canonical = None if arguments.pyramid is None else _levels.canonical(arguments.pyramid)
    plan = Plan(row, rule, layout, first.dtype, bins, of_levels, boxes.rows.shape)
    plan.set_levels(scales, canonical)
    call = Call(plan, [], boxes.rows, arguments.out)
    call.images, call.counts = boxes.images, boxes.counts
    return call


def recall(key: Any, arrays: Any, given: tuple[Any, ...]) -> Call | None:
    """Return the call with the plan of that key, if there is one; arrays: its maps."""
    plan = None if key is None else KEPT.get(key)
    if plan is None:
        return None
    some = list(arrays) if isinstance(arrays, (list, tuple)) else [arrays]
    return Call(plan, some, given[0], given[5])


def keep(key: Any, call: Call, given: tuple[Any, ...], results: Any = None) -> None:
    """
    Keep the plan of a call whose arguments were all checked; results: shapes of gradients.

    It serves calls whose kernels read the boxes as they are given.
    """
    rows, boxes = call.rows, given[0]
    as_given = rows.dtype == boxes.dtype and rows.data.ptr == boxes.data.ptr
    if as_given and call.images is None and call.counts is None:
        call.plan.results = results
        KEPT.add(key, call.plan)


def plan_forward(
    row: Operator, rule: Rule, input: Any, output_size: Any, given: tuple[Any, ...]
) -> Call:
    """Check the arguments of a forward pass."""
    arguments = Arguments(*given)
    named = _levels.maps(input, arguments, maps)
    bins = _arguments.output_size(output_size)
    return plan_backward_boxes(row, rule, named, bins, arguments)


def plan_backward(
    row: Operator, rule: Rule, grad: Any, shapes: dict[str, Shape], arguments: Arguments
) -> Call:
    """Check the arguments of the gradient of maps of these shapes (N, C, H, W)."""
    bins = tuple(Layout(arguments.layout).nchw(grad).shape[2:])
    return _planned(row, rule, grad, bins, shapes, arguments)


def plan_backward_boxes(
    row: Operator, rule: Rule, maps: dict[str, Any], bins: tuple[int, int], arguments: Arguments
) -> Call:
    """Check the arguments of the gradient of the boxes, and those of a forward pass."""
    shapes = _levels.shapes_of(maps, Layout(arguments.layout))
    check_devices(maps)
    call = _planned(row, rule, next(iter(maps.values())), bins, shapes, arguments)
    call.arrays = list(maps.values())
    call.plan.near = all(_is_near(array) for array in call.seen(call.arrays))
    return call


def _is_near(array: Any) -> bool:
    """Whether a plane of an array seen as (N, C, H, W) spans less than 2**31 elements."""
    _, _, y, x = (abs(stride) // array.dtype.itemsize for stride in array.strides)
    reach = (array.shape[2] - 1) * y + (array.shape[3] - 1) * x
    return bool(reach < 2**31)


def box_arrays(call: Call) -> list[Any]:
    """Return the memory of the boxes that a call reads."""
    return [call.rows]


def output(call: Call) -> Any:
    """Return the array that a forward pass writes to."""
    return result(call.out, call.output_shape, (call.dtype,), (*call.arrays, call.rows))


def restore(_: Call, grad: Any) -> Any:
    """Return gradients of boxes in the format that the boxes came in, as `backward_boxes` did."""
    return grad


def result(
    out: Any,
    shape: tuple[int, ...],
    dtypes: tuple[np.dtype, ...],
    read: tuple[Any, ...],
    name: str = "out",
) -> Any:
    """
    Return the array to write to.

    Arrays count as overlapping if the ranges of their addresses overlap.
    """
    (dtype,) = dtypes
    if out is None:
        with inside(read[0].device):
            return cupy().empty(shape, dtype)
    out = of_cupy(name, out)
    if out.dtype != dtype:
        raise TypeError(f"{name}: dtype {out.dtype.name}, expected {dtype.name}")
    if out.shape != shape:
        raise ValueError(f"{name}: shape {out.shape}, expected {shape}")
    check_device(read[0].device, name, out)
    addressable(name, out)
    _results.distinct(name, out)
    if any(overlap(out, other) for other in read):
        raise ValueError(f"{name}: overlaps memory that the call reads")
    return out


def forward(call: Call, out: Any, extra: Any) -> None:
    """Write the output of a forward pass.  extra is argmax, or the option of ``_call.forward``."""
    argmax = None if isinstance(extra, bool) or extra is None else extra
    with inside(call.device):
        if call.plan.empty:
            _fill(out, 0)
            _fill(argmax, -1)
        elif call.plan.row.reduction is MAX_SAMPLE:
            _passes.largest_samples(call, call.layout.nchw(out), bool(extra))
        else:
            _passes.pool(call, out, argmax)


def _fill(array: Any, value: int) -> None:
    if array is not None and array.size:
        array.fill(value)


def backward(call: Call, grad: Any, outs: list[Any]) -> None:
    """Write the gradients of the maps of weighted sums.  grad is seen as (K, C, PH, PW)."""
    with inside(call.device):
        if call.plan.empty:
            for out in outs:
                _fill(out, 0)
        elif call.plan.row.position_sensitive:
            _passes.backward_bins(call, grad, call.layout.nchw(outs[0]))
        else:
            _passes.backward_tiles(call, grad, call.seen(outs))


def backward_max(call: Call, grad: Any, argmax: Any, out: Any, _: bool) -> None:
    """Write the gradient of the map of maxima of pixels.  argmax is seen as (K, C, PH, PW)."""
    with inside(call.device):
        if call.plan.empty:
            _fill(out, 0)
        else:
            _passes.backward_largest_pixels(call, grad, argmax, call.layout.nchw(out))


def backward_boxes(call: Call, grad: Any) -> Any:
    """Return the gradients of the boxes of weighted sums, in the format that boxes came in."""
    plan = call.plan
    with inside(call.device):
        make = cupy().zeros if plan.empty else cupy().empty
        out = make((plan.count, plan.columns), plan.dtype)
        if not plan.empty:
            _passes.backward_boxes(call, grad, out)
        return restore_boxes(out, call.counts)
