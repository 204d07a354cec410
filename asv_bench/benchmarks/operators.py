"""
Time and memory of the operators.

Unless the name says otherwise, a time is the least of many calls with the best instruction set,
and all calls write to the same array.
"""

import numpy as np

from .common import BEST, load, workloads

ALL = list(workloads.WORKLOADS)
WITH_BOX_GRADIENTS = [name for name in ALL if not name.startswith("pool")]
LARGE = [name for name in ALL if not name.endswith("tiny")]


class Call:
    """A call of one operator; subclasses say what their parameters are."""

    direction = "forward"
    reuse = True
    timeout = 120
    repeat = (5, 50, 2.0)
    warmup_time = 0.2

    def prepare(self, workload, dtype="float32", layout="NCHW", threads=1, isa=BEST):
        roicy = load(isa)
        work = workloads.WORKLOADS[workload]
        if not hasattr(roicy, work.operator):
            raise NotImplementedError
        self.call = work.call(
            roicy, work.arrays(dtype), self.direction, layout, self.reuse, threads
        )

    def setup(self, *parameters):
        self.prepare(*parameters)


class Forward(Call):
    params = [ALL, ["NCHW", "NHWC"], [1, 2]]
    param_names = ["workload", "layout", "threads"]

    def setup(self, workload, layout, threads):
        self.prepare(workload, layout=layout, threads=threads)

    def time_forward(self, *_):
        self.call()


class ForwardFresh(Call):
    """Each result is a new array, in the memory of the deleted result before."""

    params = [LARGE]
    param_names = ["workload"]
    reuse = False

    def time_forward_fresh(self, *_):
        self.call()


class FormatsOfBoxes(Call):
    """The call is so small that the cost of reading its arguments shows."""

    params = [["array", "list", "boxes_num", "float64", "int64"]]
    param_names = ["format"]

    def setup(self, format):
        roicy, work = load(), workloads.WORKLOADS["align_tiny"]
        arrays = work.arrays()
        input, boxes = arrays["input"], arrays["boxes"]
        given = {
            "array": {"boxes": boxes},
            "list": {"boxes": [boxes[:, 1:].copy()]},
            "boxes_num": {"boxes": boxes[:, 1:].copy(), "boxes_num": np.array([len(boxes)])},
            "float64": {"boxes": boxes.astype(np.float64)},
            "int64": {"boxes": boxes.astype(np.int64)},
        }[format]
        options = {
            "output_size": work.output_size,
            "spatial_scale": work.spatial_scale,
            "num_threads": 1,
            **work.parameters,
            **given,
        }
        self.call = lambda: roicy.roi_align(input, **options)

    def time_format(self, *_):
        self.call()


class FewOfPyramid(Call):
    """The few boxes that remain as the detections of an image."""

    params = [[1, 12, 100], ["NCHW", "NHWC"], [1, 2]]
    param_names = ["boxes", "layout", "threads"]

    def setup(self, boxes, layout, threads):
        work = workloads.WORKLOADS["align_pyramid"]._replace(count=boxes)
        self.call = work.call(load(), work.arrays(), "forward", layout, False, threads)

    def time_few_of_pyramid(self, *_):
        self.call()


class ForwardFloat64(Call):
    params = [ALL]
    param_names = ["workload"]

    def setup(self, workload):
        self.prepare(workload, dtype="float64")

    def time_forward_float64(self, *_):
        self.call()


class ForwardSmallTypes(Call):
    """Results of uint8 are float32, and those of float16 are rounded to float16."""

    params = [
        ["align_fpn_p2", "align_c4", "align_camera", "pool_vgg"],
        ["float16", "uint8"],
        ["NCHW", "NHWC"],
    ]
    param_names = ["workload", "dtype", "layout"]

    def time_forward_small_types(self, *_):
        self.call()


class ForwardInstructionSets(Call):
    params = [
        ["align_fpn_p2", "align_c4", "pool_vgg", "prroi_iounet"],
        ["baseline", "avx2", "avx512"],
    ]
    param_names = ["workload", "isa"]

    def setup(self, workload, isa):
        self.prepare(workload, isa=isa)

    def time_forward_isa(self, *_):
        self.call()


class Backward(Forward):
    direction = "backward"
    reuse = False

    time_forward = None

    def time_backward(self, *_):
        self.call()


class BackwardBoxes(Call):
    params = [WITH_BOX_GRADIENTS, [1, 2]]
    param_names = ["workload", "threads"]
    direction = "backward_boxes"
    reuse = False

    def setup(self, workload, threads):
        self.prepare(workload, threads=threads)

    def time_backward_boxes(self, *_):
        self.call()


class Crop:
    """Boxes of a camera frame to a normalised batch, written to the same array."""

    params = [list(workloads.CROPS), [1, 2]]
    param_names = ["workload", "threads"]
    repeat = (5, 50, 2.0)
    warmup_time = 0.2

    def setup(self, workload, threads):
        roicy, work = load(), workloads.CROPS[workload]
        if not hasattr(roicy, "crop"):
            raise NotImplementedError
        self.call = work.call(roicy, work.arrays(), reuse=True, threads=threads)

    def time_crop(self, *_):
        self.call()


class Memory(Call):
    """Peak memory of the process, with the arrays and the scratch of two threads."""

    params = [["align_fpn_p2", "align_c4", "align_camera", "pool_vgg"], ["forward", "backward"]]
    param_names = ["workload", "direction"]
    reuse = False

    def setup(self, workload, direction):
        self.direction = direction
        self.prepare(workload, threads=2)

    def peakmem_call(self, *_):
        self.call()


class Import:
    """NumPy is imported first, so that this is the time that roicy adds."""

    def timeraw_import(self):
        return "import roicy", "import numpy"


class PasteMasks:
    """Masks of a detector in images, written to the same array, or as run-length codes."""

    params = [list(workloads.MASKS), [1, 2]]
    param_names = ["workload", "threads"]
    timeout = 120
    repeat = (5, 50, 2.0)
    warmup_time = 0.2

    def setup(self, workload, threads):
        roicy, work = load(), workloads.MASKS[workload]
        if not hasattr(roicy, "paste_masks"):
            raise NotImplementedError
        self.call = work.call(roicy, work.arrays(), reuse=True, threads=threads)

    def time_paste_masks(self, *_):
        self.call()
