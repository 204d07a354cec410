"""Chooses the instruction set of the kernels, once, at import.

``ROICY_ISA`` overrides the choice: ``baseline``, ``avx2`` or ``avx512``.
"""

from __future__ import annotations

import os

from .._kernels import isa, machine


def usable() -> list[str]:
    """Return the instruction sets that this build has and this processor supports, best first."""
    supported = machine.supported()
    return [name for name in isa.built() if name in supported]


def use(name: str, named: str | None = None) -> None:
    """Have calls from now on use an instruction set; `named` is how an error calls it."""
    named = named or f"instruction set {name!r}"
    for which, sets in (("this processor", machine.supported()), ("this build", isa.built())):
        if name not in sets:
            raise ImportError(f"{named}: expected one that {which} has: {', '.join(sets)}")
    isa.use(name)


def choose() -> str:
    """Use the instruction set that the environment names, or else the best one."""
    wanted = os.environ.get("ROICY_ISA")
    if wanted:
        use(wanted, f"ROICY_ISA={wanted!r}")
    else:
        isa.use(usable()[0])  # every build has the baseline, and so has every processor
    return isa.in_use()


ISA: str = choose()
