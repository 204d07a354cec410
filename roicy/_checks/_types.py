"""The types of the arguments that public functions share.

Annotations name them as ``t.Boxes``.  ``import roicy`` does not import this file, which would take
time: ``_names.py`` does, when a program evaluates an annotation.  Then pydantic and
beartype check the class of a value, and the functions themselves what is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType

from typing import (  # isort: skip
    TYPE_CHECKING, Annotated, Any, Literal, Protocol, SupportsFloat, SupportsIndex, Union, get_args,
    get_origin, runtime_checkable,
)  # fmt: skip

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike as DTypeLike
    from numpy.typing import NDArray as NDArray
    from typing_extensions import TypeVar  # checkers know it without the package

    Integers = list[int]
    Numerals = list[float]
else:
    from typing import TypeVar

    DTypeLike = Any
    Scalar = TypeVar("Scalar", bound=np.generic)
    NDArray = np.ndarray[Any, np.dtype[Scalar]]
    Integers = list[SupportsIndex]
    Numerals = list[SupportsFloat]

# The type of a result.  Pyright takes the default for maps of integers, whose results are float32.
# mypy takes it also where it does not know the type of a map, so that there it has to be Any.
MYPY = False  # which mypy takes for True
if MYPY:
    Float = TypeVar("Float", bound=np.floating[Any], default=Any)
elif TYPE_CHECKING:
    Float = TypeVar("Float", bound=np.floating[Any], default=np.float32)
else:
    Float = TypeVar("Float", bound=np.generic)
Array = TypeVar("Array", covariant=True)


@runtime_checkable
class SupportsArray(Protocol[Array]):
    """An array of NumPy, a tensor, or another object that becomes an array."""

    def __array__(self) -> Array: ...


@runtime_checkable
class SupportsDLPack(Protocol):
    """An object of another library, and no array of NumPy: those have no hash."""

    def __dlpack__(self) -> Any: ...

    def __hash__(self) -> int: ...


@runtime_checkable
class SupportsInterface(Protocol):
    """A picture of Pillow, for example."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class _ByClass:
    """Has pydantic check the class of a value alone, of types that it does not know."""

    def __get_pydantic_core_schema__(self, hint: Any, _: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.is_instance_schema(tuple(self._classes(hint)))

    def _classes(self, hint: Any) -> list[Any]:
        origin = get_origin(hint)
        if origin in (Union, UnionType):
            return [one for member in get_args(hint) for one in self._classes(member)]
        return [origin or hint]


_OTHERS = [*globals()]
Readable = SupportsArray[NDArray[Any]] | SupportsDLPack | memoryview
Input = SupportsArray[NDArray[Float]] | NDArray[np.integer[Any]] | SupportsDLPack | memoryview
Gradient = SupportsArray[NDArray[Float]] | SupportsDLPack | memoryview
Quantised = Readable | tuple[Readable, SupportsFloat, SupportsFloat]
Picture = Readable | SupportsInterface
Rows = Readable | Sequence[Sequence[SupportsFloat]]
BoxesOfImages = Sequence[Rows]
Boxes = Rows | BoxesOfImages
AnyArray = NDArray[Any]
Out = NDArray[Float] | NDArray[np.integer[Any]] | None
Outs = Sequence[NDArray[Float]] | None
Index = SupportsIndex
Number = SupportsFloat
Size = SupportsIndex | tuple[SupportsIndex, SupportsIndex] | Integers | NDArray[np.integer[Any]]
Scale = SupportsFloat | tuple[SupportsFloat, SupportsFloat] | Numerals | NDArray[Any]
Scales = Sequence[Scale] | NDArray[np.floating[Any]] | None
Ratio = SupportsIndex | float | np.floating[Any]
Indices = Readable | Sequence[SupportsIndex]
Counts = Indices | None
Shape = tuple[SupportsIndex, ...] | Integers
Pair = tuple[SupportsIndex, SupportsIndex] | Integers
Threads = SupportsIndex | None
Numbers = SupportsFloat | Sequence[SupportsFloat] | Readable | None
Frames = Picture | Sequence[Picture | tuple[Picture, ...]]
BoxesOfFrames = Readable | Sequence[Any]
Quantization = tuple[SupportsFloat, SupportsIndex] | None
SizeDict = dict[str, SupportsIndex]
Content = Readable | Sequence[SupportsIndex] | Sequence[Sequence[SupportsIndex]] | None
Extents = Readable | Sequence[Readable | Sequence[SupportsIndex]]
NumberRow = Sequence[SupportsFloat] | NDArray[Any] | None
if not TYPE_CHECKING:  # all of these, for pydantic
    for _name in set(globals()) - {"_OTHERS", *_OTHERS}:
        globals()[_name] = Annotated[globals()[_name], _ByClass()]

Layout = Literal["NCHW", "NHWC"]
Fit = Literal["stretch", "letterbox", "letterbox_top_left", "cover", "line"]
Antialias = bool | Literal["pillow", "nearest"]
Border = Literal["image", "crop", "constant"]
Channels = Literal["first", "last"]
Filter = Literal["box", "bilinear", "hamming", "bicubic", "lanczos"] | Index
Arithmetic = Literal["pillow", "torch"]
ResizeFit = Literal["stretch", "letterbox"]
Alpha = Literal["drop", "pillow"] | None
Overview = Literal["first", "last"] | None
Color = Literal[
    "nv12", "nv21", "nv16", "nv61", "nv24", "nv42", "i420", "yv12", "i422", "i444", "p010", "p210",
    "p410", "yuyv", "yuy2", "yvyu", "uyvy", "vyuy", "y210", "rgb565",
] | None  # fmt: skip
Range = Literal["video", "full"]
Matrix = Literal["bt601", "bt709", "bt2020"]
Form = Literal["image", "rle"]
Rule = Literal["torchvision", "detectron2", "mmdet"]
PrototypeRule = Literal["ultralytics", "ultralytics_native", "yolov5", "yolov5_native"]
PrototypeFit = Literal["letterbox", "letterbox_top_left", "stretch"]
Method = Literal["bilinear", "nearest"]
Methods = Method | Sequence[Method]
Padding = Literal["zeros", "border"]
