"""
Compiles the kernels and calls them with arguments of exactly their types.

CuPy passes a Python int as 64 bits and a float as double, whatever the kernel takes: what is passed here are arrays of CuPy, pointers
that may be null, and NumPy's scalars and structures.
"""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "kernels"
# one source: CuPy's cache on disk does not see what is included
SOURCES = ("common.cu", "geometry.cu", "weighted_sum.cu", "window_max.cu")
CHANNELS_TOGETHER = 8  # for which a thread of the gradient of the input finds boxes and weights once
CHANNELS_OF_PART = 32  # whose gradients of the boxes one thread adds up
OWNERS = 32  # threads that share a plane in the gradient of roi_pool: each takes every 32nd pixel
# positions must round as on the CPU: no contraction into fused multiply-adds but where fma() asks for it
OPTIONS = (
    "--std=c++17", "--fmad=false", f"-DCHANNELS_TOGETHER={CHANNELS_TOGETHER}", f"-DCHANNELS_OF_PART={CHANNELS_OF_PART}", f"-DOWNERS={OWNERS}",
)  # fmt: skip
# without a template parameter; the others are for float and double
PLAIN = ("windows_of_boxes", "boxes_of_rows")
TEMPLATES = (
    "tables", "forward", "backward", "backward_boxes", "add_parts", "largest_pixel", "largest_pixel_backward", "largest_sample",
)  # fmt: skip
THREADS = 128  # of a block
MOST_BLOCKS = 2**20  # threads of a grid go on with the next element until there is none

STRIDES = np.dtype([(name, np.int64) for name in ("first", "channel", "y", "x")])
SHAPE = np.dtype([(name, np.int32) for name in ("images", "channels", "rows", "columns", "boxes", "ph", "pw", "position_sensitive", "channels_last")])
RULE = np.dtype([(name, np.int32) for name in ("kind", "sampling_ratio", "aligned", "at_least_one", "inclusive")])
ROOM = np.dtype([("y", np.int32), ("x", np.int32), ("box", np.int64)])
NULL = np.uint64(0)


def source() -> str:
    """Return the text of all kernels."""
    return "\n".join((FOLDER / name).read_text() for name in SOURCES)


def instantiations() -> list[str]:
    """Return the names of all kernels, as NVRTC wants them."""
    return [*PLAIN, *(f"{name}<{kind}>" for name in TEMPLATES for kind in ("float", "double"))]


def cupy() -> ModuleType:
    """Return CuPy, or say how to get it."""
    try:
        import cupy as module
    except ImportError as error:
        raise ImportError("roicy.cuda needs CuPy: pip install 'roicy[cuda13]' or 'roicy[cuda12]'") from error
    return module


@functools.cache
def _module() -> Any:
    """Return the kernels; CuPy compiles them at first use, once for each device."""
    return cupy().RawModule(code=source(), options=OPTIONS, name_expressions=instantiations())


def strides(array: Any) -> np.ndarray:
    """Return the strides of an array seen as (N, C, H, W), in elements."""
    return np.array(tuple(step // array.dtype.itemsize for step in array.strides), STRIDES)


def launch(name: str, dtype: np.dtype | None, elements: int, *arguments: Any) -> None:
    """Run a kernel on the current stream, with at least as many threads as there are elements, or as many as a grid may have."""
    kernel = _module().get_function(f"{name}<{'float' if dtype == np.float32 else 'double'}>" if dtype is not None else name)
    blocks = min(-(-elements // THREADS), MOST_BLOCKS)
    if blocks:
        kernel((blocks,), (THREADS,), arguments)
