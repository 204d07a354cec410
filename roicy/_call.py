"""
What the public functions do with their arguments: normalise, plan, run, finish.

- normalise: each argument is checked and brought to one form, a ``Call`` (``_levels.py``), which
  says what is computed: the rule, the bins, the maps and the boxes of each level.
- plan and run: a backend divides the work, and its kernels do it: ``_cpu.py`` for NumPy arrays,
  ``cuda/backend.py`` for those of CuPy.
- finish: the result is given the form that the caller asked for.

The two backends have the same functions, and which of them a call goes to is decided here.  On the
CPU a forward pass of few boxes whose arguments need no conversion is planned first, and is checked
only if there is no plan.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from . import _arguments, _cpu, _levels
from ._arguments import Arguments, Layout
from ._levels import Call
from ._table import MAX_PIXEL, Operator

INT32 = np.dtype(np.int32)


def _lies_on_device(value: Any, array: type) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_lies_on_device(item, array) for item in value)
    return isinstance(value, array)


def _backend(*values: Any) -> ModuleType:
    """Return the backend of a call with these arguments: the GPU's if any is an array of CuPy."""
    cupy = sys.modules.get("cupy")  # who has such arrays has imported it
    if cupy is None or not _lies_on_device(values, cupy.ndarray):
        return _cpu
    from .cuda import backend

    return backend


def forward(
    row: Operator,
    parameters: tuple[Any, ...],
    input: Any,
    output_size: Any,
    arguments: Arguments,
    option: bool = False,
) -> Any:
    """
    Pool from the map `input`, or from the maps of a pyramid.

    parameters: of the rule of the operator; option: of maxima of pixels, whether argmax is returned
    too; of maxima of samples, whether they are those of products.
    """
    backend = _backend(input, arguments)
    rule = row.rule(*parameters)
    if backend is _cpu:
        plan = _cpu.plan(row, rule, input, output_size, arguments)
        if plan is not None:
            return _cpu.run(row, plan, option)
    layout = Layout(arguments.layout)
    maps = _levels.maps(input, arguments, backend.maps)
    shapes = _levels.shapes_of(maps, layout)
    backend.check_devices(maps)
    arrays = list(maps.values())
    bins = _arguments.output_size(output_size)
    with backend.device(arrays[0]):
        call = Call(backend, row, rule, arguments, arrays[0], bins, shapes)
        with_argmax = option and row.reduction is MAX_PIXEL
        if with_argmax:
            _arguments.check_argmax_fits("input", call.levels[0].h, call.levels[0].w)
        read = (*arrays, *(backend.read(level.boxes) for level in call.levels))
        dtypes = _arguments.pooled(arrays[0].dtype)
        out = backend.result(arguments.out, call.output_shape, dtypes, read)
        inputs = [layout.nchw(array) for array in arrays]
        if not with_argmax:
            backend.forward(call, inputs, out, None if row.reduction is MAX_PIXEL else option)
            return out
        argmax = backend.result(None, out.shape, (INT32,), ())
        backend.forward(call, inputs, out, layout.nchw(argmax))
        return out, argmax


def backward(
    row: Operator,
    parameters: tuple[Any, ...],
    grad_output: Any,
    input_shape: Any,
    arguments: Arguments,
    argmax: Any = None,
) -> Any:
    """Return the gradient of the map, or a list of those of the maps of a pyramid."""
    backend = _backend(grad_output, argmax, arguments)
    layout = Layout(arguments.layout)
    shapes = _levels.input_shapes(input_shape, arguments)
    given = _levels.outs(arguments, len(shapes))
    grad = _levels.gradient(grad_output, arguments, backend.array)
    rule = row.rule(*parameters)
    single = arguments.pyramid is None
    with backend.device(grad):
        bins = tuple(layout.nchw(grad).shape[2:])
        call = Call(backend, row, rule, arguments, grad, bins, shapes)
        call.check_gradient(grad, input_shape if single else None)
        read = [grad, *(backend.read(level.boxes) for level in call.levels)]
        if row.reduction is MAX_PIXEL:
            _arguments.check_argmax_fits("input_shape", call.levels[0].h, call.levels[0].w)
            argmax = backend.indices("argmax", argmax, grad.shape)
            backend.check_devices({"grad_output": grad, "argmax": argmax})
            read.append(argmax)
        results: list[Any] = []
        for level, (name, out) in zip(call.levels, given.items(), strict=True):
            shape = call.input_shape(level)
            results.append(backend.result(out, shape, (call.dtype,), (*read, *results), name))
        if row.reduction is MAX_PIXEL:
            backend.backward_max(call, layout.nchw(grad), argmax, results[0], arguments.out is None)
        else:
            backend.backward(call, layout.nchw(grad), results)
    return results[0] if single else results


def backward_boxes(
    row: Operator,
    parameters: tuple[Any, ...],
    grad_output: Any,
    input: Any,
    arguments: Arguments,
) -> Any:
    """Return the gradients of the boxes, in the format that the boxes came in."""
    backend = _backend(grad_output, input, arguments)
    layout = Layout(arguments.layout)
    maps = _levels.maps(input, arguments, backend.maps)
    shapes = _levels.shapes_of(maps, layout)
    grad = _levels.gradient(grad_output, arguments, backend.array)
    backend.check_devices({"grad_output": grad, **maps})
    rule = row.rule(*parameters)
    name, first = next(iter(maps.items()))
    with backend.device(grad):
        bins = tuple(layout.nchw(grad).shape[2:])
        call = Call(backend, row, rule, arguments, grad, bins, shapes)
        call.check_gradient(grad, first.shape if arguments.pyramid is None else None)
        call.check_same_type(name, first)
        inputs = [layout.nchw(array) for array in maps.values()]
        grad_boxes = backend.backward_boxes(call, layout.nchw(grad), inputs)
        return call.boxes.restore(grad_boxes)
