"""The passes: what kernels a call runs, and with how many threads.

For each step of its boxes, a pass queues one kernel that makes tables, and one that pools.  The
number of threads decides only how work is divided; results are right with any number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._table import MAX_PIXEL
from ._launch import LANES, NULL, PART_BYTES, launch
from ._plan import DeviceCall, Plan, maps_of, steps, strides

TAPS = "images", "levels", "counts", "taps", "rotated"  # tables


def _is_near(array: Any) -> bool:
    """Whether a plane of an array seen as (N, C, H, W) spans less than 2**31 elements."""
    _, _, y, x = (abs(stride) // array.dtype.itemsize for stride in array.strides)
    reach = (array.shape[2] - 1) * y + (array.shape[3] - 1) * x
    return bool(reach < 2**31)


def pool(call: DeviceCall, out: Any, argmax: Any) -> None:
    """Write weighted sums, or the largest pixels and their numbers if argmax is not None."""
    plan, arrays = call.plan, call.seen(call.maps)
    largest = plan.operator.reduction is MAX_PIXEL
    of_planes = plan.layout.axes is None and not plan.operator.position_sensitive and argmax is None
    threads = plan.channels * math.prod(plan.bins)  # of a box
    if plan.rotated:
        name = "forward_rotated"
    elif of_planes and all(map(_is_near, arrays)):
        name = "largest_planes" if largest else "forward_planes"
        groups = -(-plan.channels * plan.dtype.itemsize // 128)
        threads = LANES * -(-plan.bins[1] // 8) * groups
    elif largest:
        name = "largest_pixel"
    else:
        name, threads = "forward_bins", -(-plan.channels // 4) * math.prod(plan.bins)
    maps, out = maps_of(arrays), call.layout.nchw(out)
    argmax = None if argmax is None else call.layout.nchw(argmax)
    for step in steps(call, *TAPS):
        numbers: tuple[Any, ...] = ()
        if name == "largest_pixel":
            numbers = (NULL, strides(out))
            if argmax is not None:
                numbers = step.of(argmax), strides(argmax)
        arguments = maps, step.of(out), strides(out), *numbers, step.tables
        launch(name, step.boxes * threads, plan.dtype, *arguments)


def largest_samples(call: DeviceCall, out: Any, products: bool) -> None:
    """Write the largest samples."""
    maps, threads = maps_of(call.seen(call.maps)), math.prod(call.output_shape)
    for step in steps(call):
        arguments = maps, out, strides(out), step.tables, np.int32(products)
        launch("largest_sample", threads, call.dtype, *arguments)


def _warps_of_parts(plan: Plan) -> int:
    """Return the parts of planes of the only map that warps own."""
    n, c, h, w = plan.map_size
    return n * c * -(-h * w * plan.dtype.itemsize // PART_BYTES)


def backward(call: DeviceCall, grad: Any, outs: list[Any]) -> None:
    """Write the gradients of maps of weighted sums."""
    plan = call.plan
    if plan.rotated:
        name = "backward_rotated"
        threads = plan.images * -(-plan.channels // 8) * sum(h * w for h, w in plan.sizes)
    elif plan.operator.position_sensitive:
        name, threads = "backward_bins", LANES * _warps_of_parts(plan)
    else:
        tall = 32 // plan.dtype.itemsize  # tiles of 8 x 8 or 4 x 8 pixels
        tiles = sum(-(-h // tall) * -(-w // 8) for h, w in plan.sizes)
        name = "backward_tiles"
        threads = LANES * plan.images * -(-plan.channels // LANES) * tiles
    maps = maps_of(outs)
    for step in steps(call, *TAPS, "windows"):
        launch(name, threads, plan.dtype, step.of(grad), strides(grad), maps, step.tables)


def backward_largest_pixels(call: DeviceCall, grad: Any, argmax: Any, out: Any) -> None:
    """Write the gradient of the map of maxima of pixels."""
    maps, threads = maps_of([out]), LANES * _warps_of_parts(call.plan)
    for step in steps(call):
        arguments = grad, strides(grad), argmax, strides(argmax), maps, step.tables
        launch("largest_pixel_backward", threads, call.dtype, *arguments)


def backward_boxes(call: DeviceCall, grad: Any, out: Any) -> None:
    """Write the gradients of the rows of boxes."""
    plan, maps = call.plan, maps_of(call.seen(call.maps))
    name = "backward_rotated_boxes" if plan.rotated else "backward_boxes"
    for step in steps(call, *TAPS, "slope_low", "slope_high", "partial_sums"):
        threads = step.boxes * plan.groups * math.prod(plan.bins)
        launch(name, threads, plan.dtype, step.of(grad), strides(grad), maps, step.tables)
        launch("add_partial_sums", step.boxes * LANES, plan.dtype, step.tables, step.of(out))
