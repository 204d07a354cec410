"""The types of the arguments that public functions share.  Only type checkers import this file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsFloat, SupportsIndex

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar  # checkers know it without the package

# The type of a result.  Pyright takes the default for maps of integers, whose results are float32.
# mypy takes it also where it does not know the type of a map, so that there it has to be Any.
MYPY = False  # which mypy takes for True
if MYPY:
    Float = TypeVar("Float", bound=np.floating[Any], default=Any)
else:
    Float = TypeVar("Float", bound=np.floating[Any], default=np.float32)
Array = TypeVar("Array", covariant=True)


class SupportsArray(Protocol[Array]):
    """An array of NumPy, a tensor, or another object that becomes an array."""

    def __array__(self) -> Array: ...


class SupportsDLPack(Protocol):
    """An object of another library, and no array of NumPy: those have no hash."""

    def __dlpack__(self) -> Any: ...

    def __hash__(self) -> int: ...


class SupportsInterface(Protocol):
    """A picture of Pillow, for example."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


Readable = SupportsArray[NDArray[Any]] | SupportsDLPack | memoryview
Input = SupportsArray[NDArray[Float]] | NDArray[np.integer[Any]] | SupportsDLPack | memoryview
Gradient = SupportsArray[NDArray[Float]] | SupportsDLPack | memoryview
Picture = Readable | SupportsInterface
Rows = Readable | Sequence[Sequence[SupportsFloat]]
BoxesOfImages = Sequence[Rows]
Boxes = Rows | BoxesOfImages
Out = NDArray[Float] | NDArray[np.integer[Any]] | None
Size = SupportsIndex | tuple[SupportsIndex, SupportsIndex] | list[int] | NDArray[np.integer[Any]]
Scale = SupportsFloat | tuple[SupportsFloat, SupportsFloat] | list[float] | NDArray[Any]
Scales = Sequence[Scale] | NDArray[np.floating[Any]] | None
Ratio = SupportsIndex | float | np.floating[Any]
Indices = Readable | Sequence[SupportsIndex]
Counts = Indices | None
Shape = tuple[SupportsIndex, ...] | list[int]
Pair = tuple[SupportsIndex, SupportsIndex] | list[int]
Threads = SupportsIndex | None
Layout = Literal["NCHW", "NHWC"]
Numbers = SupportsFloat | Sequence[SupportsFloat] | NDArray[Any] | None
