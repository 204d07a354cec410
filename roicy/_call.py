"""
The steps of every public function: normalise, plan, run, finish.

- normalise: each argument is checked and brought to one form (``_arguments.py``, ``_levels.py``).
- plan: the work is divided.  On the CPU, a plan normalises too, since plain arguments need no
  other form (``pyx/plan/plan.pyx``).
- run: kernels do the work, step by step.
- finish: the result is given the form that the caller asked for.

The two backends, ``_cpu.py`` for NumPy arrays and ``cuda/backend.py`` for CuPy arrays, have the
same functions, but only the first has the gradient of roi_align_max.  Only this file decides which
of them a call uses.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import _cpu, _levels
from ._arguments import INT32, Arguments, Layout
from ._table import MAX_PIXEL, Operator, Rule

# The arguments that all operators share come here as `given`: the fields of ``Arguments`` in their
# order, which are boxes, boxes_num, spatial_scale, layout, num_threads, out and pyramid.  It is a
# plain tuple, since making an ``Arguments`` takes longer, and small calls would notice.  A plan on
# the CPU reads the tuple, and an ``Arguments`` is made only where fields are needed by name.


def _lies_on_device(value: Any, array: type, depth: int = 3) -> bool:
    """Whether a value is such an array, or a list of them; depth: of lists that are searched."""
    if isinstance(value, (list, tuple)):
        return depth > 0 and any(_lies_on_device(item, array, depth - 1) for item in value)
    return isinstance(value, array)


def _backend(*values: Any) -> ModuleType:
    """Return the backend of a call with these arguments: the GPU's if any is a CuPy array."""
    cupy = sys.modules.get("cupy")  # a caller with CuPy arrays has imported it
    if cupy is None or not _lies_on_device(values, cupy.ndarray):
        return _cpu
    return _gpu()


@functools.cache
def _gpu() -> ModuleType:
    """Return the backend of CuPy arrays, which is imported when it is needed."""
    from .cuda import backend

    return backend


def _check_argmax_fits(name: str, height: int, width: int) -> None:
    """Check that int32 can count the pixels of a map."""
    if height * width >= 2**31:
        raise ValueError(
            f"{name}: a map of {height} x {width} pixels, "
            "expected less than 2**31, which int32 argmax can count"
        )


# The backend of the GPU keeps what it knows of a call, since its kernels take less time than all
# the checks.  A call with a key that it knows has arguments that were checked before.  On the CPU
# plans are quick, and there are no keys.


def forward(
    row: Operator,
    parameters: tuple[Any, ...],
    input: Any,
    output_size: Any,
    given: tuple[Any, ...],
    option: bool = False,
) -> Any:
    """
    Pool from the map `input`, or from the maps of a pyramid.

    `parameters` are those of the rule of the operator, and `given` holds the fields of
    ``Arguments`` (see above).  For maxima of pixels, `option` says whether argmax is returned too.
    For maxima of samples, it says whether products are compared.
    """
    backend, key, call = _backend(input, given), None, None
    if backend is not _cpu:
        key = backend.key_of("forward", row, parameters, output_size, input, given)
        call = backend.recall(key, input, given)
    if call is None:
        call = backend.plan_forward(row, row.rule(*parameters), input, output_size, given)
        if key is not None:
            backend.keep(key, call, given)
    if row.reduction is not MAX_PIXEL or not option:
        out = backend.output(call)
        backend.forward(call, out, option)
        return out
    _check_argmax_fits("input", *call.map_size()[2:])
    out = backend.output(call)
    argmax = backend.result(None, out.shape, (INT32,), (out,))
    backend.forward(call, out, argmax)
    return out, argmax


