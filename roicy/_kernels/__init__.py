"""
The compiled kernels; each instruction set is a package of its own. See pyx/ for their source.

Importing this loads the OpenMP runtime.  GCC's makes the threads of a team spin for milliseconds after each call in case another one
follows, which eats the CPU quota of a container; it reads how long from the environment when it is loaded, and from nowhere
else.  So while it is loaded here, and unless the user has said how threads should wait, it is told a tenth of a millisecond or so,
which lasts from one parallel region of a call to the next.
"""

import os

_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")

_says_nothing = not any(name in os.environ for name in _WAITING)
if _says_nothing:
    os.environ["GOMP_SPINCOUNT"] = "3000"
try:
    from . import machine as machine
finally:
    if _says_nothing:
        del os.environ["GOMP_SPINCOUNT"]
