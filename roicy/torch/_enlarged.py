"""Tensors that PyTorch's interpolate is to give, and that may never be needed.

Programs enlarge the maps of a network to a picture.  Then they take the largest map, or compare
with a threshold.  In a function that is called by `call`, interpolate returns an `Enlarged`.  It
knows what roicy computes without enlarging.  For all else PyTorch enlarges it after all, and it is
that tensor from there on.  So programs get the results of their own code, and none of that is
repeated here.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from types import FunctionType
from typing import Any

import numpy as np
import torch
import torch.utils.dlpack
from torch import Tensor
from torch.nn.functional import interpolate
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from .._checks import _arguments
from . import _masks, _patches, _tensors

FLOATS = torch.float32, torch.float64, *_tensors.HALVES
FEW_PIXELS = 128  # rows and columns of pictures for which PyTorch adds in another order


class _Call:
    """A call of interpolate.

    source : the maps (N, C, h, w); they may be deferred, too
    maps : those that are there
    via, box : of :func:`roicy.label_map`, if source is deferred
    weights : (N, C, 1, 1) what the enlarged maps have been multiplied by
    real : what PyTorch gives, once it is needed
    """

    weights: Tensor | None = None
    real: Tensor | None = None

    def __init__(self, source: Tensor, size: Any, mode: str):
        self.size, self.mode = tuple(map(int, size)), mode
        self.via, self.box = None, None
        if isinstance(source, Enlarged):
            part = source.roicy_part
            self.maps, self.via, self.box = part.maps, part.call.size, part.box
        else:
            source = self.maps = source.detach()  # which `set_` of the given one does not change
        self.source = source
        self.version = _version(self.maps)

    def check(self) -> None:
        """Refuse maps that have changed unseen, as functions of TorchScript change them."""
        if self.real is None and self.version != _version(self.maps):
            raise RuntimeError(
                "the maps given to interpolate were changed before its result was used, by a "
                "function that patch_transformers cannot see; pass their clone() to interpolate"
            )

    def enlarge(self) -> Tensor:
        """Return what PyTorch gives."""
        self.check()
        if self.real is None:
            _tell("all of their numbers are read")
            self.real = interpolate(_real(self.source), self.size, mode=self.mode)
            if self.weights is not None:
                self.real *= self.weights
        return self.real


def _version(maps: Tensor) -> int:
    """Return how often maps were changed, which PyTorch does not count in inference_mode."""
    return 0 if maps.is_inference() else maps._version


class _Part:
    """The whole of what a call gives, or a view of that.

    view : takes leading axes of all maps, and of the enlarged ones
    box : the part that is left of the enlarged ones, [0, 0, width, height]; or None for all
    """

    def __init__(self, call: _Call, view: Callable[[Tensor], Tensor], box: Any):
        self.call, self.view, self.box = call, view, box

    @property
    def maps(self) -> Tensor:
        """The maps that are to be enlarged."""
        return self.view(self.call.maps)

    @property
    def weights(self) -> Tensor | None:
        """What they are multiplied by then."""
        return None if self.call.weights is None else self.view(self.call.weights)

    def real(self) -> Tensor:
        """Return the tensor."""
        whole = self.view(self.call.enlarge())
        return whole if self.box is None else whole[..., : self.box[3], : self.box[2]]


class Enlarged(Tensor):
    """What a deferred call gives, or a view of that.

    All of it is in one attribute, of a name that tensors do not have, so that each attribute of
    tensors is that of the tensor that PyTorch gives.
    """

    roicy_part: _Part

    @staticmethod
    def __new__(
        cls: Any, call: _Call, view: Callable[[Tensor], Tensor] = lambda all: all, box: Any = None
    ) -> Any:
        maps = view(call.maps)
        width, height = call.size[::-1] if box is None else box[2:]
        shape = (*maps.shape[:-2], height, width)
        made = Tensor._make_wrapper_subclass(cls, shape, dtype=maps.dtype)
        made.roicy_part = _Part(call, view, box)
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if func in _OF_SHAPES:
                return func(*args, **kwargs)
            known = _KNOWN.get(func) if len(args) <= 2 and kwargs.keys() <= {"dim"} else None
            is_deferred = known is not None and type(args[0]) is Enlarged
            if is_deferred:
                args[0].roicy_part.call.check()
            if is_deferred and args[0].roicy_part.call.real is None:
                found = known(*args, **kwargs)
                if found is not NotImplemented:
                    return found
            return func(*tree_map(_real, args), **tree_map(_real, kwargs))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*tree_map(_real, args), **tree_map(_real, kwargs or {}))


def _real(value: Any) -> Any:
    return value.roicy_part.real() if type(value) is Enlarged else value


def _settled(result: Any) -> Any:
    """Return a result with tensors in the place of deferred ones."""
    if isinstance(result, MutableMapping):
        for name, value in result.items():
            result[name] = _settled(value)
    elif isinstance(result, list):
        result[:] = map(_settled, result)
    elif type(result) is tuple:
        return tuple(map(_settled, result))
    return _real(result)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and type(value) is not bool
    return is_number and abs(value) <= _arguments.LARGEST_FLOAT32


def _item(tensor: Enlarged, index: Any) -> Any:
    """Take some of leading axes, or the upper left part of all maps."""
    part, taken = tensor.roicy_part, index if isinstance(index, tuple) else (index,)
    if len(taken) <= tensor.dim() - 2 and all(type(one) is int for one in taken):
        return Enlarged(part.call, lambda all: part.view(all)[index], part.box)
    if len(taken) != 3 or taken[0] is not Ellipsis or part.call.mode != "bilinear":
        return NotImplemented
    ends = [one.stop for one in taken[1:] if type(one) is slice and one.start is one.step is None]
    if len(ends) < 2 or not all(type(one) is int and one > 0 for one in ends):
        return NotImplemented
    height, width = map(min, ends, tensor.shape[-2:])
    return Enlarged(part.call, part.view, (0, 0, width, height))


def _squeezed(tensor: Enlarged, dim: Any = None) -> Any:
    if type(dim) is not int or not 0 <= dim < tensor.dim() - 2:
        return NotImplemented
    part = tensor.roicy_part
    return Enlarged(part.call, lambda all: part.view(all).squeeze(dim), part.box)


def _is_whole(tensor: Enlarged) -> bool:
    return tensor.roicy_part.call.mode == "bilinear" and tensor.roicy_part.box is None


def _weighted(tensor: Enlarged, weights: Any) -> Any:
    """Multiply all maps, in place, by numbers from 0 to 1."""
    call, maps = tensor.roicy_part.call, tensor.roicy_part.maps
    if not _is_whole(tensor) or call.weights is not None or maps.numel() != call.maps.numel():
        return NotImplemented
    if not _is_of_cpu(weights, maps.dtype) or weights.shape != (*maps.shape[:-2], 1, 1):
        return NotImplemented
    if not ((weights >= 0) & (weights <= 1)).all():
        return NotImplemented
    dtype = torch.promote_types(maps.dtype, torch.float32)
    call.weights = weights.detach().clone().to(dtype).reshape(*call.maps.shape[:2], 1, 1)
    return tensor


def _largest(tensor: Enlarged, dim: Any = None) -> Any:
    """Find the largest of maps."""
    if type(dim) is not int or tensor.dim() < 3 or not _is_whole(tensor):
        return NotImplemented
    if dim not in (-3, tensor.dim() - 3):
        return NotImplemented
    part, call = tensor.roicy_part, tensor.roicy_part.call
    weights = None if part.weights is None else part.weights.flatten()
    if weights is not None and tensor.dim() > 3:
        return NotImplemented
    return _masks.label_map(part.maps, call.size, via=call.via, box=call.box, weights=weights)


def _above(tensor: Enlarged, number: Any, compare: Any = operator.gt) -> Any:
    if not _is_number(number) or not _is_whole(tensor):
        return NotImplemented
    part, call, weights = tensor.roicy_part, tensor.roicy_part.call, tensor.roicy_part.weights
    if weights is not None and weights.numel() > 1:
        return NotImplemented
    limit = _limit(1 if weights is None else weights.item(), number, compare)
    if limit is None:
        return NotImplemented
    return _masks.resize_masks(part.maps, call.size, threshold=limit, via=call.via, box=call.box)


def _limit(weight: float, number: float, compare: Any) -> float | None:
    """Return the largest number of which the product with a weight is not above another, or does
    not reach it.  It is found by halves of all numbers of float32.
    """
    low, high = -_MOST_BITS, _MOST_BITS
    weight, number = np.float32(weight), np.float32(number)
    if compare(weight * _float(low), number) or not compare(weight * _float(high), number):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if compare(weight * _float(middle), number):
            high = middle
        else:
            low = middle
    return float(_float(low))


_MOST_BITS = int(np.float32(_arguments.LARGEST_FLOAT32).view(np.int32))


def _float(bits: int) -> np.float32:
    """Return a number of float32; they are in the order of their bits."""
    found = np.int32(abs(bits)).view(np.float32)
    return found if bits >= 0 else -found


def _shown(call: _Call) -> Iterator[Tensor]:
    """Return which rows and columns of maps the pixels show, of mode "nearest"."""
    for extent, pixels in zip(call.maps.shape[-2:], call.size, strict=True):
        numbers = torch.arange(extent, dtype=torch.float32, device="cpu")[None, None]
        yield interpolate(numbers, pixels)[0, 0].long()


class _Nearest(_Call):
    """Maps of any type, of which each pixel shows a number."""

    def enlarge(self) -> Tensor:
        if self.real is None:
            rows, columns = _shown(self)
            self.real = self.maps.index_select(-1, columns).index_select(-2, rows)
        return self.real


def _equal(tensor: Enlarged, number: Any) -> Any:
    """Compare maps before they are enlarged."""
    part = tensor.roicy_part
    if not _is_number(number) or part.call.mode != "nearest":
        return NotImplemented
    return Enlarged(_Nearest(part.maps == number, part.call.size, "nearest"))


def _all(tensor: Enlarged, dim: Any = None) -> Any:
    """Whether all numbers that pixels show are true."""
    part = tensor.roicy_part
    if part.call.mode != "nearest" or dim is not None:
        return NotImplemented
    maps = part.maps
    for axis, shown in zip((-2, -1), _shown(part.call), strict=True):
        some = shown.unique()
        if len(some) < maps.shape[axis]:
            maps = maps.index_select(axis, some)
    return maps.all()


_OF_SHAPES = (Tensor.shape.__get__, Tensor.dtype.__get__, Tensor.device.__get__, Tensor.dim)
_KNOWN: dict[Any, Callable[..., Any]] = {
    Tensor.__getitem__: _item,
    **dict.fromkeys((Tensor.squeeze, torch.squeeze), _squeezed),
    **dict.fromkeys((Tensor.argmax, torch.argmax), _largest),
    **dict.fromkeys((Tensor.gt, Tensor.__gt__, torch.gt), _above),
    **dict.fromkeys(
        (Tensor.ge, Tensor.__ge__, torch.ge), functools.partial(_above, compare=operator.ge)
    ),
    **dict.fromkeys((Tensor.mul_, Tensor.__imul__), _weighted),
    **dict.fromkeys((Tensor.eq, Tensor.__eq__, torch.eq), _equal),
    **dict.fromkeys((Tensor.all, torch.all), _all),
}


@functools.cache
def _is_exact(count: int, is_alone: bool) -> bool:
    """Whether PyTorch rounds as roicy does, for some number of maps, and on a single thread.

    Its kernels depend on the processor, and on one thread there is another one for three maps.
    """
    numbers = torch.from_numpy(np.sin(np.arange(126.0 * count)).astype(np.float32))
    maps = numbers.reshape(2, count, 9, 7)
    enlarged = interpolate(maps, (150, 83), mode="bilinear")
    twice = interpolate(enlarged[..., :101, :55], (140, 190), mode="bilinear")
    given = {"via": (150, 83), "box": (0, 0, 55, 101)}
    _, once = _masks.label_map(maps, (150, 83), values=True)
    _, again = _masks.label_map(maps, (140, 190), values=True, **given)
    return torch.equal(once, enlarged.amax(1)) and torch.equal(again, twice.amax(1))


def call(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Call a function, of which calls of interpolate wait."""
    with _Deferred() as mode:
        result = function(*given, **named)
    return _settled(result) if mode.calls else result


