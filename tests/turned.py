"""Turned boxes, and maps that they read."""

from conftest import rotated_boxes

# K boxes, N, C, H, W and (PH, PW).  There are whole and partial blocks, one channel, a single row,
# and more bins than are computed together.
SHAPES = {
    "blocks": (30, 2, 37, 26, 31, (3, 4)),
    "pixels": (6, 1, 48, 33, 20, (7, 2)),
    "row": (6, 3, 1, 1, 23, (2, 2)),
    "cell": (5, 2, 16, 1, 1, (2, 3)),
    "parts": (2, 1, 17, 12, 14, (34, 40)),
}


def make(rng, shape, scale, dtype):
    count, images, channels, height, width, bins = SHAPES[shape]
    input = rng.standard_normal((images, channels, height, width)).astype(dtype)
    boxes = rotated_boxes(rng, images, count, (height / scale, width / scale), dtype)
    return input, boxes, bins
