"""The compiled kernels. See pyx/ for their source.

Importing this package loads the OpenMP runtime, GCC's or LLVM's. The runtime then reads
settings from the environment that cannot be changed in any other way. So this module sets
variables that suit a library in a server, loads the runtime, and restores the environment.
"""

import os

from .._machine import _limits

# Threads of a team spin for a while after a call, in case another one follows, which uses up
# the CPU quota of a container.  GCC's runtime is told to spin no longer than from one parallel
# region of a call to the next (R299 in docs/records.md).  LLVM's counts in whole milliseconds,
# so it is told not to spin.  Nothing is set if the user has chosen how threads wait.
_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")
_SHORTLY = {"GOMP_SPINCOUNT": "3000", "KMP_BLOCKTIME": "0"}


# LLVM's runtime starts anew in a child of fork, unless this variable is false. Then the child
# would wait for ever for threads that it does not have. joblib sets it to false, because of a
# fault in a release of Intel's runtime of 2019.
_said: dict[str, str | None] = {"KMP_INIT_AT_FORK": "TRUE"}
if not any(name in os.environ for name in _WAITING):
    _said.update(_SHORTLY)
if _limits.omp_num_threads() is None:
    _said["OMP_NUM_THREADS"] = None  # LLVM's runtime ends the process if it is no number


def _put(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is not None:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)


def _reason(error: ImportError) -> str:
    """Say why there are no kernels, and what to do."""
    from pathlib import Path  # imports much, which only a failure needs

    said = f"roicy: the compiled kernels cannot be loaded: {error}. "
    root = Path(__file__).parents[2]
    if (root / "pyx").is_dir() and not any(Path(__file__).parent.glob("machine.c*")):
        return (
            f"roicy: Python took roicy from {root}, a folder of its sources, in which it has not "
            "been compiled. Start Python in another folder to use an installed roicy, or compile "
            "it there: pip install -e ."
        )
    if not root.is_dir():
        return f"{said}They cannot be loaded from an archive; unpack {root} and start from there."
    return (
        f"{said}They are built for one version of Python and one kind of processor; install "
        "roicy again with this Python."
    )


_mask = None  # of this thread, where another package's runtime has bound it
try:
    _few = len(os.sched_getaffinity(0)) != os.cpu_count()
except (AttributeError, OSError):  # not Linux, or a sandbox that forbids it
    _few = False
if _few:
    from .._machine import _runtimes

    _mask = _runtimes.unbind()
_before = {name: os.environ.get(name) for name in _said}
_put(_said)
try:
    from . import isa as isa
    from . import machine as machine
except ImportError as error:
    raise ImportError(_reason(error)) from error
finally:
    _put(_before)
    if _mask is not None:
        os.sched_setaffinity(0, _mask)
if "OMP_NUM_THREADS" in _said and machine.is_llvms():
    os.environ.pop("OMP_NUM_THREADS", None)  # children read it again
