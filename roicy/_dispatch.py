"""Chooses the instruction set of the kernels, once, at import.

``ROICY_ISA`` overrides the choice: ``baseline``, ``avx2`` or ``avx512``.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from types import SimpleNamespace

from ._kernels import machine

# Each set has the modules of pyx/kernels, pyx/images and pyx/move.  They are named in import
# statements, since tools that freeze programs read those, and would not find a name that is put
# together.


def _baseline() -> SimpleNamespace:
    from ._kernels.baseline import crop, forward, grad_boxes, grad_input
    from ._kernels.baseline import max_pool, max_sample, paste, round, tile

    return SimpleNamespace(**locals())


def _avx2() -> SimpleNamespace:
    from ._kernels.avx2 import crop, forward, grad_boxes, grad_input
    from ._kernels.avx2 import max_pool, max_sample, paste, round, tile

    return SimpleNamespace(**locals())


def _avx512() -> SimpleNamespace:
    from ._kernels.avx512 import crop, forward, grad_boxes, grad_input
    from ._kernels.avx512 import max_pool, max_sample, paste, round, tile

    return SimpleNamespace(**locals())


_LOADERS = {"baseline": _baseline, "avx2": _avx2, "avx512": _avx512}
KNOWN = tuple(_LOADERS)


def _is_built(isa: str) -> bool:
    return importlib.util.find_spec(f"roicy._kernels.{isa}.forward") is not None


def built() -> list[str]:
    """Return the instruction sets that this installation has kernels for, best first."""
    return [name for name in reversed(KNOWN) if _is_built(name)]


def usable() -> Iterator[str]:
    """Yield the instruction sets that can be loaded here, best first."""
    return filter(_is_built, machine.supported())


def _check(isa: str, named: str) -> None:
    """Refuse an instruction set that cannot be loaded here; `named` is how the error calls it."""
    for which, sets in (("this processor", machine.supported()), ("this build", built())):
        if isa not in sets:
            raise ImportError(f"{named}: expected one that {which} has: {', '.join(sets)}")


def load(isa: str) -> SimpleNamespace:
    """Return the modules of kernels that are compiled for an instruction set, by their names.

    A module's own start-up code already uses that instruction set, so nothing is imported that
    the processor cannot run.
    """
    _check(isa, f"instruction set {isa!r}")
    return _LOADERS[isa]()


def _choose() -> str:
    wanted = os.environ.get("ROICY_ISA")
    if wanted:
        _check(wanted, f"ROICY_ISA={wanted!r}")
        return wanted
    for best in usable():  # others are not looked for: that takes time at import
        return best
    raise ImportError(
        f"roicy: this build has kernels for {', '.join(built()) or 'no instruction set'}, and this "
        f"processor for {', '.join(machine.supported())}; install roicy again"
    )


ISA: str = _choose()
kernels = _LOADERS[ISA]()  # read anew by each call
