"""The operators, a row each: what tells one from another.

docs/operators.md shows them as a table.  A call takes an operator and a rule: a kind of
``pyx/plan/rules.h``, which says where bins lie and what pixels weigh, with its parameters.  The
rule `ROUNDED` is only of :mod:`roicy.compat`, for ps_roi_pool of boxes whose corners are rounded
before they are scaled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ._checks import _arguments
from ._checks._names import CLOCKWISE
from ._kernels.plan import Rule

MAX_SAMPLES = 1024  # of a bin and axis, where each sample is looked at: a bin costs their square
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
    """One row of the table, but for its rule."""

    name: str
    reduction: Reduction = WEIGHTED_SUM
    position_sensitive: bool = False  # each bin reads input channels of its own
    has_box_gradients: bool = False
    box: tuple[str, ...] = CORNERS  # the numbers of a box


ROI_ALIGN = Operator("roi_align", has_box_gradients=True)
PS_ROI_ALIGN = ROI_ALIGN._replace(name="ps_roi_align", position_sensitive=True)
ROI_ALIGN_ROTATED = ROI_ALIGN._replace(name="roi_align_rotated", box=_arguments.TURNED)
PRROI_POOL = ROI_ALIGN._replace(name="prroi_pool")
PS_PRROI_POOL = PS_ROI_ALIGN._replace(name="ps_prroi_pool")
CROP_AND_RESIZE = ROI_ALIGN._replace(name="crop_and_resize")
PS_ROI_POOL = Operator("ps_roi_pool", position_sensitive=True)
ROI_POOL = Operator("roi_pool", MAX_PIXEL)
ROI_ALIGN_MAX = Operator("roi_align_max", MAX_SAMPLE)


INTEGRATED = Rule("integrated")
UNIFORM = Rule("uniform")
ROUNDED = Rule("rounded")
QUANTISED = Rule("quantised", inclusive=True)


def sampled(
    sampling_ratio: Any, aligned: Any, kind: str = "sampled", most: int = _arguments.MOST_RATIO
) -> Rule:
    """Check the parameters of roi_align, and return its rule."""
    aligned = _arguments.flag("aligned", aligned)
    ratio = _arguments.sampling_ratio(sampling_ratio, most)
    return Rule(kind, ratio, aligned)


def single_samples(sampling_ratio: Any, aligned: Any) -> Rule:
    """Check the parameters of roi_align_max, and return its rule."""
    return sampled(sampling_ratio, aligned, "single_samples", MAX_SAMPLES)


def rotated(sampling_ratio: Any, aligned: Any, clockwise: Any) -> Rule:
    """Check the parameters of roi_align_rotated, and return its rule."""
    aligned = _arguments.flag("aligned", aligned)
    ratio = _arguments.sampling_ratio(sampling_ratio, MAX_SAMPLES)
    clockwise = _arguments.flag(CLOCKWISE, clockwise)
    return Rule("rotated", ratio, aligned, clockwise=clockwise)


def one_sample(method: Any, ends_on_corner: bool = False) -> Rule:
    """Check the parameters of crop_and_resize, and return its rule."""
    method = _arguments.choice("method", method, _arguments.METHODS)
    return Rule(method, 1, ends_on_corner=ends_on_corner)
