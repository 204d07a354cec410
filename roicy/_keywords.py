"""The keywords of operators, as the signatures of their functions have them."""

from __future__ import annotations

import inspect

import roicy

# What annotations of `_checks/_types.py` become in schemas and nodes, which know these types alone.
_TYPES = {"bool": bool, "t.Ratio": int, "t.Index": int, "t.Number": float}
_OF_ARRAYS_ALONE = ("spatial_scale", "return_argmax")  # others have the scale in their own way


def keywords_of(name: str) -> dict[str, bool | int | float]:
    """Return the keywords of an operator that not all calls have, in order, and their defaults."""
    return {
        one.name: _TYPES[one.annotation](one.default)
        for one in inspect.signature(getattr(roicy, name)).parameters.values()
        if one.annotation in _TYPES and one.name not in _OF_ARRAYS_ALONE
    }
