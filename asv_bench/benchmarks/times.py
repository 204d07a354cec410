"""Times of the operators.

Unless the name says otherwise, a time is the least of many calls with the best instruction set,
and all calls write to the same array.
"""

import importlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import counter

workloads = counter.load("workloads")  # of this checkout, whatever version of roicy is timed
LAYOUTS = ["NCHW", "NHWC"]
SOME = ["align_fpn_p2", "align_c4", "pool_vgg", "prroi_iounet"]


class Forward:
    """A call; each set of parameters has a process of its own, which imports roicy."""

    params = [list(workloads.ALL), LAYOUTS, [1, 2]]
    param_names = ["workload", "layout", "threads"]
    direction, reuse, repeat, warmup_time, timeout = "forward", True, (5, 50, 2.0), 0.2, 120

    def setup(self, *values):
        given = dict(zip(self.param_names, values, strict=True))
        if "isa" in given:
            os.environ["ROICY_ISA"] = given["isa"]
        try:
            roicy = importlib.import_module("roicy")
        except ImportError as error:
            if "does not support" in str(error) or "lacks it" in str(error):
                raise NotImplementedError(str(error)) from None  # ASV then skips these parameters
            raise
        work = workloads.ALL[given["workload"]]
        layout = given.get("layout", work.layouts[0])
        if layout not in work.layouts or not work.has(roicy, self.direction):
            raise NotImplementedError
        arrays, threads = work.arrays(given.get("dtype", "float32")), given.get("threads", 1)
        self.call = work.call(roicy, arrays, self.direction, layout, self.reuse, threads)

    def time_call(self, *_):
        self.call()


class Backward(Forward):
    params = [[*workloads.WORKLOADS, *workloads.ATTENTION], LAYOUTS, [1, 2]]
    direction, reuse = "backward", False


class BackwardBoxes(Backward):
    direction = "backward_boxes"


class ForwardTypes(Forward):
    """Results of uint8 are float32, and those of float16 are rounded to float16."""

    params = [[*SOME, "align_camera"], ["float64", "float16", "uint8"], LAYOUTS]
    param_names = ["workload", "dtype", "layout"]


class ForwardInstructionSets(Forward):
    params = [SOME, ["baseline", "avx2", "avx512"]]
    param_names = ["workload", "isa"]


class Import:
    """NumPy is imported first, so that this is the time that roicy adds."""

    def timeraw_import(self):
        return "import roicy", "import numpy"
