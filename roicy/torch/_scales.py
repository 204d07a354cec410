"""
Scales as the operators take them, for TorchScript; ``_eager.py`` has the checks of other calls.

Schemas know neither alternatives nor lists of pairs: an operator takes the two scales of y and x,
and one of a pyramid the scales of all levels, or the two of each level, one after the other.
"""

# torch.jit.script reads annotations: they are not postponed here, and are spelled as it knows them

from typing import List, Tuple, Union

import torch


def scales_of(spatial_scale: Union[float, int, Tuple[float, float], List[float]]) -> List[float]:
    """Return the scales of y and x."""
    if isinstance(spatial_scale, (float, int)):
        both = float(spatial_scale)
        return [both, both]
    if isinstance(spatial_scale, Tuple[float, float]):
        return [spatial_scale[0], spatial_scale[1]]
    return spatial_scale  # the operator refuses another number of them


def scales_of_levels(
    spatial_scale: Union[List[float], List[Tuple[float, float]]], count: int
) -> List[float]:
    """Return the scales of levels, of which there are so many."""
    scales: List[float] = []
    if isinstance(spatial_scale, List[float]):
        given = len(spatial_scale)
        scales += spatial_scale
    else:
        given = len(spatial_scale)
        for vertical, horizontal in spatial_scale:
            scales += [vertical, horizontal]
    torch._assert(given == count, "spatial_scale: expected a scale for each level")
    return scales
