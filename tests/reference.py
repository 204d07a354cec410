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
        found.append(list(axis))
    return found


def source_channels(operator, channels, bins, p, q):
    """Return the input channels that output channels 0..channels-1 of bin (p, q) read."""
    if operator.startswith("ps"):
        return (np.arange(channels) * bins[0] + p) * bins[1] + q
    return np.arange(channels)


def _bins(operator, boxes, bins, shape, dtype, parameters):
    """Yield (k, image, p, q, channels, pixels in y, pixels in x) of every bin of every box."""
    _, c, h, w = shape
    channels = c // (bins[0] * bins[1]) if operator.startswith("ps") else c
    for k, box in enumerate(boxes):
        ys, xs = axes(operator, box, bins, (h, w), dtype, **parameters)
        for p in range(bins[0]):
            for q in range(bins[1]):
                yield (
                    k,
                    int(box[0]),
                    p,
                    q,
                    source_channels(operator, channels, bins, p, q),
                    ys[p],
                    xs[q],
                )


def _output(operator, boxes, bins, c):
    return (len(boxes), c // (bins[0] * bins[1]) if operator.startswith("ps") else c, *bins)


def forward(operator, input, boxes, bins, dtype=None, **parameters):
    """Return a weighted sum for each bin, in long double."""
    dtype = dtype or input.dtype.type
    out = np.zeros(_output(operator, boxes, bins, input.shape[1]), np.longdouble)
    for k, n, p, q, channels, ys, xs in _bins(
        operator, boxes, bins, input.shape, dtype, parameters
    ):
        window = input[n][np.ix_(channels, [*ys], [*xs])].astype(np.longdouble)
        out[k, :, p, q] = window @ _weights(xs) @ _weights(ys)
    return out


def backward(operator, grad_output, boxes, shape, dtype=None, **parameters):
    """Return the gradient of the input, in long double."""
    dtype = dtype or grad_output.dtype.type
    grad = np.zeros(shape, np.longdouble)
    for k, n, p, q, channels, ys, xs in _bins(
        operator, boxes, grad_output.shape[2:], shape, dtype, parameters
    ):
        given = grad_output[k, :, p, q].astype(np.longdouble)
        weights = np.outer(_weights(ys), _weights(xs))
        grad[n][np.ix_(channels, [*ys], [*xs])] += given[:, None, None] * weights
    return grad


def _weights(axis):
    return np.array([*axis.values()], np.longdouble)


def roi_pool(input, boxes, bins, **parameters):
    """Return the largest pixels, and where they are."""
    lowest = np.finfo(input.dtype).min
    out = np.zeros(_output("roi_pool", boxes, bins, input.shape[1]), input.dtype)
    argmax = np.full(out.shape, -1, np.int32)
    for k, n, p, q, channels, ys, xs in _bins(
        "roi_pool", boxes, bins, input.shape, input.dtype.type, parameters
    ):
        if not (ys and xs):
            continue
        for c in channels:
            best, at = lowest, -1
            for y in sorted(ys):
                for x in sorted(xs):
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
    h, w = size
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
            i, j = i.astype(int), j.astype(int)
            rows = np.stack([i, i, np.minimum(i + 1, h - 1), np.minimum(i + 1, h - 1)], axis=1)
            columns = np.stack([j, np.minimum(j + 1, w - 1)] * 2, axis=1)
            weights = np.stack(
                [wy * wx for wy in (1 - part_y, part_y) for wx in (1 - part_x, part_x)], axis=1
            )
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
    grad_output, input, boxes, products, *, spatial_scale=1.0, sampling_ratio=-1, aligned=False
):
    """Each gradient to the pixels of the first largest sample, or to the pixel of the first largest
    product, float64.  A sample off the map counts as a 0 that comes first.  A NaN wins nothing.
    Also returned are by how much each of them is larger than any other, (K, C, PH, PW), and how
    many gradients a pixel got.
    """
    _, c, h, w = input.shape
    grad, terms = np.zeros(input.shape), np.zeros(input.shape)
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
        weights, rows, columns = (array[first[won]] for array in candidates)
        at = (n, every[won][:, None], rows, columns)
        np.add.at(grad, at, weights * grad_output[k, won, p, q, None].astype(np.float64))
        np.add.at(terms, at, 1)
    return grad, margins, terms


# Crops of frames.  A frame is an array (H, W, C) and a box (x1, y1, x2, y2).


