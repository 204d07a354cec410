"""The operators as modules: torchvision's, and others."""

# torch.jit.script reads annotations: they are not postponed here, and are spelled as it knows them

import math
import sys
from typing import Any, Dict, List, Optional, Tuple, Union

from torch import Tensor, nn
from torch.jit.annotations import BroadcastingList2
from torch.nn.modules.utils import _pair

from . import _docs, _eager, functions
from ._operators import OPERATORS

__all__ = [
    "MultiScaleRoIAlign", "PSPrRoIPool", "PSRoIAlign", "PSRoIPool", "PrRoIPool", "RoIAlign",
    "RoIAlignRotated", "RoIPool",
]  # fmt: skip


def _extra_repr(module: Any) -> str:
    # without a docstring, by which pages of modules would list it
    keywords = [name for operator in OPERATORS.values() for name in operator.parameters]
    names = ["featmap_names", "output_size", "spatial_scale", *keywords, "num_threads"]
    values = {name: getattr(module, name) for name in names if hasattr(module, name)}
    for hidden in ("canonical_scale", "canonical_level"):  # as torchvision's module hides them
        values.pop(hidden, None)
    if values["num_threads"] is None:
        del values["num_threads"]
    return ", ".join(f"{name}={value}" for name, value in values.items())


class _Pool(nn.Module):
    """A function, with the size of its output and the scale of its boxes."""

    _function = staticmethod(functions.roi_pool)
    extra_repr = _extra_repr
    num_threads: Optional[int]

    def __init__(
        self, output_size: BroadcastingList2[int], spatial_scale: functions.Scale = 1.0, *,
        num_threads: Optional[int] = None,
    ):  # fmt: skip
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale
        self.num_threads = num_threads

    def forward(self, input: Tensor, boxes: functions.Boxes) -> Tensor:
        """Pool; see the function."""
        return self._function(
            input, boxes, self.output_size, self.spatial_scale, num_threads=self.num_threads
        )


@_docs.module("roi_pool")
class RoIPool(_Pool):
    """:func:`roi_pool` of `input` and `boxes`, as a module."""


@_docs.module("ps_roi_pool")
class PSRoIPool(_Pool):
    """:func:`ps_roi_pool` of `input` and `boxes`, as a module."""

    _function = staticmethod(functions.ps_roi_pool)


@_docs.module("prroi_pool")
class PrRoIPool(_Pool):
    """:func:`prroi_pool` of `input` and `boxes`, as a module."""

    _function = staticmethod(functions.prroi_pool)


@_docs.module("ps_prroi_pool")
class PSPrRoIPool(_Pool):
    """:func:`ps_prroi_pool` of `input` and `boxes`, as a module."""

    _function = staticmethod(functions.ps_prroi_pool)


@_docs.module("roi_align")
class RoIAlign(_Pool):
    """:func:`roi_align` of `input` and `boxes`, as a module with torchvision's parameters.

    Examples
    --------
    >>> import torch
    >>> from roicy.torch import RoIAlign
    >>> pool = RoIAlign(2, spatial_scale=1.0, sampling_ratio=-1, aligned=True)
    >>> pool(torch.arange(64.0).reshape(1, 1, 8, 8), torch.tensor([[0, 2.0, 1, 6, 5]]))
    tensor([[[[14.5000, 16.5000],
              [30.5000, 32.5000]]]])
    """

    def __init__(
        self, output_size: BroadcastingList2[int], spatial_scale: functions.Scale,
        sampling_ratio: int, aligned: bool = False, *, num_threads: Optional[int] = None,
    ):  # fmt: skip
        super().__init__(output_size, spatial_scale, num_threads=num_threads)
        self.sampling_ratio = _eager.whole(sampling_ratio)
        self.aligned = aligned

    def forward(self, input: Tensor, boxes: functions.Boxes) -> Tensor:
        """Pool."""
        return functions.roi_align(
            input, boxes, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned,
            self.num_threads,
        )  # fmt: skip


