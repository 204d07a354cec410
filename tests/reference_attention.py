"""Deformable attention by its definition: plain loops, as slow as they are clear."""

import math

import numpy as np


def _neighbours_of_point(at, extent, mode, padding):
    """Return the pixels of an axis that a position lies between, None for one that there is not,
    with their weights, and by how much these change with the position.
    """
    slope = 1.0
    if padding == "border":
        slope = float(0 < at < extent - 1)
        at = 0.0 if math.isnan(at) else min(max(at, 0.0), extent - 1.0)
    if mode == "nearest":
        found = [(round(at), 1.0, 0.0)] if math.isfinite(at) else []
    elif math.isfinite(at):
        low = math.floor(at)
        found = [(low, 1 - (at - low), -slope), (low + 1, at - low, slope)]
    else:
        found = [(None, math.nan, -slope), (None, math.nan, slope)]
    for pixel, weight, change in found:
        yield pixel if pixel is not None and 0 <= pixel < extent else None, weight, change


def attention_taps(shape, location, mode="bilinear", padding="zeros", align_corners=False):
    """Return the pixels of a level that a location reads, or None, with their weights, and by how
    much these change with x and y.
    """
    height, width = shape
    scales = [extent - 1 if align_corners else extent for extent in (width, height)]
    shift = 0.0 if align_corners else 0.5
    x, y = (
        list(_neighbours_of_point(float(place) * scale - shift, extent, mode, padding))
        for place, scale, extent in zip(location, scales, (width, height), strict=True)
    )
    for row, across, change_y in y:
        for column, along, change_x in x:
            pixel = None if row is None or column is None else row * width + column
            slopes = across * change_x * scales[0], along * change_y * scales[1]
            yield pixel, across * along, slopes


def deformable_attention(value, shapes, locations, weights, grad_output=None, points=None, **rule):
    """Return the sums (N, Q, M * D), or the gradients of value, locations and weights."""
    images, _, heads, channels = value.shape
    queries = locations.shape[1]
    if points is None:
        points = [locations.shape[4]] * len(shapes)
    flat = locations.reshape(images, queries, heads, sum(points), 2)
    by = weights.reshape(images, queries, heads, sum(points))
    out = np.zeros((images, queries, heads, channels))
    grads = np.zeros(value.shape), np.zeros(flat.shape), np.zeros(by.shape)
    grad = None if grad_output is None else grad_output.reshape(out.shape).astype(np.float64)
    for n, q, m in np.ndindex(images, queries, heads):
        first, t = 0, -1
        for (height, width), count in zip(shapes, points, strict=True):
            pixels = value[n, first : first + height * width, m].astype(np.float64)
            for _ in range(count):
                t += 1
                for pixel, weight, slopes in attention_taps(
                    (height, width), flat[n, q, m, t], **rule
                ):
                    numbers = np.zeros(channels) if pixel is None else pixels[pixel]
                    a = float(by[n, q, m, t])
                    out[n, q, m] += numbers * weight * a
                    if grad is None:
                        continue
                    dot = (grad[n, q, m] * numbers).sum()
                    grads[2][n, q, m, t] += dot * weight
                    grads[1][n, q, m, t] += np.multiply(slopes, dot * a)
                    if pixel is not None:
                        grads[0][n, first + pixel, m] += grad[n, q, m] * weight * a
            first += height * width
    if grad is None:
        return out.reshape(images, queries, heads * channels)
    return grads[0], grads[1].reshape(locations.shape), grads[2].reshape(weights.shape)
