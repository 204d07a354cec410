"""
The compiled kernels; each instruction set is a package of its own. See pyx/ for their source.

Importing this loads the OpenMP runtime, GCC's or LLVM's, which reads from the environment what
it can be told in no other way. So while it is loaded here the environment says what suits a
library in a server, and afterwards again what it said before.
"""

import os

from .. import _limits

# How threads of a team wait after a call, in case another one follows: for milliseconds, GCC's,
# or a fifth of a second, LLVM's, which eats the CPU quota of a container.  GCC's can be told a
# tenth of a millisecond or so, which lasts from one parallel region of a call to the next;
# LLVM's whole milliseconds or nothing.  Not if the user has said how threads should wait.
_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")
_SHORTLY = {"GOMP_SPINCOUNT": "3000", "KMP_BLOCKTIME": "0"}


# LLVM's starts anew in a child of fork, unless told not to, and then the child waits for ever
# for threads that it does not have. joblib tells it that, for the sake of a release of Intel's
# of 2019.
_said: dict[str, str | None] = {"KMP_INIT_AT_FORK": "TRUE"}
if not any(name in os.environ for name in _WAITING):
    _said.update(_SHORTLY)
if _limits.omp_num_threads() is None:
    _said["OMP_NUM_THREADS"] = None  # of what is no number LLVM's makes an end of the process


def _put(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is not None:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)


_before = {name: os.environ.get(name) for name in _said}
_put(_said)
try:
    from . import machine as machine
finally:
    _put(_before)
if "OMP_NUM_THREADS" in _said and machine.is_llvms():
    os.environ.pop("OMP_NUM_THREADS", None)  # it is read again in children
