"""Tensors as NumPy arrays and back, without a copy where that is possible."""

from __future__ import annotations

import importlib.util

import numpy as np
import torch
from torch import Tensor

from .._checks import _arguments, _boxes
from .._kernels import machine
from .._machine import _threads

HALVES = (torch.float16, torch.bfloat16)
HAS_ML_DTYPES = importlib.util.find_spec("ml_dtypes") is not None


def array(tensor: Tensor) -> np.ndarray:
    """Return an array of the same memory.

    NumPy has bfloat16 from ml_dtypes.  Without that package the array is a copy in float32, in
    which bfloat16 is computed in any case.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg() or tensor.is_conj():  # NumPy has no such bits
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        if not HAS_ML_DTYPES:
            return tensor.float().numpy()
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def check(devices: tuple[str, ...] = ("cpu", "meta"), /, **given: object) -> None:
    """Check that values are tensors, of devices that are known."""
    for name, value in given.items():
        if not isinstance(value, Tensor) or value.device.type not in devices:
            kind = value.device if isinstance(value, Tensor) else _arguments.spell_type(value)
            raise TypeError(f"{name}: {kind}, expected a torch.Tensor of the CPU")


def check_given(devices: tuple[str, ...] = ("cpu", "meta"), /, **given: object) -> None:
    """Check the same of values that are not None."""
    check(devices, **{name: value for name, value in given.items() if value is not None})


def arrays(**given: Tensor | None) -> dict[str, np.ndarray]:
    """Return arrays of the same memory, of the tensors that are given, by their names."""
    check_given(("cpu",), **given)
    return {name: array(value) for name, value in given.items() if value is not None}


def tensor(array: np.ndarray, dtype: torch.dtype) -> Tensor:
    """Return a tensor of the same memory, or a copy where it is to have another type."""
    if array.dtype.char == "E":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    result = torch.from_numpy(array)
    return result if result.dtype is dtype else result.to(dtype)


def pooled_type(maps: Tensor) -> torch.dtype:
    """Return the type of what is pooled from maps."""
    return maps.dtype if maps.dtype.is_floating_point else torch.float32


def gradient(grad: Tensor) -> np.ndarray:
    """Return a gradient as an array of a type that gradients are computed in."""
    return array(grad.float() if grad.dtype in HALVES else grad)


def boxes(rows: Tensor, images: int) -> np.ndarray:
    """Return boxes with their images as an array.

    An index that may have been rounded to that of another image is refused where the array is read,
    but one of bfloat16 here, since without ml_dtypes the array has another type.
    """
    largest = machine.LARGEST_EXACT["bfloat16"]
    if rows.dtype is torch.bfloat16 and images > largest + 1 and rows.dim() == 2:
        rounded = torch.nonzero((rows[:, :1] >= largest) & (rows[:, :1] < images))
        if len(rounded):
            k = int(rounded[0, 0])
            raise _boxes.rounded_index(k, int(rows[k, 0]), "bfloat16", images)
    return array(rows)


def threads(num_threads: int | None) -> int:
    """Return the threads of a call: by default no more than PyTorch, which in a worker has one."""
    if num_threads is not None:
        return num_threads
    return min(_threads.get_num_threads(), torch.get_num_threads())
