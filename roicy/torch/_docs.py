"""The passages that docstrings of functions and of modules share, and what fills them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .._docs import Documented, fill_in, parameters_of, section

Module = TypeVar("Module", bound=type)

SAMPLES = "Samples per bin and axis; if 0 or negative, as many as the bin has pixels, rounded up."
_BY_BIN = """input : Tensor[N, C, H, W]
    As of :func:`roi_align`.  C is a multiple of height * width of the output: output channel
    c of bin (p, q) reads input channel (c * height + p) * width + q."""
# Parameters of modules; those that have defaults are said to be optional.
_PARAMETERS = {
    "output_size": ("int or (int, int)", "Bins of a box, (height, width)."),
    "spatial_scale": (
        "float or (float, float)",
        "Multiplies the coordinates of the boxes; of two, (vertical, horizontal).",
    ),
    "sampling_ratio": ("int, or whole float", SAMPLES),
    "aligned": ("bool", "Whether pixel i covers [i, i + 1), rather than lie at i."),
    "clockwise": ("bool", "Whether angles are clockwise in the image."),
    "num_threads": ("int", "Threads of a call and of its gradients, as of :func:`roi_align`."),
}
_BOXES = """boxes : Tensor[K, 5] or list of N Tensor[L, 4]
    Rows [batch_index, x1, y1, x2, y2], or [x1, y1, x2, y2] for each image."""
ROTATED_BOXES = """boxes : Tensor[K, 6] or list of N Tensor[L, 5]
    Rows [batch_index, cx, cy, w, h, angle], or [cx, cy, w, h, angle] for each image."""

_ERRORS = """TypeError, ValueError, AssertionError, NotImplementedError
    As :func:`roi_align`."""


def _pooled(by_bin: bool) -> str:
    return f"Tensor[K, C{' / (height * width)' if by_bin else ''}, height, width]"


def function(
    module: str, by_bin: bool = False, describes_parameters: bool = True
) -> Callable[[Documented], Documented]:
    """
    Fill in the docstring of a function whose parameters are those of roi_align.

    by_bin: whether each bin reads channels of its own; describes_parameters: whether the section
    Parameters is filled in too.
    """

    def fill(documented: Documented) -> Documented:
        names = ", ".join(parameters_of(documented)[by_bin:])
        parameters = [_BY_BIN] if by_bin else []
        parameters.append(f"{names}\n    As of :func:`roi_align`.")
        name = documented.__name__
        see = f"roicy.{name} : the operator on arrays, with its formula"
        return fill_in(
            documented,
            **({"Parameters": parameters} if describes_parameters else {}),
            Returns=[f"{_pooled(by_bin)}\n    Of the input's type, but float32 of integers."],
            Raises=[_ERRORS],
            See_Also=[see, f"{module} : this function as a module"],
        )

    return fill


def module(
    function: str, by_bin: bool = False, boxes: str = _BOXES, **own: tuple[str, str]
) -> Callable[[Module], Module]:
    """
    Fill in the docstring of a module, and give its method `forward` one.

    own: types and descriptions of parameters that differ from those of other modules.
    """

    def fill(documented: Module) -> Module:
        if documented.__doc__ is None:  # python -OO
            return documented
        constructor = documented.__init__  # type: ignore[misc]
        names = parameters_of(constructor)[1:]
        positional = names[: constructor.__code__.co_argcount - 1]
        required = positional[: len(positional) - len(constructor.__defaults__ or ())]
        described = _PARAMETERS | own
        entries = [
            f"{name} : {described[name][0]}{'' if name in required else ', optional'}\n"
            f"    {described[name][1]}"
            for name in names
        ]
        said = f"{function} : the function, which says what input and boxes may be, and its errors"
        fill_in(documented, Parameters=entries, See_Also=[said])
        maps = "input : Tensor[N, C, H, W]\n    Feature maps."
        documented.forward.__doc__ = "\n\n".join(
            [
                "Pool.",
                section("Parameters", [maps, boxes]),
                section("Returns", [_pooled(by_bin)]),
            ]
        )
        return documented

    return fill
