"""What arguments may be, and what is said of those that are wrong.

On the CPU a plan takes plain arguments as they are (``pyx/call/plan.pyx``); whatever is not plain
is converted here, or refused.  Each error names the argument, what it was and what it should be,
and the first offending row of the boxes.
"""

from __future__ import annotations

import math
import operator
import sys
from typing import Any

import numpy as np

from .._kernels.machine import MOST_BINS, MOST_PIXELS
from ._names import INPUT, OUTPUT_SIZE, SAMPLING_RATIO, SPATIAL_SCALE

FLOATS = {"f": "float", "d": "double"}  # dtype characters, and what the kernels call them
# float16, bfloat16 (of ml_dtypes, which need not be there), uint8, int8, int16 and uint16: types of
# maps that are computed with as float32, in which all their numbers are exact
SMALL = "eEBbhH"
MAP_TYPES = "float32, float64, float16, bfloat16, uint8, int8, uint16 or int16"
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127
METHODS = ("bilinear", "nearest")  # how pixels are interpolated
MOST_RATIO = 2**31 - 1  # samples per bin and axis, an int32
CORNERS = ("x1", "y1", "x2", "y2")
TURNED = ("cx", "cy", "w", "h", "angle")
FLOAT32 = np.dtype(np.float32)
INT32 = np.dtype(np.int32)
# The byte order of types whose format spells it out, as those of ctypes do; NumPy's have "=".
NATIVE = "<" if sys.byteorder == "little" else ">"
# How objects give their memory to numpy.asarray, beside the buffer protocol.
ARRAY_PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__")


def choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return one of some words."""
    if not isinstance(value, str) or value not in choices:
        expected = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        # Members of enumerations, and names in upper case, as others have them.
        known = str(getattr(value, "value", value)).lower().rpartition(".")[2]
        hint = f"; pass {known!r}" if known in choices else ""
        raise ValueError(f"{name}: {value!r}, expected {expected}{hint}")
    return value


def array(name: str, value: Any, shape: str, types: str = "float32 or float64") -> np.ndarray:
    """Return an array of 4 dimensions and any strides as it is; types: what it may have."""
    value = taken(name, value)
    dtype, of_maps = value.dtype, types is MAP_TYPES
    if not ((dtype.char in FLOATS and dtype.isnative) or (of_maps and is_small(dtype))):
        hint = "; pass its view(numpy.uint8)" if of_maps and dtype.kind == "b" else cast(dtype)
        raise TypeError(f"{name}: dtype {spell(dtype)}, expected {types}{hint}")
    if value.ndim != 4:
        hint = f"; of one image pass {name}[None]" if value.ndim == 3 else ""
        raise ValueError(f"{name}: shape {value.shape}, expected {shape}{hint}")
    return addressable(name, value)


def maps(name: str, value: Any, shape: str) -> np.ndarray:
    """Return an array of any type that feature maps may have, as `array` does."""
    return array(name, value, shape, MAP_TYPES)


def floats(name: str, value: Any) -> np.ndarray:
    """Return an array of any shape whose numbers are floating point."""
    array = taken(name, value)
    dtype = array.dtype
    is_float = dtype.char in FLOATS or (is_small(dtype) and dtype.kind not in "iu")
    if not (is_float and dtype.isnative):
        raise TypeError(
            f"{name}: dtype {spell(dtype)}, expected float32, float64, float16 or bfloat16"
            f"{cast(dtype)}"
        )
    return array


def cast(dtype: np.dtype) -> str:
    """Return how an array of real numbers becomes one of floating point, as errors say it."""
    return "; pass its astype(numpy.float32)" if dtype.kind in "biuf" else ""


def quantised(name: str, value: Any) -> tuple[np.ndarray, tuple[float, float]]:
    """Return an array of any type of maps, and the scale and zero point of its integers.

    A triple (integers, scale, zero_point) means (integers - zero_point) * scale.
    """
    scale, zero = 1.0, 0.0
    if isinstance(value, tuple):
        if len(value) != 3:
            raise ValueError(f"{name}: a tuple of {len(value)}, expected (integers, scale, zero)")
        value, scale, zero = value
        scale, zero = number(f"{name}[1]", scale), number(f"{name}[2]", zero)
        if not (math.isfinite(scale) and math.isfinite(zero)):
            raise ValueError(f"{name}[1:]: {scale}, {zero}, expected finite numbers")
    array = taken(name, value)
    if array.dtype.kind not in "iu":
        if (scale, zero) != (1, 0):
            raise TypeError(f"{name}[0]: dtype {spell(array.dtype)}, expected integers")
        return floats(name, array), (scale, zero)
    if not is_small(array.dtype):
        expected = f"expected {MAP_TYPES}{cast(array.dtype)}"
        raise TypeError(f"{name}: dtype {spell(array.dtype)}, {expected}")
    return array, (scale, zero)


def dequantised(name: str, value: Any) -> np.ndarray:
    """Return numbers of floating point, of any shape: integers become float32."""
    array, (scale, zero) = quantised(name, value)
    if array.dtype.kind not in "iu":
        return array
    return (array.astype(FLOAT32) - FLOAT32.type(zero)) * FLOAT32.type(scale)


def is_small(dtype: np.dtype) -> bool:
    """Whether maps of that type are computed with as float32.

    Other packages may give their types the letter of bfloat16.
    """
    return (
        dtype.char in SMALL and dtype.isnative and (dtype.char != "E" or dtype.name == "bfloat16")
    )


def computed(dtype: np.dtype) -> np.dtype:
    """Return the type in which maps of `dtype` are computed with."""
    return dtype if dtype.char in FLOATS else FLOAT32


def pooled(dtype: np.dtype) -> tuple[np.dtype, ...]:
    """Return the types that what is pooled from maps of `dtype` may have, the default first."""
    if dtype.char in FLOATS:
        return (dtype,)
    return (FLOAT32, dtype) if dtype.kind in "iu" else (dtype, FLOAT32)


def bits(array: np.ndarray) -> np.ndarray:
    """Return what kernels read of an array of a map: they know types of two bytes as uint16."""
    return array.view(np.uint16) if array.itemsize == 2 else array


def plain(name: str, value: Any) -> np.ndarray:
    """Return a view of NumPy's own class, since another thread may reshape the caller's array."""
    if type(value) is np.ndarray:
        return value.view()
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name}: {spell_type(value)}, expected a numpy.ndarray")
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: a masked array, whose mask would be lost; expected a numpy.ndarray"
        )
    return value.view(np.ndarray)


def taken(name: str, value: Any) -> np.ndarray:
    """Return an array of what NumPy can read: an array, or an object of the CPU that has
    ``__array__``, DLPack or the buffer protocol.  Its memory is shared, if the object shares it.
    """
    array = plain(name, value if isinstance(value, np.ndarray) else _read(name, value))
    if array.dtype.byteorder == NATIVE:
        array = array.view(array.dtype.newbyteorder("="))
    return array


def _read(name: str, value: Any) -> np.ndarray:
    """Return an array of an object that is none."""
    if _is_lazy(value):
        raise TypeError(
            f"{name}: {spell_type(value)}, which is not computed yet; pass its compute(), or pool "
            "block by block: see docs/many_machines.md"
        )
    try:
        offered = _protocols_of(value)
        source = value if offered else _buffer_of(value)
        found = _of_tensor(value)
        if found is None and source is not None:
            of_dlpack = offered == ["__dlpack__"]
            found = np.from_dlpack(source) if of_dlpack else np.asanyarray(source)
    except MemoryError:
        raise
    except Exception as error:  # of any kind, since it comes from the object
        raise TypeError(f"{name}: {spell_type(value)}, which NumPy cannot read: {error}") from None
    if found is None:
        raise TypeError(
            f"{name}: {spell_type(value)}, expected a numpy.ndarray, or what NumPy can read as one"
        )
    return found


def _protocols_of(value: Any) -> list[str]:
    """Return the protocols by which an object gives its memory, other than the buffer protocol.

    The class is asked first, since an attribute of the object may be costly: pictures of Pillow
    copy their pixels.
    """
    names = (*ARRAY_PROTOCOLS, "__dlpack__")
    found = [name for name in names if hasattr(type(value), name)]
    if found or isinstance(value, type):
        return found
    return [name for name in names if hasattr(value, name)]


def _buffer_of(value: Any) -> memoryview | None:
    """Return the memory of an object that has the buffer protocol."""
    try:
        return memoryview(value)
    except TypeError:
        return None


def items(name: str, value: Any) -> Any:
    """Return the numbers of an array, or of what NumPy can read as one, in lists; others stay.

    A list is copied, since another thread may change the caller's.
    """
    if isinstance(value, list):
        return list(value)
    if isinstance(value, (int, float, str, tuple, np.generic)) or value is None:
        return value
    if type(value) is np.ndarray:  # which has no protocols to be looked for
        return taken(name, value).tolist()
    try:
        is_array = bool(_protocols_of(value)) or _buffer_of(value) is not None
    except Exception:  # of any kind, since it comes from the object
        is_array = True  # so that its error is shown
    return taken(name, value).tolist() if is_array else value


def _is_lazy(value: Any) -> bool:
    """Whether a value is a collection of dask, or an array that holds one."""
    kind = type(value)
    if not callable(getattr(kind, "__dask_graph__", None)):
        return False
    return kind.__module__.startswith("dask") or value.__dask_graph__() is not None


def _of_tensor(value: Any) -> np.ndarray | None:
    """Return an array of a tensor of bfloat16, whose type PyTorch does not tell NumPy.

    A tensor that requires a gradient is an error, since no gradient would come back to it.
    """
    torch: Any = sys.modules.get("torch")  # a caller with tensors has imported it
    tensor = getattr(torch, "Tensor", None)  # None while another thread imports it
    if tensor is None or not isinstance(value, tensor):
        return None
    if value.requires_grad:
        raise TypeError("it requires a gradient; pass its detach(), or call roicy.torch")
    if value.dtype is not torch.bfloat16:
        return None
    import ml_dtypes

    bits: np.ndarray = np.asarray(value.view(torch.int16))
    return bits.view(ml_dtypes.bfloat16)


def spell_type(value: Any) -> str:
    """Return the name of a value's type, as errors show it."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def addressable(name: str, value: np.ndarray) -> np.ndarray:
    flags = value.flags
    if not flags.aligned or not (
        flags.c_contiguous or all(stride % value.itemsize == 0 for stride in value.strides)
    ):
        raise ValueError(
            f"{name}: its elements do not lie at multiples of their size in memory; pass a copy"
        )
    return value


