"""Calls of deformable_attention and of its gradients."""

from __future__ import annotations

import numpy as np
import reference_attention as reference

from roicy._checks import _arguments

from .judged import EPS, judged, largest
from .strings import COORDINATES, SMALL, Buffer, disguised, values

TYPES = (np.dtype("f4"), np.dtype("f8"), *(dtype for dtype in SMALL if dtype.kind != "u"))
FORMS = (list, tuple, np.array)
# Extents, of which few are 0.
SIDES, IMAGES, QUERIES = (3, 1, 2, 5, 9, 4, 2, 0), (2, 1, 3, 2, 1, 3, 2, 0), (3, 1, 17, 5, 2, 20, 0)
HEADS, CHANNELS = (2, 1, 3, 2, 1, 3, 0), (4, 1, 7, 16, 20, 33, 40, 32, 0)
POINTS = (4, 1, 2, 3, 70, 0)  # of a level: 70 are more than are found at once
WRONG_SHAPES = (
    [], (), [(3,)], [(2.0, 3)], "ab", [(2**31, 1)], [(2**62, 2**62)], None, [None], [(1, (2, 3))],
    [(True, 2)], np.array(6), [(-1, -6)], {2: 3},
)  # fmt: skip
WRONG_POINTS = ([], [1] * 9, [-1], [2**40], "4", np.array(4), [[1, 2]], [1.5], [None], 4, {4: 4})
MOST_POINTS = 64  # that are compared with the definition, which is slow


def attention_call(data) -> str:
    """Make a call, and return how it ended."""
    shapes = [(data.of(SIDES), data.of(SIDES)) for _ in range(1 + data.below(3))]
    n, q, m, d = (data.of(extents) for extents in (IMAGES, QUERIES, HEADS, CHANNELS))
    own = [data.of(POINTS) for _ in shapes] if data.below(2) else None
    form = (sum(own),) if own else (len(shapes), data.of(POINTS))

    def drawn(*shape):
        with np.errstate(all="ignore"):
            return values(data, shape, np.dtype("f8")).astype(data.of(TYPES))

    value = drawn(n, sum(height * width for height, width in shapes), m, d)
    arguments = {
        "value": disguised(data, value),
        "shapes": data.of(WRONG_SHAPES) if data.rarely() else data.of(FORMS)(shapes),
        "locations": disguised(data, places(data, (n, q, m, *form, 2))),
        "weights": disguised(data, drawn(n, q, m, *form)),
        "points": data.of(WRONG_POINTS) if data.rarely() else own and data.of(FORMS)(own),
        "mode": data.ordinary(("bilinear", "bilinear", "nearest", "bicubic", None), 3),
        "padding": data.ordinary(("zeros", "border", "reflection", 0), 2),
        "align_corners": data.ordinary((False, True, 1, None), 2),
        "num_threads": data.ordinary((1, 2, 3, 8, 0, None), 4),
    }
    name, buffer = "deformable_attention", None
    if data.below(2):
        name += "_backward"
        arguments["grad_output"] = disguised(data, drawn(n, q, m * d))
    elif data.below(3) == 2:
        dtype = data.of((value.dtype, _arguments.computed(value.dtype)))
        buffer = Buffer(data, (n, 1, q, m * d), dtype)
        arguments["out"] = buffer.array[:, 0] if isinstance(buffer.array, np.ndarray) else [1]
    return judged(name, arguments, buffer, lambda ends: check_sampled(arguments, ends), n)


def places(data, shape):
    """Return locations around levels, whose positions no type rounds, and a few anywhere."""
    array = values(data, shape, np.dtype("f8")) / 8 + 0.5
    for _ in range(data.below(4) if array.size else 0):
        array.reshape(-1)[data.below(256) * 97 % array.size] = data.of(COORDINATES)
    with np.errstate(all="ignore"):
        return array.astype(data.of(TYPES))


def check_sampled(arguments, ends):
    """Check results beside those of the first instruction set, and of few points, the definition's
    too.
    """
    names = ("value", "locations", "weights", "grad_output")
    computed = _arguments.computed(arguments["value"].dtype)
    with np.errstate(all="ignore"):
        value, at, by, grad = (
            np.asarray(arguments.get(name, 0)).astype(computed) for name in names
        )
        rights = [listed(ends[0])]
        if by.size <= MOST_POINTS and not np.abs(at[np.isfinite(at)]).max(initial=0) > 1e30:
            keys = ("points", "mode", "padding", "align_corners")
            given = {key: arguments[key] for key in keys}
            if "grad_output" in arguments:
                given["grad_output"] = grad
            right = reference.deformable_attention(value, arguments["shapes"], at, by, **given)
            rights.append(listed(right))
        # what the numbers of each result are at most
        most, product = largest(by), largest(value) * largest(grad) * value.shape[3]
        points = int(np.prod(by.shape[3:]))
        bounds = [largest(value) * most * points]
        if "grad_output" in arguments:
            steps = 2 * max(map(max, arguments["shapes"]))
            total = float(np.abs(grad.astype(np.float64)).sum())
            bounds = [total * most * points, product * most * steps, product]
    for end in ends:
        for right in rights:
            for found, expected, bound in zip(listed(end), right, bounds, strict=True):
                check_near(found, expected, bound, EPS[computed.name])


def listed(result):
    return list(result) if isinstance(result, tuple) else [result]


def check_near(found, expected, bound, eps):
    """Check sums of numbers that are at most `bound`, and not numbers where others are not."""
    assert found.shape == expected.shape
    is_small, dtype = found.dtype.itemsize == 2, found.dtype.name
    if bound < (6e4 if is_small else 1e30):
        gone = np.isnan(expected)
        assert (np.isnan(found) == gone).all()
        with np.errstate(all="ignore"):
            found, expected = (
                np.where(gone, 0, one).astype(np.float64) for one in (found, expected)
            )
        # Of sums of some hundred terms, which are rounded once more to the type of the result.
        rounding = (1e3 * eps + EPS[dtype]) * bound
        assert largest(found - expected) <= rounding + (1e-7 if is_small else 1e-40)
