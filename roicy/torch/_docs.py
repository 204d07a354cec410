"""What docstrings of functions and of modules on tensors say otherwise than those on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, List, TypeVar, Union, get_args, get_origin

from torch import Tensor

from .._docs import PASSAGES, ROTATED, Documented, described, fill_in

Module = TypeVar("Module", bound=type)
# TorchScript reads annotations where they are written.  Some evaluate to less than what functions
# take: BroadcastingList2[int] to None, and boxes without the nested lists that it does not know.
_Rows = Union[Tensor, Sequence[Sequence[Union[float, int]]]]
_TAKEN = [(None, Union[int, tuple[int, int], list[int]])]
_TAKEN += [(Union[Tensor, List[Tensor]], Union[_Rows, Sequence[_Rows]])]

_MAPS = "Tensor[N, C, H, W]"
_PASSAGES = PASSAGES | {
    "input": f"""{_MAPS}, floating point, uint8, int8, uint16 or int16
    Feature maps on the CPU, contiguous, channels_last or of any other strides.  All but
    float32 and float64 are computed with in float32; the result is of the input's type, but
    float32 of integers.""",
    "features": """list of Tensor[N, C, H_l, W_l]
    Feature maps of each level, from fine to coarse, of one type that :func:`roi_align` takes.""",
    "boxes": """Tensor[K, 5] or list of N Tensor[L, 4], floating point or integers
    Rows [batch_index, x1, y1, x2, y2], or [x1, y1, x2, y2] for each image, or a Tensor[K, 4]
    where there is one image.  Nested lists of numbers of these shapes are taken too, but not by
    TorchScript.  A batch index is exact in float16 to 2048, and in bfloat16 to 256; larger ones
    are refused where the input has more images.  A list has no such bound.""",
    "rotated_boxes": """Tensor[K, 6] or list of N Tensor[L, 5], floating point or integers
    Rows [batch_index, cx, cy, w, h, angle], or [cx, cy, w, h, angle] for each image: centres
    and sizes in pixels of the input divided by `spatial_scale`, angles in radians,
    counter-clockwise as one looks at the image.""",
    "listed_boxes": "list of N Tensor[L_i, 4]\nRows [x1, y1, x2, y2] in pixels of the images.",
    "maps_by_name": f"""dict of {_MAPS.replace("H, W", "H_l, W_l")}
    Maps by their names.  Maps of other names are not used.""",
    "rotated_scale": "float\nMultiplies centres and sizes.",
    "spatial_scale": """float or (float, float)
    Multiplies the coordinates of the boxes.  Two are (vertical, horizontal): the first
    multiplies y, and the second x.""",
    "scales": """list of floats, or of (float, float)
    What coordinates are multiplied by, for each level; two are (vertical, horizontal), which
    TorchScript takes for all levels or for none.""",
    "num_threads": """int
    Threads of the call and of its gradients; by default the least of
    :func:`roicy.get_num_threads` and :func:`torch.get_num_threads`, which is 1 in the
    workers of a DataLoader.""",
}  # fmt: skip
_PASSAGES["input_by_bin"] = (
    _PASSAGES["input"]
    + """  C is a multiple of PH * PW: output channel c of bin (p, q)
    reads input channel (c * PH + p) * PW + q."""
)

# The example of operators whose bins read channels of their own.
_BY_BIN = """
Examples
--------
>>> import torch
>>> import roicy.torch
>>> channels = torch.arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 6, 6)
>>> roicy.torch.{}(channels, torch.tensor([[0, 1.0, 1, 5, 5]]), 2)
tensor([[[[0., 1.],
          [2., 3.]]]])
"""


def _sections(
    name: str, documented: Callable[..., Any], passages: dict[str, str], returns: str = ""
) -> dict[str, list[str]]:
    """Return Parameters and Returns of what computes the operator of that name."""
    own, channels = dict(passages), "C"
    if name.startswith("ps_"):
        own["input"], channels = "input_by_bin", "C / (PH * PW)"
    if name.endswith("rotated"):
        own |= ROTATED
    return {
        "Parameters": described(documented, _PASSAGES, own),
        "Returns": [f"Tensor[K, {channels}, PH, PW]{returns}"],
    }


def _annotate(function: Any) -> None:
    """Have annotations evaluate to all that a function takes, and without names of `typing`."""
    for name, hint in function.__annotations__.items():
        taken = [wide for narrow, wide in _TAKEN if hint == narrow and name != "return"]
        function.__annotations__[name] = taken[0] if taken else _modern(hint)


def _modern(hint: Any) -> Any:
    """Return list[int] for List[int], and with integers for all floats."""
    origin, members = get_origin(hint), tuple(map(_modern, get_args(hint)))
    if origin is None or not members:
        return Union[float, int] if hint is float else hint
    return Union[members] if origin is Union else origin[members]


def function(see: str, **passages: str) -> Callable[[Documented], Documented]:
    """Fill in the docstring of a function.

    see: what the section See Also says besides; passages: see :func:`roicy._docs.described`.
    """

    def fill(documented: Documented) -> Documented:
        name = documented.__name__
        _annotate(documented)
        returns = "\n    Of the type of the maps, but float32 of integers."
        return fill_in(
            documented,
            _BY_BIN.format(name) if name.startswith("ps_") else "",
            **_sections(name, documented, passages, returns),
            Raises=[
                f"TypeError, ValueError\n    As :func:`roicy.{name}`.",
                "AssertionError\n    If boxes have another shape.",
                "NotImplementedError\n"
                "    If a derivative is not computed; see the notes of :func:`roi_align`.",
            ],
            See_Also=[f"roicy.{name} : the operator on arrays, with its formula", see],
        )

    return fill


def of_arrays(documented: Documented) -> Documented:
    """Say that a function raises what the function on arrays of its name raises."""
    return fill_in(
        documented, Raises=[f"TypeError, ValueError\n    As :func:`roicy.{documented.__name__}`."]
    )


def module(function: str, **passages: str) -> Callable[[Module], Module]:
    """Fill in the docstrings of a module and of its own `forward`; function: what it calls."""

    def fill(documented: Module) -> Module:
        forward: Any = vars(documented).get("forward")
        own = [one for one in documented.__mro__ if one.__module__ == documented.__module__]
        for method in [method for one in own for method in vars(one).values()]:
            if hasattr(method, "__annotations__"):
                _annotate(method)
        if forward is not None:
            fill_in(forward, **_sections(function, forward, passages))
        parameters = _sections(function, documented, passages)["Parameters"]
        said = f"{function} : the function, which says what its errors are"
        return fill_in(documented, Parameters=parameters, See_Also=[said])

    return fill
