"""The backend of CuPy arrays: the functions of ``_cpu.py``, with the kernels of the GPU.

Nothing here waits for the device, so the values of boxes and of argmax are not looked at.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np

from .._checks import _arguments, _levels, _results
from .._checks._arguments import layout_of
from .._checks._levels import Shape
from .._kernels.plan import Arguments, Rule
from .._table import CORNERS, MAX_SAMPLE, Operator
from . import _passes
from ._arrays import addressable, boxes_of, check_device, floats, of_cupy, overlap
from ._arrays import indices as indices
from ._launch import MOST_LEVELS, cupy
from ._plan import DeviceCall, plan_of

_NOTHING = contextlib.nullcontext()


def inside(device: Any) -> Any:
    """Return a context in which a device is the current one."""
    return _NOTHING if device.id == cupy().cuda.runtime.getDevice() else device


array = floats


def _planned(
    operator: Operator, rule: Rule, arrays: list[Any], bins: tuple[int, int],
    named: dict[str, Shape], arguments: Arguments,
) -> DeviceCall:  # fmt: skip
    """Return a call; arrays: of the data's type, on its device; named: the shapes of maps."""
    if len(named) > MOST_LEVELS:
        argument = next(iter(named)).partition("[")[0]
        count = f"{len(named)} levels, expected at most {MOST_LEVELS} on a GPU"
        raise ValueError(f"{argument}: {count}")
    first, shapes = arrays[0], tuple(named.values())
    scales = _levels.scales(arguments.spatial_scale, arguments.pyramid, named)
    if operator.box != CORNERS:
        _levels.check_same_scales(scales)
    level_rule: tuple[int | float, ...] = ()
    if arguments.pyramid is not None:
        canonical = _levels.canonical(arguments.pyramid)
        level_rule = _levels.rule(len(named), scales[0], scales[-1], *canonical)
    with inside(first.device):
        boxes = boxes_of(arguments, shapes[0][0], first.dtype, first.device, operator.box)
    levels = tuple(zip(shapes, scales, strict=True))
    plan = plan_of(
        operator, rule, arguments.layout, first.dtype, bins, levels, level_rule, boxes.rows.shape
    )
    return DeviceCall(plan, boxes, arguments.out)


def plan_backward(
    operator: Operator, rule: Rule, grad: Any, shapes: dict[str, Shape], arguments: Arguments
) -> DeviceCall:
    """Check the arguments of the gradient of maps (N, C, H, W); grad: seen as (K, C, PH, PW)."""
    return _planned(operator, rule, [grad], tuple(grad.shape[2:]), shapes, arguments)


def plan_with_maps(
    operator: Operator, rule: Rule, input: Any, bins: Any, arguments: Arguments,
    gradient: bool = False,
) -> DeviceCall:  # fmt: skip
    """Check the arguments of a forward pass, and those of the gradient of the boxes alike."""
    layout = layout_of(arguments.layout)
    named = _levels.maps(input, layout, arguments.pyramid is not None, floats)
    bins = _arguments.output_size(bins)
    arrays = list(named.values())
    for name, level in named.items():
        check_device(arrays[0].device, name, level)
    shapes = _levels.shapes_of(named, layout)
    call = _planned(operator, rule, arrays, bins, shapes, arguments)
    call.maps = arrays
    return call


def box_arrays(call: DeviceCall) -> list[Any]:
    """Return the memory of the boxes that a call reads."""
    return [call.rows]


def output(call: DeviceCall) -> Any:
    """Return the array that a forward pass writes to."""
    return result(call.out, call.output_shape, (call.dtype,), (*call.maps, call.rows))


def result(
    out: Any, shape: tuple[int, ...], dtypes: tuple[np.dtype, ...], read: tuple[Any, ...],
    name: str = "out",
) -> Any:  # fmt: skip
    """Return the array to write to; arrays overlap if their ranges of addresses do."""
    if out is None:
        with inside(read[0].device):
            return cupy().empty(shape, dtypes[0])
    out = of_cupy(name, out)
    _results.check_form(name, out, shape, dtypes)
    check_device(read[0].device, name, out)
    addressable(name, out)
    _results.distinct(name, out)
    if any(overlap(out, other) for other in read):
        raise ValueError(f"{name}: overlaps memory that the call reads")
    return out


def forward(call: DeviceCall, out: Any, argmax: Any = None, products: bool = False) -> None:
    """Write the output of a forward pass, and argmax.  products: as of ``_call.forward``."""
    with inside(call.device):
        if call.plan.empty:
            _fill(out, 0)
            _fill(argmax, -1)
        elif call.plan.operator.reduction is MAX_SAMPLE:
            _passes.largest_samples(call, call.layout.nchw(out), products)
        else:
            _passes.pool(call, out, argmax)


def _fill(array: Any, value: int) -> None:
    if array is not None and array.size:
        array.fill(value)


def backward(call: DeviceCall, grad: Any, outs: list[Any]) -> None:
    """Write the gradients of the maps of weighted sums.  grad is seen as (K, C, PH, PW)."""
    with inside(call.device):
        if call.plan.empty:
            for out in outs:
                _fill(out, 0)
        else:
            _passes.backward(call, grad, call.seen(outs))


def backward_max(call: DeviceCall, grad: Any, argmax: Any, out: Any, _: bool) -> None:
    """Write the gradient of the map of maxima of pixels.  argmax is seen as (K, C, PH, PW)."""
    with inside(call.device):
        if call.plan.empty:
            _fill(out, 0)
        else:
            _passes.backward_largest_pixels(call, grad, argmax, call.layout.nchw(out))


def backward_boxes(call: DeviceCall, grad: Any) -> Any:
    """Return the gradients of the boxes of weighted sums, in the format that boxes came in."""
    plan = call.plan
    check_device(call.device, "grad_output", grad)
    with inside(call.device):
        make = cupy().zeros if plan.empty else cupy().empty
        out = make((plan.count, plan.columns), plan.dtype)
        if not plan.empty:
            _passes.backward_boxes(call, grad, out)
    if call.counts is None:
        return out
    ends = list(itertools.accumulate(call.counts))
    return [out[end - count : end] for end, count in zip(ends, call.counts, strict=True)]
