"""
Times of the operators.

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


def load(isa=None):
    """Import roicy with an instruction set; each set of parameters has a process of its own."""
    if isa:
        os.environ["ROICY_ISA"] = isa
    try:
        return importlib.import_module("roicy")
    except ImportError as error:
        if "does not support" in str(error) or "lacks it" in str(error):
            raise NotImplementedError(str(error)) from None  # ASV then skips this set of parameters
        raise


class _Call:
    """A call; subclasses say what their parameters are."""

    direction, reuse, repeat, warmup_time, timeout = "forward", True, (5, 50, 2.0), 0.2, 120

    def prepare(self, name, dtype="float32", layout=None, threads=1, isa=None):
        roicy, work = load(isa), workloads.ALL[name]
        layout = layout or work.layouts[0]
        if layout not in work.layouts or not work.has(roicy, self.direction):
            raise NotImplementedError
        arrays = work.arrays(dtype)
        self.call = work.call(roicy, arrays, self.direction, layout, self.reuse, threads)

    def time_call(self, *_):
        self.call()


class Forward(_Call):
    params = [list(workloads.ALL), LAYOUTS, [1, 2]]
    param_names = ["workload", "layout", "threads"]

    def setup(self, workload, layout, threads):
        self.prepare(workload, layout=layout, threads=threads)


class Backward(Forward):
    params = [list(workloads.WORKLOADS), LAYOUTS, [1, 2]]
    direction, reuse = "backward", False


class BackwardBoxes(Backward):
    direction = "backward_boxes"


class ForwardTypes(_Call):
    """Results of uint8 are float32, and those of float16 are rounded to float16."""

    params = [[*SOME, "align_camera"], ["float64", "float16", "uint8"], LAYOUTS]
    param_names = ["workload", "dtype", "layout"]

    def setup(self, workload, dtype, layout):
        self.prepare(workload, dtype, layout)


class ForwardInstructionSets(_Call):
    params = [SOME, ["baseline", "avx2", "avx512"]]
    param_names = ["workload", "isa"]

    def setup(self, workload, isa):
        self.prepare(workload, isa=isa)


class Import:
    """NumPy is imported first, so that this is the time that roicy adds."""

    def timeraw_import(self):
        return "import roicy", "import numpy"
