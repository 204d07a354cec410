"""
Chooses the instruction set of the kernels, once, at import.

``ROICY_ISA`` overrides the choice: ``baseline``, ``avx2`` or ``avx512``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from types import SimpleNamespace

from ._kernels import machine

KNOWN = ("baseline", "avx2", "avx512")
# files of pyx/kernels, which are built for each instruction set
KERNELS = (
    "crop",
    "forward",
    "grad_boxes",
    "grad_input",
    "max_pool",
    "max_sample",
    "paste",
    "round",
)


def built() -> list[str]:
    """Return the instruction sets that this installation has kernels for, best first."""
    return [
        name
        for name in reversed(KNOWN)
        if importlib.util.find_spec(f"roicy._kernels.{name}") is not None
    ]


def _choose() -> str:
    usable = [name for name in built() if name in machine.supported()]
    wanted = os.environ.get("ROICY_ISA")
    if not usable:
        raise ImportError(
            "roicy: this installation has kernels for "
            f"{', '.join(built()) or 'no instruction set'}, this processor supports "
            f"{', '.join(machine.supported())}; install roicy again"
        )
    if not wanted:
        return usable[0]
    if wanted not in KNOWN:
        raise ImportError(
            f"ROICY_ISA={wanted!r}: unknown instruction set, expected one of {', '.join(KNOWN)}"
        )
    if wanted not in machine.supported():
        raise ImportError(
            f"ROICY_ISA={wanted!r}: this processor or operating system does not support it, "
            f"only {', '.join(machine.supported())}"
        )
    if wanted not in usable:
        raise ImportError(
            f"ROICY_ISA={wanted!r}: this build of roicy lacks it and has only {', '.join(usable)}"
        )
    return wanted


def load(isa: str) -> SimpleNamespace:
    """Return the modules of kernels that are compiled for an instruction set, by their names."""
    return SimpleNamespace(
        **{name: importlib.import_module(f"roicy._kernels.{isa}.{name}") for name in KERNELS}
    )


ISA: str = _choose()
kernels = load(ISA)  # read anew by each call
