"""torchvision's ``roi_pool``, ``roi_align``, ``ps_roi_align``, ``ps_roi_pool``, their classes and
``MultiScaleRoIAlign`` on NumPy arrays.

The functions are those of roicy.  (For tensors there is :mod:`roicy.torch`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from .._checks import _arguments
from .._checks import _names as t
from ..multiscale import multiscale_roi_align
from ..operators import ps_roi_align, ps_roi_pool, roi_align, roi_pool
from . import Parameters
from ._docs import documented

__all__ = [
    "MultiScaleRoIAlign", "PSRoIAlign", "PSRoIPool", "RoIAlign", "RoIPool", "ps_roi_align",
    "ps_roi_pool", "roi_align", "roi_pool",
]  # fmt: skip


@documented("roi_pool")
@dataclass(eq=False)
class RoIPool(Parameters):
    """:func:`roicy.roi_pool` with its parameters given once.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat.torchvision import RoIPool
    >>> x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> RoIPool(2, 1.0)(x, [np.array([[0, 0, 2, 2]], np.float32)])[0, 0]
    array([[ 5.,  6.],
           [ 9., 10.]], dtype=float32)
    """

    _function = staticmethod(roi_pool)
    output_size: t.Size
    spatial_scale: t.Number

    @documented("roi_pool", "ndarray (K, C, PH, PW)", rois="either_boxes")
    def __call__(self, input: t.Readable, rois: t.Boxes) -> t.NDArray[Any]:
        """Pool."""
        return super().__call__(input, rois)


@documented("roi_align")
@dataclass(eq=False)
class RoIAlign(RoIPool):
    """:func:`roicy.roi_align` with its parameters given once."""

    _function = staticmethod(roi_align)
    sampling_ratio: t.Ratio
    aligned: bool = False


@documented("ps_roi_align")
@dataclass(eq=False)
class PSRoIAlign(RoIPool):
    """:func:`roicy.ps_roi_align` with its parameters given once."""

    _function = staticmethod(ps_roi_align)
    sampling_ratio: t.Ratio


@documented("ps_roi_pool")
class PSRoIPool(RoIPool):
    """:func:`roicy.ps_roi_pool` with its parameters given once."""

    _function = staticmethod(ps_roi_pool)


@documented("multiscale_roi_align")
@dataclass(eq=False)
class MultiScaleRoIAlign:
    """Pool boxes from the maps of a feature pyramid, each from the level that suits its size.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat.torchvision import MultiScaleRoIAlign
    >>> pooler = MultiScaleRoIAlign(["feat1", "feat3"], 3, 2)
    >>> sides = {"feat1": 64, "feat2": 32, "feat3": 16}
    >>> maps = {name: np.ones((1, 5, side, side), np.float32) for name, side in sides.items()}
    >>> boxes = np.random.rand(6, 4).astype(np.float32) * 256
    >>> boxes[:, 2:] += boxes[:, :2]
    >>> pooler(maps, [boxes], [(512, 512)]).shape
    (6, 5, 3, 3)
    """

    featmap_names: Sequence[str]
    output_size: t.Size
    sampling_ratio: t.Ratio
    _: KW_ONLY
    canonical_scale: t.Number = 224
    canonical_level: t.Index = 4

    @documented(
        "multiscale_roi_align",
        "ndarray (K, C, PH, PW)\n    In the order of the boxes.",
        "if no map has one of the names, or `image_shapes` has no pair of integers for each image",
        x="maps_by_name",
        boxes="listed_boxes",
    )
    def __call__(
        self, x: Mapping[str, t.Readable], boxes: Sequence[t.Rows],
        image_shapes: Sequence[tuple[int, int]],
    ) -> t.NDArray[Any]:  # fmt: skip
        """Pool."""
        maps = [level for name, level in x.items() if name in self.featmap_names]
        if not maps:
            raise ValueError(
                f"x: maps named {list(x)}, expected one of featmap_names, {self.featmap_names}"
            )
        return multiscale_roi_align(
            maps, boxes, self.output_size, image_size=_largest(image_shapes),
            sampling_ratio=self.sampling_ratio, canonical_scale=self.canonical_scale,
            canonical_level=self.canonical_level,
        )  # fmt: skip


def _largest(image_shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the height and width that all images fit in."""
    sides = []
    if not isinstance(image_shapes, Iterable):
        raise TypeError(f"image_shapes: {image_shapes!r}, expected a list of (height, width)")
    for name, shape in ((f"image_shapes[{n}]", shape) for n, shape in enumerate(image_shapes)):
        try:
            height, width = shape
        except (TypeError, ValueError):
            raise ValueError(f"{name}: {shape!r}, expected (height, width)") from None
        sides.append([_arguments.integer(name, side, 1, 2**62) for side in (height, width)])
    if not sides:
        raise ValueError("image_shapes: none, expected the height and width of each image")
    return max(height for height, _ in sides), max(width for _, width in sides)
