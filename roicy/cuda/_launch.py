"""
Compiles the kernels and calls them with arguments of exactly their types.

CuPy passes a Python int as 64 bits and a float as double, whatever the kernel takes.  So
arguments are arrays of CuPy, null pointers, and NumPy's scalars and structures.
"""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "kernels"
# These files become one source, since CuPy's cache on disk ignores changes of included files.
SOURCES = ("geometry.cu", "weighted_sum.cu", "window_max.cu", "rotated.cu")
# A partial sum of the gradients of the boxes covers so many channels.  A thread adds them up, or a
# warp if channels are last.
CHANNELS_OF_THREAD = 32
CHANNELS_OF_WARP = 128
ROTATED_BYTES = 224  # of a rotated box as kernels make it
PART_BYTES = 16384  # bytes of a plane that a warp owns in shared memory
LANES = 32  # threads of a warp
THREADS = 128  # threads of a block
THREADS_OF_PLANES = 64  # threads of a block of a kernel whose warps own parts of planes
# Positions must round as on the CPU, so the compiler may not fuse products and sums by itself
# (--fmad=false).  The kernels call fma() where they want a fused multiply-add.
OPTIONS = (
    "--std=c++17",
    "--fmad=false",
    f"-DCHANNELS_OF_THREAD={CHANNELS_OF_THREAD}",
    f"-DCHANNELS_OF_WARP={CHANNELS_OF_WARP}",
    f"-DROTATED_BYTES={ROTATED_BYTES}",
    f"-DPART_BYTES={PART_BYTES}",
    f"-DTHREADS={THREADS}",
    f"-DTHREADS_OF_PLANES={THREADS_OF_PLANES}",
)
OF_PLANES = ("backward_bins", "largest_pixel_backward")  # their blocks have THREADS_OF_PLANES
NAMES = (
    "tables", "windows_of_boxes", "forward_planes", "forward_pixels", "forward_bins",
    "backward_planes", "backward_pixels", "backward_boxes", "add_partial_sums",
    "largest_pixel", "largest_sample", "add_segments", "make_rotated_boxes", "forward_rotated",
    "backward_rotated", "backward_rotated_boxes", "add_rotated_sums", *OF_PLANES,
)  # fmt: skip
MOST_BLOCKS = 2**20  # blocks of a grid: a thread takes further elements until there is none left

# These must agree with the structures of common.cu and rules.h.
STRUCTURES = {
    "Strides": [(name, np.int64) for name in ("first", "channel", "y", "x")],
    "Shape": [
        (name, np.int32)
        for name in (
            "images", "channels", "rows", "columns", "boxes", "ph", "pw", "position_sensitive",
            "channels_last",
        )
    ],
    "Rule": [
        (name, np.int32)
        for name in (
            "kind", "sampling_ratio", "aligned", "at_least_one", "inclusive", "clockwise",
        )
    ],
    "Room": [("y", np.int32), ("x", np.int32), ("box", np.int64)],
}  # fmt: skip
NULL = np.uint64(0)


def rules() -> str:
    """
    Return the text of rules.h with its functions as members of Rules<float> and Rules<double>.

    The build copies that file from pyx/plan.  Without REAL it only declares types.
    """
    text = (FOLDER / "rules.h").read_text()
    members = [
        f"template <> struct Rules<{real}> {{\n#define REAL {real}\n#define NAME(f) f\n{text}\n}};"
        for real in ("float", "double")
    ]
    return "\n".join([text, *members])


def source() -> str:
    """Return the text of all kernels."""
    return "\n".join(
        [
            (FOLDER / "common.cu").read_text(),
            rules(),
            *((FOLDER / name).read_text() for name in SOURCES),
        ]
    )


def instantiations() -> list[str]:
    """Return the names of all kernels, as NVRTC wants them."""
    return [f"{name}<{kind}>" for name in NAMES for kind in ("float", "double")]


def cupy() -> ModuleType:
    """Return CuPy, or say how to get it."""
    try:
        import cupy as module
    except ImportError as error:
        raise ImportError(
            "roicy.cuda needs CuPy: pip install 'roicy[cuda13]' or 'roicy[cuda12]'"
        ) from error
    return module


@functools.cache
def _module() -> Any:
    """Return the kernels; CuPy compiles them at first use, once for each device."""
    return cupy().RawModule(code=source(), options=OPTIONS, name_expressions=instantiations())


@functools.cache
def _kernel(name: str, device: int) -> Any:
    """
    Return a kernel for the current device, which has number `device`.

    It is cached, since CuPy would search for it at every call.
    """
    return _module().get_function(name)


@functools.lru_cache(1024)
def structure(name: str, *values: int) -> np.ndarray:
    """
    Return a structure as kernels take it.

    Structures are cached, since making one is slow and calls often use equal ones.
    """
    made = np.array(values, STRUCTURES[name])
    made.flags.writeable = False
    return made


def strides(array: Any) -> np.ndarray:
    """Return the strides of an array seen as (N, C, H, W), in elements."""
    size = array.dtype.itemsize
    first, channel, y, x = array.strides
    return structure("Strides", first // size, channel // size, y // size, x // size)


def launch(name: str, dtype: np.dtype, threads: int, *arguments: Any) -> None:
    """
    Run a kernel on the current stream, with at least `threads` threads.

    If these are more than MOST_BLOCKS blocks hold, the kernel runs with MOST_BLOCKS blocks.
    """
    kernel = _kernel(
        f"{name}<{'float' if dtype == np.float32 else 'double'}>", cupy().cuda.runtime.getDevice()
    )
    of_block = THREADS_OF_PLANES if name in OF_PLANES else THREADS
    blocks = min(-(-threads // of_block), MOST_BLOCKS)
    if blocks:
        kernel((blocks,), (of_block,), arguments)
