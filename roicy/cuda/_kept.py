"""Plans that are kept for later calls with equal shapes, strides and parameters."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from .._arguments import Arguments
from .._table import Operator
from ._arrays import is_aligned
from ._launch import cupy
from ._plan import Plan

MOST_PLANS = 256  # that are kept


class Kept:
    """
    Plans that are kept by their keys, the latest ones.

    Threads may look for plans while others add some.
    """

    def __init__(self, most: int = MOST_PLANS):
        self.most = most
        self.plans: dict[Any, Plan] = {}
        self.lock = threading.Lock()
        self.get, self.clear = self.plans.get, self.plans.clear

    def add(self, key: Any, plan: Plan) -> None:
        """Keep a plan, and forget the oldest one if there are too many."""
        with self.lock:
            self.plans[key] = plan
            while len(self.plans) > self.most:
                del self.plans[next(iter(self.plans))]


KEPT = Kept()


def exactly(value: Any) -> Any:
    """
    Return a key that is equal only for equal values of equal types, since some types are errors.

    Raises TypeError for values of other types than plain ones.
    """
    kind = type(value)
    if kind is int or kind is float or kind is bool or value is None:
        return kind, value
    if kind is tuple or kind is list:
        return (kind, *map(exactly, value))
    if isinstance(value, np.number):
        return kind, value
    raise TypeError(f"{kind} has no key")


def key_of(
    row: Operator,
    parameters: tuple[Any, ...],
    sizes: tuple[Any, ...],
    arrays: list[Any],
    arguments: Arguments,
) -> Any:
    """
    Return the key of the plan of a call, or None if its arguments are not plain.

    Calls with equal keys have boxes and parameters that the same checks accept.  Whether elements
    are aligned depends on an address, so it is looked at here.

    sizes: of the result and of the maps; arrays: maps or a gradient, which have been checked.
    """
    boxes = arguments.boxes
    if not isinstance(boxes, cupy().ndarray) or arguments.boxes_num is not None:
        return None
    try:
        given = exactly((*parameters, arguments.spatial_scale, arguments.pyramid))
    except TypeError:
        return None
    if not is_aligned(boxes):
        return None
    key = [row.name, arguments.layout, sizes, given]
    for array in (boxes, *arrays):
        key += (array.shape, array.strides, array.dtype.char, array.data.device_id)
    return tuple(key)
