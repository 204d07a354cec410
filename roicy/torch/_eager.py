"""What the functions do before they call an operator, but for TorchScript, which skips this."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.fx
from torch import Tensor
from torch.nn.modules.utils import _pair

from .._checks import _arguments, _boxes, _levels
from . import _autograd, _onnx, _vmap  # noqa: F401  they register what the operators need
from ._operators import OPERATORS
from ._script import rows_of


def _check(name: str, value: Any, expected: str = "a torch.Tensor") -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: {_arguments.spell_type(value)}, expected {expected}")
    return value


def _maps_of(input: Any, is_pyramid: bool) -> list[Tensor]:
    if not is_pyramid:
        return [_check("input", input)]
    if isinstance(input, list):
        input = list(input)  # the caller's may change meanwhile
    if not isinstance(input, (list, tuple)) or not input:
        given = "an empty list" if input == [] else _arguments.spell_type(input)
        raise TypeError(f"features: {given}, expected a list of tensors, one for each level")
    return [_check(f"features[{i}]", level) for i, level in enumerate(input)]


def _boxes_of(boxes: Any) -> Any:
    """Return a tensor, or a list of them; nested lists of numbers may stand for them."""
    if not isinstance(boxes, (list, tuple)):
        return _check("boxes", boxes, "a torch.Tensor or a list of them")
    boxes = list(boxes)
    if boxes and not isinstance(boxes[0], Tensor) and _boxes.holds_rows(boxes):
        return _tensor_of("boxes", boxes)
    return [
        _tensor_of(name, item) if isinstance(item, (list, tuple)) else _check(name, item)
        for name, item in ((f"boxes[{n}]", item) for n, item in enumerate(boxes))
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


def _checked(default: Any, name: str, value: Any) -> Any:
    """Return a value of the type of a default; the dispatcher would take some others for it."""
    if type(default) is bool and value is not True and value is not False:
        return _arguments.flag(name, value)
    return whole(value) if name == "sampling_ratio" else value


def _pair_of(value: Any) -> list[float]:
    """Return the scales of y and x."""
    if torch.compiler.is_compiling():  # they may be symbols that are not known
        vertical, horizontal = value if isinstance(value, (tuple, list)) else (value, value)
        return [float(vertical), float(horizontal)]
    return list(_arguments.spatial_scale(value))


def _scales_of_levels(value: Any, count: int) -> list[float]:
    """Return the scale of each level, or the two of each, one after the other."""
    value = list(value) if isinstance(value, (list, tuple)) else value
    if not isinstance(value, list) or len(value) != count:
        value = _levels.scales_of_levels(value, count)
    if all([type(one) is float for one in value]):
        return list(value)
    return [scale for one in value for scale in _pair_of(one)]


@torch.fx.wrap
def pool(
    name: str, input: Any, boxes: Any, output_size: Any, spatial_scale: Any, *given: Any
) -> Tensor:
    """Check what the dispatcher would refuse without a name, and call the operator of that name."""
    own = OPERATORS[name]
    maps, size = _maps_of(input, own.is_pyramid), list(_pair(output_size))
    rows = rows_of(_boxes_of(boxes), maps[0].shape[0] if maps[0].dim() > 0 else 0, own.numbers)
    if own.is_pyramid:
        scales: Any = _scales_of_levels(spatial_scale, len(maps))
    elif type(spatial_scale) is float and not torch.compiler.is_compiling():
        scales = spatial_scale  # the dispatcher makes two of one number
    else:
        scales = _pair_of(spatial_scale)
    *values, num_threads = given
    if len(values) != len(own.parameters):
        raise TypeError(
            f"{name}: {len(values)} values, expected those of {', '.join(own.parameters)}; see 'A "
            "keyword of an operator' in pyx/README.md"
        )
    named = zip(own.parameters.items(), values, strict=False)
    parameters = [_checked(default, parameter, value) for (parameter, default), value in named]
    parameters.append(num_threads)
    if _onnx.is_exporting():
        scales = _pair_of(scales) if type(scales) is float else scales
        return _onnx.pool(own, input, rows, size, scales, *parameters)
    return _autograd.call(own.pool, (rows, *maps), own.pack(maps), rows, size, scales, *parameters)
