"""The operators of ``torch.ops.roicy``: their schemas, what they compute on the CPU, and the shapes
and types of their results, which compilers ask for.

How they are differentiated is in ``_autograd.py``, and how vmap batches them in ``_vmap.py``.  All
three go by the names of the arguments, which are those of the functions on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import roicy

from .. import _table
from .._keywords import keywords_of
from . import _tensors
from ._tensors import pooled_type

LIBRARY = torch.library.Library("roicy", "DEF")
KERNELS: dict[Any, Callable[..., Any]] = {}  # what each operator calls on the CPU


def define(name: str, declared: str, kernel: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Define an operator of the library, and return it.

    Parameters
    ----------
    name, declared : its name, and the rest of its schema, "(arguments) -> results"
    kernel, fake : what it computes on the CPU, and tensors like its results without numbers
    """

    def without_numbers(*given: Any) -> Any:
        names = [argument.name for argument in operator._schema.arguments]
        _check_devices(dict(zip(names, given, strict=False)))
        return fake(*given)

    LIBRARY.define(name + declared, tags=(torch.Tag.pt2_compliant_tag,))
    LIBRARY.impl(name, kernel, "CPU")
    torch.library.register_fake(f"roicy::{name}", without_numbers, lib=LIBRARY)
    operator = getattr(torch.ops.roicy, name).default
    KERNELS[operator] = kernel
    return operator


def _check_devices(given: dict[str, Any]) -> None:
    """Check that no tensor has numbers if another has none: the result would have none either."""
    found = [
        (name, tensor.device)
        for name, value in given.items()
        for tensor in (value if isinstance(value, (list, tuple)) else [value])
        if isinstance(tensor, Tensor)
    ]
    first, expected = found[0]
    for name, device in found[1:]:
        if (device.type == "meta") != (expected.type == "meta"):
            raise ValueError(f"{name}: a tensor on {device}, expected {expected}, as {first} is on")


def _shapes_of(extents: Sequence[int]) -> list[tuple[int, ...]]:
    return [tuple(extents[i : i + 4]) for i in range(0, len(extents), 4)]


# Arguments before the parameters: the type in a schema, and what makes of it what the function on
# arrays takes.  The extents of all maps are one list, since schemas know no lists of lists.
_GIVEN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "grad_output": ("Tensor", _tensors.gradient),
    "argmax": ("Tensor", _tensors.array),
    "input": ("Tensor", _tensors.array),
    "features": ("Tensor[]", lambda maps: [_tensors.array(level) for level in maps]),
    "boxes": ("Tensor", lambda rows: rows),  # see `TorchOp._arrays`
    "output_size": ("SymInt[]", tuple),
    "input_shape": ("SymInt[]", tuple),
    "input_shapes": ("SymInt[]", _shapes_of),
}


