"""
torchvision's ``roi_pool``, ``roi_align``, ``ps_roi_align``, ``ps_roi_pool`` and
``MultiScaleRoIAlign`` on NumPy arrays.

The functions are those of roicy.  (For tensors there is :mod:`roicy.torch`.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

from ..multiscale import multiscale_roi_align
from ..operators import ps_roi_align, ps_roi_pool, roi_align, roi_pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MultiScaleRoIAlign", "ps_roi_align", "ps_roi_pool", "roi_align", "roi_pool"]


class MultiScaleRoIAlign:
    """
    Pool boxes from the maps of a feature pyramid, each from the level that suits its size.

    Parameters
    ----------
    featmap_names : list of str
        Names of the maps that are used, from fine to coarse.
    output_size : int or (int, int)
        Bins of a box, (height, width).
    sampling_ratio : int
        Samples per bin and axis; if 0 or negative, as many as the bin has pixels, rounded up.
    canonical_scale : float, optional
        Boxes as large as a square of this side are pooled from the level `canonical_level`,
        that of scale 2**-canonical_level.
    canonical_level : int, optional
        See there.

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

    def __init__(
        self,
        featmap_names: Sequence[str],
        output_size: SupportsIndex | tuple[SupportsIndex, SupportsIndex] | list[int],
        sampling_ratio: SupportsIndex,
        *,
        canonical_scale: SupportsFloat = 224,
        canonical_level: SupportsIndex = 4,
    ):
        self.featmap_names = featmap_names
        self.output_size = output_size
        self.sampling_ratio = sampling_ratio
        self.canonical_scale = canonical_scale
        self.canonical_level = canonical_level

    def __call__(
        self,
        x: Mapping[str, NDArray[Any]],
        boxes: Sequence[NDArray[Any]],
        image_shapes: Sequence[tuple[int, int]],
    ) -> NDArray[Any]:
        """
        Pool.

        Parameters
        ----------
        x : dict of ndarrays (N, C, H_l, W_l)
            Maps by their names; those of other names are not used.
        boxes : list of N ndarrays (L_i, 4)
            Rows [x1, y1, x2, y2] in pixels of the images.
        image_shapes : list of N (int, int)
            Height and width of each image, before they were made into a batch; the scales of
            the maps follow from the largest.

        Returns
        -------
        ndarray (K, C, height, width)
            In the order of the boxes.
        """
        maps = [level for name, level in x.items() if name in self.featmap_names]
        return multiscale_roi_align(
            maps,
            boxes,
            self.output_size,
            sampling_ratio=self.sampling_ratio,
            image_size=_largest(image_shapes),
            canonical_scale=self.canonical_scale,
            canonical_level=self.canonical_level,
        )


def _largest(image_shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the height and width that all images fit in."""
    if not image_shapes:
        raise ValueError("image_shapes: none, expected the height and width of each image")
    return max(shape[0] for shape in image_shapes), max(shape[1] for shape in image_shapes)
