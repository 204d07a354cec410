"""Calls of deformable attention for tests."""

SHAPES = ((5, 7), (3, 4), (1, 2))


RULES = {
    "models": {},
    "corners": {"align_corners": True},
    "border": {"padding": "border"},
    "border-corners": {"padding": "border", "align_corners": True},
    "nearest": {"mode": "nearest"},
    "nearest-border": {"mode": "nearest", "padding": "border"},
}


def problem(
    rng, dtype, shapes=SHAPES, points=None, images=2, queries=5, heads=3, channels=7, each=4
):
    """Return value, locations, weights and a gradient.

    Locations, some of which are off the levels, are multiples of 1/64, so that positions are the
    same in both types, and some lie on pixels and half way between them.
    """
    form = (len(shapes), each) if points is None else (sum(points),)
    pixels = sum(height * width for height, width in shapes)
    value = rng.standard_normal((images, pixels, heads, channels))
    locations = rng.integers(-20, 84, (images, queries, heads, *form, 2)) / 64
    weights = rng.random((images, queries, heads, *form))
    grad = rng.standard_normal((images, queries, heads * channels))
    return [array.astype(dtype) for array in (value, locations, weights, grad)]
