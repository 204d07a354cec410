"""How torch.vmap batches the operators, and so torch.func.jacrev and gradients by sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._operators import LIBRARY, OPERATORS, Operator, unpack
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


def _register(own: Operator, operator: Any) -> None:
    names = [argument.name for argument in operator._schema.arguments]

    def rule(info: Any, given_dims: Any, *given: Any) -> Any:
        call, dims = dict(zip(names, given, strict=True)), dict(zip(names, given_dims, strict=True))
        maps, of_maps = unpack(call.get(own.maps, [])), unpack(dims.get(own.maps, []))
        images = maps[0].shape[1 if of_maps[0] == 0 else 0] if maps else call[own.shapes][0]
        batch = _Batch(info.batch_size, images)
        # Maps that are the same for all elements stay as they are, unless they get gradients.
        is_shared = operator is not own.backward and all(dim is None for dim in of_maps)
        for name, value in call.items():
            if name == own.maps:
                if not is_shared:
                    call[name] = own.pack(list(map(batch.fold, maps, of_maps)))
            elif name == own.shapes:
                extents = enumerate(value)
                call[name] = [side if i % 4 else batch.size * side for i, side in extents]
            elif name == "boxes" and not is_shared:
                call[name] = batch.fold_boxes(value, dims[name])
            elif isinstance(value, Tensor):
                call[name] = batch.fold(value, dims[name])
        result = operator(*call.values())
        if operator is own.backward_boxes:
            result = result.to(given[names.index("boxes")].dtype)
        if isinstance(result, Tensor):
            return batch.unfold(result), 0
        kind = type(result)
        return kind(map(batch.unfold, result)), kind(0 for _ in result)

    torch.library.register_vmap(operator.name(), rule, lib=LIBRARY)


for _own in OPERATORS.values():
    for _operator in (_own.pool, _own.pool_argmax, _own.backward, _own.backward_boxes):
        if _operator is not None:
            _register(_own, _operator)
