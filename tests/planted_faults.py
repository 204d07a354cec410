"""
Faults, to see that what looks for such faults finds them: each gives a kernel what no operator would.

    python tests/planted_faults.py bounds | index | alignment | race | device

Under the sanitizer that is meant for it the program ends with a report; without one it does what the fault does.
"""

import sys

import numpy as np

from roicy import operators
from roicy._dispatch import weighted_sum
from roicy._kernels import front, geometry


def prepared(boxes, threads):
    """(levels of prroi_pool, their tasks, how many threads, the output that they write to)."""
    x = np.ones((1, 64, 40, 40), np.float32)
    maps, seen = operators._forward_maps(x, boxes, 7, 1.0, None, "NCHW", threads)
    (levels,) = operators._steps([maps], [seen], geometry.INTEGRATED_RULE)
    return levels, *maps.reading(levels), np.zeros(maps.output_shape(maps.k), np.float32)


def bounds():
    """A box that the output has no room for."""
    levels, tasks, threads, out = prepared(np.tile(np.array([[0, 1, 1, 9, 9]], np.float32), (2, 1)), 1)
    weighted_sum.forward["float"](levels, tasks, out[:1].copy(), False, threads)


def index():
    """The first of no boxes."""
    geometry.tables["float"](
        np.empty(0, np.int32), np.empty((0, 4), np.float32), None, 1, geometry.INTEGRATED_RULE, (7, 7), (40, 40), 1.0, 1, None, False, 1, 1
    )


def alignment():
    """Numbers that do not lie at multiples of their size."""
    shifted = np.zeros(4 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(1, 4)
    front.bad_coordinate["float"](shifted, 1.0)


def race():
    """Tasks of several threads that write the same part of the output."""
    levels, tasks, threads, out = prepared(np.tile(np.array([[0, 1, 1, 30, 30]], np.float32), (200, 1)), 2)
    weighted_sum.forward["float"](levels, np.concatenate([tasks, tasks]), out, False, threads)


def device():
    """A kernel of the GPU, run on the CPU, that writes more boxes than the output has room for."""
    from cuda_emulation import standin

    sys.modules["cupy"] = standin
    from roicy import cuda
    from roicy.cuda import _launch

    boxes = standin.asarray(np.tile(np.array([[0, 1, 1, 9, 9]], np.float32), (50, 1)))
    # With as many channels as a block has threads, the first number that has no room lies right behind the output, and not
    # hundreds of bytes on, where the sanitizer may know of another array
    channels = _launch.THREADS
    maps, seen = cuda._forward_maps(standin.asarray(np.ones((1, channels, 20, 20), np.float32)), boxes, 7, 1.0, None, "NCHW")
    out = standin.zeros((1, channels, 7, 7), np.float32)
    ((_, shape, room, images, counts, taps, _),) = maps.parts(geometry.INTEGRATED_RULE)
    _launch.launch("forward_planes", maps.dtype, 1, seen, _launch.strides(seen), out, _launch.strides(out), shape, room, images, counts, taps)


if __name__ == "__main__":
    {"bounds": bounds, "index": index, "alignment": alignment, "race": race, "device": device}[sys.argv[1]]()
    print("nothing was found")
