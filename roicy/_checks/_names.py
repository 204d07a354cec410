"""Names that are found late: of arguments in errors, and of types in annotations."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def __getattr__(name: str) -> Any:
    """Return a type of ``_types.py``, which is imported when a program evaluates an annotation.

    Modules call this one t for that, so ``import roicy`` does not pay for the types.
    """
    if name.startswith("_"):  # as imports ask for __path__
        raise AttributeError(name)
    from . import _types

    return getattr(_types, name)


def errors_name(**names: str) -> Callable[[Function], Function]:
    """Have the errors and warnings of a function say its own names.

    names: of arguments, by the names that operators give them.  In a message a name that is also a
    word of English is followed by a colon, an index or a genitive, or "of" comes before it.  What
    a message says of boxes_num is left out where the function has no such argument.
    """

    def decorate(function: Function) -> Function:
        def in_callers_words(message: str) -> str:
            # The pattern is made when there is a message, since that takes long.
            word = rf"(?:{'|'.join(filter(str.isalpha, names)) or '-'})\b"
            other = rf"\b(?:{'|'.join(name for name in names if not name.isalpha()) or '-'})\b"
            if "boxes_num" not in {*names, *inspect.signature(function).parameters}:
                message = re.sub(r"; boxes of \d columns need boxes_num.*", "", message)
            pattern = rf"\b{word}(?=:|\[|'s| is a list)|(?<= rows of ){word}|{other}"
            return re.sub(pattern, lambda found: names[found[0]], message)

        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            try:
                return function(*args, **keywords)
            except (TypeError, ValueError) as error:
                error.args = (in_callers_words(str(error)),)
                raise

        return cast(Function, call)

    return decorate


def warn(message: str) -> None:
    """Warn at the line of the program that called this package, by the names that it calls by.

    Functions that `errors_name` decorates are found on the stack, so that calls without a warning
    pay nothing for their names.
    """
    frame: Any = sys._getframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "roicy":
        rename = frame.f_locals.get("in_callers_words")
        message = message if rename is None else rename(message)
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
