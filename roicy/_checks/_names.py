"""Names that are found late: of arguments in errors, and of types in annotations."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


if TYPE_CHECKING:
    from ._types import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Return a type of ``_types.py``, which is imported when a program evaluates an annotation.

        Modules call this one t for that, so ``import roicy`` does not pay for the types.
        """
        if name.startswith("_"):  # as imports ask for __path__
            raise AttributeError(name)
        from . import _types

        return getattr(_types, name)


class Argument(str):
    """The name of an argument that operators have, for texts of errors and warnings.

    An f-string shows it as the function that a program called names that argument.
    """

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        name = str(self)
        for _, names in _callers():
            name = names.get(name, name)
        return name


BOXES = Argument("boxes")
BOXES_NUM = Argument("boxes_num")
BOX_INDICES = Argument("box_indices")
CLOCKWISE = Argument("clockwise")
INPUT = Argument("input")
INPUT_SHAPE = Argument("input_shape")
OUTPUT_SIZE = Argument("output_size")
SAMPLING_RATIO = Argument("sampling_ratio")
SPATIAL_SCALE = Argument("spatial_scale")

# The functions with names of their own that are being called, the innermost first: each with its
# names and the function that called it.
_called: ContextVar[Any] = ContextVar("_called", default=None)


def errors_name(**names: str) -> Callable[[Function], Function]:
    """Have the errors and warnings of a function say its own names.

    names: of arguments, by the names that operators give them.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            token = _called.set((function, names, _called.get()))
            try:
                return function(*args, **keywords)
            finally:
                _called.reset(token)

        return cast(Function, call)

    return decorate


def _callers() -> Iterator[tuple[Callable[..., Any], dict[str, str]]]:
    """Yield the functions of `_called`, and their names."""
    called = _called.get()
    while called is not None:
        function, names, called = called
        yield function, names


def can_be_given(argument: Argument) -> bool:
    """Whether the function that a program called has this argument, by any name."""
    return all(
        argument in {*names, *inspect.signature(function).parameters}
        for function, names in _callers()
    )


def warn(message: str) -> None:
    """Warn at the line of the program that called this package."""
    frame: Any = sys._getframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "roicy":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def log(logger: str, level: str, text: str, **more: Any) -> None:
    """Log a line.  Where nothing has imported logging nobody reads it, and 0.5 MB are saved."""
    if "logging" in sys.modules:
        import logging

        logging.getLogger(logger).log(getattr(logging, level), "%s", text, **more)
