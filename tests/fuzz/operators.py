"""Calls of the operators of boxes, upright and rotated, of one map and of pyramids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import roicy

from .agreement import gathered
from .judged import EPS, judged, largest
from .strings import COORDINATES, SCALES, SIZES, SMALL, Buffer, boxes_of, disguised, values

MOST_ELEMENTS = 20000  # elements of an image: few, so that calls are quick

# A string first chooses one of these functions, and later whether a newer function replaces it.  So
# older strings of the corpus still make the calls that they made before.
FUNCTIONS = [
    name
    for name in roicy.__all__
    if "roi" in name
    and not name.startswith(("multiscale", "roi_align_max", "roi_align_rotated", "ps_prroi"))
]
TURNED = tuple(
    prefix + "roi_align" + suffix
    for prefix in ("", "multiscale_")
    for suffix in ("", "_backward", "_backward_boxes")
)
ALIGN = ("roi_align", "roi_align_backward", "roi_align_backward_boxes")
PAIRS = (tuple, list, lambda both: np.array(both, object))
BOUNDED = ("roi_align_backward_boxes", "ps_roi_align_backward_boxes")
INTEGERS = (np.dtype(np.int8), np.dtype(np.uint16), np.dtype(np.int16))
# What is no number in a nested list of boxes.
NO_NUMBERS = (None, "1", True, [], 10**400, b"1", 1j, np.True_, [[0.0]])
RATIOS = (-1, 0, 1, 2, 3, 7, 2**31 - 1, -(2**31), 2**31, 10**30, 1.5, None, True)
SHAPES = (
    (2**31, 1, 1, 1), (1, 2**62, 2**20, 2**20), (1, 1, 2**31, 1), "abcd", (1.0, 1, 1, 1),
    (-1, 1, 1, 1), (1, 2**40, 1, 1),
)  # fmt: skip


@dataclass
class Call:
    """A call that is being made up."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]  # of the map
    out_shape: tuple[int, ...]
    boxes: Any
    arguments: dict[str, Any]
    buffer: Buffer | None = None

    def write_to(self, data, shape):
        """Give the call an `out` of this shape."""
        self.buffer = Buffer(data, shape, self.dtype)
        self.arguments["out"] = self.buffer.array


def operator_call(data) -> str:
    """Make a call of an operator, and return how it ended."""
    call = older(data)
    spoiled = newer(data, call)
    name, arguments, boxes = call.name, call.arguments, call.boxes
    images = None if isinstance(boxes, list) and not boxes else call.shape[0]  # [] has no images

    def check(ends):
        check_value(name, arguments, ends, call.dtype, call.out_shape, boxes)

    ended = judged(name, arguments, call.buffer, check, images)
    assert not spoiled or not ended.endswith(": value")
    return ended


def extents_of(data, name):
    """Return the extents n, c, h, w of a map, output_size, and the bins that it means."""
    n, h, w = data.of((1, 2, 3, 1, 2, 3, 2, 0)), 1 + data.below(40), 1 + data.below(40)
    if data.rarely():
        h, w = data.of(((0, 5), (5, 0), (1, 4000), (4000, 1), (300, 304), (1, 1)))
    size = data.ordinary(SIZES, 5)
    if not data.below(3):
        size = data.of(PAIRS)((size, data.ordinary(SIZES, 5)))
    bins = tuple(size) if isinstance(size, (tuple, list, np.ndarray)) else (size, size)
    known = all(type(extent) is int and 0 < extent <= 2**24 for extent in bins)
    if known and 5000 < bins[0] * bins[1] < 2**40:
        # Such an output is slow, or as large as the memory of some machines.  A larger one is kept,
        # since no machine has the memory and the call is refused.
        size, bins = 3, (3, 3)
    known = all(type(extent) is int and 0 < extent <= 300 for extent in bins)
    if not known or bins[0] * bins[1] > 5000:
        bins = (2, 2)  # these bins are not those of the output, or the call has no output
    c = data.below(20)
    if name.startswith("ps_") and bins[0] * bins[1] <= 300 and not data.rarely():
        c = (1 + c % 3) * bins[0] * bins[1]
    if c * h * w > MOST_ELEMENTS:
        h, w = min(h, 20), min(w, 20)
    if c * h * w > MOST_ELEMENTS:
        c = bins[0] * bins[1]
    return (n, c, h, w), size, bins


