"""PaddlePaddle's operators, in both forms of their calls.

The functions here are called as ``paddle.fluid.layers`` (up to 2.4)::

    roi_pool(input, rois, pooled_height=1, pooled_width=1, spatial_scale=1.0, rois_num=None,
    name=None)

or, with the names of their arguments, as ``paddle.vision.ops`` (2.0 and later), whose functions
are in :mod:`.vision.ops` too::

    roi_pool(x, boxes=..., boxes_num=..., output_size=..., spatial_scale=1.0, name=None)

A call says in one of these ways to which images its boxes belong:

- by the number of boxes of each image: `rois_num`, `boxes_num` or `batch_roi_nums`
- by `rois_lod`, which is offsets [0, count, ...] as in 1.8
- by boxes from :func:`create_lod_tensor`, which hold their counts
- in no way, if there is only one image

Unlike the functions of roicy, these round `spatial_scale` to float32, even for float64 data, as
Paddle does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ... import integrals, operators
from ..._checks import _arguments, _boxes
from ..._checks import _names as t
from ..._checks._names import errors_name
from .. import bins_of, float32_scale, images_of, r_fcn_pool, shape_of
from .._docs import documented
from .vision import ops as _ops

__all__ = ["LoDTensor", "create_lod_tensor", "prroi_pool", "psroi_pool", "roi_align", "roi_pool"]


class LoDTensor(np.ndarray):
    """An array whose rows belong to images; `lengths` says how many rows each image has."""

    lengths: tuple[int, ...] | None = None

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """Return the lengths as Paddle does, in one list for each level; there is one level."""
        return [] if self.lengths is None else [list(self.lengths)]


@errors_name(boxes_num="recursive_seq_lens", boxes="data")
def create_lod_tensor(
    data: Any, recursive_seq_lens: list[list[int]], place: Any = None
) -> LoDTensor:
    """Return rows with the number of rows of each image, as ``fluid.create_lod_tensor`` does.

    Parameters
    ----------
    data : array_like, (K, ...)
        The rows.
    recursive_seq_lens : list of one list of ints
        How many rows each image has.
    place : object, optional
        Ignored.

    Returns
    -------
    LoDTensor
        The rows, and their counts.

    Raises
    ------
    TypeError, ValueError
        If there is not exactly one level, or if the counts do not sum to the number of rows.
    """
    if len(recursive_seq_lens) != 1:
        raise ValueError(
            f"recursive_seq_lens: {len(recursive_seq_lens)} levels, expected 1, the counts of each "
            "image's rows"
        )
    rows = data if isinstance(data, (list, tuple)) else _arguments.taken("data", data)
    tensor, (counts,) = np.array(rows).view(LoDTensor), recursive_seq_lens
    tensor.lengths = tuple(_boxes.box_counts(counts, len(tensor), len(counts)))
    return tensor


def _counts(input: Any, rois: Any, counts: Any, name: str, lod: Any = None) -> Any:
    """Return the number of boxes of each image."""
    if counts is not None and lod is not None:
        raise ValueError(f"{name}: expected None, since rois_lod says which image a box is of")
    if lod is not None:
        offsets = _boxes.integers("rois_lod", lod)
        if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or offsets[:1].tolist() != [0]:
            raise ValueError(
                f"rois_lod: {lod!r}, expected offsets [0, count of the first image, ...]"
            )
        counts = np.diff(offsets.astype(np.int64))
    elif counts is None and isinstance(rois, LoDTensor):
        counts = rois.lengths
    if counts is None and images_of(input) == 1:
        counts = [len(rois)]
    if counts is None:
        raise ValueError(f"{name}: None, expected the number of boxes of each image")
    return counts


Function = Callable[..., np.ndarray]
_OUT = "ndarray (K, C, pooled_height, pooled_width)"
_UNKNOWN = "if nothing says which image the boxes are of and there are several"


def _also(other: Function, is_other: Callable[..., bool]) -> Callable[[Function], Function]:
    """Let a function take calls in another form too; is_other: whether these arguments have it.

    Annotations of arguments that are others in the other form say so: they are Any.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> np.ndarray:
            return (other if is_other(*args, **kwargs) else function)(*args, **kwargs)

        return call

    return decorate


