"""
Work that detectors ask for, in realistic sizes: what `python -m roicy bench` and the ASV suite
time.

NumPy alone, so that the suite can read this file whatever version of roicy it times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Workload(NamedTuple):
    """
    One call: its feature maps (N, C, H, W), of a pyramid the finest, its boxes on the image,
    and the parameters of the operator.
    """

    operator: str
    shape: tuple[int, int, int, int]
    count: int
    output_size: tuple[int, int]
    spatial_scale: float
    sides: tuple[int, int]  # of boxes, in pixels of the image: from, to
    parameters: dict[str, Any]
    levels: int = 1

    @property
    def scales(self) -> float | list[float]:
        """What the operator takes as its scale."""
        return (
            self.spatial_scale
            if self.levels == 1
            else [self.spatial_scale / 2**level for level in range(self.levels)]
        )

    def arrays(self, dtype: str = "float32") -> dict[str, Any]:
        """
        Return input, of a pyramid a list, boxes and the gradient of the output; of small types
        the input alone, a picture in uint8.
        """
        computed = "float64" if dtype == "float64" else "float32"
        rng = np.random.default_rng(0)
        n, c, h, w = self.shape
        height, width = h / self.spatial_scale, w / self.spatial_scale
        # as many small as large ones
        sides = np.exp(rng.uniform(*np.log(self.sides), (self.count, 2)))
        sides = np.minimum(sides, (width - 1, height - 1))
        corners = rng.uniform(size=(self.count, 2)) * ((width, height) - sides)
        images = np.sort(rng.integers(0, n, self.count))
        boxes = np.column_stack([images, corners, corners + sides]).astype(computed)
        channels = (
            c // (self.output_size[0] * self.output_size[1])
            if self.operator.startswith("ps_")
            else c
        )

        def maps(level):
            maps = rng.standard_normal((n, c, -(-h >> level), -(-w >> level)), "float32")
            return placed(np.clip(maps * 40 + 128, 0, 255) if dtype == "uint8" else maps, dtype)

        return {
            "input": maps(0) if self.levels == 1 else [maps(level) for level in range(self.levels)],
            "boxes": boxes,
            "grad_output": placed(
                rng.standard_normal((self.count, channels, *self.output_size), "float32"), computed
            ),
        }


ADAPTIVE, TWO = {"sampling_ratio": -1}, {"sampling_ratio": 2}
WORKLOADS = {
    # box head on the levels of a feature pyramid, image of 800 x 1216
    "align_fpn_p2": Workload(
        "roi_align",
        (1, 256, 200, 304),
        1000,
        (7, 7),
        1 / 4,
        (16, 112),
        ADAPTIVE | {"aligned": True},
    ),
    "align_fpn_p2_sr2": Workload(
        "roi_align", (1, 256, 200, 304), 1000, (7, 7), 1 / 4, (16, 112), TWO
    ),
    "align_fpn_p3": Workload("roi_align", (1, 256, 100, 152), 400, (7, 7), 1 / 8, (112, 224), TWO),
    "align_fpn_p4": Workload("roi_align", (1, 256, 50, 76), 200, (7, 7), 1 / 16, (224, 448), TWO),
    # the same on all levels of the pyramid, boxes of all sizes
    "align_pyramid": Workload(
        "multiscale_roi_align", (1, 256, 200, 304), 1000, (7, 7), 1 / 4, (16, 700), TWO, levels=4
    ),
    # mask head
    "align_mask": Workload("roi_align", (1, 256, 200, 304), 100, (14, 14), 1 / 4, (16, 224), TWO),
    # the same for what is left of the detections of an image
    "align_few": Workload("roi_align", (1, 256, 200, 304), 12, (14, 14), 1 / 4, (16, 224), TWO),
    # one level, many channels, large boxes
    "align_c4": Workload(
        "roi_align", (1, 1024, 50, 76), 300, (14, 14), 1 / 16, (64, 760), ADAPTIVE
    ),
    # batch of a training step
    "align_train": Workload("roi_align", (4, 256, 100, 152), 2048, (7, 7), 1 / 8, (32, 224), TWO),
    # so little work that the call itself shows
    "align_tiny": Workload("roi_align", (1, 64, 32, 32), 8, (7, 7), 1 / 2, (8, 48), TWO),
    # crops of a camera frame
    "align_camera": Workload(
        "roi_align", (1, 3, 1080, 1920), 64, (224, 224), 1.0, (64, 512), ADAPTIVE
    ),
    # Fast R-CNN
    "pool_vgg": Workload("roi_pool", (1, 512, 50, 76), 1000, (7, 7), 1 / 16, (64, 600), {}),
    "pool_tiny": Workload("roi_pool", (1, 64, 32, 32), 8, (7, 7), 1 / 2, (8, 48), {}),
    # Light-Head R-CNN and R-FCN
    "ps_align_lighthead": Workload(
        "ps_roi_align", (1, 490, 50, 76), 1000, (7, 7), 1 / 16, (64, 600), TWO
    ),
    "ps_align_rfcn": Workload(
        "ps_roi_align", (1, 1029, 50, 76), 300, (7, 7), 1 / 16, (64, 600), ADAPTIVE
    ),
    "ps_prroi_lighthead": Workload(
        "ps_prroi_pool", (1, 490, 50, 76), 1000, (7, 7), 1 / 16, (64, 600), {}
    ),
    # IoU-Net
    "prroi_iounet": Workload("prroi_pool", (1, 256, 100, 152), 1000, (7, 7), 1 / 8, (32, 300), {}),
    "prroi_c4": Workload("prroi_pool", (1, 512, 50, 76), 300, (14, 14), 1 / 16, (64, 760), {}),
}


def placed(values: np.ndarray, dtype: str | np.dtype) -> np.ndarray:
    """
    Return a copy that begins 16 bytes into a page, as large arrays of NumPy do.

    Smaller ones begin anywhere, by what was allocated before, down to the length of the path of
    a module; and whether vectors cross cache lines is worth up to a seventh of the time.
    """
    page = 4096
    size = values.size * np.dtype(dtype).itemsize
    memory = np.empty(size + 2 * page, np.uint8)
    start = -memory.ctypes.data % page + 16
    copy = memory[start : start + size].view(dtype).reshape(values.shape)
    np.copyto(copy, values, casting="unsafe")
    return copy


def each_level(maps: Any) -> list[Any]:
    """Return a list of the maps of a pyramid, or of the only one."""
    return list(maps) if isinstance(maps, (list, tuple)) else [maps]


def call(
    roicy: Any,
    workload: Workload,
    arrays: dict[str, Any],
    direction: str,
    layout: str,
    reuse: bool,
    num_threads: int,
    put: Any = np.asarray,
) -> Any:
    """
    Return a function of no arguments that calls an operator of the module `roicy` and returns
    what that returns.

    direction: "forward", "backward" or "backward_boxes"; reuse: write to one array, call after
    call; put: brings an array to where the call shall work.
    """

    def laid_out(array):
        if isinstance(array, list):
            return [laid_out(level) for level in array]
        return put(placed(array.transpose(0, 2, 3, 1), array.dtype) if layout == "NHWC" else array)

    input, grad, boxes = (
        laid_out(arrays["input"]),
        laid_out(arrays["grad_output"]),
        put(arrays["boxes"]),
    )
    options = {"layout": layout, "num_threads": num_threads}
    sampling = workload.parameters
    name, scale = workload.operator, workload.scales
    if direction == "forward":

        def function(**out):
            return getattr(roicy, name)(
                input, boxes, workload.output_size, scale, **sampling, **options, **out
            )

    elif direction == "backward_boxes":
        return lambda: getattr(roicy, name + "_backward_boxes")(
            grad, input, boxes, scale, **sampling, **options
        )
    elif name == "roi_pool":
        argmax = roicy.roi_pool(
            input, boxes, workload.output_size, scale, return_argmax=True, **options
        )[1]

        def function(**out):
            return roicy.roi_pool_backward(grad, argmax, boxes, input.shape, **options, **out)

    else:
        shape = input.shape if workload.levels == 1 else [level.shape for level in input]

        def function(**out):
            return getattr(roicy, name + "_backward")(
                grad, boxes, shape, scale, **sampling, **options, **out
            )

    if reuse:
        out = function()
        return lambda: function(out=out)
    return function