def crop_area(box, size, fit):
    """Return the part of a box that is shown, and the output rows and columns that show it.

    "cover" shows the middle of the box, and "letterbox" shows all of it in the middle of the
    output.
    """
    (x1, y1, x2, y2), (h, w) = map(float, box), size
    width, height = abs(x2 - x1), abs(y2 - y1)
    rows, columns = (0, h), (0, w)
    if fit == "cover" and width * h != height * w:
        if width * h > height * w:
            keep = height * w / h / width
            x1, x2 = x1 + (x2 - x1) * (1 - keep) / 2, x2 - (x2 - x1) * (1 - keep) / 2
        else:
            keep = width * h / w / height
            y1, y2 = y1 + (y2 - y1) * (1 - keep) / 2, y2 - (y2 - y1) * (1 - keep) / 2
    if fit == "letterbox" and width * h != height * w:
        if width * h > height * w:
            shown = max(round(height * w / (width * h) * h), 1)
            rows = ((h - shown) // 2, (h - shown) // 2 + shown)
        else:
            shown = max(round(width * h / (height * w) * w), 1)
            columns = ((w - shown) // 2, (w - shown) // 2 + shown)
    return (x1, y1, x2, y2), rows, columns


def crop_weights(low, high, bins, extent, antialias, border):
    """Weigh the pixels of an axis for each of `bins` output pixels between low and high.

    A weight is the part of the interval of an output pixel in [i, i + 1).  What is not on the
    frame, or for border="crop" on the pixels that the box touches, belongs to the outermost pixel
    or to none.
    """
    first, last = 0, extent - 1
    if border == "crop":
        first = min(max(math.floor(min(low, high)), 0), extent - 1)
        last = max(min(math.ceil(max(low, high)), extent) - 1, first)
    step = (high - low) / bins
    half = max(abs(step), 1) / 2 if antialias else 0.5
    for p in range(bins):
        a = low + (p + 0.5) * step - half
        b = a + 2 * half
        weights = {}
        for i in range(first, last + 1):
            start = -math.inf if i == first and border != "constant" else i
            stop = math.inf if i == last and border != "constant" else i + 1
            part = max(min(b, stop) - max(a, start), 0)
            if part > 0:
                weights[i] = part / (2 * half)
        yield weights


def crop(frame, box, size, antialias, border, fit="stretch", pad=0.0):
    """Return a box of a frame as float64 (h, w, C), neither scaled nor rounded."""
    height, width, channels = frame.shape
    out = np.full((*size, channels), pad, np.float64)
    if height == 0 or width == 0:
        return out
    (x1, y1, x2, y2), rows, columns = crop_area(box, size, fit)
    if border == "crop" and fit == "cover":
        raise NotImplementedError("the touched pixels are those of the whole box")
    in_y = list(crop_weights(y1, y2, rows[1] - rows[0], height, antialias, border))
    in_x = list(crop_weights(x1, x2, columns[1] - columns[0], width, antialias, border))
    pad = np.broadcast_to(np.asarray(pad, np.float64), (channels,))
    for p, weights_y in enumerate(in_y):
        for q, weights_x in enumerate(in_x):
            total = (1 - sum(weights_y.values()) * sum(weights_x.values())) * pad
            for y, wy in weights_y.items():
                for x, wx in weights_x.items():
                    total = total + wy * wx * frame[y, x].astype(np.float64)
            out[rows[0] + p, columns[0] + q] = total
    return out


def rotated_points(box, size, shown=None):
    """Return the point of the frame that output pixel (p, q) of [cx, cy, w, h, angle] shows.

    `shown` are the output rows and columns that show the box.
    """
    cx, cy, width, height, angle = map(float, box)
    rows, columns = shown or ((0, size[0]), (0, size[1]))

    def point(p, q):
        yy = ((p - rows[0] + 0.5) / (rows[1] - rows[0]) - 0.5) * height
        xx = ((q - columns[0] + 0.5) / (columns[1] - columns[0]) - 0.5) * width
        return (
            yy * math.sin(angle) + xx * math.cos(angle) + cx - 0.5,
            yy * math.cos(angle) - xx * math.sin(angle) + cy - 0.5,
        )

    return point


def corner_points(corners, size):
    """Return the point of the frame that output pixel (p, q) shows, of eight equations."""
    rows, right = [], []
    for (x, y), (u, v) in zip(corners, ((0, 0), (1, 0), (1, 1), (0, 1)), strict=True):
        rows += [[u, v, 1, 0, 0, 0, -u * x, -v * x], [0, 0, 0, u, v, 1, -u * y, -v * y]]
        right += [x, y]
    m = np.append(np.linalg.solve(np.array(rows, np.float64), right), 1).reshape(3, 3)

    def point(p, q):
        x, y, w = m @ [(q + 0.5) / size[1], (p + 0.5) / size[0], 1]
        return (x / w - 0.5, y / w - 0.5) if w > 0 else None

    return point


def matrix_points(matrix):
    """Return the point of the frame that a matrix of frame to output takes to pixel (p, q)."""
    matrix = np.asarray(matrix, np.float64)
    return lambda p, q: np.linalg.solve(matrix[:, :2], np.array([q, p]) - matrix[:, 2])


def bilinear(frame, point, border, pad):
    """Interpolate at a point; pixels are counted from the middle of the first."""
    height, width, _ = frame.shape
    if point is None or height == 0 or width == 0:
        return pad
    x, y = point
    total = 0.0
    for column, row in itertools.product((0, 1), (0, 1)):
        i, j = math.floor(y) + row, math.floor(x) + column
        weight = (1 - abs(y - i)) * (1 - abs(x - j))
        if weight == 0:
            continue
        inside = 0 <= i < height and 0 <= j < width
        i, j = min(max(i, 0), height - 1), min(max(j, 0), width - 1)
        shown = frame[i, j].astype(np.float64) if inside or border == "image" else pad
        total = total + weight * shown
    return total


def warp(frame, point, size, samples=(1, 1), border="image", pad=0.0):
    """Return the mean of so many samples down and across each output pixel, (h, w, C)."""
    out = np.zeros((*size, frame.shape[2]))
    pad = np.broadcast_to(np.asarray(pad, np.float64), (frame.shape[2],))
    for p, q in itertools.product(range(size[0]), range(size[1])):
        for j, i in itertools.product(range(samples[0]), range(samples[1])):
            at = point(p + (j + 0.5) / samples[0] - 0.5, q + (i + 0.5) / samples[1] - 0.5)
            out[p, q] += bilinear(frame, at, border, pad)
    return out / (samples[0] * samples[1])


def rgb_of_yuv(planes, color_range, color_matrix, bits=8):
    """Return Y (H, W), and U and V, of half of both sides, of the columns or of none, as RGB in
    0..255.
    """
    y, u, v = (np.asarray(plane, np.float64) / 2 ** (bits - 8) for plane in planes)
    across = np.arange(y.shape[1]) // (1 if u.shape == y.shape else 2)
    down = np.arange(y.shape[0]) // (1 if len(u) == len(y) else 2)
    u, v = (plane[down][:, across] - 128 for plane in (u, v))
    if color_range == "video":
        y, u, v = (y - 16) * 255 / 219, u * 255 / 224, v * 255 / 224
    else:
        y, u, v = (plane * 255 * 2 ** (bits - 8) / (2**bits - 1) for plane in (y, u, v))
    red, blue = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}[
        color_matrix
    ]
    r, b = y + 2 * (1 - red) * v, y + 2 * (1 - blue) * u
    g = (y - red * r - blue * b) / (1 - red - blue)
    return np.stack([r, g, b], axis=-1).clip(0, 255)


def _resized(n, pixels, padding, low, high):
    """Return for each pixel of an axis the two numbers of a mask, with its border, that it lies
    between, and the weight of the second; a box of torchvision has whole pixels low to high.
    """
    extent, size = n + 2 * padding, max(high - low + 1, 1)
    for pixel in range(pixels):
        if not low <= pixel <= high:
            yield None
            continue
        at = min(max((pixel - low + 0.5) * extent / size - 0.5, 0), extent - 1)
        first = min(int(at), max(extent - 2, 0))
        yield first - padding, min(first + 1, extent - 1) - padding, at - first


def _sampled_mask(n, pixels, low, high, infinite_is_middle):
    """As _resized, for a box whose edges are those of the mask."""
    for pixel in range(pixels):
        if not math.floor(low) - 1 <= pixel <= math.ceil(high):
            yield None
            continue
        distance = pixel + 0.5 - float(low)
        if high == low:
            if distance == 0 or not infinite_is_middle:
                yield None
                continue
            at = n / 2 - 0.5
        else:
            at = distance / (float(high) - float(low)) * n - 0.5
        yield math.floor(at), math.floor(at) + 1, at - math.floor(at)


def paste_masks(masks, boxes, shape, rule="torchvision", padding=1):
    """Return masks (K, h, w) in images of their own."""
    count, h, w = masks.shape
    out = np.zeros((count, *shape))
    for k in range(count):
        x1, y1, x2, y2 = boxes[k]
        if rule == "torchvision":
            half, grown = boxes.dtype.type(0.5), boxes.dtype.type((w + 2 * padding) / w)
            ends = [
                (int((high + low) * half - (high - low) * half * grown),
                 int((high + low) * half + (high - low) * half * grown))
                for low, high in ((y1, y2), (x1, x2))
            ]  # fmt: skip
            rows = list(_resized(h, shape[0], padding, *ends[0]))
            columns = list(_resized(w, shape[1], padding, *ends[1]))
        else:
            rows = list(_sampled_mask(h, shape[0], y1, y2, rule == "mmdet"))
            columns = list(_sampled_mask(w, shape[1], x1, x2, rule == "mmdet"))
        for y, row in enumerate(rows):
            for x, column in enumerate(columns):
                if row is None or column is None:
                    continue
                for i, wi in ((row[0], 1 - row[2]), (row[1], row[2])):
                    for j, wj in ((column[0], 1 - column[2]), (column[1], column[2])):
                        if 0 <= i < h and 0 <= j < w:
                            out[k, y, x] += float(masks[k, i, j]) * wi * wj
    return out


def resize_matrix(n, pixels, first=0, extent=None):
    """Return the weights (pixels, n) of a resize of `extent` of n numbers, from `first` on."""
    weights = np.zeros((pixels, n))
    taps = _resized(n if extent is None else extent, pixels, 0, 0, pixels - 1)
    for row, (low, high, weight) in zip(weights, taps, strict=True):
        row[first + low] += 1 - weight
        row[first + high] += weight
    return weights


def letterbox(n, pixels, gain, times, centred=True):
    """Return where a picture that was resized by `gain` begins among `times` * n numbers, and on
    how many of them it lies, as Ultralytics has it.
    """
    extent = max(round(pixels * gain * times), 1)
    return round((n * times - extent) / 2 - 0.1) if centred else 0, extent


def prototype_masks(prototypes, coefficients, boxes, shape, rule, fit="letterbox"):
    """Return masks (K, H, W) of prototypes (C, h, w)."""
    masks = np.einsum("kc,cyx->kyx", coefficients.astype(np.float64), prototypes)
    sizes = list(zip(prototypes.shape[1:], shape, strict=True))
    gain, axes, centred = min(n / pixels for n, pixels in sizes), [], fit == "letterbox"
    for n, pixels in sizes:
        if fit == "stretch":
            axes.append(resize_matrix(n, pixels))
        elif rule == "ultralytics_native":
            for times in (1, 2, 4):
                whole = [(4 * m - letterbox(m, size, gain, 4)[1]) for m, size in sizes]
                if all(times * end % 4 == 0 for one in whole for end in (one, one // 2)):
                    break
            weights = resize_matrix(n * times, pixels, *letterbox(n, pixels, gain, times, centred))
            axes.append(weights @ resize_matrix(n, n * times))
        elif rule == "yolov5_native":
            pad = (n - pixels * gain) / (2 if centred else 1)
            first = int(pad) if centred else 0
            axes.append(resize_matrix(n, pixels, first, max(int(n - pad) - first, 1)))
        else:
            axes.append(resize_matrix(n, pixels))
    if rule.startswith("yolov5"):
        masks = 1 / (1 + np.exp(-masks))
    if rule == "yolov5":
        height, width = prototypes.shape[1:]
        ratios = np.array([width / shape[1], height / shape[0]] * 2).astype(boxes.dtype)
        masks = cut(masks, boxes * ratios)
    masks = axes[0] @ masks @ axes[1].T
    if not rule.startswith("yolov5"):
        masks = 1 / (1 + np.exp(-masks))
    return masks if rule == "yolov5" else cut(masks, boxes)


def cut(masks, boxes):
    """Return masks that are 0 outside of boxes."""
    y, x = np.ogrid[: masks.shape[1], : masks.shape[2]]
    x1, y1, x2, y2 = boxes.T[:, :, None, None]
    return masks * ((x >= x1) & (x < x2) & (y >= y1) & (y < y2))


def run_lengths(mask):
    """Return the lengths of runs down the columns of a mask, zeros first, and their characters."""
    pixels = np.concatenate([[0], mask.T.reshape(-1), [2]])
    ends = [0, *np.flatnonzero(np.diff(pixels))]
    runs = [int(stop - start) for start, stop in itertools.pairwise(ends)] or [0]
    text = ""
    for i, run in enumerate(runs):
        rest, more = run - runs[i - 2] if i > 2 else run, True
        while more:
            bits, rest = rest & 31, rest >> 5
            more = rest != (-1 if bits & 16 else 0)
            text += chr(48 + bits + (32 if more else 0))
    return text.encode()


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
