"""Crops of frames and masks of pictures by their definitions; nothing of roicy is used."""

import itertools
import math

import numpy as np

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
        near = range(max(first, math.floor(a)), min(last, math.ceil(b)) + 1)
        for i in sorted({first, last, *near}):
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