def spell(dtype: np.dtype) -> str:
    return dtype.name if dtype.isnative else f"{dtype.name} in foreign byte order"


class Layout:
    """The order of the dimensions of a call's arrays."""

    __slots__ = ("axes",)

    def __init__(self, axes: tuple[int, ...] | None):
        self.axes = axes

    def nchw(self, array: Any) -> Any:
        """Return the view (N, C, H, W) or (K, C, PH, PW) of an array of this layout."""
        return array if self.axes is None else array.transpose(self.axes)

    def packed(self, array: Any) -> Any:
        """Return an array seen as `nchw`, or a copy of it if it has gaps in this layout."""
        if self.axes is None:
            return np.ascontiguousarray(array)
        return self.nchw(np.ascontiguousarray(array.transpose(0, 2, 3, 1)))

    def shape(self, first: Any, channels: Any, height: Any, width: Any) -> tuple[Any, ...]:
        """Return these extents, or their names, in the order of this layout."""
        if self.axes is None:
            return (first, channels, height, width)
        return (first, height, width, channels)

    def spell(self, *names: str) -> str:
        """Return the names of extents in the order of this layout, as errors show a shape."""
        return f"({', '.join(self.shape(*names))})"


LAYOUTS = {"NCHW": Layout(None), "NHWC": Layout((0, 3, 1, 2))}


def layout_of(name: Any) -> Layout:
    """Return the layout of this name."""
    found = LAYOUTS.get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"layout: {name!r}, expected 'NCHW' or 'NHWC'")
    return found


def integer(name: str, value: Any, low: int, high: int) -> int:
    """Return an integer of [low, high], of any type that is one."""
    if type(value) is int and low <= value <= high:  # as in most calls
        return value
    try:
        number = operator.index(None if isinstance(value, (bool, np.bool_)) else value)
    except TypeError:
        raise TypeError(f"{name}: {value!r}, expected an integer") from None
    if not low <= number <= high:
        raise ValueError(f"{name}: {number}, expected an integer from {low} to {high}")
    return number


def is_pair(value: Any) -> bool:
    """Whether a value is a list of two."""
    return isinstance(value, (tuple, list)) and len(value) == 2


def picture(name: str, value: Any, least: int = 0, count: int = 2) -> Any:
    """Return height and width of a picture, or the three extents of a volume."""
    value = items(name, value)
    if not isinstance(value, (list, tuple)) or len(value) != count:
        raise ValueError(
            f"{name}: {value!r}, expected two integers, (height, width){of_dict(value)}"
        )
    return tuple([integer(name, extent, least, MOST_PIXELS) for extent in value])


