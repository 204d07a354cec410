"""
The passes: what kernels a call runs, with how many threads, and where their scratch memory lies.

A pass queues for each step of its boxes one kernel that makes tables, and then as a rule one that
pools.  Its scratch memory is one allocation, which belongs to the current stream, as the kernels
do.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._kernels.plan import RULES
from .._levels import Shape
from .._table import MAX_PIXEL
from ._launch import (
    CHANNELS_OF_THREAD,
    LANES,
    NULL,
    PART_BYTES,
    Launch,
    cupy,
    launch,
)
from ._plan import Plan, Scratch, Step, given, maps_of, steps, strides

# Memory is bounded: the tables of boxes (_plan.py), and the partial sums of their gradients.
PARTIAL_SUMS_BYTES = 128 << 20
_NOTHING = contextlib.nullcontext()


def inside(device: Any) -> Any:
    """Return a context in which a device is the current one."""
    return _NOTHING if device.id == cupy().cuda.runtime.getDevice() else device


class Call:
    """A call with checked arguments: a plan, and the arrays of the call."""

    def __init__(self, plan: Plan, rows: Any, out: Any):
        self.plan, self.rows, self.out = plan, rows, out
        self.arrays: list[Any] = []  # the maps that it reads
        self.dtype, self.count, self.output_shape = plan.dtype, plan.count, plan.output_shape
        self.layout = plan.layout
        self.images: Any = None  # of boxes whose rows do not hold them
        self.counts: list[int] | None = None  # of the boxes of each image, if they were listed
        self.device = rows.device

    def map_size(self) -> Shape:
        """Return (N, C, H, W) of the first level."""
        return self.plan.map_size

    def seen(self, arrays: list[Any]) -> list[Any]:
        """Return arrays seen as (N, C, H, W)."""
        return [self.layout.nchw(array) for array in arrays]


class Pass(NamedTuple):
    """What a pass runs: for each step the tables and a kernel, and its scratch memory."""

    bytes: int
    steps: list[Step]
    launches: list[Launch]
    more: Any = None  # whatever else a pass needs

    def each(self, call: Call, base: int) -> Iterator[tuple[Step, Launch, np.ndarray]]:
        """Make the tables of each step in scratch memory at `base`; yield its kernel and tables."""
        for step, run in zip(self.steps, self.launches, strict=True):
            tables = step.tables(base)
            step.make(given(call.plan, call.rows, call.images, step.first), tables, step.setup)
            yield step, run, tables


def _scratch(bytes: int) -> tuple[Any, int]:
    """Return scratch memory, which must be kept until its kernels are queued, and its address."""
    if not bytes:
        return None, 0
    memory = cupy().cuda.alloc(bytes)
    return memory, memory.ptr


def _from(array: Any, first: int) -> Any:
    return array[first:] if first else array


def _outputs(plan: Plan, boxes: int) -> int:
    return boxes * plan.channels * math.prod(plan.bins)


# The functions that choose kernels return a name and the number of threads.  This number decides
# only how work is divided; the results are right with any number.


def _pass(plan: Plan, choose: Any, windows: bool, *parameters: Any) -> Pass:
    """
    Return a pass of one kernel a step.

    choose: (plan, boxes, *parameters) -> the name of the kernel, and the number of threads.
    """
    scratch = Scratch()
    made = steps(plan, scratch, windows=windows)
    launches = [launch(*choose(plan, step.boxes, *parameters), plan.dtype) for step in made]
    return Pass(scratch.bytes, made, launches)


def _pooling(plan: Plan, boxes: int, numbers: bool) -> tuple[str, int]:
    """Return the kernel that pools from maps; numbers: argmax is wanted too."""
    largest = plan.row.reduction is MAX_PIXEL
    if plan.rotated:
        return "forward_rotated", _outputs(plan, boxes)
    of_planes = plan.layout.axes is None and plan.near and not plan.row.position_sensitive
    if of_planes and not numbers:
        name = "largest_planes" if largest else "forward_planes"
        groups = -(-plan.bins[1] // 8) * -(-plan.channels * plan.dtype.itemsize // 128)
        return name, LANES * boxes * groups
    return "largest_pixel" if largest else "forward_bins", _outputs(plan, boxes)


def pool(call: Call, out: Any, argmax: Any) -> None:
    """Write weighted sums, or the largest pixels and their numbers if argmax is not None."""
    own = call.plan.prepared(_pass, _pooling, False, argmax is not None)
    maps, out = maps_of(call.plan, call.seen(call.arrays)), call.layout.nchw(out)
    _memory, base = _scratch(own.bytes)
    numbers: tuple[Any, ...] = (NULL, strides(out))
    for step, run, tables in own.each(call, base):
        if argmax is not None:
            seen = call.layout.nchw(argmax)
            numbers = _from(seen, step.first), strides(seen)
        more = numbers if run.name == "largest_pixel" else ()
        run(maps, _from(out, step.first), strides(out), *more, tables)


def _samples_pass(plan: Plan) -> Pass:
    # The kernel makes the samples itself, and needs no tables.
    run = launch("largest_sample", _outputs(plan, plan.count), plan.dtype)
    more = plan.shape(plan.count), plan.setup(RULES["sampled"])
    return Pass(0, [], [run], more)


def largest_samples(call: Call, out: Any, products: bool) -> None:
    """Write the largest samples."""
    plan = call.plan
    own = plan.prepared(_samples_pass)
    shape, setup = own.more
    own.launches[0](
        given(plan, call.rows, call.images), maps_of(plan, call.seen(call.arrays)), out,
        strides(out), shape, setup, np.int32(products),
    )  # fmt: skip


def _parts(plan: Plan, name: str) -> tuple[str, int]:
    """Return a kernel whose warps own parts of the planes of the only map."""
    n, c, h, w = plan.map_size
    return name, LANES * n * c * -(-h * w * plan.dtype.itemsize // PART_BYTES)


def _maps_grad(plan: Plan, _: int) -> tuple[str, int]:
    """Return the kernel that adds up the gradients of maps."""
    if plan.rotated:
        pixels = sum(h * w for h, w in plan.sizes)
        return "backward_rotated", plan.images * -(-plan.channels // 8) * pixels
    if plan.row.position_sensitive:
        return _parts(plan, "backward_bins")
    tall = 32 // plan.dtype.itemsize  # tiles of 8 x 8 or 4 x 8 pixels
    tiles = sum(-(-h // tall) * -(-w // 8) for h, w in plan.sizes)
    return "backward_tiles", LANES * plan.images * -(-plan.channels // LANES) * tiles


def backward(call: Call, grad: Any, outs: list[Any]) -> None:
    """Write the gradients of maps of weighted sums."""
    own = call.plan.prepared(_pass, _maps_grad, True)
    maps = maps_of(call.plan, outs)
    _memory, base = _scratch(own.bytes)
    for step, run, tables in own.each(call, base):
        run(_from(grad, step.first), strides(grad), maps, tables)


def _largest_pixels_grad_pass(plan: Plan) -> Pass:
    run = launch(*_parts(plan, "largest_pixel_backward"), plan.dtype)
    return Pass(0, [], [run], plan.shape(plan.count))


def backward_largest_pixels(call: Call, grad: Any, argmax: Any, out: Any) -> None:
    """Write the gradient of the map of maxima of pixels."""
    own = call.plan.prepared(_largest_pixels_grad_pass)
    own.launches[0](
        grad, strides(grad), argmax, strides(argmax), given(call.plan, call.rows, call.images),
        maps_of(call.plan, [out]), own.more,
    )  # fmt: skip


def _box_gradients_pass(plan: Plan) -> Pass:
    name = "backward_rotated_boxes" if plan.rotated else "backward_boxes"
    each = -(-plan.channels // CHANNELS_OF_THREAD) * math.prod(plan.bins)
    scratch = Scratch()
    bytes = 8 * len(plan.row.box) * each  # of the partial sums of a box
    made = steps(plan, scratch, slopes=True, most=max(PARTIAL_SUMS_BYTES // bytes, 1))
    sums = scratch.room(bytes * max(step.boxes for step in made))
    runs = [launch(name, step.boxes * each, plan.dtype) for step in made]
    add_up = [launch("add_partial_sums", step.boxes * LANES, plan.dtype) for step in made]
    return Pass(scratch.bytes, made, runs, (add_up, sums, np.int64(each)))


def backward_boxes(call: Call, grad: Any, out: Any) -> None:
    """Write the gradients of the rows of boxes."""
    plan = call.plan
    own = plan.prepared(_box_gradients_pass)
    add_up, sums, each = own.more
    _memory, base = _scratch(own.bytes)
    partial_sums = np.uint64(base + sums)
    maps, numbers = maps_of(plan, call.seen(call.arrays)), len(plan.row.box)
    for (step, run, tables), add in zip(own.each(call, base), add_up, strict=True):
        run(_from(grad, step.first), strides(grad), maps, tables, partial_sums)
        to = _from(out, step.first)
        add(partial_sums, each, np.int32(numbers), tables, to, np.int32(plan.columns))