def _is_newer(*args: Any, **kwargs: Any) -> bool:
    """Whether a call is one of ``paddle.vision.ops``: it names an argument that the older form does
    not have, or it has counts where the older form has a height.
    """
    names = {"x", "boxes", "boxes_num", "output_size", "aligned"}
    return not names.isdisjoint(kwargs) or (
        len(args) > 2 and (isinstance(args[2], (np.ndarray, list, tuple)) or np.ndim(args[2]) > 0)
    )


def _has_channels(*args: Any, **kwargs: Any) -> bool:
    """Whether a call of prroi_pool has `output_channels`: it is named, or there is a fourth number
    after `rois`, or the second number is not whole, and so is not a height.
    """
    return (
        "output_channels" in kwargs
        or (len(args) > 5 and isinstance(args[5], (int, np.integer)))
        or (len(args) > 3 and isinstance(args[3], (float, np.floating)))
    )


@_also(_ops.roi_pool, _is_newer)
@documented("roi_pool", _OUT, _UNKNOWN, rois="sorted_boxes", spatial_scale="float32")
def roi_pool(
    input: t.Readable, rois: t.Rows, pooled_height: Any = 1, pooled_width: Any = 1,
    spatial_scale: Any = 1.0, rois_num: Any = None, name: str | None = None, *,
    rois_lod: Any = None,
) -> np.ndarray:  # fmt: skip
    """Largest pixel in each bin of each box, as ``paddle.fluid.layers.roi_pool``; see
    :func:`roicy.roi_pool`.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import paddle
    >>> input = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> rois = np.array([[1., 1., 2., 2.], [1.5, 1.5, 3., 3.]], np.float32)
    >>> rois = paddle.create_lod_tensor(rois, [[2]])
    >>> paddle.roi_pool(input, rois, 1, 1, 1.0)
    array([[[[11.]]], [[[16.]]]], dtype=float32)
    """
    counts = _counts(input, rois, rois_num, "rois_num", rois_lod)
    bins = bins_of(pooled_height=pooled_height, pooled_width=pooled_width)
    return operators.roi_pool(input, rois, bins, float32_scale(spatial_scale), boxes_num=counts)


@_also(_ops.roi_align, _is_newer)
@documented("roi_align", _OUT, _UNKNOWN, rois="sorted_boxes", spatial_scale="float32")
def roi_align(
    input: t.Readable, rois: t.Rows, pooled_height: Any = 1, pooled_width: Any = 1,
    spatial_scale: Any = 1.0, sampling_ratio: Any = -1, rois_num: Any = None,
    name: str | None = None, *, rois_lod: Any = None,
) -> np.ndarray:  # fmt: skip
    """Mean of bilinear samples in each bin of each box, as ``paddle.fluid.layers.roi_align``; see
    :func:`roicy.roi_align`.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import paddle
    >>> x, rois = np.ones((2, 256, 32, 32), np.float32), np.array([[0, 0, 40, 40]] * 4, np.float32)
    >>> paddle.roi_align(x, rois, 7, 7, 0.5, sampling_ratio=-1, rois_num=np.array([3, 1])).shape
    (4, 256, 7, 7)
    """
    counts = _counts(input, rois, rois_num, "rois_num", rois_lod)
    bins = bins_of(pooled_height=pooled_height, pooled_width=pooled_width)
    scale = float32_scale(spatial_scale)
    return operators.roi_align(input, rois, bins, scale, sampling_ratio, boxes_num=counts)


@_also(_ops.psroi_pool, _is_newer)
@documented(
    "ps_roi_pool",
    _OUT.replace("C,", "output_channels,"),
    "if `output_channels` is another number, or nothing says which image the boxes are of",
    rois="sorted_boxes",
    output_channels="int\nC / (pooled_height * pooled_width).",
    spatial_scale="float32",
)
def psroi_pool(
    input: t.Readable, rois: t.Rows, output_channels: Any, spatial_scale: Any, pooled_height: Any,
    pooled_width: Any, name: str | None = None, *, rois_num: Any = None, rois_lod: Any = None,
) -> np.ndarray:  # fmt: skip
    """Mean of the whole pixels that a bin touches, where each bin reads channels of its own, as
    ``paddle.fluid.layers.psroi_pool``; see :func:`.vision.ops.psroi_pool`.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import paddle
    >>> x, rois = np.ones((1, 490, 28, 28), np.float32), np.array([[1, 5, 8, 10]], np.float32)
    >>> paddle.psroi_pool(x, rois, 10, 1.0, 7, 7).shape
    (1, 10, 7, 7)
    """
    bins = bins_of(pooled_height=pooled_height, pooled_width=pooled_width)
    wanted = _arguments.integer("output_channels", output_channels, 0, 2**62)
    shape = shape_of(input)
    if len(shape) == 4 and wanted * bins[0] * bins[1] != shape[1]:
        raise ValueError(
            f"output_channels: {wanted}, expected the input's {shape[1]} channels divided by "
            f"{bins[0]} x {bins[1]} bins"
        )
    counts = _counts(input, rois, rois_num, "rois_num", rois_lod)
    return r_fcn_pool(input, rois, counts, bins, spatial_scale)


