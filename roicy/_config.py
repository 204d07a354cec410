"""What this installation is."""

from __future__ import annotations

import numpy as np

from . import _dispatch, _limits, _threads
from ._kernels import isa, machine

__version__ = "0.1.0"


def _openmp() -> str:
    """Return the version of OpenMP that this build uses, and where its runtime was loaded from."""
    if not machine.openmp():
        return "none: this build runs on one thread"
    return ", ".join([str(machine.openmp()), *_limits.openmp_runtimes()])


def show_config() -> None:
    """Print what a report of a fault or of a speed should say: versions, instruction sets, threads.

    Examples
    --------
    >>> import roicy
    >>> roicy.show_config()  # doctest: +ELLIPSIS
    roicy            0.1.0
    ...
    """
    import platform  # it takes milliseconds, and only reports need it

    built, supported = ", ".join(isa.built()), ", ".join(machine.supported())
    lines = {
        "roicy": __version__,
        "numpy": np.__version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "compiler": machine.compiler(),
        "instruction set": f"{_dispatch.ISA} (supported here: {supported}; ROICY_ISA overrides)",
        "built for": f"{built}, by Cython {machine.cython()}",
        "openmp": _openmp(),
        "threads": str(_threads.resolve(None)),
    }
    print("\n".join(f"{name:<16} {value}" for name, value in lines.items()))