def of_dict(value: Any) -> str:
    """Return how a dict of sides becomes a size, as errors say it."""
    is_size = isinstance(value, dict) and value.keys() == {"height", "width"}
    return f"; pass ({value['height']!r}, {value['width']!r})" if is_size else ""


def two_of(name: str, value: Any, expected: str) -> Any:
    """Return two values.  A caller may have given one for both."""
    value = items(name, value)
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ValueError(f"{name}: {value!r}, expected {expected}")
        return value
    if isinstance(value, dict):
        raise TypeError(f"{name}: {value!r}, expected {expected}{of_dict(value)}")
    return value, value


def output_size(value: Any, name: str = OUTPUT_SIZE) -> tuple[int, int]:
    """Return (PH, PW)."""
    height, width = two_of(name, value, "an integer or two, (height, width)")
    return integer(name, height, 1, MOST_BINS), integer(name, width, 1, MOST_BINS)


def spatial_scale(value: Any) -> tuple[float, float]:
    """Return the scales of y and x, of one for both or of a pair (vertical, horizontal)."""
    vertical, horizontal = two_of(SPATIAL_SCALE, value, "a number or two, (vertical, horizontal)")
    return scale(vertical), scale(horizontal)


def number(name: str, value: Any, expected: str = "a number") -> float:
    """Return a float, of any type that is a number."""
    if not isinstance(value, (str, bytes, bool, np.bool_)):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{name}: {value!r}, expected {expected}") from None
        except (TypeError, ValueError):
            pass
    raise TypeError(f"{name}: {value!r}, expected {expected}")


def scale(value: Any, name: str = SPATIAL_SCALE) -> float:
    """Return a finite number above 0."""
    found = number(name, value)
    if not (found > 0 and math.isfinite(found)):
        raise ValueError(f"{name}: {value!r}, expected a finite number above 0")
    return found


def fraction(name: str, value: Any) -> float:
    """Return a number from 0 to 1."""
    found = number(name, value)
    if not 0 <= found <= 1:
        raise ValueError(f"{name}: {found!r}, expected a number from 0 to 1")
    return found


def sampling_ratio(value: Any, most: int = MOST_RATIO) -> int:
    """Return samples per bin and axis; 0 and below mean as many as the bin has pixels."""
    if isinstance(value, (float, np.floating)):
        if not value.is_integer():
            raise ValueError(f"{SAMPLING_RATIO}: {value!r}, expected a whole number")
        value = int(value)
    return integer(SAMPLING_RATIO, value, -(2**31), most)


def flag(name: str, value: Any) -> bool:
    """Return a bool; other types are not taken for one."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: {value!r}, expected True or False")
    return bool(value)


def input_shape(name: str, value: Any, layout: Layout) -> tuple[int, int, int, int]:
    """Return the shape of the input, as (N, C, H, W)."""
    value = items(name, value)
    if not isinstance(value, (tuple, list)) or len(value) != 4:
        raise ValueError(f"{name}: {value!r}, expected {layout.spell('N', 'C', 'H', 'W')}")
    first, *rest = (integer(name, extent, 0, 2**62) for extent in value)
    c, h, w = rest if layout.axes is None else (rest[2], rest[0], rest[1])
    return extents(name, (first, c, h, w))


def extents(name: str, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return (N, C, H, W) whose pixels and images can be counted in int32."""
    n, c, h, w = shape
    if h > MOST_PIXELS or w > MOST_PIXELS:
        raise ValueError(
            f"{name}: a map of {h} x {w} pixels, expected at most {MOST_PIXELS} a side"
        )
    if n >= 2**31:
        raise ValueError(f"{name}: {n} images, expected less than 2**31")
    return n, c, h, w


def channels(
    c: int, bins: tuple[int, int], position_sensitive: bool, grad: bool = False, name: str = INPUT
) -> int:
    """Return the output channels of an input of `c`; grad: whether the bins are a gradient's."""
    if not position_sensitive:
        return c
    if c % (bins[0] * bins[1]):
        raise ValueError(
            f"{name}: {c} channels, expected a multiple of the {bins[0]} x {bins[1]} bins of "
            f"{'grad_output' if grad else OUTPUT_SIZE}"
        )
    return c // (bins[0] * bins[1])
