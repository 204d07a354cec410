"""Deformable attention on tensors: the operators and their derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction

from .. import attention as of_numpy
from . import _onnx, _tensors
from ._autograd import IN_REVERSE, _compute, _record, call, register
from ._operators import LIBRARY, define, unpack
from ._vmap import folded

NAME = "deformable_attention"
# Heights and widths are one list, since schemas know no lists of lists.  Locations and weights are
# those of a call with `points`.
_GIVEN = (
    "Tensor value, SymInt[] shapes, Tensor locations, Tensor weights, SymInt[] points, "
    "str mode, str padding, bool align_corners, int? num_threads"
)


def deformable_attention(
    value: Tensor, shapes: Any, locations: Tensor, weights: Tensor, *,
    points: Sequence[int] | None = None, mode: str = "bilinear", padding: str = "zeros",
    align_corners: bool = False, num_threads: int | None = None,
) -> Tensor:  # fmt: skip
    """Weighted sums of samples of the levels of a pyramid, for each query and head.

    Gradients flow to value, locations and weights.  They cannot be differentiated again, nor in
    forward mode.  ``torch.compile``, ``torch.export`` and ``torch.vmap`` know the operator, and
    ``torch.onnx.export`` is given GridSample for each level.

    Parameters
    ----------
    value : Tensor[N, S, M, D], float32, float64, float16 or bfloat16
        The pixels of all levels on the CPU, M heads of D channels, with any strides.
    shapes : list of (int, int), or Tensor[L, 2] of integers
        Height and width of each level.  Compilers need a list.
    locations : Tensor[N, Q, M, L, P, 2], or with `points` Tensor[N, Q, M, T, 2]
        Places (x, y), of which 0 and 1 are the outer edges of a level.
    weights : Tensor[N, Q, M, L, P], or with `points` Tensor[N, Q, M, T]
        What each sample is multiplied by.
    points, mode, padding, align_corners :
        See :func:`roicy.deformable_attention`.
    num_threads : int, optional
        By default no more threads are used than PyTorch uses.

    Returns
    -------
    Tensor[N, Q, M * D]
        Of the type of `value`.

    Raises
    ------
    TypeError, ValueError
        As :func:`roicy.deformable_attention`.
    NotImplementedError
        If a derivative is not computed.

    See Also
    --------
    roicy.deformable_attention : the operator on arrays, with its formula
    patch_transformers : has models call it

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> value = torch.arange(6.0).reshape(1, 6, 1, 1)  # a level of 2 x 3 pixels
    >>> at = torch.full((1, 1, 1, 1, 1, 2), 0.5, requires_grad=True)
    >>> out = roicy.torch.deformable_attention(value, [(2, 3)], at, torch.ones(1, 1, 1, 1, 1))
    >>> out.sum().backward()
    >>> out.item(), at.grad.flatten()
    (2.5, tensor([3., 6.]))
    """
    _tensors.check(value=value, locations=locations, weights=weights)
    rows = shapes.tolist() if isinstance(shapes, Tensor) else shapes
    is_tracing = torch.jit.is_tracing()
    if is_tracing:  # extents are tensors then, which operators do not take for numbers
        rows = [[int(side) for side in row] for row in rows]
        points = None if points is None else [int(count) for count in points]
    if not torch.compiler.is_compiling():
        of_numpy.points_of(points, len(of_numpy.shapes_of(rows)), locations)
    if points is None:
        form = tuple(locations.shape)
        if locations.dim() != 6 or form[3] != len(rows):
            hint = of_numpy.swapped(locations, weights)
            raise ValueError(
                f"locations: shape {form}, expected (N, Q, M, {len(rows)}, P, 2){hint}"
            )
        if weights.shape != locations.shape[:-1]:
            raise ValueError(f"weights: shape {tuple(weights.shape)}, expected {form[:-1]}")
        points = [int(form[4]) if is_tracing else form[4]] * len(rows)
        locations, weights = locations.flatten(3, 4), weights.flatten(3)
    arguments = (locations, weights, list(points), mode, padding, align_corners)
    if _onnx.is_exporting():
        return _by_grid_sample(value, rows, *arguments)
    sides = [side for row in rows for side in row]
    given = (value, sides, *arguments, num_threads)
    result: Tensor = call(_FORWARD, _tensors_of(given), *given)
    return result


def _by_grid_sample(
    value: Tensor, shapes: Any, locations: Tensor, weights: Tensor, points: Any, mode: str,
    padding: str, align_corners: bool,
) -> Tensor:  # fmt: skip
    """Return the sums by way of PyTorch's grid_sample, which ONNX has; arguments as in _GIVEN."""
    maps = value.permute(0, 2, 3, 1).flatten(0, 1).split([h * w for h, w in shapes], -1)
    grids = (2 * locations - 1).transpose(1, 2).flatten(0, 1).split(points, -2)
    samples = [
        torch.nn.functional.grid_sample(
            level.unflatten(-1, tuple(shape)), grid, mode, padding, align_corners
        )
        for level, shape, grid in zip(maps, shapes, grids, strict=True)
    ]
    sums = (torch.cat(samples, -1) * weights.transpose(1, 2).flatten(0, 1)[:, None]).sum(-1)
    return sums.unflatten(0, (value.shape[0], value.shape[2])).flatten(1, 2).transpose(1, 2)


