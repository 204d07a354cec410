"""What TorchScript computes before it calls an operator; ``_eager.py`` has the checks of other
calls.

Boxes of either format become rows [batch_index, x1, y1, x2, y2].  The index has to be exact in the
type that it shares with the coordinates.  float16 holds whole numbers to 2048, bfloat16 to 256 and
int8 to 127, so rows are made in a wider type where needed.

Schemas know neither alternatives nor lists of pairs: an operator takes the two scales of y and x,
and one of a pyramid the scales of all levels, or the two of each level, one after the other.
"""

# torch.jit.script reads annotations: they are not postponed here, and are spelled as it knows them

from typing import List, Tuple, Union

import torch
from torch import Tensor


def exact_type(dtype: torch.dtype, images: int) -> torch.dtype:
    """Return the type for rows whose coordinates have type `dtype` and whose images are so many."""
    if dtype in (torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32):
        return torch.int64
    if images > 2**24 and dtype in (torch.float16, torch.bfloat16, torch.float32):
        return torch.float64
    if dtype in (torch.float16, torch.bfloat16):
        return torch.float32
    return dtype


def _with_image(corners: Tensor, image: int, images: int) -> Tensor:
    dtype = exact_type(corners.dtype, images)
    column = torch.full_like(corners[:, :1], image, dtype=dtype)
    return torch.cat([column, corners.to(dtype)], dim=1)


def _of_columns(boxes: Tensor, columns: int) -> Tensor:
    """Return boxes; a tensor of no numbers, such as ``torch.tensor([])``, has no rows of these."""
    if boxes.dim() == 1 and boxes.size(0) == 0:
        return boxes.reshape(0, columns)
    return boxes


def rows_of(boxes: Union[Tensor, List[Tensor]], images: int, numbers: int = 4) -> Tensor:
    """Return boxes of any format as (K, 1 + numbers); images: how many the input has."""
    box = "cx, cy, w, h, angle" if numbers == 5 else "x1, y1, x2, y2"
    if isinstance(boxes, Tensor):
        boxes = _of_columns(boxes, 1 + numbers)
        columns = boxes.size(-1) if boxes.dim() == 2 else 0
        if columns == numbers and images == 1:
            return _with_image(boxes, 0, 1)
        if columns != 1 + numbers:
            raise AssertionError(
                f"boxes: expected a Tensor[K, {1 + numbers}] with rows [batch_index, {box}], a "
                f"list with a Tensor[L, {numbers}] for each image, or a Tensor[K, {numbers}] where "
                "there is one image"
            )
        return boxes
    rows = []
    for n, listed in enumerate(boxes):
        corners = _of_columns(listed, numbers)
        if corners.dim() != 2 or corners.size(-1) != numbers:
            raise AssertionError(f"boxes: expected a List[Tensor[L, {numbers}]] with rows [{box}]")
        rows.append(_with_image(corners, n, len(boxes)))
    if len(rows) == 0:
        return torch.zeros((0, 1 + numbers))
    return torch.cat(rows, dim=0)


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
