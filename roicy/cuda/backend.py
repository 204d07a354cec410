"""
The backend of CuPy arrays: the functions of ``_cpu.py``, with the kernels of the GPU.

Nothing here waits for the device, so the values of boxes and of argmax are not looked at.  A call
queues one kernel that looks at the boxes, and then as a rule one that pools.  Its scratch memory
is one allocation, which belongs to the current stream, as the kernels do.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import _arguments, _levels, _results
from .._arguments import Arguments, Layout
from .._kernels.plan import RULES
from .._levels import Shape
from .._table import CORNERS, MAX_PIXEL, WEIGHTED_SUM, Operator, Rule
from ._arrays import Boxes, addressable, check_device, check_devices, floats, of_cupy, overlap
from ._arrays import indices as indices
from ._arrays import restore as restore_boxes
from ._launch import (
    CHANNELS_OF_THREAD,
    CHANNELS_OF_WARP,
    GROUP_BYTES,
    LANES,
    NULL,
    PART_BYTES,
    ROTATED_BYTES,
    Launch,
    cupy,
    launch,
    structure,
)
from ._plan import (
    KEPT,
    Plan,
    Scratch,
    Step,
    address,
    exactly,
    maps_of,
    setup_of,
    steps,
    strides,
)

# Memory is bounded: the tables of boxes (_plan.py), the arrays of gradients of planes that are
# added up later, and the partial sums of the gradients of boxes.
SEGMENTS_BYTES = 128 << 20
PARTIAL_SUMS_BYTES = 128 << 20
# At least so many warps share the gradients of planes, if there are enough boxes.  A GPU has room
# for some thousand warps.
WARPS = 4096
SAMPLED = RULES["sampled"]

array = floats
maps = floats
_NOTHING = contextlib.nullcontext()


def _inside(device: Any) -> Any:
    """Return a context in which a device is the current one."""
    return _NOTHING if device.id == cupy().cuda.runtime.getDevice() else device


class Call:
    """A call with checked arguments: a plan, and the arrays of the call."""

    def __init__(self, plan: Plan, arrays: list[Any], rows: Any, out: Any):
        self.plan, self.arrays, self.rows, self.out = plan, arrays, rows, out
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
    with _inside(first.device):
        boxes = Boxes(arguments, of_levels[0][0], first.dtype, first.device, row.box)
    canonical = None if arguments.pyramid is None else _levels.canonical(arguments.pyramid)
    plan = Plan(row, rule, layout, first.dtype, bins, of_levels, boxes.rows.shape)
    plan.set_levels(scales, canonical)
    call = Call(plan, [], boxes.rows, arguments.out)
    call.images, call.counts = boxes.images, boxes.counts
    return call


def key_of(
    purpose: str, row: Operator, parameters: Any, size: Any, arrays: Any, given: tuple[Any, ...]
) -> Any:
    """
    Return the key of the plan of a call, or None if its arguments are not plain.

    Calls with equal keys have arguments that the same checks accept, but for `out`.  Whether
    elements are aligned depends on an address, so it is looked at here.

    Parameters
    ----------
    purpose : name of the pass
    parameters : those of the rule of the operator
    size : what the sizes of the result depend on, or an array on which they depend
    arrays : an array or several: maps, or gradients
    given : fields of Arguments
    """
    boxes, boxes_num, spatial_scale, layout, _, _, pyramid = given
    kind = cupy().ndarray
    listed = isinstance(arrays, (list, tuple))
    some = [boxes, *arrays] if listed else [boxes, arrays]
    if isinstance(size, kind):
        some.append(size)
        size = None
    if boxes_num is not None or type(layout) is not str:
        return None
    key = [purpose, row.name, layout, listed]
    try:
        key += map(exactly, (*parameters, size, spatial_scale, pyramid))
    except TypeError:
        return None
    for array in some:
        if not isinstance(array, kind):
            return None
        data, dtype = array.data, array.dtype
        if data.ptr % dtype.itemsize:
            return None
        key += (array.shape, array.strides, dtype.char, data.device_id)
    return tuple(key)


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
        with _inside(read[0].device):
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


class Pass(NamedTuple):
    """What a pass runs: for each step the tables and a kernel, and its scratch memory."""

    bytes: int
    steps: list[Step]
    launches: list[Launch]
    more: tuple[Any, ...] = ()  # whatever else a pass needs


def _scratch(bytes: int) -> tuple[Any, int]:
    """Return scratch memory, which must be kept until its kernels are queued, and its address."""
    if not bytes:
        return None, 0
    memory = cupy().cuda.alloc(bytes)
    return memory, memory.ptr


def _from(array: Any, first: int) -> Any:
    return array[first:] if first else array


def _maps_of_step(call: Call, step: Step, arrays: list[Any], base: int) -> np.ndarray:
    plan = call.plan
    of_boxes = base + step.offsets["levels"] if len(plan.levels) > 1 else None
    return maps_of(plan, step.levels, arrays, of_boxes)


def forward(call: Call, out: Any, extra: Any) -> None:
    """Write the output of a forward pass.  extra is argmax, or the option of ``_call.forward``."""
    plan = call.plan
    argmax = None if isinstance(extra, bool) or extra is None else extra
    with _inside(call.device):
        if plan.empty:
            for empty, value in ((out, 0), (argmax, -1)):
                if empty is not None and empty.size:
                    empty.fill(value)
        elif plan.rotated:
            _rotated_sums(call, call.layout.nchw(out))
        elif plan.row.reduction is WEIGHTED_SUM:
            _weighted_sums(call, call.layout.nchw(out))
        elif plan.row.reduction is MAX_PIXEL:
            _largest_pixels(call, out, argmax)
        else:
            _largest_samples(call, call.layout.nchw(out), bool(extra))


def _forward_kernel(plan: Plan, count: int) -> tuple[str, int]:
    """
    Return the kernel for some boxes, and the number of its threads.

    This number decides only how work is divided; the results are right with any number.
    """
    ph, pw = plan.bins
    if plan.row.position_sensitive:
        return "forward_bins", count * plan.channels * ph * pw
    if plan.layout.axes is not None:
        return "forward_pixels", LANES * count * ph * -(-plan.channels // 128)
    if plan.near:
        tiles = -(-ph // 8) * -(-pw // 8)
        return "forward_planes", LANES * count * -(-plan.channels // 64) * 4 * tiles
    return "forward_bins", count * plan.channels * ph * pw


def _forward_pass(plan: Plan) -> Pass:
    scratch = Scratch()
    made = steps(plan, scratch)
    launches = []
    for step in made:
        kernel, threads = _forward_kernel(plan, step.boxes)
        launches.append(launch(kernel, plan.dtype, threads))
    return Pass(scratch.bytes, made, launches)


def _weighted_sums(call: Call, out: Any) -> None:
    own = call.plan.prepared(_forward_pass)
    _memory, base = _scratch(own.bytes)
    inputs, bins = call.seen(call.arrays), strides(out)
    for step, run in zip(own.steps, own.launches, strict=True):
        step.make_tables(call.rows, call.images, base)
        run(
            _maps_of_step(call, step, inputs, base), _from(out, step.first), bins, step.shape,
            step.room, *step.at(base, "images", "counts", "taps"),
        )  # fmt: skip


def _largest_pixels_kernel(plan: Plan, count: int, numbers: bool) -> tuple[str, int]:
    """Return the kernel for some boxes, and the number of its threads; numbers: also of argmax."""
    kernel, threads = _forward_kernel(plan, count)
    if kernel == "forward_planes":
        return "numbered_planes" if numbers else "largest_planes", threads
    if kernel == "forward_bins" or numbers:
        threads = count * plan.channels * math.prod(plan.bins)
    return "largest_pixel", threads


def _largest_pixels_pass(plan: Plan, numbers: bool = False) -> Pass:
    scratch = Scratch()
    made = steps(plan, scratch)
    launches = []
    for step in made:
        kernel, threads = _largest_pixels_kernel(plan, step.boxes, numbers)
        launches.append(launch(kernel, plan.dtype, threads))
    return Pass(scratch.bytes, made, launches, (kernel,))


def _numbered_pixels_pass(plan: Plan) -> Pass:
    return _largest_pixels_pass(plan, True)


def _largest_pixels(call: Call, out: Any, argmax: Any) -> None:
    own = call.plan.prepared(_largest_pixels_pass if argmax is None else _numbered_pixels_pass)
    inputs = call.seen(call.arrays)
    pooled = out_nchw = call.layout.nchw(out)
    if argmax is not None:
        argmax = call.layout.nchw(argmax)
        # The kernel writes both arrays by the strides of `pooled`, in elements.
        size = call.dtype.itemsize
        if [s // size for s in pooled.strides] != [s // 4 for s in argmax.strides]:
            pooled = call.layout.nchw(cupy().empty(out.shape, call.dtype))
    _memory, base = _scratch(own.bytes)
    bins = strides(pooled)
    for step, run in zip(own.steps, own.launches, strict=True):
        step.make_tables(call.rows, call.images, base)
        numbers: tuple[Any, ...] = () if own.more[0] == "largest_planes" else (NULL,)
        if argmax is not None:
            numbers = (_from(argmax, step.first),)
        run(
            _maps_of_step(call, step, inputs, base), _from(pooled, step.first), *numbers, bins,
            step.shape, step.room, *step.at(base, "images", "counts", "taps"),
        )  # fmt: skip
    if pooled is not out_nchw:
        out_nchw[...] = pooled


def _largest_samples_pass(plan: Plan) -> Pass:
    run = launch("largest_sample", plan.dtype, plan.count * plan.channels * math.prod(plan.bins))
    (level,) = plan.levels
    rule = structure("Rule", SAMPLED, *plan.rule[1:])  # the kernel makes the samples itself
    return Pass(
        0, [], [run], (plan.shape(range(1), plan.count), rule, *map(plan.real, level.scale))
    )


def _largest_samples(call: Call, out: Any, products: bool) -> None:
    plan = call.plan
    (run,), (shape, rule, *scales) = plan.prepared(_largest_samples_pass)[2:]
    (input,) = call.seen(call.arrays)
    run(
        input, strides(input), out, strides(out), shape, rule, *_given(call), *scales,
        np.int32(products),
    )  # fmt: skip


def _given(call: Call) -> tuple[Any, ...]:
    """Return the arguments of kernels for boxes: rows, columns and images."""
    return call.rows, np.int32(call.plan.columns), NULL if call.images is None else call.images


@dataclass(frozen=True)
class Segments:
    """
    Several arrays of gradients like the map's: the boxes of each segment are added to an array.

    They are for maps with too few planes to keep a GPU busy.
    """

    count: int
    threads: int
    begin: int  # where the arrays lie in scratch memory
    strides: np.ndarray
    size: np.int64
    add_up: tuple[Launch, Launch] | None  # for gradients with gaps in memory, and without
    shape: np.ndarray

    def arguments(self, out: Any, base: int) -> tuple[Any, ...]:
        """Return arguments of kernels: the first array, its strides, and how many there are."""
        first, each = (out, strides(out)) if self.add_up is None else (
            address(base + self.begin), self.strides
        )  # fmt: skip
        return first, each, self.size, np.int32(self.count)

    def finish(self, out: Any, base: int) -> None:
        """Write the sum of the arrays to `out`, seen as (N, C, H, W)."""
        if self.add_up is not None:
            to = strides(out)
            dense = to.tobytes() == self.strides.tobytes()  # comparing structures takes long
            add_up = self.add_up[dense]
            add_up(*self.arguments(out, base), out, to, self.shape, np.int32(dense))


def _segments(plan: Plan, scratch: Scratch) -> Segments:
    n, c, h, w = plan.map_size
    size = n * c * h * w
    of_plane = -(-h * w * plan.dtype.itemsize // PART_BYTES)  # parts of a plane
    room = SEGMENTS_BYTES // (size * plan.dtype.itemsize)
    count = max(min(-(-WARPS // (n * c * of_plane)), room, plan.count // 64, 16), 1)
    threads = LANES * n * c * of_plane * count
    last = plan.layout.axes is not None
    each = (h * w * c, 1, w * c, c) if last else (c * h * w, h * w, w, 1)
    shape = structure("Shape", n, c, h, w, n, h, w, False, last)
    add_up, begin = None, 0
    if count > 1:
        begin = scratch.room(count * size * plan.dtype.itemsize)
        vectors = -(-size * plan.dtype.itemsize // 16)  # a thread adds one if there are no gaps
        add_up = (
            launch("add_segments", plan.dtype, size),
            launch("add_segments", plan.dtype, vectors),
        )
    return Segments(
        count, threads, begin, structure("Strides", *each), np.int64(size), add_up, shape
    )


def backward(call: Call, grad: Any, outs: list[Any]) -> None:
    """Write the gradients of the maps of weighted sums.  grad is seen as (K, C, PH, PW)."""
    plan = call.plan
    with _inside(call.device):
        if plan.empty:
            for out in outs:
                if out.size:
                    out.fill(0)
        elif plan.rotated:
            _backward_rotated(call, grad, call.seen(outs))
        elif plan.row.position_sensitive:
            _backward_bins(call, grad, call.layout.nchw(outs[0]))
        else:
            _backward_tiles(call, grad, call.seen(outs))


def _bins_pass(plan: Plan) -> Pass:
    scratch = Scratch()
    made = steps(plan, scratch)
    segments = _segments(plan, scratch)
    run = launch("backward_bins", plan.dtype, segments.threads)
    return Pass(scratch.bytes, made, [run] * len(made), (segments,))


def _backward_bins(call: Call, grad: Any, out: Any) -> None:
    own = call.plan.prepared(_bins_pass)
    (segments,) = own.more
    _memory, base = _scratch(own.bytes)
    for step, run in zip(own.steps, own.launches, strict=True):
        step.make_tables(call.rows, call.images, base)
        run(
            _from(grad, step.first), strides(grad), *segments.arguments(out, base), step.shape,
            step.room, *step.at(base, "images", "counts", "taps"), np.int32(step.first > 0),
        )  # fmt: skip
    segments.finish(out, base)


def _tiles_pass(plan: Plan) -> Pass:
    scratch = Scratch()
    made = steps(plan, scratch, windows=True)
    kernel = "backward_planes" if plan.layout.axes is None else "backward_pixels"
    tall = 32 // plan.dtype.itemsize  # tiles of 8 x 8 or 4 x 8 pixels
    planes = plan.images * -(-plan.channels // LANES)
    launches = []
    for step in made:
        sizes = (plan.sizes[i] for i in step.levels)
        tiles = sum(-(-rows // tall) * -(-columns // 8) for rows, columns in sizes)
        launches.append(launch(kernel, plan.dtype, LANES * planes * tiles))
    return Pass(scratch.bytes, made, launches)


def _backward_tiles(call: Call, grad: Any, outs: list[Any]) -> None:
    own = call.plan.prepared(_tiles_pass)
    _memory, base = _scratch(own.bytes)
    bins = strides(grad)
    for step, run in zip(own.steps, own.launches, strict=True):
        step.make_tables(call.rows, call.images, base)
        run(
            _from(grad, step.first), bins, _maps_of_step(call, step, outs, base), step.shape,
            step.room, *step.at(base, "images", "counts", "taps", "windows"),
            np.int32(step.first > 0),
        )  # fmt: skip


def _largest_pixel_backward_pass(plan: Plan) -> Pass:
    scratch = Scratch()
    segments = _segments(plan, scratch)
    run = launch("largest_pixel_backward", plan.dtype, segments.threads)
    return Pass(scratch.bytes, [], [run], (segments, plan.shape(range(1), plan.count)))


def backward_max(call: Call, grad: Any, argmax: Any, out: Any, new: bool) -> None:
    """Write the gradient of the map of maxima of pixels.  argmax is seen as (K, C, PH, PW)."""
    with _inside(call.device):
        if call.plan.empty:
            if out.size:
                out.fill(0)
            return
        own = call.plan.prepared(_largest_pixel_backward_pass)
        segments, shape = own.more
        _memory, base = _scratch(own.bytes)
        out = call.layout.nchw(out)
        own.launches[0](
            grad, strides(grad), argmax, strides(argmax), *_given(call),
            *segments.arguments(out, base), shape,
        )  # fmt: skip
        segments.finish(out, base)


def backward_boxes(call: Call, grad: Any) -> Any:
    """Return the gradients of the boxes of weighted sums, in the format that boxes came in."""
    plan = call.plan
    with _inside(call.device):
        make = cupy().zeros if plan.empty else cupy().empty
        out = make((plan.count, plan.columns), plan.dtype)
        if not plan.empty:
            add = _rotated_gradients if plan.rotated else _box_gradients
            add(call, grad, out)
        return restore_boxes(out, call.counts)


def _box_gradients_kernel(plan: Plan) -> tuple[str, int, int]:
    """Return the kernel, how many partial sums a box gets, and how many threads make each."""
    bins = math.prod(plan.bins)
    if plan.layout.axes is not None:
        return "backward_boxes", -(-plan.channels // CHANNELS_OF_WARP) * bins, LANES
    if plan.row.position_sensitive or not plan.near:
        return "backward_boxes", -(-plan.channels // CHANNELS_OF_THREAD) * bins, 1
    groups = -(-plan.channels // (GROUP_BYTES // plan.dtype.itemsize))
    ph, pw = plan.bins
    return "backward_boxes_of_planes", groups * -(-ph // 8) * -(-pw // 8), LANES


def _box_gradients_pass(plan: Plan) -> Pass:
    kernel, each, sharing = _box_gradients_kernel(plan)
    scratch = Scratch()
    made = steps(plan, scratch, slopes=True, most=max(PARTIAL_SUMS_BYTES // (32 * each), 1))
    sums = scratch.room(32 * each * max(step.boxes for step in made))
    runs = [launch(kernel, plan.dtype, step.boxes * each * sharing) for step in made]
    add_up = [launch("add_partial_sums", plan.dtype, step.boxes * LANES) for step in made]
    return Pass(scratch.bytes, made, runs, (add_up, sums, np.int64(each)))


def _box_gradients(call: Call, grad: Any, out: Any) -> None:
    """Write the gradients of the rows of boxes."""
    own = call.plan.prepared(_box_gradients_pass)
    add_up, sums, each = own.more
    _memory, base = _scratch(own.bytes)
    partial_sums = address(base + sums)
    inputs, bins = call.seen(call.arrays), strides(grad)
    for step, run, add in zip(own.steps, own.launches, add_up, strict=True):
        step.make_tables(call.rows, call.images, base)
        tables = step.at(base, "images", "counts", "taps", "slope_low", "slope_high")
        run(
            _from(grad, step.first), bins, _maps_of_step(call, step, inputs, base), step.shape,
            step.room, *tables, partial_sums,
        )  # fmt: skip
        add(
            partial_sums, each, step.shape, tables[0], _from(out, step.first),
            np.int32(call.plan.columns),
        )  # fmt: skip


class RotatedStep(NamedTuple):
    """The rotated boxes of some levels."""

    levels: range
    setup: np.ndarray
    shape: np.ndarray
    make: Launch


def _rotated_steps(plan: Plan, scratch: Scratch) -> list[RotatedStep]:
    scratch.room(plan.count * ROTATED_BYTES)  # at the beginning
    made = []
    for levels in plan.groups():
        shape = plan.shape(levels, plan.count)
        make = launch("make_rotated_boxes", plan.dtype, plan.count)
        made.append(RotatedStep(levels, setup_of(plan, levels, shape), shape, make))
    return made


def _make_rotated(call: Call, step: RotatedStep, base: int) -> np.uint64:
    """Make the boxes, and return where they are."""
    boxes = address(base)
    step.make(call.rows, NULL if call.images is None else call.images, boxes, step.setup)
    return boxes


def _rotated_pass(plan: Plan) -> Pass:
    scratch = Scratch()
    made = _rotated_steps(plan, scratch)
    threads = plan.count * plan.channels * math.prod(plan.bins)
    run = launch("forward_rotated", plan.dtype, threads)
    return Pass(scratch.bytes, [], [run] * len(made), (made,))


def _rotated_sums(call: Call, out: Any) -> None:
    own = call.plan.prepared(_rotated_pass)
    _memory, base = _scratch(own.bytes)
    inputs, bins = call.seen(call.arrays), strides(out)
    for step, run in zip(*own.more, own.launches, strict=True):
        boxes = _make_rotated(call, step, base)
        run(maps_of(call.plan, step.levels, inputs), out, bins, step.shape, boxes)


def _backward_rotated_pass(plan: Plan) -> Pass:
    scratch = Scratch()
    made = _rotated_steps(plan, scratch)
    planes = plan.images * -(-plan.channels // 8)
    launches = []
    for step in made:
        pixels = sum(rows * columns for rows, columns in (plan.sizes[i] for i in step.levels))
        launches.append(launch("backward_rotated", plan.dtype, planes * pixels))
    return Pass(scratch.bytes, [], launches, (made,))


def _backward_rotated(call: Call, grad: Any, outs: list[Any]) -> None:
    own = call.plan.prepared(_backward_rotated_pass)
    _memory, base = _scratch(own.bytes)
    for step, run in zip(*own.more, own.launches, strict=True):
        boxes = _make_rotated(call, step, base)
        run(grad, strides(grad), maps_of(call.plan, step.levels, outs), step.shape, boxes)


def _rotated_gradients_pass(plan: Plan) -> Pass:
    scratch = Scratch()
    made = _rotated_steps(plan, scratch)
    numbers = len(plan.row.box)
    each = -(-plan.channels // CHANNELS_OF_THREAD) * math.prod(plan.bins)
    most = min(max(PARTIAL_SUMS_BYTES // (8 * numbers * each), 1), plan.count)
    sums = scratch.room(8 * numbers * each * most)
    parts = []
    for first in range(0, plan.count, most):
        count = min(most, plan.count - first)
        run = launch("backward_rotated_boxes", plan.dtype, count * each)
        add = launch("add_rotated_sums", plan.dtype, count * numbers)
        parts.append((first, count, run, add))
    return Pass(scratch.bytes, [], [], (made, parts, sums))


def _rotated_gradients(call: Call, grad: Any, out: Any) -> None:
    """Write the gradients of the rows of rotated boxes."""
    plan = call.plan
    own = plan.prepared(_rotated_gradients_pass)
    made, parts, sums = own.more
    _memory, base = _scratch(own.bytes)
    partial_sums = address(base + sums)
    inputs, bins = call.seen(call.arrays), strides(grad)
    for step in made:
        _make_rotated(call, step, base)
        pyramid = maps_of(plan, step.levels, inputs)
        for first, count, run, add in parts:
            some = plan.shape(step.levels, count), address(base + first * ROTATED_BYTES)
            run(_from(grad, first), bins, pyramid, *some, partial_sums)
            add(partial_sums, *some, _from(out, first), np.int32(plan.columns))
