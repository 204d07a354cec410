"""
Instructions that a call executes, which do not depend on what else the machine does.

Valgrind's callgrind counts them with the AVX2 kernels, since it does not know AVX-512, on one
thread.  Two processes differ only in the number of their calls, so the difference of their counts
is that of the calls.  Workloads are those of the timings, with fewer channels and boxes.
"""

import os
import re
import shutil
import subprocess
import sys

from .common import workloads

CALLS = 2
# This many calls are made where the interpreter takes as long as the kernels, since its work
# differs from call to call.
MANY_CALLS = 50
SMALL = {
    "align_fpn_p2": {"shape": (1, 32, 200, 304), "count": 100},
    "align_pyramid": {"shape": (1, 32, 200, 304), "count": 100},
    "align_few": {"shape": (1, 32, 200, 304)},
    "align_c4": {"shape": (1, 32, 50, 76), "count": 50},
    "align_tiny": {},
    "align_camera": {"shape": (1, 3, 540, 960), "count": 4},
    "pool_vgg": {"shape": (1, 32, 50, 76), "count": 100},
    "ps_align_rfcn": {"shape": (1, 147, 50, 76)},
    "prroi_iounet": {"shape": (1, 32, 100, 152), "count": 100},
}


def run(workload, direction, layout, calls):
    """Make the calls; this runs in its own process, under callgrind."""
    import roicy

    work = workloads.WORKLOADS[workload]._replace(**SMALL[workload])
    call = workloads.call(roicy, work, work.arrays(), direction, layout, direction == "forward", 1)
    for _ in range(calls):
        call()


def count(workload, direction, layout, calls):
    environment = dict(
        os.environ,
        ROICY_ISA="avx2",
        PYTHONHASHSEED="0",
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
    )
    arguments = f"{workload!r}, {direction!r}, {layout!r}, {calls}"
    program = f"from benchmarks.instructions import run; run({arguments})"
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        sys.executable,
        "-c",
        program,
    ]
    ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", ended.stderr)
    if ended.returncode or not found:
        raise RuntimeError(ended.stderr[-2000:])
    return int(found[1])


class Instructions:
    params = [list(SMALL), ["forward", "backward", "backward_boxes"], ["NCHW", "NHWC"]]
    param_names = ["workload", "direction", "layout"]
    unit = "instructions"
    timeout = 300

    def setup(self, workload, direction, layout):
        if shutil.which("valgrind") is None:
            raise NotImplementedError("valgrind is not installed")
        if (workload, direction) == ("pool_vgg", "backward_boxes"):
            raise NotImplementedError("roi_pool has no gradient of the boxes")

    def track_instructions(self, *parameters):
        calls = MANY_CALLS if parameters[0] == "align_tiny" else CALLS
        return (count(*parameters, 1 + calls) - count(*parameters, 1)) / calls
