"""
Planted faults, which show that the sanitizers find faults of these kinds.

Each function gives a kernel arguments that no operator would give.

    python tests/planted_faults.py bounds | index | alignment | race | device

Under the sanitizer for the fault, the program ends with a report.  Without a sanitizer, the fault
takes its course.
"""

import sys

import numpy as np

from roicy import _cpu
from roicy._dispatch import kernels
from roicy._table import PRROI_POOL


def planned(boxes, threads):
    """Return the plan of prroi_pool of 64 channels and 7 x 7 bins."""
    x = np.ones((1, 64, 40, 40), np.float32)
    given = (boxes, None, 1.0, "NCHW", threads, None, None)
    plan = _cpu.plan_forward(PRROI_POOL, PRROI_POOL.rule(), x, 7, given)
    plan.next()
    return plan


def bounds():
    """Pool a box for which the output has no room."""
    plan = planned(np.tile(np.array([[0, 1, 1, 9, 9]], np.float32), (2, 1)), 1)
    kernels.forward.forward["float"](plan, np.empty((1, 64, 7, 7), np.float32))


def index():
    """Ask for the first output of an array without outputs."""
    plan = planned(np.array([[0, 1, 1, 9, 9]], np.float32), 1)
    kernels.forward.forward["float"](plan, np.empty((0, 64, 7, 7), np.float32))


def alignment():
    """Pass numbers that do not lie at multiples of their size."""
    shifted = np.zeros(4 * 4 + 1, np.uint8)[1:].view(np.int32).reshape(1, 1, 1, 4)
    kernels.max_pool.first_outside(shifted, 1, 1)


def race():
    """Let tasks of several threads write the same output, which all boxes share."""
    plan = planned(np.tile(np.array([[0, 1, 1, 38, 38]], np.float32), (20, 1)), 2)
    one = np.empty((1, 64, 7, 7), np.float32)
    out = np.lib.stride_tricks.as_strided(one, (20, 64, 7, 7), (0, *one.strides[1:]))
    kernels.forward.forward["float"](plan, out)


def device():
    """Run a kernel of the GPU on the CPU for more boxes than the output has room for."""
    from cuda_emulation import standin

    sys.modules["cupy"] = standin
    from roicy.cuda import _launch, backend

    boxes = standin.asarray(np.tile(np.array([[0, 1, 1, 9, 9]], np.float32), (50, 1)))
    # There are as many channels as a block has threads.  So the first number without room lies
    # right behind the output.  Hundreds of bytes further on there may be another array that the
    # sanitizer knows.
    channels = _launch.THREADS
    x = standin.asarray(np.ones((1, channels, 20, 20), np.float32))
    given = (boxes, None, 1.0, "NCHW", None, None, None)
    call = backend.plan_forward(PRROI_POOL, PRROI_POOL.rule(), x, 7, given)
    backend.forward(call, standin.zeros((1, channels, 7, 7), np.float32), None)


if __name__ == "__main__":
    {"bounds": bounds, "index": index, "alignment": alignment, "race": race, "device": device}[
        sys.argv[1]
    ]()
    print("nothing was found")
