"""What this installation is."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import __version__
from .._kernels import isa, machine
from . import _dispatch, _threads


def facts() -> dict[str, Any]:
    """Return what a report of a fault or of a speed should say, as JSON has it."""
    import platform  # it takes milliseconds, and only reports need it

    from . import _runtimes

    return {
        "roicy": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "compiler": machine.compiler(),
        "cython": machine.cython(),
        "instruction_set": _dispatch.ISA,
        "supported": machine.supported(),
        "built": isa.built(),
        "openmp": machine.openmp(),
        "openmp_runtimes": _runtimes.loaded() if machine.openmp() else [],
        "threads": _threads.resolve(None),
    }


def show_config() -> None:
    """Print what a report of a fault or of a speed should say: versions, instruction sets, threads.

    ``python -m roicy info`` prints the same, and with ``--json`` for programs.

    Examples
    --------
    >>> import roicy
    >>> roicy.show_config()  # doctest: +ELLIPSIS
    roicy            0.1.0
    ...
    """
    found = facts()
    built, supported = ", ".join(found["built"]), ", ".join(found["supported"])
    openmp = ", ".join([str(found["openmp"]), *found["openmp_runtimes"]])
    lines = {
        "roicy": found["roicy"],
        "numpy": found["numpy"],
        "python": f"{found['python']} on {found['system']} {found['machine']}",
        "compiler": found["compiler"],
        "instruction set": f"{_dispatch.ISA} (supported here: {supported}; ROICY_ISA overrides)",
        "built for": f"{built}, by Cython {found['cython']}",
        "openmp": openmp if found["openmp"] else "none: roicy starts its threads itself",
        "threads": found["threads"],
    }
    text = "\n".join(f"{name:<16} {value}" for name, value in lines.items())
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    # A path may have letters that the output has not.
    print(text.encode(encoding, "backslashreplace").decode(encoding))