def older(data):
    """Return a call of one of FUNCTIONS."""
    name = data.of(FUNCTIONS if data.target == "operators" else ALIGN)
    dtype = np.dtype(data.of((np.float32, np.float32, np.float64)))
    layout = "NCHW" if data.below(2) else "NHWC"
    (n, c, h, w), size, bins = extents_of(data, name)
    shape = (n, c, h, w) if layout == "NCHW" else (n, h, w, c)
    x = values(data, shape, dtype)
    k, boxes, boxes_num = boxes_of(data, n, dtype)
    arguments = {"layout": layout if not data.rarely(100) else data.of(("nchw", None, 3))}
    arguments["boxes"] = boxes
    if boxes_num is not None:
        arguments["boxes_num"] = boxes_num
    if data.below(2):
        arguments["num_threads"] = data.ordinary((1, 2, 3, 1000, 0, -1, 10**9, 1.0), 3)
    if name != "roi_pool_backward":
        arguments["spatial_scale"] = data.ordinary(SCALES, 7)
    if "align" in name:
        arguments["sampling_ratio"] = data.ordinary(RATIOS, 6)
    if name.startswith("roi_align"):
        arguments["aligned"] = flag(data)
    backward = name.endswith(("_backward", "_backward_boxes"))
    channels = c // (bins[0] * bins[1]) if name.startswith("ps_") else c
    pooled = (k, channels, *bins) if layout == "NCHW" else (k, *bins, channels)
    if backward:
        arguments["grad_output"] = disguised(data, values(data, pooled, dtype))
    if not name.endswith("_backward"):
        arguments["input"] = disguised(data, x)
    elif data.rarely(16):
        arguments["input_shape"] = data.of((shape[:3], *SHAPES, np.array(shape)))
    else:
        arguments["input_shape"] = shape
    if not backward:
        arguments["output_size"] = size
    if name == "roi_pool":
        arguments["return_argmax"] = data.of((False, True)) if not data.rarely(100) else 1
    if name == "roi_pool_backward":
        arguments["argmax"] = argmax_of(data, pooled, h * w)
    out_shape = shape if name.endswith("_backward") else pooled
    call = Call(name, dtype, shape, out_shape, boxes, arguments)
    if not name.endswith("_boxes") and data.below(3) == 1:
        call.write_to(data, out_shape)
        if data.rarely(12) and x.size:
            # this `out` shares memory with the input, or has another shape
            call.buffer, arguments["out"] = None, x
    return call


def flag(data, others=(1, None)):
    return data.of((False, True)) if not data.rarely(100) else data.of(others)


def argmax_of(data, shape, pixels):
    """Return places of maxima; rarely some that are off the map, or an array of another kind."""
    rng = np.random.default_rng(data.below(256))
    argmax = rng.integers(-1, max(pixels, 1), shape, dtype=np.int32)
    if argmax.size and data.rarely(4):
        place = data.below(256) % argmax.size
        argmax.reshape(-1)[place] = data.of((pixels, -2, 2**31 - 1, -(2**31)))
    if not data.rarely(32):
        return argmax
    return data.of((argmax.astype(np.int64), argmax[..., :0], argmax.T, None))