def _call_of(*given: Any) -> tuple[of_numpy.Call, int]:
    """Return the checked call on arrays, and its threads; given: what _GIVEN declares."""
    value, sides, locations, weights, *rule, num_threads = given
    shapes = list(zip(sides[::2], sides[1::2], strict=True))
    arrays = [_tensors.array(one) for one in (locations, weights)]
    made = of_numpy.Call(_tensors.array(value), shapes, *arrays, *rule)
    return made, _tensors.threads(num_threads)


def _forward(value: Tensor, *given: Any) -> Tensor:
    return _tensors.tensor(of_numpy.compute(*_call_of(value, *given)), value.dtype)


def _backward(grad: Tensor, wanted: Sequence[bool], *given: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of value, locations and weights, empty where they are not wanted."""
    made, threads = _call_of(*given)
    found = of_numpy.gradients(made, _tensors.array(grad), wanted, threads)
    a, b, c = (
        _tensors.tensor(array, one.dtype) if needed else one.new_empty(0)
        for one, array, needed in zip((given[0], *given[2:4]), found, wanted, strict=True)
    )
    return a, b, c


def _fake(value: Tensor, _: Any, locations: Tensor, *__: Any) -> Tensor:
    return value.new_empty((*locations.shape[:2], value.shape[2] * value.shape[3]))


def _fake_backward(_: Tensor, wanted: Sequence[bool], *given: Any) -> Any:
    inputs = zip((given[0], *given[2:4]), wanted, strict=True)
    return tuple(one.new_empty(one.shape if needed else 0) for one, needed in inputs)


def _define(suffix: str, declared: str, kernel: Callable[..., Any], fake: Any) -> Any:
    operator = define(NAME + suffix, declared, kernel, fake)

    def batched(info: Any, dims: Any, *given: Any) -> Any:
        """Make images of the elements of a batch."""
        size = info.batch_size
        result = operator(*[
            folded(one, dim, size) if isinstance(one, Tensor) else one
            for one, dim in zip(given, dims, strict=True)
        ])  # fmt: skip
        found = [  # a gradient that is not wanted is empty, of one dimension
            one.unflatten(0, (size, one.shape[0] // size)) if one.dim() > 1 else one
            for one in unpack(result)
        ]
        places = [0 if one.dim() > 1 else None for one in found]
        return (found[0], 0) if isinstance(result, Tensor) else (tuple(found), tuple(places))

    torch.library.register_vmap(operator.name(), batched, lib=LIBRARY)
    return operator


_FORWARD = _define("", f"({_GIVEN}) -> Tensor", _forward, _fake)
_BACKWARD = _define(
    "_backward", f"(Tensor grad_output, bool[] wanted, {_GIVEN}) -> (Tensor, Tensor, Tensor)",
    _backward, _fake_backward,
)  # fmt: skip


def _tensors_of(given: Sequence[Any]) -> list[Tensor]:
    return [one for one in given if isinstance(one, Tensor)]


class _Attend(_SingleLevelFunction):
    """The operator, with its arguments."""

    @staticmethod
    def forward(*given: Any) -> Any:
        return _compute(_FORWARD, _tensors_of(given), *given)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        value, ctx.sides, locations, weights, *ctx.rest = inputs
        ctx.save_for_backward(value, locations, weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        value, *sampled = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[i] for i in (0, 2, 3)]
        given = (grad, wanted, value, ctx.sides, *sampled, *ctx.rest)
        found = call(_BACKWARD, _tensors_of(given), *given)
        a, b, c = (one if needed else None for one, needed in zip(found, wanted, strict=True))
        return a, None, b, c, *[None] * len(ctx.rest)

    @staticmethod
    def jvp(*_: Any) -> Any:
        raise NotImplementedError(
            f"{NAME}: forward-mode derivatives are not computed; {IN_REVERSE}"
        )


class _Gradients(_SingleLevelFunction):
    """The gradients, with the arguments of their operator."""

    @staticmethod
    def forward(*given: Any) -> Any:
        return _compute(_BACKWARD, _tensors_of(given), *given)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(*_: Any) -> Any:
        raise NotImplementedError(f"{NAME}: its gradients cannot be differentiated again")

    jvp = backward


register(_FORWARD, _tensors_of, functools.partial(_record, _Attend))
register(_BACKWARD, _tensors_of, functools.partial(_record, _Gradients))
