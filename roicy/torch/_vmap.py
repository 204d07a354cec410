"""How torch.vmap batches the operators, and so torch.func.jacrev and gradients by sample.

The elements of a batch are made into one call with more images and more boxes: image n of element
b becomes image b * N + n, where N is the number of images of an element.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._operators import LIBRARY, OPERATORS, TorchOp, unpack
from ._script import exact_type


def folded(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """Return (B * L, ...) of (L, ...), with the dimension of the batch or without one."""
    if dim is None:
        return tensor.expand(size, *tensor.shape).flatten(0, 1)
    return tensor.movedim(dim, 0).flatten(0, 1)


def _folded_boxes(boxes: Tensor, dim: int | None, size: int, images: int) -> Tensor:
    """Return boxes (B * K, 5) of images that are folded; images: of an element."""
    rows = folded(boxes, dim, size)
    rows = rows.to(exact_type(rows.dtype, size * images))
    first = torch.arange(size, dtype=rows.dtype).repeat_interleave(rows.shape[0] // size) * images
    return torch.cat([rows[:, :1] + first[:, None], rows[:, 1:]], dim=1)


def _register(own: TorchOp, operator: Any) -> None:
    names = [argument.name for argument in operator._schema.arguments]

    def rule(info: Any, given_dims: Any, *given: Any) -> Any:
        call, dims = dict(zip(names, given, strict=True)), dict(zip(names, given_dims, strict=True))
        maps, of_maps = unpack(call.get(own.maps, [])), unpack(dims.get(own.maps, []))
        images = maps[0].shape[1 if of_maps[0] == 0 else 0] if maps else call[own.shapes][0]
        size = info.batch_size
        # Maps that are the same for all elements stay as they are, unless they get gradients.
        is_shared = operator is not own.backward and all(dim is None for dim in of_maps)
        for name, value in call.items():
            if name == own.maps:
                if not is_shared:
                    call[name] = own.pack(
                        [folded(*one, size) for one in zip(maps, of_maps, strict=True)]
                    )
            elif name == own.shapes:
                call[name] = [side if i % 4 else size * side for i, side in enumerate(value)]
            elif name == "boxes" and not is_shared:
                call[name] = _folded_boxes(value, dims[name], size, images)
            elif isinstance(value, Tensor):
                call[name] = folded(value, dims[name], size)
        result = operator(*call.values())
        if operator is own.backward_boxes:
            result = result.to(given[names.index("boxes")].dtype)
        unfolded = [one.unflatten(0, (size, one.shape[0] // size)) for one in unpack(result)]
        if isinstance(result, Tensor):
            return unfolded[0], 0
        return type(result)(unfolded), type(result)(0 for _ in unfolded)

    torch.library.register_vmap(operator.name(), rule, lib=LIBRARY)


for _own in OPERATORS.values():
    for _operator in (_own.pool, _own.pool_argmax, _own.backward, _own.backward_boxes):
        if _operator is not None:
            _register(_own, _operator)