def newer(data, call) -> bool:
    """Turn a call into one of a newer function or option; return whether its boxes are no numbers.

    What is newer is drawn later, so that older strings of the corpus still make the same calls.
    """
    arguments, boxes = call.arguments, call.boxes
    x = arguments.get("input")
    if type(x) is np.ndarray and x.dtype == np.float32 and data.below(4) == 3:
        with np.errstate(all="ignore"):
            arguments["input"] = x.astype(data.of(SMALL))
    multiscale = call.name.startswith("roi_align") and data.below(3) == 2
    multiscale = multiscale or data.target == "pyramids"
    if multiscale:
        call.name = as_multiscale(data, call.name, arguments)
        call.buffer = call.buffer if "out" in arguments else None
    if call.name.startswith("ps_roi_align") and data.below(3) == 2:
        call.name = call.name.replace("ps_roi_align", "ps_prroi_pool")
        del arguments["sampling_ratio"]
    if "spatial_scale" in arguments and data.below(4) == 3:
        arguments["spatial_scale"] = two_scales(data, arguments["spatial_scale"], multiscale)
    if call.name in ("roi_align", "roi_align_backward_boxes") and data.below(4) == 3:
        as_maximum(data, call)
    for key in ("input", "features"):
        if key in arguments and data.below(2) == 1:
            arguments[key] = with_integers(data, arguments[key])
    spoiled = call.name != "roi_pool_backward" and data.rarely(4)
    if spoiled:
        arguments["boxes"], spoiled = spoil(data, boxes)
    if call.name in TURNED and not spoiled and (data.below(4) == 3 or data.target == "rotated"):
        call.name = call.name.replace("roi_align", "roi_align_rotated")
        arguments["boxes"] = call.boxes = turned(data, boxes)
        if not data.below(3):
            arguments["clockwise"] = flag(data, (1,))
    if call.name in ALIGN and not spoiled and data.below(6) == 5:
        call.name = as_crop(data, call.name, arguments)
        call.boxes = arguments["boxes"]
    return spoiled


def as_maximum(data, call):
    """Turn roi_align, and its gradients of boxes, into the maximum of samples and its gradient."""
    is_gradient = call.name != "roi_align"
    call.name = "roi_align_max_backward" if is_gradient else "roi_align_max"
    call.arguments["products"] = flag(data, (None, 1))
    if is_gradient:
        call.out_shape = call.shape
        if data.below(3) == 1:
            call.write_to(data, call.shape)


def with_integers(data, maps):
    """Return maps of other integers where they are of uint8."""
    if isinstance(maps, list):
        dtype = data.of(INTEGERS)
        same = all(type(x) is np.ndarray and x.dtype == np.uint8 for x in maps)
        return [x.astype(dtype) for x in maps] if same else maps
    is_byte = type(maps) is np.ndarray and maps.dtype == np.uint8
    return maps.astype(data.of(INTEGERS)) if is_byte else maps


def spoil(data, boxes):
    """Return a nested list with something that is no number, and whether there is such a list."""
    if type(boxes) is not np.ndarray or boxes.ndim != 2 or not boxes.size:
        return boxes, False
    rows = boxes.tolist()
    row = data.of(rows)
    row[data.below(len(row))] = data.of(NO_NUMBERS)
    return data.of((rows, [rows], tuple(map(tuple, rows)))), True


def two_scales(data, scale, multiscale):
    """Return a pair of scales, rarely a wrong one; one level of a pyramid gets such a pair."""
    other = data.ordinary(SCALES, 7)
    if not multiscale:
        pair = data.of(PAIRS)((scale, other))
        return data.of(((), (scale,), (scale, other, 1.0), (pair, 1.0))) if data.rarely() else pair
    scales = list(scale)
    i = data.below(len(scales))
    scales[i] = (scales[i], other) if data.below(2) else (scales[i], scales[i])
    return scales


def turned(data, boxes):
    """Return boxes with an angle more, which takes corners for centres and sizes."""
    if isinstance(boxes, list):
        return [turned(data, rows) for rows in boxes]
    if type(boxes) is not np.ndarray or boxes.ndim != 2 or boxes.dtype.kind not in "fiu":
        return boxes
    angles = [data.ordinary((0.0, 0.5, -2.0, 1.5707964, 3.0, *COORDINATES), 9) for _ in boxes]
    with np.errstate(all="ignore"):
        angles = np.nan_to_num(angles) if boxes.dtype.kind != "f" else np.array(angles)
        return np.c_[boxes, angles.reshape(-1, 1).astype(boxes.dtype)]


