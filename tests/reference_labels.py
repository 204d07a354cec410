"""Labels by their definition: all maps are enlarged to the picture, and the largest one is taken.

Numbers are rounded as PyTorch's interpolate rounds them, along x and then along y, in the type of
the maps.  Nothing of roicy is used.
"""

import numpy as np


def fused(a, b, c, exactly_once):
    """Return a * b + c, rounded once; only float32 can be rounded once here.

    Products are exact in float64.  A sum that is not is made odd, so that it lies between the same
    two numbers of float32 as the exact one, and nearer to the same one.
    """
    if not exactly_once or a.dtype != np.float32:
        return a * b + c
    product, c = a.astype(np.float64) * b, np.asarray(c, np.float64)
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    bits = np.ascontiguousarray(total).view(np.int64)
    is_even = (lost != 0) & np.isfinite(lost) & (bits & 1 == 0)
    return np.where(is_even, np.nextafter(total, np.copysign(np.inf, lost)), total).astype(a.dtype)


def positions(extent, pixels, rule, dtype, once, first=0.0):
    """Return which two of some numbers each pixel lies between, and the weights of both."""
    i, skipped = np.arange(pixels).astype(dtype), int(first)
    last = int(np.ceil(first + extent)) - 1 - skipped
    scale = dtype(extent) / dtype(pixels)
    if rule == "aligned":
        scale = dtype(max(extent - 1, 0)) / dtype(max(pixels - 1, 1)) * dtype(pixels > 1)
    if rule == "half":
        at = fused(np.full_like(i, scale), i + dtype(0.5), dtype(-0.5), once)
    else:
        at = scale * i
    at = np.maximum(at + dtype(first - skipped), dtype(0))
    low = np.minimum(at, dtype(last)).astype(int)
    weight = np.minimum(at - low.astype(dtype), dtype(1)) * dtype(rule != "nearest")
    return skipped + low, skipped + np.minimum(low + 1, last), dtype(1) - weight, weight


def is_single(extent, pixels, rule, first):
    """Whether pixels are numbers, none between two: an axis that keeps its size reads no other."""
    return rule == "nearest" or (extent == pixels and first == int(first))


def enlarged_along(maps, axis, pixels, rule, once, ends=None):
    """Return maps whose numbers between two ends of an axis are enlarged to some pixels."""
    start, end = (0, maps.shape[axis]) if ends is None else ends
    low, high, *weights = positions(end - start, pixels, rule, maps.dtype.type, once, start)
    first, second = (one.reshape(-1, *[1] * (-1 - axis)) for one in weights)
    a, b = np.take(maps, low, axis), np.take(maps, high, axis)
    if is_single(end - start, pixels, rule, start):
        return a
    return fused(a, np.broadcast_to(first, a.shape), b * second, once)


def enlarged(maps, size, rule, once, box=None):
    """Return maps (..., h, w) as (..., H, W)."""
    x1, y1, x2, y2 = (0, 0, *maps.shape[:-3:-1]) if box is None else box
    for axis, ends in ((-1, (x1, x2)), (-2, (y1, y2))):
        maps = enlarged_along(maps, axis, size[axis], rule, once, ends)
    return maps


def label_map(maps, size, rule="half", once=False, via=None, box=None, weights=1):
    """Return labels (..., H, W) of maps (..., C, h, w), and all values.

    With a size of three these are volumes (..., C, d, h, w), which are enlarged along d first.
    """
    with np.errstate(all="ignore"):
        if len(size) == 3:
            maps = enlarged_along(maps, -3, size[0], rule, once)
        if via is not None:
            maps = enlarged(maps, via, rule, once)
        values = enlarged(maps, size, rule, once, box)
        weights = np.asarray(weights, values.dtype)
        values = values * weights.reshape(-1, *(1 for _ in size))
    return values.argmax(-1 - len(size)), values


def painted(masks, labels, background):
    """Return the label of the first of masks (K, H, W) that each pixel lies in."""
    result = np.full(masks.shape[1:], background)
    for mask, label in reversed(list(zip(masks, labels, strict=True))):
        result[mask] = label
    return result


def segment(mask, values=None):
    """Return area, box [x, y, width, height] and mean value of a mask."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not len(rows):
        return 0, [0, 0, 0, 0], 0
    box = [columns[0], rows[0], np.ptp(columns) + 1, np.ptp(rows) + 1]
    mean = None if values is None else values[mask].mean(dtype=np.float64)
    return mask.sum(), [int(end) for end in box], mean


def onnx_axis(extent, pixels, rule, scale, nearest):
    """Return both numbers that pixels lie between, and their weights, as ONNX Runtime's Resize has
    them; of float32.
    """
    one, at = np.float32, np.arange(pixels, dtype=np.float32)
    if scale != 1:
        if rule == "align_corners":
            at = at * one(extent - 1) / one(pixels - 1) if pixels > 1 else 0 * at
        elif rule == "asymmetric":
            at = at / one(scale)
        else:
            alone = rule == "pytorch_half_pixel" and pixels == 1
            at = 0 * at if alone else (at + one(0.5)) / one(scale) - one(0.5)
    if nearest:
        down = np.floor(at)
        past = at - down - one(0.5)
        past[np.abs(past) < 1e-6] = 0  # nearly halfway is halfway
        up = {"floor": False, "ceil": at > down, "round_prefer_floor": past > 0}
        low = np.clip(down + up.get(nearest, past >= 0), 0, extent - 1).astype(int)
        return low, low, np.ones_like(at), np.zeros_like(at)
    at = np.clip(at, 0, extent - 1).astype(np.float32)
    low = at.astype(int)
    high = np.minimum(low + 1, extent - 1)
    weight = np.where(low == high, one(0.5), at - low.astype(np.float32))
    return low, high, 1 - weight, weight


def onnx_values(maps, size, rule, scales=None, nearest=None):
    """Return enlarged maps (N, C, H, W) of float32, as ONNX Runtime's Resize computes them."""
    sides = maps.shape[2:]
    scales = scales or [np.float32(size[i]) / np.float32(sides[i]) for i in range(2)]
    axes = [onnx_axis(sides[i], size[i], rule, scales[i], nearest) for i in range(2)]
    (top, bottom, above, below), (left, right, before, after) = axes
    upper, lower = maps[:, :, top], maps[:, :, bottom]
    sums = above[:, None] * before * upper[..., left]
    if nearest or size == maps.shape[2:]:
        return maps[:, :, top][..., left]
    sums = sums + above[:, None] * after * upper[..., right]
    sums = sums + below[:, None] * before * lower[..., left]
    return sums + below[:, None] * after * lower[..., right]
