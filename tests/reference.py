"""The operators by their definitions: plain loops, as slow as they are clear.

Nothing of roicy is used.  Each operator says which pixels a bin reads and with which weights;
`forward` and `backward` follow from that.  Positions are computed in the type of the data, as
the systems do that these operators come from, since it decides how many samples a bin has and
which of them lie on the map.  Sums of products are long double.
"""

import itertools
import math
from fractions import Fraction

import numpy as np


def _scaled(box, scale, dtype):
    """Return x1, y1, x2, y2 of a row [n, x1, y1, x2, y2] in pixels of the map.  The scale is one
    number, or a pair for y and x.
    """
    vertical, horizontal = scale if isinstance(scale, tuple) else (scale, scale)
    scales = (horizontal, vertical, horizontal, vertical)
    return [dtype(value) * dtype(factor) for value, factor in zip(box[1:5], scales, strict=True)]


def _away_from_zero(value):
    return math.floor(float(value) + 0.5) if value >= 0 else math.ceil(float(value) - 0.5)


# The following functions treat one axis.  They return the pixels and weights of each of `bins` bins
# between low and high, on a map of `extent` pixels.


def samples(low, high, bins, extent, sampling_ratio, dtype, at_least_one):
    """Return the samples of each bin as (pixel, distance from this pixel towards the next one), or
    None for a sample off the map.
    """
    size = high - low
    if at_least_one:
        size = max(size, dtype(1))
    bin_size = size / dtype(bins)
    grid = sampling_ratio if sampling_ratio > 0 else math.ceil(bin_size)
    for p in range(bins):
        points = []
        start = low + dtype(p) * bin_size
        for s in range(grid):
            v = start + dtype(s + 0.5) * bin_size / dtype(grid)
            if v < -1 or v > extent:
                points.append(None)
                continue
            v = max(float(v), 0.0)
            i = min(int(v), extent - 1)
            points.append((i, v - i if i < extent - 1 else 0.0))
        yield points


def sampled(low, high, bins, extent, sampling_ratio, dtype, at_least_one):
    """Weigh pixels for the mean of bilinear samples."""
    for points in samples(low, high, bins, extent, sampling_ratio, dtype, at_least_one):
        pixels = {}
        for i, fraction in filter(None, points):
            pixels[i] = pixels.get(i, 0.0) + (1 - fraction) / len(points)
            if i < extent - 1:
                pixels[i + 1] = pixels.get(i + 1, 0.0) + fraction / len(points)
        yield pixels


def integrated(low, high, bins, extent, dtype):
    """Weigh pixels for the mean of the bilinear surface, by the antiderivative of the hat function,
    in exact fractions.

    The ends of bins are rounded to float64.  For narrow bins they are first counted from the pixel
    before the box.
    """
    size = high - low
    origin = math.floor(low) if size / dtype(bins) < 1 else 0
    ends = [float(low) - origin + float(size) * (p / bins) for p in range(bins + 1)]

    def area_left_of(u):
        u = Fraction(min(max(u, -1), 1))
        return (1 + u) ** 2 / 2 if u <= 0 else 1 - (1 - u) ** 2 / 2

    for p in range(bins):
        a, b = ends[p : p + 2]
        if a == b:
            b = math.nextafter(a, math.inf)
        a, b = Fraction(a) + origin, Fraction(b) + origin
        pixels = {}
        if size > 0:
            for i in range(max(math.floor(a), 0), min(math.ceil(b) + 1, extent)):
                integral = area_left_of(b - i) - area_left_of(a - i)
                if integral > 0:
                    pixels[i] = float(integral / (b - a))
        yield pixels


def quantised(low, high, bins, extent, dtype, inclusive):
    """Give whole pixels equal weights."""
    start, end = _away_from_zero(low), _away_from_zero(high)
    bin_size = dtype(max(end - start + inclusive, 1)) / dtype(bins)
    for p in range(bins):
        first = min(max(math.floor(dtype(p) * bin_size) + start, 0), extent)
        stop = min(max(math.ceil(dtype(p + 1) * bin_size) + start, 0), extent)
        yield {i: 1 / (stop - first) for i in range(first, stop)}


def touched(low, high, scale, bins, extent, dtype):
    """Give equal weights to all pixels that a bin touches; corners are rounded, then scaled."""
    start = dtype(_away_from_zero(low)) * dtype(scale)
    end = dtype(_away_from_zero(high) + 1) * dtype(scale)
    bin_size = max(end - start, dtype(0.1)) / dtype(bins)
    for p in range(bins):
        first = min(max(math.floor(dtype(p) * bin_size + start), 0), extent)
        stop = min(max(math.ceil(dtype(p + 1) * bin_size + start), 0), extent)
        yield {i: 1 / (stop - first) for i in range(first, stop)}


