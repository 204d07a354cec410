"""The keywords of operators, as the signatures of their functions have them."""

from __future__ import annotations

import inspect

import roicy

_OF_ARRAYS_ALONE = ("spatial_scale", "return_argmax")  # others have the scale in their own way


def keywords_of(name: str) -> dict[str, bool | int | float]:
    """Return the keywords of an operator that not all calls have, in order, and their defaults.

    Their types are those of schemas and nodes.  Annotations are not asked, since programs that
    check calls by them put types in their places.
    """
    return {
        one.name: one.default
        for one in inspect.signature(getattr(roicy, name)).parameters.values()
        if isinstance(one.default, (bool, int, float)) and one.name not in _OF_ARRAYS_ALONE
    }
