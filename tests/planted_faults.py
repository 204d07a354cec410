"""
Faults, to see that what looks for such faults finds them: each gives a kernel what no operator
would.

    python tests/planted_faults.py bounds | index | alignment | race | device

Under the sanitizer that is meant for it the program ends with a report; without one it does
what the fault does.
"""

import sys

import numpy as np

from roicy import _cpu
from roicy._arguments import Arguments
from roicy._dispatch import kernels
from roicy._kernels import front, geometry
from roicy._table import PRROI_POOL


def prepared(boxes, threads):
    """(levels of prroi_pool, their tasks, how many threads, the output that they write to)."""
    x = np.ones((1, 64, 40, 40), np.float32)
    given = Arguments(boxes, None, 1.0, "NCHW", threads)
    _, levels, tasks, out, _, threads = _cpu.plan(PRROI_POOL, geometry.INTEGRATED_RULE, x, 7, given)
    return levels, tasks, threads, out


def bounds():
    """A box that the output has no room for."""
    levels, tasks, threads, out = prepared(
        np.tile(np.array([[0, 1, 1, 9, 9]], np.float32), (2, 1)), 1
    )
    kernels.weighted_sum.forward["float"](levels, tasks, out[:1].copy(), False, threads)


def index():
    """The first of no boxes."""
    geometry.tables["float"](
        np.empty(0, np.int32),
        np.empty((0, 4), np.float32),
        None,
        1,
        geometry.INTEGRATED_RULE,
        (7, 7),
        (40, 40),
        1.0,
        1,
        None,
        False,
        1,
        1,
    )


def alignment():
    """Numbers that do not lie at multiples of their size."""
    shifted = np.zeros(4 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(1, 4)
    front.bad_coordinate["float"](shifted, 1.0)


def race():
    """Tasks of several threads that write the same part of the output."""
    levels, tasks, threads, out = prepared(
        np.tile(np.array([[0, 1, 1, 30, 30]], np.float32), (200, 1)), 2
    )
    kernels.weighted_sum.forward["float"](
        levels, np.concatenate([tasks, tasks]), out, False, threads
    )


def device():
    """A kernel of the GPU, run on the CPU, that writes more boxes than the output has room for."""
    from cuda_emulation import standin

    sys.modules["cupy"] = standin
    from roicy._levels import Call
    from roicy.cuda import _launch, backend

    boxes = standin.asarray(np.tile(np.array([[0, 1, 1, 9, 9]], np.float32), (50, 1)))
    # With as many channels as a block has threads, the first number that has no room lies right
    # behind the output, and not hundreds of bytes on, where the sanitizer may know of another
    # array
    channels = _launch.THREADS
    x = standin.asarray(np.ones((1, channels, 20, 20), np.float32))
    given = Arguments(boxes, None, 1.0, "NCHW", None)
    rule, shapes = geometry.INTEGRATED_RULE, {"input": x.shape}
    call = Call(backend, PRROI_POOL, rule, given, x, (7, 7), shapes)
    call.boxes.count = 1
    backend.forward(call, [x], standin.zeros((1, channels, 7, 7), np.float32), None)


if __name__ == "__main__":
    {"bounds": bounds, "index": index, "alignment": alignment, "race": race, "device": device}[
        sys.argv[1]
    ]()
    print("nothing was found")
