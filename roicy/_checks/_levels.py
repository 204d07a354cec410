"""The levels of a call: one map, or those of a feature pyramid.

A single map is a pyramid of one level, whose errors say "input" in place of "features[0]".  Nothing
here asks where arrays lie: `check` is the function of a backend that checks an array.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from . import _arguments
from ._arguments import Layout
from ._names import INPUT, INPUT_SHAPE, SPATIAL_SCALE

Shape = tuple[int, int, int, int]  # (N, C, H, W)
Scale = tuple[float, float]  # (vertical, horizontal)
Pyramid = tuple[Any, Any, Any]  # canonical_scale, canonical_level, image_size
Check = Callable[[str, Any, str], Any]


def level_of_scale(scale: Scale) -> int:
    """Return the level of a map of that scale, of the geometric mean where there are two."""
    vertical, horizontal = scale
    # Halves are rounded up: rounded to even, the levels of pairs such as (1/2, 1/4) would coincide.
    return math.floor(0.5 - 0.5 * (math.log2(vertical) + math.log2(horizontal)))


def rule(
    count: int, finest: Scale, coarsest: Scale, canonical_scale: float, canonical_level: int
) -> tuple[int, int, int, float, float]:
    """Return the numbers of struct level_rule of pyx/plan/rules_levels.h, for maps of these scales.

    Levels go from the finest map's to the coarsest map's, as in torchvision.  Where there are more
    maps than levels, the last maps have no boxes.  Areas are rounded, so a box that is up to
    2**1e-6 times too small for a level still belongs to it.
    """
    level = level_of_scale(finest)
    last = min(count - 1, level_of_scale(coarsest) - level)
    return last, level, canonical_level, canonical_scale, 1e-6


def _numbered(name: str, values: Any, count: int | None = None) -> dict[str, Any]:
    """Return the values of a list by their names; none where it is no list, or not so long."""
    named = {}
    if isinstance(values, (list, tuple)):
        named = {f"{name}[{i}]": value for i, value in enumerate(tuple(values))}
    return named if count in (None, len(named)) else {}


def maps(value: Any, layout: Layout, of_pyramid: bool, check: Check) -> dict[str, Any]:
    """Check the map of a call, or those of its levels: the arrays as they are, by their names."""
    expected = layout.spell("N", "C", "H", "W")
    if not of_pyramid:
        return {INPUT: check(INPUT, value, expected)}
    levels = _numbered("features", value)
    if not levels:
        given = _arguments.spell_type(value)
        raise TypeError(f"features: {given}, expected a list of arrays, one for each level")
    named = {name: check(name, level, expected) for name, level in levels.items()}
    dtype = named["features[0]"].dtype
    for name, level in named.items():
        if level.dtype != dtype:
            raise TypeError(
                f"{name}: dtype {level.dtype.name}, expected {dtype.name}, as features[0] has"
            )
    return named


def shapes_of(named: dict[str, Any], layout: Layout) -> dict[str, Shape]:
    """Return the shapes of maps, by their names."""
    return {
        name: _arguments.extents(name, layout.nchw(array).shape) for name, array in named.items()
    }


def input_shapes(value: Any, layout: Layout, of_pyramid: bool) -> dict[str, Shape]:
    """Check the shapes that gradients of the maps shall have, by their names."""
    if not of_pyramid:
        return {INPUT_SHAPE: _arguments.input_shape(INPUT_SHAPE, value, layout)}
    levels = _numbered("input_shapes", value)
    if not levels:
        raise ValueError(f"input_shapes: {value!r}, expected a shape for each level")
    return {name: _arguments.input_shape(name, shape, layout) for name, shape in levels.items()}


def outs(out: Any, of_pyramid: bool, count: int) -> dict[str, Any]:
    """Check that there is an array for the gradient of each level, or none: by their names."""
    if not of_pyramid:
        return {"out": out}
    levels = _numbered("out", [None] * count if out is None else out, count)
    if not levels:
        raise ValueError(f"out: expected a list of {count} arrays, one for each level")
    return levels


def gradient(grad_output: Any, layout: Layout, check: Check) -> Any:
    """Check the gradient of an output, but for what its shape should be; return it as it is."""
    grad = check("grad_output", grad_output, layout.spell("K", "C", "PH", "PW"))
    if 0 in layout.nchw(grad).shape[2:]:
        raise ValueError(f"grad_output: shape {grad.shape}, expected at least one bin")
    return grad


def check_levels(shapes: dict[str, Shape]) -> None:
    """Check that the maps of all levels have as many images and channels."""
    (first, (images, channels, _, _)), *_ = shapes.items()
    for name, (n, c, _, _) in shapes.items():
        if (n, c) != (images, channels):
            expected = f"{images} of {channels}, as {first} has"
            raise ValueError(f"{name}: {n} images of {c} channels, expected {expected}")


def scales(value: Any, pyramid: Pyramid | None, shapes: dict[str, Shape]) -> list[Scale]:
    """Return the scale of each level, and check that the shapes of levels go together."""
    if pyramid is None:
        return [_arguments.spatial_scale(value)]
    check_levels(shapes)
    if value is None:
        found, follows = _scales_from_heights(pyramid[2], shapes), ", as follows from image_size"
    elif pyramid[2] is not None:
        raise ValueError(f"image_size: expected None, since {SPATIAL_SCALE} is given")
    else:
        found, follows = scales_of_levels(value, len(shapes)), ""
    if any(
        coarser[0] > finer[0] or coarser[1] > finer[1]
        for finer, coarser in itertools.pairwise(found)
    ):
        shown = [scale[0] if scale[0] == scale[1] else scale for scale in found]
        raise ValueError(
            f"{SPATIAL_SCALE}: {shown}{follows}; "
            "expected levels from fine to coarse, no scale above the one before"
        )
    return found


def scales_of_levels(value: Any, count: int) -> list[Scale]:
    """Return a scale for each level, of numbers or pairs."""
    value = _arguments.items(SPATIAL_SCALE, value)
    if not isinstance(value, (list, tuple)) or len(value) != count:
        raise ValueError(
            f"{SPATIAL_SCALE}: {value!r}, expected a scale for each of the {count} levels"
        )
    return [_arguments.spatial_scale(scale) for scale in value]


def check_same_scales(scales: list[Scale]) -> None:
    """Check that y and x have one scale: with two, boxes that are turned would not stay so."""
    for scale in scales:
        if scale[0] != scale[1]:
            raise ValueError(
                f"{SPATIAL_SCALE}: {scale}, expected one number for boxes that are turned"
            )


def _scales_from_heights(image_size: Any, shapes: dict[str, Shape]) -> list[Scale]:
    """Return the powers of two that are closest to the heights of maps divided by the image's."""
    image_size = _arguments.items("image_size", image_size)
    if not _arguments.is_pair(image_size):
        raise ValueError(
            f"image_size: {image_size!r}, expected (height, width), or else {SPATIAL_SCALE}"
        )
    height, _ = (_arguments.integer("image_size", side, 1, 2**62) for side in image_size)
    for name, (_, _, rows, _) in shapes.items():
        if rows == 0:
            raise ValueError(
                f"{name}: a map without rows, of which no scale follows; expected {SPATIAL_SCALE}"
            )
    return [(2.0 ** round(math.log2(rows / height)),) * 2 for _, _, rows, _ in shapes.values()]


def canonical(pyramid: Pyramid) -> tuple[float, int]:
    """Return the side of a box, and the level of such boxes."""
    canonical_scale, canonical_level, _ = pyramid
    side = _arguments.scale(canonical_scale, "canonical_scale")
    return side, _arguments.integer("canonical_level", canonical_level, -1000, 1000)


def check_gradient(call: Any, grad: Any, of_pyramid: bool) -> None:
    """Check the shape of grad_output."""
    expected = call.output_shape
    if grad.shape != expected:
        maps = f"maps of {call.map_size()[1]} channels"
        if not of_pyramid:
            maps = f"{INPUT} of shape {call.layout.shape(*call.map_size())}"
        expected = f"{expected}, for {call.count} boxes and {maps}"
        raise ValueError(f"grad_output: shape {grad.shape}, expected {expected}")
