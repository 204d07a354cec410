"""The operators, a row each: what tells one from another.

=================  =====================================  ============  ==========================
operator           bins and weights along an axis         reduction     input channel of (c, p, q)
=================  =====================================  ============  ==========================
roi_align          sampled: mean of bilinear samples      weighted sum  c
ps_roi_align       sampled                                weighted sum  (c * PH + p) * PW + q
prroi_pool         integrated: exact bilinear integral    weighted sum  c
ps_prroi_pool      integrated                             weighted sum  (c * PH + p) * PW + q
ps_roi_pool        uniform: whole pixels, equal weights   weighted sum  (c * PH + p) * PW + q
roi_align_rotated  rotated: sampled, of both axes at once weighted sum  c
roi_pool           quantised: whole pixels                maximum       c
roi_align_max      samples, one by one                    maximum       c
=================  =====================================  ============  ==========================

The second column is a rule of ``pyx/plan/rules.h``, the third a file of ``pyx/kernels``, the last
the flag `position_sensitive`.

`R_FCN_POOL` is only of :mod:`roicy.compat`: it is ps_roi_pool with other bins, those of whole
pixels that a box touches whose corners are rounded before they are scaled.  `CROP_AND_RESIZE` takes
one bilinear sample a bin, or the nearest pixel, and has a signature of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _arguments
from ._kernels.plan import RULES

MAX_SAMPLES = 1024  # of a bin and axis, where each sample is looked at: a bin costs their square

# kind, sampling_ratio, aligned, at_least_one, inclusive, clockwise: struct rule of rules.h
Rule = tuple[int, int, bool, bool, bool, bool]
CORNERS = _arguments.CORNERS


class Reduction(NamedTuple):
    """What a bin takes of its pixels: the purposes of plans, by the passes that there are."""

    forward: str
    of_maps: str  # the gradient of the maps, which are not read
    with_maps: str  # the gradient that reads the maps: of boxes, or of the maps themselves


WEIGHTED_SUM = Reduction("forward", "grad_input", "grad_boxes")
MAX_PIXEL = Reduction("max_pixel", "max_pixel_grad", "")
MAX_SAMPLE = Reduction("max_sample", "", "max_sample_grad")


class Operator(NamedTuple):
    """One row of the table."""

    name: str
    rule: Callable[..., Rule]  # checks the operator's own parameters and makes a rule of them
    reduction: Reduction
    position_sensitive: bool = False  # each bin reads input channels of its own
    has_box_gradients: bool = False
    box: tuple[str, ...] = CORNERS  # the numbers of a box


def _sampled(
    sampling_ratio: Any, aligned: Any, kind: str = "sampled", most: int = 2**31 - 1
) -> Rule:
    aligned = _arguments.flag("aligned", aligned)
    ratio = _arguments.sampling_ratio(sampling_ratio, most)
    return (RULES[kind], ratio, aligned, not aligned, False, False)


def _rotated(sampling_ratio: Any, aligned: Any, clockwise: Any) -> Rule:
    rule = _sampled(sampling_ratio, aligned, "rotated", MAX_SAMPLES)
    return (*rule[:5], _arguments.flag("clockwise", clockwise))


def _without_parameters(kind: str, inclusive: bool = False) -> Callable[[], Rule]:
    rule = (RULES[kind], 0, False, False, inclusive, False)
    return lambda: rule


def _crop(method: Any, inclusive: bool = False) -> Rule:
    _arguments.choice("method", method, ("bilinear", "nearest"))
    return (RULES[method], 1, False, False, inclusive, False)


ROI_ALIGN = Operator("roi_align", _sampled, WEIGHTED_SUM, has_box_gradients=True)
PS_ROI_ALIGN = ROI_ALIGN._replace(
    name="ps_roi_align", rule=functools.partial(_sampled, aligned=True), position_sensitive=True
)
ROI_ALIGN_ROTATED = ROI_ALIGN._replace(
    name="roi_align_rotated", rule=_rotated, box=_arguments.TURNED
)
PRROI_POOL = ROI_ALIGN._replace(name="prroi_pool", rule=_without_parameters("integrated"))
PS_PRROI_POOL = PRROI_POOL._replace(name="ps_prroi_pool", position_sensitive=True)
CROP_AND_RESIZE = ROI_ALIGN._replace(name="crop_and_resize", rule=_crop)
PS_ROI_POOL = Operator(
    "ps_roi_pool", _without_parameters("uniform"), WEIGHTED_SUM, position_sensitive=True
)
R_FCN_POOL = PS_ROI_POOL._replace(name="psroi_pool", rule=_without_parameters("rounded"))
ROI_POOL = Operator("roi_pool", _without_parameters("quantised", inclusive=True), MAX_PIXEL)
ROI_ALIGN_MAX = Operator(
    "roi_align_max",
    functools.partial(_sampled, kind="single_samples", most=MAX_SAMPLES),
    MAX_SAMPLE,
)
