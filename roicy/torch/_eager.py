"""What the functions do before they call an operator, but for TorchScript, which skips this."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.modules.utils import _pair

from .. import _arguments
from . import _autograd, _onnx, _vmap  # noqa: F401  they register what the operators need
from ._boxes import rows_of


def _check_tensors(name: str, value: Any) -> None:
    if isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            _check_tensors(f"{name}[{i}]", item)
    elif not isinstance(value, Tensor):
        raise TypeError(f"{name}: {_arguments.spell_type(value)}, expected a torch.Tensor")


def check_flag(name: str, value: Any) -> bool:
    """Return a bool; the dispatcher would take other types for one."""
    return value if value is True or value is False else _arguments.flag(name, value)


def pool(operator: Any, input: Any, boxes: Any, output_size: Any, *parameters: Any) -> Any:
    """Check what the dispatcher would refuse without a name, and call the operator."""
    if type(input) is not Tensor:
        _check_tensors("features" if isinstance(input, (list, tuple)) else "input", input)
    if type(boxes) is not Tensor:
        _check_tensors("boxes", boxes)
    rows, maps = rows_of(boxes), input if isinstance(input, (list, tuple)) else (input,)
    if not maps:
        raise ValueError("features: an empty list, expected a map for each level")
    size = list(_pair(output_size))
    if _onnx.is_exporting():
        return _onnx.pool(operator.name().removeprefix("roicy::"), input, rows, size, *parameters)
    return _autograd.call(operator, (rows, *maps), input, rows, size, *parameters)
