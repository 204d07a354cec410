"""Resizing as Pillow and PyTorch do, by its definition: plain loops and exact sums."""

import functools

import numpy as np


def pillow_weight(filter, x):
    """Return the weight of a filter of Pillow at a distance."""
    far = abs(x)
    if filter == "box":
        return float(-0.5 < x <= 0.5)
    if filter == "bilinear":
        return max(1 - far, 0.0)
    if filter == "bicubic":
        near, beyond = 1.5 * far**3 - 2.5 * far**2 + 1, -0.5 * (far**3 - 5 * far**2 + 8 * far - 4)
        return near if far < 1 else beyond if far < 2 else 0.0
    if filter == "hamming":
        window = np.float64(np.float32(0.54)) + np.float64(np.float32(0.46)) * np.cos(np.pi * far)
        return float(np.sinc(far) * window) if far < 1 else 0.0
    return float(np.sinc(x) * np.sinc(x / 3)) if -3 <= x < 3 else 0.0


def exact_axis(extent, low, high, count, filter):
    """Return the weights of an axis, (count, extent); the interval is rounded to float32."""
    support = {"box": 0.5, "bilinear": 1, "hamming": 1, "bicubic": 2, "lanczos": 3}[filter]
    low, high = np.float32(low), np.float32(high)
    scale = float(high - low) / count
    stretch = max(scale, 1.0)
    weights = np.zeros((count, extent))
    for i in range(count):
        centre = float(low) + (i + 0.5) * scale
        first = max(int(centre - support * stretch + 0.5), 0)
        stop = min(int(centre + support * stretch + 0.5), extent)
        taps = [pillow_weight(filter, (x - centre + 0.5) / stretch) for x in range(first, stop)]
        total = sum(taps)
        weights[i, first:stop] = [tap / total if total else tap for tap in taps]
    return weights


def rounded(weights):
    """Return whole numbers, of two the one that is farther from 0."""
    return np.trunc(weights + np.where(weights >= 0, 0.5, -0.5)).astype(np.int64)


@functools.cache
def pillow_axis(extent, low, high, count, filter):
    """Return the weights of an axis of Pillow's resize of bytes, in units of 2**-22."""
    return rounded(exact_axis(extent, low, high, count, filter) * 2**22)


@functools.cache
def torch_axis(extent, count, filter):
    """Return the weights of an axis of PyTorch's resize of bytes, and their bits after the point:
    as many as int16 can hold of all weights, and at most 22.
    """
    weights = exact_axis(extent, 0, extent, count, filter)
    bits = max(bits for bits in range(23) if int(0.5 + weights.max() * 2**bits) < 2**15)
    return rounded(weights * 2**bits), bits


def torch_resize(frame, size, filter):
    """Resize bytes (H, W, C) as PyTorch does, which resizes along x first."""
    for axis in (1, 0):
        if frame.shape[axis] != size[axis]:
            weights, bits = torch_axis(frame.shape[axis], size[axis], filter)
            sums = np.tensordot(weights, frame.astype(np.int64), (1, axis))
            frame = np.clip((np.moveaxis(sums, 0, axis) + (1 << bits >> 1)) >> bits, 0, 255)
    return frame.astype(np.uint8)


def pillow_resize(frame, size, filter, box=None, pillow=13):
    """Resize bytes (H, W, C) as this version of Pillow does.  Each axis gives bytes, rounded and
    clipped: x first, unless the frame shrinks most along y.
    """
    height, width = frame.shape[:2]
    x1, y1, x2, y2 = (0, 0, width, height) if box is None else box
    less = height - size[0]
    y_first = less > 2 * (width - size[1]) if pillow > 12 else height > 100 * width
    weights = (
        pillow_axis(height, y1, y2, size[0], filter), pillow_axis(width, x1, x2, size[1], filter)
    )  # fmt: skip
    for axis in (0, 1) if y_first and less > 0 else (1, 0):
        sums = np.tensordot(weights[axis], frame.astype(np.int64), (1, axis))
        frame = np.clip((np.moveaxis(sums, 0, axis) + 2**21) >> 22, 0, 255)
    return frame.astype(np.uint8)
