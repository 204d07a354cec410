"""Maps, boxes and gradients for tests of operators, and what the definition makes of them."""

import itertools

import numpy as np
import reference
from conftest import SUMS, UPRIGHT, random_boxes, two_scales

# Each shape is K boxes, N, C of the output, H, W and (PH, PW).  There are a whole and a partial
# block, one channel, a single row, more images than blocks, many bins, and more bins than are
# computed together.  The first shape is enough work for a team of threads.
SHAPES = {
    "blocks": (70, 2, 37, 26, 31, (3, 4)),
    "camera": (5, 1, 3, 40, 50, (9, 8)),
    "row": (6, 3, 1, 1, 23, (2, 2)),
    "cell": (5, 2, 16, 1, 1, (2, 3)),
    "wide": (4, 1, 2, 3, 200, (1, 30)),
    # large boxes in which few rows and columns are read
    "thin": (5, 2, 17, 60, 70, (2, 3)),
    "parts": (3, 1, 17, 12, 14, (34, 40)),
    "thin bins": (5, 1, 24, 60, 70, (2, 3)),
    # few channels, and bins wider than a lane vector
    "scene": (4, 2, 2, 40, 180, (2, 3)),
}


# of each operator: the rows of the definition, or else scales alone
SCALES = [{"spatial_scale": 0.5}, {"spatial_scale": (0.7, 0.25)}]
PARAMETERS = {row.name: reference.PARAMETERS.get(row.name, SCALES) for row in UPRIGHT}


VALUES = {
    "random": lambda rng, shape: rng.standard_normal(shape),
    # Large numbers cancel, so that only a bound relative to the absolute values can hold.
    "cancelling": lambda rng, shape: rng.choice([-1e6, 1e6], shape) + rng.standard_normal(shape),
    "of all magnitudes": lambda rng, shape: (
        rng.choice([-1, 1], shape) * 10.0 ** rng.uniform(-15, 15, shape)
    ),
    "positive": lambda rng, shape: rng.uniform(1, 2, shape),  # here roundings add up
    "zeros of either sign": lambda rng, shape: np.copysign(
        rng.integers(0, 2, shape), rng.standard_normal(shape)
    ),
}


def cases():
    """Yield each operator with each shape; parameters and values take turns."""
    values = itertools.cycle(VALUES)
    for name in SUMS:
        parameters = itertools.cycle(PARAMETERS[name])
        for shape in SHAPES:
            yield name, shape, next(values), next(parameters)


def make(rng, name, shape, values, parameters, dtype):
    """Return a map, boxes and a gradient of the output."""
    count, images, channels, height, width, bins = SHAPES[shape]
    of_input = channels
    if name.startswith("ps_"):
        channels = max(channels // 4, 1)
        of_input = channels * bins[0] * bins[1]
    vertical, horizontal = two_scales(parameters)
    extents = height / vertical, width / horizontal
    least = max(extents) / 2 if shape.startswith("thin") else 0.3
    boxes = random_boxes(rng, images, count, extents, dtype, least)
    x, g = (
        VALUES[values](rng, shape).astype(dtype)
        for shape in ((images, of_input, height, width), (count, channels, *bins))
    )
    return x, boxes, g


cache = {}


def definition(key, name, x, boxes, g, parameters):
    """Return what is expected of the output and of the gradient of the input, each with the sum of
    absolute values and the number of roundings of a sum.  It is computed once for all instruction
    sets.
    """
    if key not in cache:
        bins, dtype = g.shape[2:], x.dtype.type
        axes = [reference.axes(name, box, bins, x.shape[2:], dtype, **parameters) for box in boxes]
        read = [max(len(pixels) for axis in axes for pixels in axis[a]) for a in range(2)]
        by, bx = (
            max(
                sum(i in pixels for pixels in axis[a])
                for axis in axes
                for i in range(x.shape[2 + a])
            )
            for a in range(2)
        )
        most = np.bincount(boxes[:, 0].astype(int)).max()
        few = 4 * g.shape[1] * g.itemsize <= 64  # these may be added bin by bin
        forward, backward = (
            [function(name, array, boxes, size, **parameters) for array in (given, np.abs(given))]
            for function, given, size in (
                (reference.forward, x, bins),
                (reference.backward, g, x.shape),
            )
        )
        cache[key] = (*forward, sum(read)), (*backward, most * by * bx if few else by + bx + most)
    return cache[key]


def assert_within(actual, expected, magnitude, terms, dtype):
    """Check a sum of so many terms."""
    # The reference has weights of float64.  If this is the type, each rounds once more.
    more = 8 if dtype == np.float64 else 4
    bound = (terms + more) * np.finfo(dtype).eps / 2 * magnitude
    assert actual.dtype == dtype
    assert np.all(np.abs(actual - expected) <= bound + np.finfo(dtype).tiny)
