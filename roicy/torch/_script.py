"""
What TorchScript computes before it calls an operator; ``_eager.py`` has the checks of other calls.

Schemas know neither alternatives nor lists of pairs: an operator takes the two scales of y and x,
and one of a pyramid the scales of all levels, or the two of each level, one after the other.
"""

# torch.jit.script reads annotations: they are not postponed here, and are spelled as it knows them

from typing import List, Tuple, Union

import torch
from torch import Tensor

from ._rows import rows_of


def given(
    boxes: Union[Tensor, List[Tensor]], images: int, size: List[int],
    scale: Union[float, int, Tuple[float, float], List[float]], numbers: int = 4,
) -> Tuple[Tensor, List[int], List[float]]:  # fmt: skip
    """Return boxes, output size and scale as operators take them; numbers: as of `rows_of`."""
    if isinstance(scale, (float, int)):
        scales = [float(scale), float(scale)]
    elif isinstance(scale, Tuple[float, float]):
        scales = [scale[0], scale[1]]
    else:
        scales = scale  # the operator refuses another number of them
    return rows_of(boxes, images, numbers), size, scales


def given_of_levels(
    boxes: Union[Tensor, List[Tensor]], features: List[Tensor], size: List[int],
    scale: Union[List[float], List[Tuple[float, float]]],
) -> Tuple[Tensor, List[int], List[float]]:  # fmt: skip
    """Return the same for the maps of a pyramid."""
    scales: List[float] = []
    if isinstance(scale, List[float]):
        scales += scale
        of_level = 1
    else:
        for vertical, horizontal in scale:
            scales += [vertical, horizontal]
        of_level = 2
    torch._assert(
        len(scales) == of_level * len(features), "spatial_scale: expected a scale for each level"
    )
    return rows_of(boxes, features[0].size(0)), size, scales
