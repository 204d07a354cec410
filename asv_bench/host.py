"""
What a call on a GPU costs the host: microseconds, launches and allocations, without a GPU.

    python asv_bench/host.py

The stand-in for CuPy counts kernels and does not run them.  Its arrays cost about as much as
CuPy's, but CuPy's operations cost more.  So times serve to compare two versions of roicy.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from cuda_emulation import standin

import roicy
from roicy.bench.workloads import WORKLOADS

sys.modules["cupy"] = standin

SMALL = WORKLOADS["align_tiny"]
CASES = {
    "roi_align": SMALL,
    "roi_align, 4 levels": SMALL._replace(operator="multiscale_roi_align", levels=4),
    "roi_pool": WORKLOADS["pool_tiny"],
    "ps_roi_align": SMALL._replace(operator="ps_roi_align", shape=(1, 49, 32, 32)),
    "roi_align_rotated": SMALL._replace(operator="roi_align_rotated"),
}
DIRECTIONS = ("forward", "backward", "backward_boxes")


def prepared(workload, direction, reuse=False):
    """Return a call of the workload on the stand-in."""
    put = standin.asarray
    return workload.call(roicy, workload.arrays(), direction, reuse=reuse, put=put)


def counted(call):
    """Return how many launches and allocations a call makes, and bytes of its memory."""
    for found in (standin.launches, standin.operations, standin.allocations):
        found.clear()
    result = call()
    launches = len(standin.launches), len(standin.operations)
    del result
    return (*launches, len(standin.allocations), sum(standin.allocations))


def microseconds(call, calls, repeats=7):
    """Return the least processor time of a call, of several times so many calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            call()
        times.append((time.process_time() - start) / calls * 1e6)
        for found in (standin.launches, standin.operations, standin.allocations):
            found.clear()
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--calls", type=int, default=1000, help="(default: %(default)s)")
    options = parser.parse_args()
    print("| call | pass | host us | kernels | operations of CuPy | allocations | bytes |")
    print("|---|---|---|---|---|---|---|")
    for name, workload in CASES.items():
        for direction in DIRECTIONS:
            if (workload.operator, direction) == ("roi_pool", "backward_boxes"):
                continue
            standin.idle = False
            call = prepared(workload, direction)
            call()
            standin.idle = True
            counts = " | ".join(map(str, counted(call)))
            print(f"| {name} | {direction} | {microseconds(call, options.calls):.1f} | {counts} |")


if __name__ == "__main__":
    main()
