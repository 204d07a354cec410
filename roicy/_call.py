"""The steps of every public function: normalise, plan, run, finish.

- normalise: each argument is checked and brought to one form (``_checks/``).
- plan: the work is divided.  On the CPU, a plan normalises too, since plain arguments need no
  other form (``pyx/call/plan.pyx``).
- run: kernels do the work, step by step.
- finish: the result is given the form that the caller asked for.

Only this file decides which backend a call uses: ``_cpu.py`` for NumPy arrays, or
``cuda/backend.py`` for CuPy arrays, which has functions of the same names for the same steps but
lacks the gradient of roi_align_max.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from . import _cpu
from ._checks import _levels
from ._checks._arguments import INT32, layout_of
from ._checks._names import INPUT, INPUT_SHAPE
from ._kernels.plan import Arguments, Rule
from ._table import MAX_PIXEL, Operator


def _lies_on_device(value: Any, array: type, depth: int = 3) -> bool:
    """Whether a value is such an array, or a list of them; depth: of lists that are searched."""
    if isinstance(value, (list, tuple)):
        return depth > 0 and any(_lies_on_device(item, array, depth - 1) for item in value)
    return isinstance(value, array)


def _backend_of(maps: Any, arguments: Arguments) -> ModuleType:
    """Return the backend of a call: the GPU's if any argument is an array of CuPy, or a list with
    one.
    """
    cupy = sys.modules.get("cupy")  # a caller with CuPy arrays has imported it
    if cupy is None:
        return _cpu
    values = maps, (arguments.boxes, arguments.boxes_num, arguments.out)
    if not _lies_on_device(values, cupy.ndarray):
        return _cpu
    from .cuda import backend  # which takes time to load

    return backend


def _check_argmax_fits(name: str, height: int, width: int) -> None:
    """Check that int32 can count the pixels of a map."""
    if height * width >= 2**31:
        raise ValueError(
            f"{name}: a map of {height} x {width} pixels, "
            "expected less than 2**31, which int32 argmax can count"
        )


def forward(
    operator: Operator, rule: Rule, input: Any, output_size: Any, arguments: Arguments, *,
    return_argmax: bool = False, products: bool = False,
) -> Any:  # fmt: skip
    """Pool from the map `input`, or from the maps of a pyramid.

    return_argmax: of maxima of pixels; products: of maxima of samples, whether products of weights
    and pixels are compared.
    """
    backend = _backend_of(input, arguments)
    call = backend.plan_with_maps(operator, rule, input, output_size, arguments)
    if return_argmax:
        _check_argmax_fits(INPUT, *call.map_size()[2:])
    out = backend.output(call)
    argmax = backend.result(None, out.shape, (INT32,), (out,)) if return_argmax else None
    backend.forward(call, out, argmax, products)
    result = out if arguments.out is None else arguments.out
    return (result, argmax) if return_argmax else result


def backward(
    operator: Operator, rule: Rule, grad_output: Any, input_shape: Any, arguments: Arguments,
    argmax: Any = None,
) -> Any:  # fmt: skip
    """Return the gradient of the map, or a list with the gradient of each map of a pyramid."""
    backend = _backend_of((grad_output, argmax), arguments)
    layout, of_pyramid = layout_of(arguments.layout), arguments.pyramid is not None
    shapes = _levels.input_shapes(input_shape, layout, of_pyramid)
    outs = _levels.outs(arguments.out, of_pyramid, len(shapes))
    given_grad = _levels.gradient(grad_output, layout, backend.array)
    grad = layout.nchw(given_grad)
    call = backend.plan_backward(operator, rule, grad, shapes, arguments)
    _levels.check_gradient(call, given_grad, of_pyramid)
    read = [grad, *backend.box_arrays(call)]
    if operator.reduction is MAX_PIXEL:
        _check_argmax_fits(INPUT_SHAPE, *call.map_size()[2:])
        argmax = backend.indices("argmax", argmax, call)
        read.append(argmax)
    results: list[Any] = []
    for shape, (name, out) in zip(shapes.values(), outs.items(), strict=True):
        shape = layout.shape(*shape)
        results.append(backend.result(out, shape, (call.dtype,), (*read, *results), name))
    if operator.reduction is MAX_PIXEL:
        new = arguments.out is None
        backend.backward_max(call, grad, layout.nchw(argmax), results[0], new)
    else:
        backend.backward(call, grad, results)
    returned = [
        result if out is None else out for result, out in zip(results, outs.values(), strict=True)
    ]
    if not of_pyramid:
        return returned[0]
    is_whole = isinstance(arguments.out, list) and all(out is not None for out in arguments.out)
    return arguments.out if is_whole else returned


def _planned_with_maps(
    backend: ModuleType, operator: Operator, rule: Rule, grad_output: Any, input: Any,
    arguments: Arguments,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the call of a gradient that reads the maps, and grad_output as (K, C, PH, PW)."""
    layout, of_pyramid = layout_of(arguments.layout), arguments.pyramid is not None
    given_grad = _levels.gradient(grad_output, layout, backend.array)
    grad = layout.nchw(given_grad)
    bins = tuple(grad.shape[2:])
    call = backend.plan_with_maps(operator, rule, input, bins, arguments, gradient=True)
    _levels.check_gradient(call, given_grad, of_pyramid)
    if call.dtype != grad.dtype:
        first = "features[0]" if of_pyramid else f"the {INPUT}"
        raise TypeError(
            f"grad_output: dtype {grad.dtype.name}, expected {call.dtype.name}, in which {first} "
            f"of {call.maps[0].dtype.name} is computed"
        )
    return call, grad


def backward_boxes(
    operator: Operator, rule: Rule, grad_output: Any, input: Any, arguments: Arguments
) -> Any:
    """Return the gradient of the boxes, in the format that they came in."""
    backend = _backend_of((grad_output, input), arguments)
    call, grad = _planned_with_maps(backend, operator, rule, grad_output, input, arguments)
    return backend.backward_boxes(call, grad)


def backward_samples(
    operator: Operator, rule: Rule, grad_output: Any, input: Any, arguments: Arguments, *,
    products: bool,
) -> Any:  # fmt: skip
    """Return the gradient of the map of maxima of samples; products: as of `forward`."""
    if _backend_of((grad_output, input), arguments) is not _cpu:
        raise TypeError(f"{operator.name}_backward: an array of CuPy, expected arrays of NumPy")
    call, grad = _planned_with_maps(_cpu, operator, rule, grad_output, input, arguments)
    read = (grad, *call.maps, *_cpu.box_arrays(call))
    shape = call.layout.shape(*call.map_size())
    out = _cpu.result(arguments.out, shape, (call.dtype,), read)
    _cpu.backward_samples(call, grad, out, products)
    return out if arguments.out is None else arguments.out