class _Deferred(TorchFunctionMode):
    """A context in which this thread's calls of interpolate wait for what becomes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: weakref.WeakSet[_Call] = weakref.WeakSet()
        self.shared: list[tuple[int, int]] = []  # memory that others may write to

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is interpolate:
            call = self._call(*args, **kwargs)
            if call is not None:
                self.calls.add(call)
                return Enlarged(call)
        if func is Tensor.sum and len(args) == 1 and not kwargs and _is_of_cpu(args[0], torch.bool):
            # PyTorch widens it first.
            return torch.tensor(int(np.count_nonzero(args[0].numpy())), device="cpu")
        if func in _SHARING and args:
            self._settle(args[0])
            if type(args[0]) is not Enlarged:
                self.shared.append(_memory(args[0]))
        elif self.calls and _changes(func, kwargs):
            self._settle(_written(func, args, kwargs))
        return func(*args, **kwargs)

    def _call(
        self, input: Any, size: Any = None, scale_factor: Any = None, mode: Any = "nearest",
        align_corners: Any = None, recompute_scale_factor: Any = None, antialias: Any = False,
        **more: Any,
    ) -> _Call | None:  # fmt: skip
        """Return a call that can wait, or None."""
        is_known = (
            type(size) in (tuple, list, torch.Size)
            and len(size) == 2
            and all(type(one) is int and 0 < one <= _arguments.MOST_PIXELS for one in size)
            and scale_factor is recompute_scale_factor is None
            and not (antialias or align_corners or more)
            and (mode == "bilinear" or (mode == "nearest" and align_corners is None))
        )
        if not is_known:
            return _tell("interpolate has arguments that roicy does not take")
        if not self._is_free(input, mode) or input.dim() != 4 or 0 in input.shape:
            return _tell(
                "they are on a GPU, need gradients, or roicy cannot know who else has them"
            )
        maps = input.roicy_part.maps if type(input) is Enlarged else input
        if mode == "nearest":
            is_taken = _are_rows(maps)
            return _Nearest(input, size, mode) if is_taken else _tell("their channels lie together")
        if _patches.PROJECTS["transformers"].inexact or _rounds_alike(maps, size):
            return _Call(input, size, mode)
        return _tell(f"{maps.dtype} is rounded in another way there, unless exact=False is given")

    def _is_free(self, input: Any, mode: Any) -> bool:
        """Whether maps are read as they are, once they are needed."""
        if type(input) is not Enlarged:
            shared = any(_overlap(_memory(input), one) for one in self.shared)
            return _is_of_cpu(input, *FLOATS) and not shared
        outer = input.roicy_part.call
        is_alone = outer.real is outer.via is outer.weights is None
        is_larger = all(map(int.__ge__, outer.size, outer.maps.shape[-2:]))
        return is_alone and is_larger and outer.mode == mode == "bilinear"

    def _settle(self, changed: Any) -> None:
        """Enlarge what is read from any of the tensors that are about to change."""
        for one in tree_leaves(changed):
            for call in list(self.calls):
                is_inner = type(one) is Enlarged and call.via is not None
                if is_inner or _overlap(_memory(one), _memory(call.maps)):
                    call.enlarge()


@functools.cache
def _tell(why: str) -> None:
    """Say once why maps are left to PyTorch."""
    _patches.log("INFO", f"maps are enlarged by PyTorch: {why}")


def _memory(tensor: Any) -> tuple[int, int]:
    """Return where the storage of a tensor begins and ends, or (0, 0)."""
    if type(tensor) is Enlarged or not isinstance(tensor, Tensor):
        return 0, 0
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    if tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return 0, 0
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])


# What gives memory to those who write to it without PyTorch.
_SHARING = {
    getattr(Tensor, name)
    for name in ("numpy", "__array__", "__dlpack__", "data_ptr", "storage", "untyped_storage")
} | {torch.utils.dlpack.to_dlpack}


def _changes(func: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a function changes some of its arguments, or writes to `out`.

    What functions of torch.nn.functional call is not seen: batch_norm and embedding change some.
    """
    if isinstance(func, torch._ops.OpOverload):
        return func._schema.is_mutable
    if _is_of_many(func):
        return True
    name = getattr(func, "__name__", "")
    ends = name.endswith("_") and not name.endswith("__")
    named = name in ("__setitem__", "__set__") or (name.startswith("__i") and name != "__invert__")
    return ends or named or "out" in kwargs or bool(kwargs.get("inplace"))