def as_crop(data, name, arguments):
    """Turn the arguments into those of crop_and_resize, whose boxes are normalised."""
    name = name.replace("roi_align", "crop_and_resize")
    for key in ("spatial_scale", "sampling_ratio", "aligned", "boxes_num"):
        arguments.pop(key, None)
    renamed = {"input": "image", "input_shape": "image_shape", "output_size": "crop_size"}
    for old, new in renamed.items():
        if old in arguments:
            arguments[new] = arguments.pop(old)
    boxes = arguments["boxes"]
    if type(boxes) is not np.ndarray or boxes.ndim != 2 or boxes.dtype.kind not in "fiu":
        boxes = np.zeros((0, 4), np.float32)
    with np.errstate(all="ignore"):
        images = np.nan_to_num(boxes[:, 0]) if boxes.shape[1] == 5 else np.zeros(len(boxes))
        arguments["box_indices"] = images.clip(-5, 2**40).astype(np.int64)
        boxes = boxes[:, -4:].astype(boxes.dtype if boxes.dtype.kind == "f" else np.float64)
        arguments["boxes"] = boxes / data.of((16.0, 1.0, 40.0))
    if not name.endswith("_boxes"):
        arguments["method"] = data.of(("bilinear", "nearest")) if not data.rarely(50) else None
    return name


