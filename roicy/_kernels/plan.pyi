"""Types of ``pyx/call/plan.pyx``."""

from collections.abc import Iterable
from typing import Any, final

import numpy as np

from .._checks._arguments import Layout
from .._checks._levels import Pyramid, Shape
from .._table import Operator

Small = tuple[np.ndarray, int]  # bytes of an array, and the character of its type
FIELD_TYPES: dict[str, str]
ROTATED_BYTES: int

@final
class Arguments:
    boxes: Any
    boxes_num: Any
    spatial_scale: Any
    layout: Any
    num_threads: Any
    out: Any
    pyramid: Pyramid | None
    def __init__(
        self, boxes: Any, boxes_num: Any, spatial_scale: Any, layout: Any, num_threads: Any,
        out: Any = None, pyramid: Pyramid | None = None,
    ) -> None:  # fmt: skip
        ...

@final
class Rule:
    sampling_ratio: int
    def __init__(
        self, kind: str, sampling_ratio: int = 0, aligned: bool = False, **fields: float
    ) -> None: ...
    def numbers(self) -> tuple[float, ...]: ...

class Plan:
    operator: Operator
    arguments: Arguments
    given_boxes: Any
    maps: tuple[np.ndarray, ...]
    count: int
    dtype: np.dtype
    box_numbers: int
    layout: Layout
    output_shape: tuple[int, int, int, int]
    threads: int
    def __init__(
        self, purpose: str, operator: Operator, rule: Rule, maps: Any, output_size: Any,
        arguments: Arguments,
    ) -> None:  # fmt: skip
        ...
    def map_size(self, level: int = 0) -> Shape: ...
    def accepts_out(self, out: Any) -> bool: ...
    def bind(self, maps: Iterable[np.ndarray]) -> None: ...
    def forward(self, out: np.ndarray, small: Small | None = None) -> None: ...
    def max_pixel(
        self, out: np.ndarray, argmax: np.ndarray | None, small: Small | None = None
    ) -> None: ...
    def max_sample(self, out: np.ndarray, products: bool, small: Small | None = None) -> None: ...
    def grad_input(self, grad_output: np.ndarray) -> None: ...
    def grad_boxes(self, grad_output: np.ndarray, out: np.ndarray) -> None: ...
    def max_pixel_grad(
        self, grad_output: np.ndarray, argmax: np.ndarray, trusts_argmax: bool
    ) -> bool: ...
    def max_sample_grad(
        self, grad_output: np.ndarray, grad_input: np.ndarray, products: bool
    ) -> None: ...
    def next(self, max_boxes: int = ...) -> bool: ...
    def tables(self, level: int = 0) -> Any: ...
    def method(self, level: int = 0) -> str: ...
    def tasks_made(self) -> list[dict[str, Any]]: ...

def bound_steps(boxes: int = ...) -> None: ...
def levels_of(
    boxes: np.ndarray, itemsize: int, rule: tuple[int, int, int, float, float]
) -> np.ndarray: ...
def narrow(values: np.ndarray, out: np.ndarray, dtype: int, threads: int) -> None: ...