def backward(
    row: Operator,
    parameters: tuple[Any, ...],
    grad_output: Any,
    input_shape: Any,
    given: tuple[Any, ...],
    argmax: Any = None,
) -> Any:
    """Return the gradient of the map, or a list with the gradient of each map of a pyramid."""
    backend, key, call = _backend(grad_output, argmax, given), None, None
    arguments = Arguments(*given)
    grad, single = grad_output, arguments.pyramid is None
    if backend is not _cpu:
        arrays = (grad,) if argmax is None else (grad, argmax)
        key = backend.key_of("backward", row, parameters, input_shape, arrays, given)
        call = backend.recall(key, arrays, given)
    if call is not None:
        layout, shapes = call.layout, call.plan.results
        outs = _levels.outs(arguments, len(shapes))
    else:
        layout = Layout(arguments.layout)
        shapes = _levels.input_shapes(input_shape, arguments)
        outs = _levels.outs(arguments, len(shapes))
        grad = _levels.gradient(grad, arguments, backend.array)
        call = backend.plan_backward(row, row.rule(*parameters), grad, shapes, arguments)
        _levels.check_gradient(call, grad, input_shape if single else None)
        if row.reduction is MAX_PIXEL:
            _check_argmax_fits("input_shape", *call.map_size()[2:])
            argmax = backend.indices("argmax", argmax, grad.shape)
            backend.check_devices({"grad_output": grad, "argmax": argmax})
        if key is not None:
            backend.keep(key, call, given, shapes)
    read = [grad, *backend.box_arrays(call)]
    if row.reduction is MAX_PIXEL:
        read.append(argmax)
    results: list[Any] = []
    for shape, (name, out) in zip(shapes.values(), outs.items(), strict=True):
        shape = layout.shape(*shape)
        results.append(backend.result(out, shape, (call.dtype,), (*read, *results), name))
    if row.reduction is MAX_PIXEL:
        new = arguments.out is None
        backend.backward_max(call, layout.nchw(grad), layout.nchw(argmax), results[0], new)
    else:
        backend.backward(call, layout.nchw(grad), results)
    return results[0] if single else results


def _plan_with_maps(
    backend: ModuleType,
    plan: Callable[..., Any],
    rule: tuple[Operator, Rule],
    grad_output: Any,
    input: Any,
    arguments: Arguments,
) -> tuple[Any, Any, dict[str, Any]]:
    """Plan a gradient that reads the maps: the call, `grad_output`, and the maps by their names."""
    layout = Layout(arguments.layout)
    maps = _levels.maps(input, arguments, backend.maps)
    grad = _levels.gradient(grad_output, arguments, backend.array)
    backend.check_devices({"grad_output": grad, **maps})
    bins = tuple(layout.nchw(grad).shape[2:])
    call = plan(*rule, maps, bins, arguments)
    name, first = next(iter(maps.items()))
    _levels.check_gradient(call, grad, first.shape if arguments.pyramid is None else None)
    if call.dtype != grad.dtype:
        raise TypeError(
            f"{name}: dtype {first.dtype.name}, expected {grad.dtype.name} as grad_output has"
        )
    return call, grad, maps


def backward_samples(
    row: Operator,
    parameters: tuple[Any, ...],
    grad_output: Any,
    input: Any,
    given: tuple[Any, ...],
    products: bool,
) -> Any:
    """Return the gradient of a map of maxima of samples, or of products."""
    if _backend(grad_output, input, given) is not _cpu:
        raise TypeError(f"{row.name}_backward: an array of CuPy, expected arrays of NumPy")
    arguments = Arguments(*given)
    rule = (row, row.rule(*parameters))
    call, grad, maps = _plan_with_maps(
        _cpu, _cpu.plan_backward_samples, rule, grad_output, input, arguments
    )
    read = (grad, *maps.values(), *_cpu.box_arrays(call))
    out = _cpu.result(arguments.out, maps["input"].shape, (call.dtype,), read)
    _cpu.backward_samples(call, call.layout.nchw(grad), out, products)
    return out


def backward_boxes(
    row: Operator,
    parameters: tuple[Any, ...],
    grad_output: Any,
    input: Any,
    given: tuple[Any, ...],
) -> Any:
    """Return the gradients of the boxes, in the format that the boxes came in."""
    backend, key, call = _backend(grad_output, input, given), None, None
    grad = grad_output
    if backend is not _cpu:
        key = backend.key_of("boxes", row, parameters, grad_output, input, given)
        call = backend.recall(key, input, given)
    if call is None:
        rule = (row, row.rule(*parameters))
        call, grad, _ = _plan_with_maps(
            backend, backend.plan_backward_boxes, rule, grad, input, Arguments(*given)
        )
        if key is not None:
            backend.keep(key, call, given)
    return backend.restore(call, backend.backward_boxes(call, call.layout.nchw(grad)))