def _is_of_many(func: Any) -> bool:
    return type(func) is FunctionType and func.__module__ != "torch._tensor"


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Return the arguments that such a function may write to."""
    if kwargs.get("out") is not None:
        return kwargs["out"]
    is_known = not isinstance(func, torch._ops.OpOverload) and not _is_of_many(func)
    return args[0] if is_known and args and isinstance(args[0], Tensor) else (args, kwargs)


def _is_of_cpu(value: Any, *dtypes: torch.dtype) -> bool:
    """Whether NumPy can have a tensor of some types, which nothing else follows."""
    return (
        type(value) is Tensor
        and value.device.type == "cpu"
        and value.layout is torch.strided
        and value.dtype in dtypes
        and not (value.requires_grad and torch.is_grad_enabled())
        and not value.is_neg()
        and not torch._C._functorch.is_functorch_wrapped_tensor(value)
    )


def _are_rows(maps: Tensor) -> bool:
    """Whether the numbers of each map lie together."""
    if maps.shape[1] > 3 and maps.is_contiguous(memory_format=torch.channels_last):
        return False
    return maps.is_contiguous()


def _rounds_alike(maps: Tensor, size: Any) -> bool:
    """Whether PyTorch adds the numbers of maps in the same order."""
    is_plain = maps.dtype is torch.float32 and _are_rows(maps) and sum(size) > FEW_PIXELS
    return is_plain and _is_exact(min(maps.shape[1], 5), torch.get_num_threads() == 1)
