"""What this installation is."""

from __future__ import annotations

import platform

import numpy as np

from . import _dispatch, _threads
from ._kernels import machine

__version__ = "0.1.0"


def show_config() -> None:
    """
    Print what a report of a fault or of a speed should say: versions, instruction sets, threads.

    Examples
    --------
    >>> import roicy
    >>> roicy.show_config()  # doctest: +ELLIPSIS
    roicy            0.1.0
    ...
    """
    openmp, supported = machine.openmp(), ", ".join(machine.supported())
    lines = {
        "roicy": __version__,
        "numpy": np.__version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "compiler": machine.compiler(),
        "instruction set": f"{_dispatch.ISA} (supported here: {supported}; ROICY_ISA overrides)",
        "openmp": str(openmp) if openmp else "none: this build runs on one thread",
        "threads": str(_threads.resolve(None)),
    }
    print("\n".join(f"{name:<16} {value}" for name, value in lines.items()))