# What tests give to operators that have keywords, each row in turn.  The first two rows also run on
# the GPU's stand-in.
PARAMETERS = {
    "roi_align": [
        {"sampling_ratio": 2, "spatial_scale": 0.5},
        {"sampling_ratio": 0, "aligned": True, "spatial_scale": (0.25, 0.4)},
        {"sampling_ratio": 1, "aligned": True},
        {"spatial_scale": (0.25, 0.7)},
        {"sampling_ratio": 7, "spatial_scale": 0.7},
    ],
    "ps_roi_align": [{"spatial_scale": (0.25, 0.4)}, {"sampling_ratio": 2, "spatial_scale": 0.5}],
    "roi_pool": [
        {"spatial_scale": 1.0}, {"spatial_scale": 0.25}, {"spatial_scale": 0.7},
        {"spatial_scale": (0.7, 0.25)},
    ],
    "roi_align_max": [{"sampling_ratio": 2}],
}  # fmt: skip


def axes(
    operator, box, bins, extents, dtype, *, spatial_scale=1.0, sampling_ratio=-1, aligned=False
):
    """Return the axes y and x of one box: for each axis a list with {pixel: weight} of each bin."""
    x1, y1, x2, y2 = _scaled(box, spatial_scale, dtype)
    found = []
    for a, (low, high) in enumerate(((y1, y2), (x1, x2))):
        count, extent = bins[a], extents[a]
        if operator == "roi_align":
            offset = dtype(0.5 if aligned else 0)
            axis = sampled(
                low - offset, high - offset, count, extent, sampling_ratio, dtype, not aligned
            )
        elif operator == "ps_roi_align":
            axis = sampled(
                low - dtype(0.5), high - dtype(0.5), count, extent, sampling_ratio, dtype, False
            )
        elif operator in ("prroi_pool", "ps_prroi_pool"):
            axis = integrated(low, high, count, extent, dtype)
        elif operator == "ps_roi_pool":
            # torchvision never reads the last row or column
            axis = quantised(low, high, count, extent - 1, dtype, 0)
        elif operator == "psroi_pool":  # coordinates are rounded before they are scaled
            axis = touched(box[2 - a], box[4 - a], spatial_scale, count, extent, dtype)
        elif operator == "roi_pool":
            axis = quantised(low, high, count, extent, dtype, 1)
        else:
            raise KeyError(f"{operator}: define it here, see 'Adding an operator'")
        found.append(list(axis))
    return found


def source_channels(operator, channels, bins, p, q):
    """Return the input channels that output channels 0..channels-1 of bin (p, q) read."""
    if operator.startswith("ps"):
        return (np.arange(channels) * bins[0] + p) * bins[1] + q
    return np.arange(channels)


def _bins(operator, boxes, bins, shape, dtype, parameters):
    """Yield (k, image, p, q, channels, pixels and weights in y, and in x) of every bin of every
    box.
    """
    _, c, h, w = shape
    channels = c // (bins[0] * bins[1]) if operator.startswith("ps") else c
    for k, box in enumerate(boxes):
        ys, xs = (
            [(np.array([*bin], int), np.array([*bin.values()], np.longdouble)) for bin in axis]
            for axis in axes(operator, box, bins, (h, w), dtype, **parameters)
        )
        for p, q in np.ndindex(*bins):
            read = source_channels(operator, channels, bins, p, q)
            yield k, int(box[0]), p, q, read, ys[p], xs[q]