def as_multiscale(data, name, arguments):
    """Turn the arguments into those of multiscale_roi_align, with maps at several scales.  Rarely
    the maps or their shapes are wrong.
    """
    levels = 1 + data.below(3)
    scale = arguments.pop("spatial_scale")
    is_number = type(scale) is float
    if data.below(2):
        scales = [scale / 2**i if is_number else scale for i in range(levels)]
        arguments["spatial_scale"] = scales
    else:
        sizes = ((40, 40), (80, 60), (1000, 1), (1, 1), (0, 5), 7, None, (2**70, 2))
        arguments["image_size"] = data.ordinary(sizes, 4)
    arguments["canonical_scale"] = data.ordinary((224, 20, 5.5, 1, 0, np.inf, "1", 1e-300), 4)
    arguments["canonical_level"] = data.ordinary((4, 0, 2, 1, -1000, 1001, 1.5, None), 4)
    sides = (2, 3) if arguments["layout"] == "NCHW" else (1, 2)
    every = [[2**i if axis in sides else 1 for axis in range(4)] for i in range(levels)]
    if "input" in arguments:
        x = arguments.pop("input")
        is_array = type(x) is np.ndarray
        features = [x] * levels
        if is_array and x.ndim == 4:
            features = [x[tuple(slice(None, None, step) for step in steps)] for steps in every]
        odd = data.rarely(30)
        others = (x, [], [*features, x[:, :1]] if is_array else None)
        arguments["features"] = data.of(others) if odd else features
    else:
        shape = arguments.pop("input_shape")
        shapes = [shape] * levels
        if isinstance(shape, tuple) and all(type(extent) is int for extent in shape):
            pairs = (zip(shape, steps, strict=False) for steps in every)
            shapes = [tuple(-(-extent // step) for extent, step in both) for both in pairs]
        arguments["input_shapes"] = data.of((shape, [], None)) if data.rarely(30) else shapes
        if "out" in arguments and levels > 1:
            del arguments["out"]
        elif "out" in arguments:
            arguments["out"] = [arguments["out"]]
    return "multiscale_" + name


def check_value(name, arguments, results, dtype, shape, boxes):
    """Check each result, and that the results of the instruction sets agree."""
    if name.endswith("_boxes"):
        check_box_gradients(results, dtype, boxes)
        if name in BOUNDED:
            check_slopes(arguments, results, dtype)
        return
    forward = "grad_output" not in arguments
    key = ("input" if "input" in arguments else "image") if forward else "grad_output"
    sources = arguments.get("features") or [arguments[key]]
    source = sources[0]
    if forward and source.dtype != dtype:
        out = arguments.get("out")
        dtype = dtype if source.dtype.kind in "iu" else source.dtype
        dtype = dtype if out is None else out.dtype
    if name == "roi_pool":
        height, width = source.shape[2:] if arguments["layout"] == "NCHW" else source.shape[1:3]
        check_maxima(results, dtype, height * width)
        return
    if not isinstance(results[0], list):
        results = [[result] for result in results]
    shapes = arguments.get("input_shapes", [results[0][0].shape if forward else shape])
    with np.errstate(all="ignore"):
        # The weights of a bin are not negative, and their sum is at most 1.
        total = np.abs(source).sum(dtype=np.float64)
        bound = max(map(largest, sources)) if forward else float(total)
        for levels in results:
            assert [level.shape for level in levels] == [tuple(level) for level in shapes]
            for result, first in zip(levels, results[0], strict=True):
                assert result.dtype == dtype
                check_sums(result, first, bound, name == "roi_align_max_backward")


def check_sums(result, first, bound, one_of_many):
    """Check weighted sums within a bound beside those of the first instruction set."""
    if not bound < (1e30 if result.dtype.itemsize > 2 else 6e4):
        assert (np.isnan(result) == np.isnan(first)).all() or bound < np.inf
        return
    eps = EPS[result.dtype.name]
    assert largest(result) <= bound * (1 + max(1e-4, eps)), (largest(result), bound)
    # Instruction sets round sums of up to some hundred terms differently.  A result of a small type
    # is rounded once more.  And they may differ in which sample is the largest.
    apart = largest(result.astype(np.float64) - first)
    assert one_of_many or apart <= (1e3 * min(eps, EPS["float32"]) + eps) * bound


def check_maxima(results, dtype, pixels):
    """Check maxima, which all instruction sets take of the same pixels."""
    pairs = [result if isinstance(result, tuple) else (result, None) for result in results]
    for pooled, argmax in pairs:
        assert pooled.dtype == dtype
        assert pooled.tobytes() == pairs[0][0].tobytes()
        assert not np.isnan(pooled).any()
        if argmax is not None:
            assert (argmax.dtype, argmax.shape) == (np.int32, pooled.shape)
            assert argmax.tobytes() == pairs[0][1].tobytes()
            assert argmax.size == 0 or -1 <= argmax.min() <= argmax.max() < max(pixels, 1)


def check_slopes(arguments, results, dtype):
    """Check gradients of boxes beside those of the first instruction set."""
    with np.errstate(all="ignore"):
        # A sample moves at most as its box does, and a pixel differs from the next by at most 2 x.
        scale = largest(np.asarray(arguments["spatial_scale"], np.float64))
        total = float(np.abs(arguments["grad_output"]).sum(dtype=np.float64))
        bound = 2 * largest(arguments["input"]) * scale * total
    if bound < 1e30:
        ends = [gathered(end) for end in results]
        for end in ends if len(ends[0]) else ():
            assert largest(end - ends[0]) <= 1e3 * EPS[dtype.name] * bound, (end, ends[0], bound)


def check_box_gradients(results, dtype, boxes):
    """Check gradients of boxes, in the form in which the boxes are given."""
    # An empty list has no boxes of each image.
    given = [boxes] if not isinstance(results[0], list) else boxes or [[]] * len(results[0])
    given = [np.asarray(part) if len(part) else np.zeros((0, 4)) for part in given]
    for result in results:
        parts = result if isinstance(result, list) else [result]
        parts = [part if len(part) else part[:, -4:] for part in parts]
        found = [(part.shape, part.dtype) for part in parts]
        assert found == [(part.shape, dtype) for part in given]
