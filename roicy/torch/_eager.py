"""What the functions do before they call an operator, but for TorchScript, which skips this."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.fx
from torch import Tensor
from torch.nn.modules.utils import _pair

from .. import _arguments, _boxes, _levels
from . import _autograd, _onnx, _vmap  # noqa: F401  they register what the operators need
from ._operators import OPERATORS
from ._rows import rows_of


def _check_tensors(name: str, values: Any) -> None:
    for i, value in enumerate(values):
        _check_tensor(f"{name}[{i}]", value)


def _check_tensor(name: str, value: Any, expected: str = "a torch.Tensor") -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: {_arguments.spell_type(value)}, expected {expected}")


def _check_maps(input: Any, is_pyramid: bool) -> None:
    if not is_pyramid:
        _check_tensor("input", input)
    elif not isinstance(input, (list, tuple)) or not input:
        given = "an empty list" if input == [] else _arguments.spell_type(input)
        raise TypeError(f"features: {given}, expected a list of tensors, one for each level")
    else:
        _check_tensors("features", input)


def _check_boxes(boxes: Any) -> None:
    if isinstance(boxes, (list, tuple)):
        _check_tensors("boxes", boxes)
    else:
        _check_tensor("boxes", boxes, "a torch.Tensor or a list of them")


def _tensors_of(boxes: Any) -> Any:
    """Return tensors in place of nested lists of numbers, and all else as it is."""
    if not isinstance(boxes, (list, tuple)) or all([isinstance(item, Tensor) for item in boxes]):
        return boxes
    if not isinstance(boxes[0], Tensor) and _boxes.holds_rows(boxes):
        return _tensor_of("boxes", boxes)
    return [
        _tensor_of(f"boxes[{n}]", item) if isinstance(item, (list, tuple)) else item
        for n, item in enumerate(boxes)
    ]


def _tensor_of(name: str, rows: Any) -> Tensor:
    if torch.compiler.is_compiling():  # NumPy's arrays have no place in a graph
        return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), -1 if rows else 4)
    return torch.from_numpy(_boxes.boxes_array(name, rows))


def whole(value: Any) -> Any:
    """Return a whole float as an integer; the dispatcher checks all else."""
    if isinstance(value, (float, np.floating)):
        return _arguments.sampling_ratio(value)
    return value


def _checked(kind: str, name: str, value: Any) -> Any:
    """Return a value of a type of a schema; the dispatcher would take some others for it."""
    if kind == "bool" and value is not True and value is not False:
        return _arguments.flag(name, value)
    return whole(value) if name == "sampling_ratio" else value


def _pair_of(value: Any) -> list[float]:
    """Return the scales of y and x for a graph, in which they may be symbols that are not known."""
    vertical, horizontal = value if isinstance(value, (tuple, list)) else (value, value)
    return [float(vertical), float(horizontal)]


def _scales_of(value: Any) -> Any:
    """Return the scales of y and x, or one number, which the dispatcher makes both of."""
    if torch.compiler.is_compiling():
        return _pair_of(value)
    return value if type(value) is float else list(_arguments.spatial_scale(value))


def _scales_of_levels(value: Any, count: int) -> list[float]:
    """Return the scale of each level, or the two of each, one after the other."""
    is_sequence = isinstance(value, (list, tuple)) and len(value) == count
    if is_sequence and all([type(one) is float for one in value]):
        return list(value)
    if is_sequence and torch.compiler.is_compiling():
        return [scale for one in value for scale in _pair_of(one)]
    pairs = _levels.scales_of_levels(value, count)
    if all(vertical == horizontal for vertical, horizontal in pairs):
        return [vertical for vertical, _ in pairs]
    return [scale for pair in pairs for scale in pair]


@torch.fx.wrap
def pool(
    name: str, input: Any, boxes: Any, output_size: Any, spatial_scale: Any, *given: Any
) -> Tensor:
    """Check what the dispatcher would refuse without a name, and call the operator of that name."""
    own = OPERATORS[name]
    _check_maps(input, own.is_pyramid)
    boxes = _tensors_of(boxes)
    _check_boxes(boxes)
    maps = input if own.is_pyramid else (input,)
    rows = rows_of(boxes, maps[0].shape[0] if maps[0].dim() > 0 else 0, own.numbers)
    size = list(_pair(output_size))
    scales = (
        _scales_of_levels(spatial_scale, len(maps)) if own.is_pyramid else _scales_of(spatial_scale)
    )
    *values, num_threads = given
    named = zip(own.parameters.items(), values, strict=True)
    parameters = [_checked(kind, parameter, value) for (parameter, kind), value in named]
    parameters.append(num_threads)
    if _onnx.is_exporting():
        scales = [scales, scales] if type(scales) is float else scales
        return _onnx.pool(own, input, rows, size, scales, *parameters)
    return _autograd.call(own.pool, (rows, *maps), input, rows, size, scales, *parameters)
