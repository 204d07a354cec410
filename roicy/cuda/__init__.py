"""
The operators on CuPy arrays, with the names, parameters and meaning that they have on the CPU.

``roicy.roi_align`` and the others call these when their arrays are CuPy's.  Work is queued on the current stream, and nothing waits for it:
arguments are checked by shape and dtype, but what lies on the device is not looked at.  So what is an error of values on the CPU has a defined
outcome here: a box whose corners are not numbers, or whose batch index is not that of an image, reads nothing, and its output, its gradient
and what it gives to the input's are 0; `argmax` that points nowhere gives nothing.  Results have the same bits from run to run.

float32 and float64 only.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from .. import _arguments, multiscale, operators
from .._kernels import front, geometry
from ._launch import CHANNELS_OF_THREAD, CHANNELS_OF_WARP, LANES, NULL, PART_BYTES, cupy, launch, strides, structure

__all__ = [
    "multiscale_roi_align",
    "multiscale_roi_align_backward",
    "multiscale_roi_align_backward_boxes",
    "prroi_pool",
    "prroi_pool_backward",
    "prroi_pool_backward_boxes",
    "ps_roi_align",
    "ps_roi_align_backward",
    "ps_roi_align_backward_boxes",
    "ps_roi_pool",
    "ps_roi_pool_backward",
    "roi_align",
    "roi_align_backward",
    "roi_align_backward_boxes",
    "roi_align_max",
    "roi_pool",
    "roi_pool_backward",
]

TABLE_BYTES = 128 << 20  # of the tables of the boxes that are computed at once
SEGMENTS_BYTES = 128 << 20  # of gradients of planes before they are added up
PARTS_BYTES = 128 << 20  # of the gradients of the boxes before they are added up
INT32 = np.dtype(np.int32)
WARPS = 4096  # at least, that share the gradients of planes, if there are boxes enough: a GPU has room for some thousand
SAMPLED = geometry.sampled(1, False, False)[0]


def _array(name: str, value: Any, expected: str) -> Any:
    """Return a CuPy array of 4 dimensions, float32 or float64."""
    if not isinstance(value, cupy().ndarray):
        raise TypeError(f"{name}: {type(value).__module__}.{type(value).__qualname__}, expected a cupy.ndarray, as the other arrays are")
    if value.dtype.char not in _arguments.FLOATS:
        raise TypeError(f"{name}: dtype {value.dtype.name}, expected float32 or float64")
    if value.ndim != 4:
        raise ValueError(f"{name}: shape {value.shape}, expected {expected}")
    return value


def _on(device: Any, name: str, value: Any) -> None:
    """Kernels run where the first array lies, and reach no other device."""
    if value.device != device:
        raise ValueError(f"{name}: on {value.device}, expected {device}, where the other arrays are")


class _Boxes:
    """Boxes of any format as rows of 4 or 5 columns on the device, in the type of the data, and the images of those of 4."""

    def __init__(self, boxes: Any, boxes_num: Any, images: int, dtype: np.dtype, device: Any):
        self.images = None
        self.counts: list[int] | None = None  # of the parts of a list
        if isinstance(boxes, (list, tuple)):
            if boxes_num is not None:
                raise ValueError("boxes_num: expected None, since boxes is a list with the boxes of each image")
            if len(boxes) != images:
                raise ValueError(f"boxes: a list of {len(boxes)} arrays, expected one for each of the input's {images} images")
            parts = [self._rows(f"boxes[{n}]", part, 4, dtype, device) for n, part in enumerate(boxes)]
            counts = self.counts = [part.shape[0] for part in parts]
            self.rows = cupy().concatenate(parts) if parts else cupy().empty((0, 4), dtype)
        elif boxes_num is not None:
            self.rows = self._rows("boxes", boxes, 4, dtype, device)
            counts = self._counts(boxes_num, self.rows.shape[0], images)
        else:
            self.rows = self._rows("boxes", boxes, 5, dtype, device)
            counts = None
        if counts is not None:
            self.images = cupy().asarray(np.repeat(np.arange(images, dtype=np.int32), counts))
        self.count, self.columns = self.rows.shape

    @staticmethod
    def _rows(name: str, value: Any, columns: int, dtype: np.dtype, device: Any) -> Any:
        if not isinstance(value, cupy().ndarray):
            raise TypeError(f"{name}: {type(value).__module__}.{type(value).__qualname__}, expected a cupy.ndarray, as the other arrays are")
        if value.ndim != 2 or value.shape[1] != columns:
            layout = "(K, 5) with rows [batch_index, x1, y1, x2, y2]" if columns == 5 else "(K, 4) with rows [x1, y1, x2, y2]"
            hint = "; boxes of 4 columns need boxes_num" if value.ndim == 2 and value.shape[1] == 4 else ""
            raise ValueError(f"{name}: shape {value.shape}, expected {layout}{hint}")
        if value.dtype.char not in _arguments.FLOATS and value.dtype.kind not in "iu":
            raise TypeError(f"{name}: dtype {value.dtype.name}, expected float32, float64 or integers")
        if value.shape[0] >= 2**31:
            raise ValueError(f"{name}: {value.shape[0]} boxes, expected less than 2**31")
        _on(device, name, value)
        return cupy().ascontiguousarray(value.astype(dtype, copy=False))

    @staticmethod
    def _counts(value: Any, boxes: int, images: int) -> list[int]:
        if isinstance(value, cupy().ndarray):
            raise TypeError("boxes_num: a cupy.ndarray, which would have to be waited for; expected integers on the host")
        return _arguments.box_counts(value, boxes, images)

    def restore(self, grad: Any) -> Any:
        """Return gradients of the rows in the format that the boxes came in."""
        if self.counts is None:
            return grad
        ends = list(itertools.accumulate(self.counts))
        return [grad[end - count : end] for end, count in zip(ends, self.counts, strict=True)]

    def part(self, first: int, stop: int) -> tuple[Any, Any]:
        return self.rows[first:stop], NULL if self.images is None else self.images[first:stop]


class _Maps(operators._Seen):
    """What the calls have in common, seen as (N, C, H, W): the GPU's counterpart of operators._Maps."""

    def __init__(self, array, shape, boxes, bins, scale, position_sensitive, layout, levels=None, level=0):
        self.device, self.dtype = array.device, array.dtype
        self.axes = _arguments.layout_axes(layout)
        self.n, self.c, self.h, self.w = shape
        self.bins, self.scale, self.position_sensitive = bins, scale, position_sensitive
        self.channels = _arguments.channels(self.c, bins, position_sensitive)
        self.boxes = boxes
        self.k = boxes.count
        self.levels, self.level = levels, level  # of the boxes, and which of them is this one

    @property
    def output_shape(self):
        return self.shape_of(self.k, self.channels, *self.bins)

    @property
    def empty(self):
        return not (self.k and self.channels and self.h and self.w and self.n)

    def shape(self, boxes):
        return structure("Shape", self.n, self.channels, self.h, self.w, boxes, *self.bins, self.position_sensitive, self.axes is not None)

    def parts(self, rule, slopes=False, most=2**31):
        """Yield the tables of as many boxes at a time as there is room for: (first box, shape, room, images, counts, taps, slopes)."""
        ratio = rule[1] if rule[0] == SAMPLED and rule[1] > 0 else 2**30
        ph, pw = self.bins
        room_y, room_x = (1, 1) if rule == geometry.QUANTISED_RULE else (min(self.h, 2 * ratio), min(self.w, 2 * ratio))
        each = ph * room_y + pw * room_x
        room = structure("Room", room_y, room_x, each)
        per_entry = self.dtype.itemsize * (4 if slopes else 2)
        count = max(min(self.k, TABLE_BYTES // (each * per_entry), most), 1)
        make = cupy().empty
        for first in range(0, self.k, count):
            boxes = min(count, self.k - first)
            shape = self.shape(boxes)
            images, counts = make(boxes, np.int32), make((boxes, ph + pw), np.int32)
            taps = make(boxes * each * 2 * self.dtype.itemsize, np.uint8)
            slope = make((2, boxes * each), self.dtype) if slopes else None
            rows, given = self.boxes.part(first, first + boxes)
            launch(
                "tables", self.dtype, boxes * (ph + pw), rows, np.int32(self.boxes.columns), given,
                NULL if self.levels is None else self.levels[first : first + boxes], np.int32(self.level), structure("Rule", *rule), shape, room,
                self.dtype.type(self.scale), images, counts, taps, *((NULL, NULL) if slope is None else (slope[0], slope[1])),
            )  # fmt: skip
            yield first, shape, room, images, counts, taps, slope


def _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout, position_sensitive=False):
    axes = _arguments.layout_axes(layout)
    input = _array("input", input, _arguments.dimensions(layout))
    bins = _arguments.output_size(output_size)
    scale = _arguments.spatial_scale(spatial_scale)
    seen = input if axes is None else input.transpose(axes)
    shape = _arguments.extents("input", seen.shape)
    with input.device:
        return _Maps(input, shape, _Boxes(boxes, boxes_num, shape[0], input.dtype, input.device), bins, scale, position_sensitive, layout), seen


def _backward_maps(grad_output, boxes, input_shape, spatial_scale, boxes_num, layout, position_sensitive=False):
    shape = _arguments.input_shape("input_shape", input_shape, layout)
    grad, seen = operators._gradient(grad_output, layout, _array)
    scale = _arguments.spatial_scale(spatial_scale)
    with grad.device:
        of_images = _Boxes(boxes, boxes_num, shape[0], grad.dtype, grad.device)
    maps = _Maps(grad, shape, of_images, tuple(seen.shape[2:]), scale, position_sensitive, layout)
    if grad.shape != maps.output_shape:
        raise ValueError(f"grad_output: shape {grad.shape}, expected {maps.output_shape}, for {maps.k} boxes and input of shape {tuple(input_shape)}")
    return maps, seen


def _boxes_maps(grad_output, input, boxes, spatial_scale, boxes_num, layout, position_sensitive=False):
    axes = _arguments.layout_axes(layout)
    input = _array("input", input, _arguments.dimensions(layout))
    maps, grad = _backward_maps(grad_output, boxes, input.shape, spatial_scale, boxes_num, layout, position_sensitive)
    if input.dtype != maps.dtype:
        raise TypeError(f"input: dtype {input.dtype.name}, expected {maps.dtype.name} as grad_output has")
    _on(maps.device, "input", input)
    return maps, grad, input if axes is None else input.transpose(axes)


def _result(out, shape, dtype, read, name="out"):
    """Return the array to write to; whether memory is shared is asked of whole ranges of addresses."""
    if out is None:
        return cupy().empty(shape, dtype)
    if not isinstance(out, cupy().ndarray):
        raise TypeError(f"{name}: {type(out).__module__}.{type(out).__qualname__}, expected a cupy.ndarray, as the other arrays are")
    if out.dtype != dtype:
        raise TypeError(f"{name}: dtype {out.dtype.name}, expected {dtype.name}")
    if out.shape != shape:
        raise ValueError(f"{name}: shape {out.shape}, expected {shape}")
    _on(read[0].device, name, out)
    _arguments.distinct(name, out)
    if any(cupy().may_share_memory(out, other) for other in read):
        raise ValueError(f"{name}: overlaps memory that the call reads")
    return out


def _forward_kernel(maps, step):
    """Return the kernel for maps with these strides, and the threads that its text divides the work among; with more or less it does the same."""
    ph, pw = maps.bins
    small = (maps.h - 1) * abs(int(step["y"])) + (maps.w - 1) * abs(int(step["x"])) < 2**31
    if maps.axes is None and not maps.position_sensitive and small:
        return "forward_planes", LANES * maps.k * -(-maps.channels // 64) * 4 * -(-ph // 8) * -(-pw // 8)
    if maps.axes is not None and not maps.position_sensitive:
        return "forward_pixels", LANES * maps.k * ph * -(-maps.channels // 128)
    return "forward_bins", maps.k * maps.channels * ph * pw


def _sum_forward(levels, inputs, rule, out):
    maps = levels[0]
    with maps.device:
        out = _result(out, maps.output_shape, maps.dtype, (*inputs, maps.boxes.rows))
        seen = maps.seen(out)
        if len(levels) > 1 or maps.empty:
            out.fill(0)
        for level, input in zip(levels, inputs, strict=True):
            if level.empty:
                continue
            step = strides(input)
            kernel, threads = _forward_kernel(level, step)
            for first, shape, room, images, counts, taps, _ in level.parts(rule):
                some = seen[first:] if first else seen
                launch(kernel, maps.dtype, threads, input, step, some, strides(some), shape, room, images, counts, taps)
    return out


class _Segments:
    """Arrays of gradients like `out`, to each of which the boxes of one segment give: where planes are too few for a GPU to be busy with."""

    def __init__(self, maps, out):
        self.maps, self.out = maps, out
        planes = maps.n * maps.c
        parts = -(-maps.h * maps.w * maps.dtype.itemsize // PART_BYTES)  # of a plane
        most = min(-(-WARPS // (planes * parts)), SEGMENTS_BYTES // (out.size * maps.dtype.itemsize), maps.k // 64, 16)
        self.count = max(most, 1)
        self.threads = LANES * planes * parts * self.count
        if self.count > 1:
            self.all = cupy().empty((self.count, *out.shape), maps.dtype)
        self.first = maps.seen(self.all[0] if self.count > 1 else out)

    @property
    def arguments(self):
        return self.first, strides(self.first), np.int64(self.out.size), np.int32(self.count)

    def add_up(self):
        if self.count > 1:
            maps, to = self.maps, self.maps.seen(self.out)
            shape = structure("Shape", maps.n, maps.c, maps.h, maps.w, maps.n, maps.h, maps.w, False, maps.axes is not None)
            launch("add_segments", maps.dtype, self.out.size, *self.arguments, to, strides(to), shape)


def _sum_backward(levels, grad, rule, outs):
    maps = levels[0]
    results = []
    with maps.device:
        for level, (name, out) in zip(levels, outs or [("out", None)] * len(levels), strict=True):
            results.append(_result(out, level.input_shape, maps.dtype, (grad, maps.boxes.rows, *results), name))
        for level, result in zip(levels, results, strict=True):
            if level.empty:
                result.fill(0)
                continue
            segments = _Segments(level, result) if level.position_sensitive else None
            seen = level.seen(result)
            kernel = "backward_planes" if level.axes is None else "backward_pixels"
            tall = 32 // maps.dtype.itemsize  # tiles of 8 x 8 or 4 x 8 pixels
            tiles = level.n * -(-level.h // tall) * -(-level.w // 8) * -(-level.c // LANES)
            add = False
            for first, shape, room, images, counts, taps, _ in level.parts(rule):
                some = grad[first:] if first else grad
                common = shape, room, images, counts, taps
                if segments is not None:
                    launch("backward_bins", maps.dtype, segments.threads, some, strides(some), *segments.arguments, *common, np.int32(add))
                else:
                    boxes = int(shape["boxes"])
                    windows = cupy().empty(boxes * 4, np.int32)
                    launch("windows_of_boxes", maps.dtype, boxes * 2, shape, room, counts, taps, windows)
                    launch(kernel, maps.dtype, LANES * tiles, some, strides(some), seen, strides(seen), *common, windows, np.int32(add))
                add = True
            if segments is not None:
                segments.add_up()
    return results


def _sum_backward_boxes(levels, grad, inputs, rule):
    maps = levels[0]
    bins = maps.bins[0] * maps.bins[1]
    # a thread takes a bin of some channels, or a warp of more
    channels, sharing = (CHANNELS_OF_THREAD, 1) if maps.axes is None else (CHANNELS_OF_WARP, LANES)
    each = -(-maps.channels // channels) * bins
    with maps.device:
        result = cupy().zeros((maps.k, maps.boxes.columns), maps.dtype)
        for level, input in zip(levels, inputs, strict=True):
            if level.empty:
                continue
            for first, shape, room, images, counts, taps, slope in level.parts(rule, True, max(PARTS_BYTES // (32 * each), 1)):
                boxes = int(shape["boxes"])
                parts, some = cupy().empty(boxes * each * 4, np.float64), grad[first:]
                launch(
                    "backward_boxes", maps.dtype, boxes * each * sharing, some, strides(some), input, strides(input), shape, room, images, counts, taps,
                    slope[0], slope[1], parts,
                )  # fmt: skip
                launch("add_parts", maps.dtype, boxes * LANES, parts, shape, images, result[first:], np.int32(maps.boxes.columns))
    return maps.boxes.restore(result)


def roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False, *, boxes_num=None, layout="NCHW", out=None):
    maps, seen = _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout)
    return _sum_forward([maps], [seen], operators._align_rule(sampling_ratio, aligned), out)


def roi_align_backward(grad_output, boxes, input_shape, spatial_scale=1.0, sampling_ratio=-1, aligned=False, *, boxes_num=None, layout="NCHW", out=None):
    maps, grad = _backward_maps(grad_output, boxes, input_shape, spatial_scale, boxes_num, layout)
    return _one_backward(maps, grad, operators._align_rule(sampling_ratio, aligned), out)


def _one_backward(maps, grad, rule, out):
    return _sum_backward([maps], grad, rule, [("out", out)])[0]


def roi_align_backward_boxes(grad_output, input, boxes, spatial_scale=1.0, sampling_ratio=-1, aligned=False, *, boxes_num=None, layout="NCHW"):
    maps, grad, seen = _boxes_maps(grad_output, input, boxes, spatial_scale, boxes_num, layout)
    return _sum_backward_boxes([maps], grad, [seen], operators._align_rule(sampling_ratio, aligned))


def roi_align_max(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False, *, products=False, boxes_num=None, layout="NCHW", out=None):
    maps, seen = _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout)
    rule = operators._align_rule(_arguments.integer("sampling_ratio", sampling_ratio, -(2**31), operators.MOST_SAMPLES), aligned)
    products = _arguments.flag("products", products)
    with maps.device:
        out = _result(out, maps.output_shape, maps.dtype, (seen, maps.boxes.rows))
        if maps.empty:
            out.fill(0)
            return out
        some = maps.seen(out)
        rows, given = maps.boxes.part(0, maps.k)
        launch(
            "largest_sample", maps.dtype, math.prod(some.shape), seen, strides(seen), some, strides(some), maps.shape(maps.k), structure("Rule", *rule),
            rows, np.int32(maps.boxes.columns), given, maps.dtype.type(maps.scale), np.int32(products),
        )  # fmt: skip
    return out


def ps_roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, *, boxes_num=None, layout="NCHW", out=None):
    maps, seen = _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout, position_sensitive=True)
    return _sum_forward([maps], [seen], operators._ps_align_rule(sampling_ratio), out)


def ps_roi_align_backward(grad_output, boxes, input_shape, spatial_scale=1.0, sampling_ratio=-1, *, boxes_num=None, layout="NCHW", out=None):
    maps, grad = _backward_maps(grad_output, boxes, input_shape, spatial_scale, boxes_num, layout, position_sensitive=True)
    return _one_backward(maps, grad, operators._ps_align_rule(sampling_ratio), out)


def ps_roi_align_backward_boxes(grad_output, input, boxes, spatial_scale=1.0, sampling_ratio=-1, *, boxes_num=None, layout="NCHW"):
    maps, grad, seen = _boxes_maps(grad_output, input, boxes, spatial_scale, boxes_num, layout, position_sensitive=True)
    return _sum_backward_boxes([maps], grad, [seen], operators._ps_align_rule(sampling_ratio))


def prroi_pool(input, boxes, output_size, spatial_scale=1.0, *, boxes_num=None, layout="NCHW", out=None):
    maps, seen = _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout)
    return _sum_forward([maps], [seen], geometry.INTEGRATED_RULE, out)


def prroi_pool_backward(grad_output, boxes, input_shape, spatial_scale=1.0, *, boxes_num=None, layout="NCHW", out=None):
    maps, grad = _backward_maps(grad_output, boxes, input_shape, spatial_scale, boxes_num, layout)
    return _one_backward(maps, grad, geometry.INTEGRATED_RULE, out)


def prroi_pool_backward_boxes(grad_output, input, boxes, spatial_scale=1.0, *, boxes_num=None, layout="NCHW"):
    maps, grad, seen = _boxes_maps(grad_output, input, boxes, spatial_scale, boxes_num, layout)
    return _sum_backward_boxes([maps], grad, [seen], geometry.INTEGRATED_RULE)


def ps_roi_pool(input, boxes, output_size, spatial_scale=1.0, *, boxes_num=None, layout="NCHW", out=None):
    maps, seen = _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout, position_sensitive=True)
    return _sum_forward([maps], [seen], geometry.UNIFORM_RULE, out)


def ps_roi_pool_backward(grad_output, boxes, input_shape, spatial_scale=1.0, *, boxes_num=None, layout="NCHW", out=None):
    maps, grad = _backward_maps(grad_output, boxes, input_shape, spatial_scale, boxes_num, layout, position_sensitive=True)
    return _one_backward(maps, grad, geometry.UNIFORM_RULE, out)


def roi_pool(input, boxes, output_size, spatial_scale=1.0, *, return_argmax=False, boxes_num=None, layout="NCHW", out=None):
    maps, seen = _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout)
    return_argmax = _arguments.flag("return_argmax", return_argmax)
    if return_argmax:
        operators._check_argmax_fits(maps.h, maps.w, "input")
    with maps.device:
        out = _result(out, maps.output_shape, maps.dtype, (seen, maps.boxes.rows))
        argmax = cupy().empty(out.shape, np.int32) if return_argmax else None
        if maps.empty:
            out.fill(0)
            if argmax is not None:
                argmax.fill(-1)
        else:
            # both are written by the strides of `out`
            pooled = (
                out
                if argmax is None or out.strides == tuple(2 * s if maps.dtype.itemsize == 8 else s for s in argmax.strides)
                else cupy().empty(out.shape, maps.dtype)
            )
            some, at = maps.seen(pooled), None if argmax is None else maps.seen(argmax)
            for first, shape, room, images, counts, taps, _ in maps.parts(geometry.QUANTISED_RULE):
                launch(
                    "largest_pixel", maps.dtype, math.prod(some[first:].shape), seen, strides(seen), some[first:], NULL if at is None else at[first:],
                    strides(some), shape, room, images, counts, taps,
                )  # fmt: skip
            if pooled is not out:
                out[...] = pooled
    return out if argmax is None else (out, argmax)


def roi_pool_backward(grad_output, argmax, boxes, input_shape, *, boxes_num=None, layout="NCHW", out=None):
    maps, grad = _backward_maps(grad_output, boxes, input_shape, 1.0, boxes_num, layout)
    operators._check_argmax_fits(maps.h, maps.w, "input_shape")
    if not isinstance(argmax, cupy().ndarray) or argmax.dtype != INT32 or argmax.shape != grad_output.shape:
        raise TypeError(f"argmax: expected a cupy.ndarray of int32 and shape {grad_output.shape}")
    _on(maps.device, "argmax", argmax)
    with maps.device:
        out = _result(out, maps.input_shape, maps.dtype, (grad, argmax, maps.boxes.rows))
        if maps.empty:
            out.fill(0)
            return out
        at, segments = maps.seen(argmax), _Segments(maps, out)
        rows, given = maps.boxes.part(0, maps.k)
        launch(
            "largest_pixel_backward", maps.dtype, segments.threads, grad, strides(grad), at, strides(at), rows, np.int32(maps.boxes.columns), given,
            *segments.arguments, maps.shape(maps.k),
        )  # fmt: skip
        segments.add_up()
    return out


def _levels_of(coordinates, scales, canonical_scale, canonical_level):
    """Return the level of each box, from 0, as ``level_of`` in pyx/front.pyx has it."""
    xp, kind = cupy(), coordinates.dtype.type
    sides = xp.maximum(coordinates[:, 2:] - coordinates[:, :2], kind(0))
    with np.errstate(all="ignore"):  # a scale beyond the type of the data
        exact = kind(canonical_level) + xp.log2(xp.sqrt(sides[:, 0] * sides[:, 1]) / kind(canonical_scale))
    wanted = xp.floor(exact + kind(front.ROUNDING)) - kind(front.level_of_scale(scales[0]))
    # what is not a number, of sizes beyond all numbers, is the finest level
    return xp.minimum(xp.fmax(wanted, kind(0)), kind(len(scales) - 1)).astype(np.int32)


def _pyramid(array, shapes, name, boxes, bins, spatial_scale, image_size, canonical_scale, canonical_level, boxes_num, layout):
    scales = multiscale._scales(spatial_scale, image_size, shapes, name)
    canonical = multiscale._canonical(canonical_scale, canonical_level)
    with array.device:
        everywhere = _Boxes(boxes, boxes_num, shapes[0][0], array.dtype, array.device)
        level_of = _levels_of(everywhere.rows[:, -4:], scales, *canonical)
    return [_Maps(array, shape, everywhere, bins, scale, False, layout, level_of, i) for i, (shape, scale) in enumerate(zip(shapes, scales, strict=True))]


def multiscale_roi_align(
    features, boxes, output_size, spatial_scale=None, sampling_ratio=-1, aligned=False, *, image_size=None, canonical_scale=224, canonical_level=4,
    boxes_num=None, layout="NCHW", out=None,
):  # fmt: skip
    maps, seen, shapes = multiscale._seen(features, layout, _array)
    bins = _arguments.output_size(output_size)
    rule = operators._align_rule(sampling_ratio, aligned)
    levels = _pyramid(maps[0], shapes, "features", boxes, bins, spatial_scale, image_size, canonical_scale, canonical_level, boxes_num, layout)
    for i, level in enumerate(maps):
        _on(maps[0].device, f"features[{i}]", level)
    return _sum_forward(levels, seen, rule, out)


def multiscale_roi_align_backward(
    grad_output, boxes, input_shapes, spatial_scale=None, sampling_ratio=-1, aligned=False, *, image_size=None, canonical_scale=224, canonical_level=4,
    boxes_num=None, layout="NCHW", out=None,
):  # fmt: skip
    grad, seen = operators._gradient(grad_output, layout, _array)
    shapes, outs = multiscale._input_shapes(input_shapes, out, layout)
    rule = operators._align_rule(sampling_ratio, aligned)
    bins = tuple(seen.shape[2:])
    levels = _pyramid(grad, shapes, "input_shapes", boxes, bins, spatial_scale, image_size, canonical_scale, canonical_level, boxes_num, layout)
    multiscale._check_gradient(grad, levels[0].output_shape, levels)
    return _sum_backward(levels, seen, rule, outs)


def multiscale_roi_align_backward_boxes(
    grad_output, features, boxes, spatial_scale=None, sampling_ratio=-1, aligned=False, *, image_size=None, canonical_scale=224, canonical_level=4,
    boxes_num=None, layout="NCHW",
):  # fmt: skip
    maps, seen, shapes = multiscale._seen(features, layout, _array)
    grad, seen_grad = operators._gradient(grad_output, layout, _array)
    rule = operators._align_rule(sampling_ratio, aligned)
    bins = tuple(seen_grad.shape[2:])
    levels = _pyramid(grad, shapes, "features", boxes, bins, spatial_scale, image_size, canonical_scale, canonical_level, boxes_num, layout)
    multiscale._check_gradient(grad, levels[0].output_shape, levels)
    for i, level in enumerate(maps):
        _on(grad.device, f"features[{i}]", level)
    if maps[0].dtype != grad.dtype:
        raise TypeError(f"features[0]: dtype {maps[0].dtype.name}, expected {grad.dtype.name} as grad_output has")
    return _sum_backward_boxes(levels, seen_grad, seen, rule)


for _name in __all__:
    globals()[_name].__doc__ = f""":func:`roicy.{_name}` of CuPy arrays, queued on the current stream; the module says what differs."""
del _name