def _output(operator, boxes, bins, c):
    return (len(boxes), c // (bins[0] * bins[1]) if operator.startswith("ps") else c, *bins)


def forward(operator, input, boxes, bins, dtype=None, **parameters):
    """Return a weighted sum for each bin, in long double."""
    dtype = dtype or input.dtype.type
    out = np.zeros(_output(operator, boxes, bins, input.shape[1]), np.longdouble)
    for k, n, p, q, channels, (rows, by_row), (columns, by_column) in _bins(
        operator, boxes, bins, input.shape, dtype, parameters
    ):
        window = input[n, channels[:, None, None], rows[:, None], columns]
        out[k, :, p, q] = window.astype(np.longdouble) @ by_column @ by_row
    return out


def backward(operator, grad_output, boxes, shape, dtype=None, **parameters):
    """Return the gradient of the input, in long double."""
    dtype = dtype or grad_output.dtype.type
    grad = np.zeros(shape, np.longdouble)
    for k, n, p, q, channels, (rows, by_row), (columns, by_column) in _bins(
        operator, boxes, grad_output.shape[2:], shape, dtype, parameters
    ):
        given = grad_output[k, :, p, q].astype(np.longdouble)
        shares = given[:, None, None] * (by_row[:, None] * by_column)
        grad[n, channels[:, None, None], rows[:, None], columns] += shares
    return grad


def roi_pool(input, boxes, bins, **parameters):
    """Return the largest pixels, and where they are."""
    lowest = np.finfo(input.dtype).min
    out = np.zeros(_output("roi_pool", boxes, bins, input.shape[1]), input.dtype)
    argmax = np.full(out.shape, -1, np.int32)
    for k, n, p, q, channels, (rows, _), (columns, _) in _bins(
        "roi_pool", boxes, bins, input.shape, input.dtype.type, parameters
    ):
        if not (rows.size and columns.size):
            continue
        for c in channels:
            best, at = lowest, -1
            for y in rows:
                for x in columns:
                    if input[n, c, y, x] > best:
                        best, at = input[n, c, y, x], y * input.shape[3] + x
            out[k, c, p, q], argmax[k, c, p, q] = best, at
    return out, argmax


def roi_pool_backward(grad_output, argmax, boxes, shape):
    """Return each gradient at the place of its pixel, in float64."""
    grad = np.zeros(shape)
    for k, c, p, q in np.ndindex(*grad_output.shape):
        if argmax[k, c, p, q] >= 0:
            grad[
                int(boxes[k, 0]), c, argmax[k, c, p, q] // shape[3], argmax[k, c, p, q] % shape[3]
            ] += float(grad_output[k, c, p, q])
    return grad


def _bins_of_samples(boxes, bins, size, dtype, spatial_scale, sampling_ratio, aligned):
    """Yield (k, image, p, q, weights, rows, columns, outside) of every bin of every box.  There are
    four weights, rows and columns for each sample on the map.  `outside` says whether some samples
    are off it.
    """
    (h, w), below, right = size, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    for k, box in enumerate(boxes):
        x1, y1, x2, y2 = (
            value - dtype(0.5 if aligned else 0) for value in _scaled(box, spatial_scale, dtype)
        )
        ys = list(samples(y1, y2, bins[0], h, sampling_ratio, dtype, not aligned))
        xs = list(samples(x1, x2, bins[1], w, sampling_ratio, dtype, not aligned))
        for p, q in np.ndindex(*bins):
            pairs = [pair for pair in itertools.product(ys[p], xs[q]) if None not in pair]
            found = np.array(pairs).reshape(-1, 2, 2)  # pixel and fraction of either axis
            (i, part_y), (j, part_x) = found[:, 0].T, found[:, 1].T
            rows = np.minimum(i.astype(int)[:, None] + below, h - 1)
            columns = np.minimum(j.astype(int)[:, None] + right, w - 1)
            weights = abs(1 - below - part_y[:, None]) * abs(1 - right - part_x[:, None])
            outside = len(pairs) < len(ys[p]) * len(xs[q])
            yield k, int(box[0]), p, q, weights, rows, columns, outside


def _candidates(weights, rows, columns, products):
    """Return weights, rows and columns of what may be the largest of a bin, in order."""
    shape = (-1, 1) if products else weights.shape
    return [array.reshape(shape) for array in (weights, rows, columns)]


def _values(planes, weights, rows, columns):
    """Return the candidates of each channel, (C, count)."""
    return (weights * planes[:, rows, columns].astype(np.float64)).sum(axis=2)


def roi_align_max(
    input, boxes, bins, products, *, spatial_scale=1.0, sampling_ratio=-1, aligned=False
):
    """The largest samples, or the largest products of weight and pixel, float64."""
    _, c, h, w = input.shape
    out = np.zeros((len(boxes), c, *bins))
    for k, n, p, q, *found, outside in _bins_of_samples(
        boxes, bins, (h, w), input.dtype.type, spatial_scale, sampling_ratio, aligned
    ):
        values = _values(input[n], *_candidates(*found, products))
        if values.size:
            out[k, :, p, q] = np.maximum(values.max(axis=1), 0 if outside else -np.inf)
    return out


def roi_align_max_backward(
    grad_output, input, boxes, products, clear=0.0, *, spatial_scale=1.0, sampling_ratio=-1,
    aligned=False,
):  # fmt: skip
    """Each gradient to the pixels of the first largest sample, or to the pixel of the first largest
    product, float64.  A sample off the map counts as a 0 that comes first.  A NaN wins nothing, nor
    does what is not larger than any other by `clear`.

    Also returned are the sum of absolute values, how many gradients a pixel got, and by how much
    each largest one is larger than any other, (K, C, PH, PW).
    """
    _, c, h, w = input.shape
    grad, size, terms = (np.zeros(input.shape) for _ in range(3))
    margins = np.full(grad_output.shape, np.inf)
    dtype, every = grad_output.dtype.type, np.arange(c)
    for k, n, p, q, *found, outside in _bins_of_samples(
        boxes, grad_output.shape[2:], (h, w), dtype, spatial_scale, sampling_ratio, aligned
    ):
        candidates = _candidates(*found, products)
        values = _values(input[n], *candidates)
        if not values.size:
            continue
        values = np.where(np.isnan(values), -np.inf, values)
        first = values.argmax(axis=1)
        best = values[every, first]
        same = [(array == array[first][:, None]).all(axis=2) for array in candidates]
        others = np.where(np.logical_and.reduce(same), -np.inf, values)
        least = 0.0 if outside else -np.inf
        won = best > max(least, np.finfo(dtype).min)
        margin = np.where(won, best - np.maximum(others.max(axis=1), least), least - best)
        margins[k, :, p, q] = np.where(won | outside, margin, np.inf)
        won &= margin >= clear
        weights, rows, columns = (array[first[won]] for array in candidates)
        at = (n, every[won][:, None], rows, columns)
        shares = weights * grad_output[k, won, p, q, None].astype(np.float64)
        np.add.at(grad, at, shares)
        np.add.at(size, at, abs(shares))
        np.add.at(terms, at, 1)
    return grad, size, terms, margins


def rotated_taps(
    box, bins, extents, dtype, *, spatial_scale=1.0, sampling_ratio=-1, aligned=True,
    clockwise=False,
):  # fmt: skip
    """Yield (p, q, {(y, x): weight}) of each bin of a turned box [n, cx, cy, w, h, angle].

    Samples lie on a grid in the box's own axes, which is turned and moved to the centre.
    """
    scale, offset = dtype(spatial_scale), dtype(0.5 if aligned else 0)
    cx, cy, *size = [dtype(value) * scale for value in box[1:5]]
    w, h = size if aligned else (max(side, dtype(1)) for side in size)
    angle = -float(dtype(box[5])) if clockwise else float(dtype(box[5]))
    cos, sin = dtype(math.cos(angle)), dtype(math.sin(angle))

    def positions(size, count):
        step = size / dtype(count)
        grid = sampling_ratio if sampling_ratio > 0 else min(max(math.ceil(step), 0), 4096)
        return [
            [-size / 2 + dtype(p) * step + dtype(i + 0.5) * step / dtype(grid) for i in range(grid)]
            for p in range(count)
        ]

    rows, columns = positions(h, bins[0]), positions(w, bins[1])
    for p, q in np.ndindex(*bins):
        pixels = {}
        for yy in rows[p]:
            for xx in columns[q]:
                y = yy * cos - xx * sin + (cy - offset)
                x = yy * sin + xx * cos + (cx - offset)
                if y < -1 or y > extents[0] or x < -1 or x > extents[1]:
                    continue
                for i, wy in _neighbours(y, extents[0]):
                    for j, wx in _neighbours(x, extents[1]):
                        share = wy * wx / (len(rows[p]) * len(columns[q]))
                        pixels[i, j] = pixels.get((i, j), 0.0) + share
        yield p, q, pixels


def _neighbours(v, extent):
    """Return the two pixels around a position on one axis, with weights other than 0."""
    v = min(max(float(v), 0.0), extent - 1)
    return [(int(v) + i, w) for i, w in enumerate((1 - (v - int(v)), v - int(v))) if w != 0]


def roi_align_rotated(input, boxes, bins, dtype=None, **parameters):
    """Return the mean of the samples of each bin, in float64."""
    out = np.zeros((len(boxes), input.shape[1], *bins))
    dtype = dtype or input.dtype.type
    for k, box in enumerate(boxes):
        for p, q, pixels in rotated_taps(box, bins, input.shape[2:], dtype, **parameters):
            for (y, x), weight in pixels.items():
                out[k, :, p, q] += weight * input[int(box[0]), :, y, x].astype(np.float64)
    return out


def roi_align_rotated_backward(grad_output, boxes, shape, dtype=None, **parameters):
    """Return the gradient of the input, in float64."""
    grad = np.zeros(shape)
    bins, dtype = grad_output.shape[2:], dtype or grad_output.dtype.type
    for k, box in enumerate(boxes):
        for p, q, pixels in rotated_taps(box, bins, shape[2:], dtype, **parameters):
            for (y, x), weight in pixels.items():
                grad[int(box[0]), :, y, x] += weight * grad_output[k, :, p, q].astype(np.float64)
    return grad
