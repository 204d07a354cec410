"""How torch.vmap batches the operators, and so torch.func.jacrev and gradients by sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._operators import LIBRARY, OPERATORS, Operator
from ._rows import exact_type


class _Batch:
    """
    A call under vmap: its tensors are made into one call with more images and more boxes.

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


def _register(operator: Any, rule: Callable[..., Any]) -> None:
    torch.library.register_vmap(operator.name(), rule, lib=LIBRARY)


def _fold(own: Operator, info: Any, input: Any, dims: Any, boxes: Tensor, dim: int | None) -> Any:
    """Fold maps and boxes; maps that are the same for all elements stay as they are."""
    maps, dims = own.unpack(input), own.unpack(dims)
    batch = _Batch(info.batch_size, _images(maps[0], dims[0]))
    if all(one is None for one in dims):
        return batch, input, batch.fold(boxes, dim)
    folded = [batch.fold(level, one) for level, one in zip(maps, dims, strict=True)]
    return batch, own.pack(folded), batch.fold_boxes(boxes, dim)


def _register_pool(own: Operator, operator: Any) -> None:
    def pool(info: Any, dims: Any, input: Any, boxes: Tensor, *parameters: Any) -> Any:
        batch, maps, rows = _fold(own, info, input, dims[0], boxes, dims[1])
        pooled = operator(maps, rows, *parameters)
        if isinstance(pooled, tuple):
            return tuple(map(batch.unfold, pooled)), (0,) * len(pooled)
        return batch.unfold(pooled), 0

    _register(operator, pool)


def _register_backward(own: Operator) -> None:
    count = 1 + own.has_argmax  # tensors before the boxes

    def backward(info: Any, dims: Any, *given: Any) -> Any:
        boxes, shapes, *parameters = given[count:]
        batch = _Batch(info.batch_size, shapes[0])
        more = [extent * batch.size if i % 4 == 0 else extent for i, extent in enumerate(shapes)]
        folded = map(batch.fold, given[:count], dims)
        rows = batch.fold_boxes(boxes, dims[count])
        grads = own.unpack(own.backward(*folded, rows, more, *parameters))
        return own.pack([batch.unfold(grad) for grad in grads]), own.pack([0] * len(grads))

    _register(own.backward, backward)


def _register_with_maps(own: Operator, operator: Any) -> None:
    def of_boxes(
        info: Any, dims: Any, grad: Tensor, input: Any, boxes: Tensor, *parameters: Any
    ) -> Any:
        batch, maps, rows = _fold(own, info, input, dims[1], boxes, dims[2])
        result = operator(batch.fold(grad, dims[0]), maps, rows, *parameters)
        return batch.unfold(result.to(boxes.dtype)), 0

    def of_map(
        info: Any, dims: Any, grad: Tensor, input: Tensor, boxes: Tensor, *parameters: Any
    ) -> Any:
        batch = _Batch(info.batch_size, _images(input, dims[1]))
        folded = batch.fold(grad, dims[0]), batch.fold(input, dims[1])
        rows = batch.fold_boxes(boxes, dims[2])
        return batch.unfold(operator(*folded, rows, *parameters)), 0

    _register(operator, of_boxes if own.is_linear else of_map)


for _own in OPERATORS:
    _register_pool(_own, _own.pool)
    if _own.has_argmax:
        _register_pool(_own, _own.pool_argmax)
    if _own.is_linear:
        _register_backward(_own)
    else:
        _register_with_maps(_own, _own.backward)
    if _own.backward_boxes is not None:
        _register_with_maps(_own, _own.backward_boxes)