class TorchOp:
    """An operator: its forward passes and its gradients, as torch.ops.roicy has them.

    Of a pyramid, `input` is a list of maps, and so is the gradient.

    Attributes
    ----------
    pool : (input, boxes, output_size, *parameters) -> pooled
    pool_argmax : as `pool` -> (pooled, argmax), or None
        Takes several times as long, and is called where a gradient may be wanted.
    backward :
        - of weighted sums (grad_output, boxes, input_shape, *parameters) -> grad_input
        - of the largest pixels (grad_output, argmax, boxes, input_shape, num_threads)
        - of the largest samples (grad_output, input, boxes, *parameters)
    backward_boxes : (grad_output, input, boxes, *parameters) -> grad_boxes, or None
    parameters : defaults of what follows the scale, but for num_threads
    maps, shapes : names of the arguments
    is_linear : whether it is linear in its input, of largest pixels where argmax is known
    by_bin : whether each bin reads channels of its own
    """

    def __init__(self, name: str, operator: _table.Operator):
        self.name, self.parameters = name, keywords_of(name)
        self.is_pyramid = name == "multiscale_roi_align"
        self.numbers, self.by_bin = len(operator.box), operator.position_sensitive
        self.has_argmax = operator.reduction is _table.MAX_PIXEL
        self.is_linear = operator.reduction is not _table.MAX_SAMPLE
        self.maps, self.shapes = "input", "input_shape"
        if self.is_pyramid:
            self.maps, self.shapes = "features", "input_shapes"
        # a pyramid has one scale or two for each level, one after the other
        given = {"spatial_scale": "float[]" if self.is_pyramid else "float[2]"}
        given |= {name: type(default).__name__ for name, default in self.parameters.items()}
        pooled, with_maps = (self.maps, "boxes", "output_size"), ("grad_output", self.maps, "boxes")
        self.pool_argmax: Any = None
        self.backward_boxes: Any = None
        self.pool = self._define("", pooled, given, like=self.maps)
        of_maps: tuple[str, ...] = with_maps
        if self.has_argmax:
            self.pool_argmax = self._define("_argmax", pooled, given, like=self.maps)
            of_maps, given = ("grad_output", "argmax", "boxes", self.shapes), {}
        elif self.is_linear:
            of_maps = ("grad_output", "boxes", self.shapes)
        self.backward = self._define("_backward", of_maps, given, like="grad_output")
        if operator.has_box_gradients:
            self.backward_boxes = self._define("_backward_boxes", with_maps, given, like="boxes")

    def _define(
        self, suffix: str, given: Sequence[str], parameters: dict[str, str], like: str
    ) -> Any:
        """Define an operator, and return it; like: the tensor whose type its results have."""
        name, has_argmax = self.name + suffix, suffix == "_argmax"
        arguments = {argument: _GIVEN[argument][0] for argument in given}
        arguments |= {**parameters, "num_threads": "int?"}
        several = "input_shapes" in arguments
        option = {"return_argmax": True} if has_argmax else {}

        def kernel(*values: Any) -> Any:
            call = dict(zip(arguments, values, strict=True))
            dtype = pooled_type(unpack(call[like])[0])
            found = getattr(roicy, name.removesuffix("_argmax"))(**self._arrays(call), **option)
            if has_argmax:
                return _tensors.tensor(found[0], dtype), torch.from_numpy(found[1])
            if several:
                return [_tensors.tensor(one, dtype) for one in found]
            return _tensors.tensor(found, dtype)

        def fake(*values: Any) -> Any:
            call = dict(zip(arguments, values, strict=True))
            first = unpack(call[like])[0]
            shapes = [first.shape] if like == "boxes" else self._levels(call)
            if "output_size" in call:
                (height, width), (_, channels, _, _) = call["output_size"], shapes[0]
                channels = channels // (height * width) if self.by_bin else channels
                shapes = [(call["boxes"].shape[0], channels, height, width)]
            made = [first.new_empty(shape, dtype=pooled_type(first)) for shape in shapes]
            if has_argmax:
                return made[0], torch.empty_like(made[0], dtype=torch.int32)
            return made if several else made[0]

        declared = ", ".join(f"{kind} {argument}" for argument, kind in arguments.items())
        returns = "(Tensor, Tensor)" if has_argmax else "Tensor[]" if several else "Tensor"
        return define(name, f"({declared}) -> {returns}", kernel, fake)

    def _levels(self, call: dict[str, Any]) -> list[Any]:
        """Return the shapes of the map of a call, or of all levels."""
        if self.shapes in call:
            return _shapes_of(call[self.shapes])
        return [level.shape for level in unpack(call[self.maps])]

    def _arrays(self, call: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as the function on arrays takes them."""
        levels = self._levels(call)
        arrays = {
            name: _GIVEN[name][1](value) if name in _GIVEN else value
            for name, value in call.items()
        }
        arrays["boxes"] = _tensors.boxes(call["boxes"], levels[0][0])
        arrays["num_threads"] = _tensors.threads(call["num_threads"])
        if self.is_pyramid and len(call["spatial_scale"]) == 2 * len(levels):
            scales = iter(call["spatial_scale"])
            arrays["spatial_scale"] = list(zip(scales, scales, strict=True))
        return arrays

    def completed(self, parameters: Sequence[Any]) -> list[Any]:
        """Return values of the first parameters, and defaults of the others."""
        return [*parameters, *[*self.parameters.values()][len(parameters) :]]

    def pack(self, maps: Sequence[Tensor]) -> Any:
        """Return maps as the operators take them."""
        return list(maps) if self.is_pyramid else maps[0]


def unpack(value: Any) -> list[Any]:
    """Return the places of a list, or one value as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


_ROWS = {row.name: row for row in vars(_table).values() if isinstance(row, _table.Operator)}
del _ROWS["crop_and_resize"]
_ROWS["multiscale_roi_align"] = _table.ROI_ALIGN
OPERATORS = {name: TorchOp(name, row) for name, row in sorted(_ROWS.items())}