@errors_name(boxes="rois", boxes_num="batch_roi_nums")
def _prroi_pool_of_channels(
    input: np.ndarray, rois: np.ndarray, output_channels: int, spatial_scale: float = 1.0,
    pooled_height: int = 1, pooled_width: int = 1, name: str | None = None, *,
    batch_roi_nums: Any = None, rois_lod: Any = None,
) -> np.ndarray:  # fmt: skip
    """Return what Paddle's documents show, whose channels say whether each bin has its own."""
    bins = bins_of(pooled_height=pooled_height, pooled_width=pooled_width)
    counts = _counts(input, rois, batch_roi_nums, "batch_roi_nums", rois_lod)
    wanted = _arguments.integer("output_channels", output_channels, 0, 2**62)
    shape, of_bins, pool = shape_of(input), bins[0] * bins[1], integrals.prroi_pool
    if len(shape) == 4 and wanted != shape[1]:  # the operator says what is wrong with others
        pool = integrals.ps_prroi_pool
        if wanted * of_bins != shape[1]:
            expected = f"the input's {shape[1]} channels"
            if shape[1] % of_bins == 0:
                channels = shape[1] // of_bins
                expected += f", or {channels}, which times {bins[0]} x {bins[1]} bins gives them"
            raise ValueError(f"output_channels: {wanted}, expected {expected}")
    return pool(input, rois, bins, float32_scale(spatial_scale), boxes_num=counts)


@_also(_prroi_pool_of_channels, _has_channels)
@documented("prroi_pool", _OUT, _UNKNOWN, rois="sorted_boxes", spatial_scale="float32")
def prroi_pool(
    input: t.Readable, rois: t.Rows, spatial_scale: Any = 1.0, pooled_height: Any = 1,
    pooled_width: Any = 1, batch_roi_nums: Any = None, name: str | None = None, *,
    rois_lod: Any = None,
) -> np.ndarray:  # fmt: skip
    """Exact mean of the bilinear surface over each bin of each box, as
    ``paddle.fluid.layers.prroi_pool``; see :func:`roicy.prroi_pool`.

    It is called as in Paddle 1.8, or with `output_channels` as in Paddle's documents::

        prroi_pool(input, rois, output_channels, spatial_scale, pooled_height, pooled_width,
                   name=None)

    These are C, or C / (pooled_height * pooled_width): then each bin reads channels of its own, as
    in :func:`roicy.ps_prroi_pool`, and other numbers are a ValueError.  A call has this form if it
    names `output_channels`, if there is a fourth number after `rois`, or if the second number after
    `rois` is not whole, and so is not a height.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import paddle
    >>> x, rois = np.ones((4, 490, 28, 28), np.float32), np.array([[0, 0, 14, 14]] * 4, np.float32)
    >>> paddle.prroi_pool(x, rois, 1.0, 7, 7, batch_roi_nums=np.array([1, 1, 1, 1])).shape
    (4, 490, 7, 7)
    >>> paddle.prroi_pool(x, paddle.create_lod_tensor(rois, [[1] * 4]), 10, 1.0, 7, 7).shape
    (4, 10, 7, 7)
    """
    counts = _counts(input, rois, batch_roi_nums, "batch_roi_nums", rois_lod)
    bins = bins_of(pooled_height=pooled_height, pooled_width=pooled_width)
    return integrals.prroi_pool(input, rois, bins, float32_scale(spatial_scale), boxes_num=counts)
