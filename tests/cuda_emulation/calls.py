"""Maps and boxes for tests of the GPU's kernels, and what decides which of them runs."""

import itertools

from conftest import DTYPES, LAYOUTS, random_boxes, two_scales

from cuda_emulation.fixtures import ORDERS

# What decides which instantiation of a kernel runs: each runs in every order.
KINDS = tuple(itertools.product(DTYPES, LAYOUTS))
RUNS = {"kind": KINDS, "cupy": ORDERS}
# Each shape is boxes, images, channels, rows, columns and bins. "tiles" has more bins, wider
# windows and more channels than a warp takes at once. "bins" and "boxes" have more of these than
# there are lanes. "parts" has planes of several parts, and bins of many rows.  "vectors" has rows
# and channels of whole vectors.
SHAPES = {
    "blocks": (30, 2, 21, 17, 19, (3, 4)),
    "row": (6, 3, 1, 1, 23, (2, 2)),
    "pixel": (5, 2, 9, 1, 1, (2, 3)),
    "tiles": (6, 1, 150, 40, 90, (10, 11)),
    "bins": (3, 1, 5, 40, 30, (37, 2)),
    "boxes": (200, 2, 9, 9, 11, (3, 3)),
    "parts": (6, 1, 3, 90, 100, (2, 2)),
    "vectors": (12, 2, 40, 13, 24, (3, 4)),
}


def make(rng, name, shape, scale, dtype):
    count, n, c, h, w, bins = SHAPES[shape]
    vertical, horizontal = two_scales({"spatial_scale": scale})
    if name.startswith("ps_"):
        c = min(max(c // 9, 1), 8) * bins[0] * bins[1]
    x = rng.standard_normal((n, c, h, w)).astype(dtype)
    return x, random_boxes(rng, n, count, (h / vertical, w / horizontal), dtype), bins
