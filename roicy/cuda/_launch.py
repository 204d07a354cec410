"""Compiles the kernels and calls them with arguments of exactly their types.

CuPy passes a Python int as 64 bits and a float as double, whatever the kernel takes.  So
arguments are arrays of CuPy, addresses as numpy.uint64, and NumPy's scalars and structures.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .._kernels.plan import FIELD_TYPES, ROTATED_BYTES

FOLDER = Path(__file__).parent / "kernels"
# These files become one source, since CuPy's cache on disk ignores changes of included files.
SOURCES = (
    "tables.cu", "pixels.cu", "planes.cu", "grad_tiles.cu", "grad_planes.cu", "grad_boxes.cu",
    "samples.cu", "rotated.cu",
)  # fmt: skip
CHANNELS_OF_THREAD = 32  # that a partial sum of the gradients of boxes covers
RULES = "rules.h", "rules_levels.h", "rules_rotated.h"  # in the order in which they are included
PART_BYTES = 16384  # bytes of a plane that a warp owns in shared memory
LANES = 32  # threads of a warp
THREADS = 128  # threads of a block
THREADS_OF_PLANES = 64  # threads of a block of a kernel whose warps own parts of planes
MOST_LEVELS = 8  # maps of a pyramid
# Positions must round as on the CPU, so the compiler may not fuse products and sums by itself
# (--fmad=false).  The kernels call fma() where they want a fused multiply-add.  CuPy appends
# -ftz=true, and the last option counts, so --ftz=false would change nothing.
OPTIONS = (
    "--std=c++17", "--fmad=false", f"-D{CHANNELS_OF_THREAD=}", f"-D{ROTATED_BYTES=}",
    f"-D{PART_BYTES=}", f"-D{THREADS=}", f"-D{THREADS_OF_PLANES=}", f"-D{MOST_LEVELS=}",
)  # fmt: skip
OF_PLANES = ("backward_bins", "largest_pixel_backward")  # their blocks have THREADS_OF_PLANES
MOST_BLOCKS = 2**20  # blocks of a grid: a thread takes further elements until there is none left


def _structure(*fields: Any) -> np.dtype:
    return np.dtype(list(fields), align=True)


def _of(kind: Any, *names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names]


_STRIDES = _structure(*_of(np.int64, "first", "channel", "y", "x"))
_MAP = _structure(("pixels", np.uint64), ("strides", _STRIDES), *_of(np.int32, "rows", "columns"))
_SHAPE = _structure(
    *_of(np.int32, "boxes", "images", "channels", "ph", "pw"),
    *_of(np.int32, "position_sensitive", "channels_last"),
)
_LEVEL_RULE = _structure(
    *_of(np.int32, "last", "finest", "canonical_level"),
    *_of(np.float64, "canonical_scale", "close"),
)
_C = {"int": np.int32, "double": np.float64}
_RULE = _structure(*((name, _C[kind]) for name, kind in FIELD_TYPES.items()))
_LEVEL = _structure(*_of(np.int32, "rows", "columns"), *_of(np.float64, "scale_y", "scale_x"))
# The tables that kernels may have, in the order of their addresses.
TABLES = (
    "images", "levels", "counts", "taps", "slope_low", "slope_high", "windows", "rotated",
    "partial_sums",
)  # fmt: skip
# These must agree with the structures of the kernels and of RULES.
STRUCTURES = {
    "Strides": _STRIDES,
    "Maps": _structure(("count", np.int32), ("at", _MAP, MOST_LEVELS)),
    "Tables": _structure(
        *_of(np.uint64, "rows", "given", *TABLES),
        ("add", np.int32),
        ("shape", _SHAPE),
        *_of(np.int32, "columns", "numbers", "lanes"),
        ("room", _structure(*_of(np.int32, "y", "x"), ("box", np.int64))),
        ("rule", _RULE),
        ("level_rule", _LEVEL_RULE),
        ("at", _LEVEL, MOST_LEVELS),
    ),
}
NULL = np.uint64(0)


def rules() -> str:
    """Return the text of RULES with their functions as members of Rules<float> and Rules<double>.

    The build copies these files from pyx/plan.  Without REAL they only declare types.
    """
    text = "\n".join((FOLDER / name).read_text("utf-8") for name in RULES)
    members = [
        f"template <> struct Rules<{real}> {{\n#define REAL {real}\n#define NAME(f) f\n{text}\n"
        "#undef REAL\n#undef NAME\n};"
        for real in ("float", "double")
    ]
    return "\n".join([text, *members])


@functools.cache
def source() -> str:
    """Return the text of all kernels."""
    first, *rest = ((FOLDER / name).read_text("utf-8") for name in ("common.cu", *SOURCES))
    return "\n".join([first, rules(), *rest])


def cupy() -> ModuleType:
    """Return CuPy, which a caller with arrays of it has imported."""
    return sys.modules["cupy"]


@functools.cache
def _kernel(name: str, device: int) -> Any:
    """Return a kernel for the current device, which has number `device`.

    Each kernel is compiled by itself at its first use, which takes half a second.  All of them
    would take ten.
    """
    module = cupy().RawModule(code=source(), options=OPTIONS, name_expressions=[name])
    return module.get_function(name)


@functools.lru_cache(1024)
def _with_grid(name: str, threads: int, kind: str, device: int) -> tuple[Any, int, int]:
    """Return a kernel, the blocks of its grid and the threads of a block."""
    of_block = THREADS_OF_PLANES if name in OF_PLANES else THREADS
    blocks = min(-(-threads // of_block), MOST_BLOCKS)
    return _kernel(f"{name}<{kind}>", device), blocks, of_block


def launch(name: str, threads: int, dtype: np.dtype, *arguments: Any) -> None:
    """Run a kernel on the current stream, with `threads` threads or more, or MOST_BLOCKS blocks."""
    kind, device = "float" if dtype == np.float32 else "double", cupy().cuda.runtime.getDevice()
    kernel, blocks, of_block = _with_grid(name, threads, kind, device)
    if blocks:
        kernel((blocks,), (of_block,), arguments)
