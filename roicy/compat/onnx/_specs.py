"""What a node computes, in the numbers by which the provider does so without Python."""

from __future__ import annotations

from typing import NamedTuple

from ... import _table
from ..._checks import _levels
from ..._kernels.plan import Rule


class RoiSpec(NamedTuple):
    """Numbers of struct RoiNode of ``pyx/provider/nodes.pxd``."""

    operator: _table.Operator
    rule: Rule
    bins: tuple[int, int]  # (PH, PW); 1, 1 if an input says it
    scales: list[tuple[float, float]]  # (y, x) of each level
    # What `_levels.rule` returns of 1, 2, ... levels; none for a single map
    rules: tuple[tuple[int, int, int, float, float], ...] = ()
    # Places among the inputs, as in struct Inputs; -1: there is none
    maps: int = 0
    boxes: int = 1
    images: int = -1
    size: int = -1
    chosen: int = -1
    begin: int = -1
    numbers: tuple[int, ...] = ()  # of the levels that the input `chosen` has
    products: bool = False
    one_image: bool = False
    normalised: bool = False
    shifted: bool = False


class MaskSpec(NamedTuple):
    """What pasted masks are: numbers of struct MaskNode of ``pyx/provider/masks.pxd``."""

    rule: int  # of masks.RULES
    padding: int  # zeros around a mask, in its pixels
    truncated: bool = False  # boxes are of whole pixels
    size: tuple[int, ...] = ()  # of images; none: inputs say it


class LabelSpec(NamedTuple):
    """What labels of pixels are: numbers of struct LabelNode of ``pyx/provider/labels.pxd``."""

    classes: int  # the axis of classes
    rule: int
    first_of_one: bool
    nearest: int
    places: list[int]
    order: list[int]
    itemsize: int
    last: bool = False
    quantum: float = 0.0
    least: float = 0.0
    most: float = 0.0
    bounded: bool = False  # masks of each class
    threshold: float = 0.0


def of_levels(
    rule: Rule, bins: tuple[int, int], scales: list[float], canonical_scale: float = 224,
    canonical_level: int = 4, **places: int,
) -> RoiSpec | None:  # fmt: skip
    """Return the spec of a pyramid; None if Python has to say what is wrong with its scales."""
    if sorted(scales, reverse=True) != scales:
        return None
    pairs = [(scale, scale) for scale in scales]
    rules = tuple(
        _levels.rule(count, pairs[0], pairs[count - 1], canonical_scale, canonical_level)
        for count in range(1, len(pairs) + 1)
    )
    return RoiSpec(_table.ROI_ALIGN, rule, bins, pairs, rules, **({"maps": 1, "boxes": 0} | places))
