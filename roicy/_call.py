"""The steps of every public function: normalise, plan, run, finish.

- normalise: each argument is checked and brought to one form (``_arguments.py``, ``_boxes.py``,
  ``_levels.py``).
- plan: the work is divided.  On the CPU, a plan normalises too, since plain arguments need no
  other form (``pyx/plan/plan.pyx``).
- run: kernels do the work, step by step.
- finish: the result is given the form that the caller asked for.

The two backends, ``_cpu.py`` for NumPy arrays and ``cuda/backend.py`` for CuPy arrays, have the
same functions, but only the first has the gradient of roi_align_max.  Only this file decides which
of them a call uses.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from . import _cpu, _levels
from ._arguments import INT32, Arguments, Layout
from ._table import MAX_PIXEL, MAX_SAMPLE, Operator

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
    from .cuda import backend  # it is imported when it is needed

    return backend


def _check_argmax_fits(name: str, height: int, width: int) -> None:
    """Check that int32 can count the pixels of a map."""
    if height * width >= 2**31:
        raise ValueError(
            f"{name}: a map of {height} x {width} pixels, "
            "expected less than 2**31, which int32 argmax can count"
        )


def forward(
    row: Operator, parameters: tuple[Any, ...], input: Any, output_size: Any,
    given: tuple[Any, ...], option: bool = False,
) -> Any:  # fmt: skip
    """Pool from the map `input`, or from the maps of a pyramid.

    parameters: of the operator's rule; given: see above; option: of maxima of pixels, whether
    argmax is returned too, and of maxima of samples, whether products are compared.
    """
    backend = _backend(input, given)
    call = backend.plan_with_maps(row, parameters, input, output_size, given)
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
    row: Operator, parameters: tuple[Any, ...], grad_output: Any, input_shape: Any,
    given: tuple[Any, ...], argmax: Any = None,
) -> Any:  # fmt: skip
    """Return the gradient of the map, or a list with the gradient of each map of a pyramid."""
    backend = _backend(grad_output, argmax, given)
    arguments = Arguments(*given)
    layout, single = Layout(arguments.layout), arguments.pyramid is None
    shapes = _levels.input_shapes(input_shape, arguments)
    outs = _levels.outs(arguments, len(shapes))
    given_grad = _levels.gradient(grad_output, layout, backend.array)
    grad = layout.nchw(given_grad)
    call = backend.plan_backward(row, parameters, grad, shapes, arguments)
    _levels.check_gradient(call, given_grad, arguments)
    read = [grad, *backend.box_arrays(call)]
    if row.reduction is MAX_PIXEL:
        _check_argmax_fits("input_shape", *call.map_size()[2:])
        argmax = backend.indices("argmax", argmax, call)
        read.append(argmax)
    results: list[Any] = []
    for shape, (name, out) in zip(shapes.values(), outs.items(), strict=True):
        shape = layout.shape(*shape)
        results.append(backend.result(out, shape, (call.dtype,), (*read, *results), name))
    if row.reduction is MAX_PIXEL:
        new = arguments.out is None
        backend.backward_max(call, grad, layout.nchw(argmax), results[0], new)
    else:
        backend.backward(call, grad, results)
    return results[0] if single else results


def backward_with_maps(
    row: Operator, parameters: tuple[Any, ...], grad_output: Any, input: Any,
    given: tuple[Any, ...], products: bool = False,
) -> Any:  # fmt: skip
    """Return a gradient that reads the maps: of the map for maxima of samples, or of `products`,
    and else of the boxes, in the format that they came in.
    """
    backend = _backend(grad_output, input, given)
    of_boxes = row.reduction is not MAX_SAMPLE
    if not of_boxes and backend is not _cpu:
        raise TypeError(f"{row.name}_backward: an array of CuPy, expected arrays of NumPy")
    arguments = Arguments(*given)
    layout = Layout(arguments.layout)
    given_grad = _levels.gradient(grad_output, layout, backend.array)
    grad = layout.nchw(given_grad)
    bins = tuple(grad.shape[2:])
    call = backend.plan_with_maps(row, parameters, input, bins, given, gradient=True)
    _levels.check_gradient(call, given_grad, arguments)
    if call.dtype != grad.dtype:
        first = "the input" if arguments.pyramid is None else "features[0]"
        raise TypeError(
            f"grad_output: dtype {grad.dtype.name}, expected {call.dtype.name}, in which {first} "
            f"of {call.maps[0].dtype.name} is computed"
        )
    if of_boxes:
        return backend.backward_boxes(call, grad)
    read = (grad, *call.maps, *_cpu.box_arrays(call))
    out = _cpu.result(call.out, layout.shape(*call.map_size()), (call.dtype,), read)
    _cpu.backward_samples(call, grad, out, products)
    return out
