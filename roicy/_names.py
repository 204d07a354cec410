"""Errors of calls whose arguments have other names than those of the operators beneath."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Container
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def errors_name(**names: str) -> Callable[[Function], Function]:
    """
    Have the errors of a function say its own names.

    names: of arguments, by the names that operators give them.  In a message a name that is also a
    word of English is followed by a colon, an index or a genitive, or "of" comes before it.  What
    a message says of boxes_num is left out where the function has no such argument.
    """

    def renamed(message: str, parameters: Container[str]) -> str:
        # The pattern is made when there is an error, since that takes long.
        word = rf"(?:{'|'.join(filter(str.isalpha, names)) or '-'})\b"
        other = rf"\b(?:{'|'.join(name for name in names if not name.isalpha()) or '-'})\b"
        if "boxes_num" not in names and "boxes_num" not in parameters:
            message = re.sub(r"; boxes of \d columns need boxes_num.*", "", message)
        pattern = rf"\b{word}(?=:|\[|'s| is a list)|(?<= rows of ){word}|{other}"
        return re.sub(pattern, lambda found: names[found[0]], message)

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            try:
                return function(*args, **keywords)
            except (TypeError, ValueError) as error:
                error.args = (renamed(str(error), inspect.signature(function).parameters),)
                raise

        return cast(Function, call)

    return decorate