@_docs.module("roi_align_rotated")
class RoIAlignRotated(_Pool):
    """:func:`roi_align_rotated` of `input` and `boxes`, as a module with mmcv's parameters."""

    spatial_scale: float

    def __init__(
        self, output_size: BroadcastingList2[int], spatial_scale: float, sampling_ratio: int = 0,
        aligned: bool = True, clockwise: bool = False, *, num_threads: Optional[int] = None,
    ):  # fmt: skip
        super().__init__(output_size, spatial_scale, num_threads=num_threads)
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned
        self.clockwise = clockwise

    def forward(self, input: Tensor, boxes: functions.Boxes) -> Tensor:
        """Pool."""
        return functions.roi_align_rotated(
            input, boxes, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned,
            self.clockwise, self.num_threads,
        )  # fmt: skip


@_docs.module("ps_roi_align")
class PSRoIAlign(_Pool):
    """:func:`ps_roi_align` of `input` and `boxes`, as a module."""

    def __init__(
        self, output_size: BroadcastingList2[int], spatial_scale: functions.Scale,
        sampling_ratio: int, *, num_threads: Optional[int] = None,
    ):  # fmt: skip
        super().__init__(output_size, spatial_scale, num_threads=num_threads)
        self.sampling_ratio = _eager.whole(sampling_ratio)

    def forward(self, input: Tensor, boxes: functions.Boxes) -> Tensor:
        """Pool."""
        return functions.ps_roi_align(
            input, boxes, self.output_size, self.spatial_scale, self.sampling_ratio,
            self.num_threads,
        )  # fmt: skip


@_docs.module("multiscale_roi_align", x="maps_by_name", boxes="listed_boxes")
class MultiScaleRoIAlign(nn.Module):
    """:func:`multiscale_roi_align` as a module, with the parameters of torchvision's.

    torchvision's detectors accept it as `box_roi_pool`, `mask_roi_pool` and `keypoint_roi_pool`:
    where torchvision has been imported before, it is an instance of torchvision's class.

    Examples
    --------
    >>> import torch
    >>> from roicy.torch import MultiScaleRoIAlign
    >>> pooler = MultiScaleRoIAlign(["feat1", "feat3"], 3, 2)
    >>> sides = {"feat1": 64, "feat2": 32, "feat3": 16}
    >>> maps = {name: torch.rand(1, 5, side, side) for name, side in sides.items()}
    >>> boxes = torch.rand(6, 4) * 256
    >>> boxes[:, 2:] += boxes[:, :2]
    >>> pooler(maps, [boxes], [(512, 512)]).shape
    torch.Size([6, 5, 3, 3])
    """

    extra_repr, __repr__ = _extra_repr, nn.Module.__repr__  # and not torchvision's
    scales: Optional[List[float]]
    num_threads: Optional[int]

    def __new__(cls, *_: Any, **__: Any) -> "MultiScaleRoIAlign":
        """Return an instance that is one of torchvision's class too, if that has been imported."""
        if cls is MultiScaleRoIAlign and "torchvision.ops" in sys.modules:
            from . import _torchvision_pooler

            cls = _torchvision_pooler.MultiScaleRoIAlign
        return super().__new__(cls)

    def __init__(
        self, featmap_names: List[str], output_size: Union[int, Tuple[int, int], List[int]],
        sampling_ratio: int, *, canonical_scale: float = 224, canonical_level: int = 4,
        num_threads: Optional[int] = None,
    ):  # fmt: skip
        nn.Module.__init__(self)  # and not of torchvision's class, if this is one
        self.featmap_names = featmap_names
        self.output_size = _pair(output_size)
        self.sampling_ratio = _eager.whole(sampling_ratio)
        self.canonical_scale = canonical_scale
        self.canonical_level = canonical_level
        self.num_threads = num_threads
        self.scales = None  # of the first call, as in torchvision

    def forward(
        self, x: Dict[str, Tensor], boxes: List[Tensor], image_shapes: List[Tuple[int, int]]
    ) -> Tensor:
        """Pool."""
        maps: List[Tensor] = []  # TorchScript has no comprehensions with a condition
        for name, level in x.items():
            if name in self.featmap_names:
                maps.append(level)
        scales = self.scales
        if scales is None:
            if len(image_shapes) == 0:
                raise ValueError("image_shapes: none, expected the height and width of each image")
            height = max([shape[0] for shape in image_shapes])
            scales = [
                2.0 ** round(math.log(level.shape[2] / height) / math.log(2.0)) for level in maps
            ]
            self.scales = scales
        return functions.multiscale_roi_align(
            maps, boxes, self.output_size, scales, self.sampling_ratio, False,
            float(self.canonical_scale), self.canonical_level, self.num_threads,
        )  # fmt: skip
