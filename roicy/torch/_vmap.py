"""How torch.vmap batches the operators, and so torch.func.jacrev and gradients by sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._boxes import exact_type
from ._operators import LIBRARY, ROI_ALIGN_MAX, ROI_POOL, WEIGHTED_SUMS, WeightedSum


class _Batch:
    """
    A call under vmap: its tensors made into those of one call with more images and more boxes.

    Image n of element b becomes image b * N + n, where N is the number of images of an element.
    """

    def __init__(self, size: int, images: int):
        self.size, self.images = size, images

    def fold(self, tensor: Tensor, dim: int | None) -> Tensor:
        """Return (B * L, ...) of (L, ...), with the dimension of the batch or without one."""
        if dim is None:
            return tensor.expand(self.size, *tensor.shape).flatten(0, 1)
        return tensor.movedim(dim, 0).flatten(0, 1)

    def fold_boxes(self, boxes: Tensor, dim: int | None) -> Tensor:
        """Return boxes (B * K, 5) of images that are folded."""
        count = boxes.shape[0 if dim is None or dim > 0 else 1]
        rows = self.fold(boxes, dim)
        rows = rows.to(exact_type(rows.dtype, self.size * self.images))
        first = torch.arange(self.size, dtype=rows.dtype).repeat_interleave(count) * self.images
        return torch.cat([rows[:, :1] + first[:, None], rows[:, 1:]], dim=1)

    def unfold(self, result: Tensor) -> Tensor:
        """Return (B, L, ...) of (B * L, ...)."""
        return result.unflatten(0, (self.size, result.shape[0] // self.size))


def _images(tensor: Tensor, dim: int | None) -> int:
    return tensor.shape[1 if dim == 0 else 0]


def _register(name: str, rule: Callable[..., Any]) -> None:
    torch.library.register_vmap(f"roicy::{name}", rule, lib=LIBRARY)


def _register_weighted_sum(own: WeightedSum) -> None:
    def fold(info: Any, input: Any, dims: Any, boxes: Tensor, boxes_dim: int | None) -> Any:
        """Fold maps and boxes; maps that are the same for all elements stay as they are."""
        maps, dims = own.unpack(input), own.unpack(dims)
        batch = _Batch(info.batch_size, _images(maps[0], dims[0]))
        if all(dim is None for dim in dims):
            return batch, input, batch.fold(boxes, boxes_dim)
        folded = [batch.fold(level, dim) for level, dim in zip(maps, dims, strict=True)]
        return batch, own.pack(folded), batch.fold_boxes(boxes, boxes_dim)

    def pool(info: Any, dims: Any, input: Any, boxes: Tensor, *parameters: Any) -> Any:
        batch, maps, rows = fold(info, input, dims[0], boxes, dims[1])
        return batch.unfold(own.pool(maps, rows, *parameters)), 0

    def backward(
        info: Any, dims: Any, grad: Tensor, boxes: Tensor, shapes: list[int], *parameters: Any
    ) -> Any:
        batch = _Batch(info.batch_size, shapes[0])
        more = [extent * batch.size if i % 4 == 0 else extent for i, extent in enumerate(shapes)]
        rows = batch.fold_boxes(boxes, dims[1])
        grads = own.unpack(own.backward(batch.fold(grad, dims[0]), rows, more, *parameters))
        return own.pack([batch.unfold(level) for level in grads]), [0] * len(
            grads
        ) if own.is_pyramid else 0

    def backward_boxes(
        info: Any, dims: Any, grad: Tensor, input: Any, boxes: Tensor, *parameters: Any
    ) -> Any:
        batch, maps, rows = fold(info, input, dims[1], boxes, dims[2])
        result = own.backward_boxes(batch.fold(grad, dims[0]), maps, rows, *parameters)
        return batch.unfold(result.to(boxes.dtype)), 0

    _register(own.name, pool)
    _register(f"{own.name}_backward", backward)
    if own.backward_boxes is not None:
        _register(f"{own.name}_backward_boxes", backward_boxes)


def _register_roi_pool() -> None:
    def fold(info: Any, dims: Any, input: Tensor, boxes: Tensor) -> Any:
        batch = _Batch(info.batch_size, _images(input, dims[0]))
        return batch, batch.fold(input, dims[0]), batch.fold_boxes(boxes, dims[1])

    def pool(info: Any, dims: Any, input: Tensor, boxes: Tensor, *parameters: Any) -> Any:
        batch, maps, rows = fold(info, dims, input, boxes)
        return batch.unfold(ROI_POOL.pool(maps, rows, *parameters)), 0

    def pool_argmax(info: Any, dims: Any, input: Tensor, boxes: Tensor, *parameters: Any) -> Any:
        batch, maps, rows = fold(info, dims, input, boxes)
        pooled, argmax = ROI_POOL.pool_argmax(maps, rows, *parameters)
        return (batch.unfold(pooled), batch.unfold(argmax)), (0, 0)

    def backward(
        info: Any, dims: Any, grad: Tensor, argmax: Tensor, boxes: Tensor, shape: list[int],
        threads: int | None,
    ) -> Any:  # fmt: skip
        batch = _Batch(info.batch_size, shape[0])
        folded = batch.fold(grad, dims[0]), batch.fold(argmax, dims[1])
        more = [shape[0] * batch.size, *shape[1:]]
        rows = batch.fold_boxes(boxes, dims[2])
        return batch.unfold(ROI_POOL.backward(*folded, rows, more, threads)), 0

    _register("roi_pool", pool)
    _register("roi_pool_argmax", pool_argmax)
    _register("roi_pool_backward", backward)


def _register_roi_align_max() -> None:
    def pool(info: Any, dims: Any, input: Tensor, boxes: Tensor, *parameters: Any) -> Any:
        batch = _Batch(info.batch_size, _images(input, dims[0]))
        folded = batch.fold(input, dims[0]), batch.fold_boxes(boxes, dims[1])
        return batch.unfold(ROI_ALIGN_MAX.pool(*folded, *parameters)), 0

    def backward(
        info: Any, dims: Any, grad: Tensor, input: Tensor, boxes: Tensor, *parameters: Any
    ) -> Any:
        batch = _Batch(info.batch_size, _images(input, dims[1]))
        folded = batch.fold(grad, dims[0]), batch.fold(input, dims[1])
        rows = batch.fold_boxes(boxes, dims[2])
        return batch.unfold(ROI_ALIGN_MAX.backward(*folded, rows, *parameters)), 0

    _register("roi_align_max", pool)
    _register("roi_align_max_backward", backward)


for _own in WEIGHTED_SUMS:
    _register_weighted_sum(_own)
_register_roi_pool()
_register_roi_align_max()
