"""Plans that are kept for later calls with equal shapes, strides and parameters."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from .._table import Operator
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

    def get(self, key: Any) -> Plan | None:
        """Return the plan of a key, if there is one."""
        return self.plans.get(key)

    def add(self, key: Any, plan: Plan) -> None:
        """Keep a plan, and forget the oldest one if there are too many."""
        with self.lock:
            self.plans[key] = plan
            while len(self.plans) > self.most:
                del self.plans[next(iter(self.plans))]

    def clear(self) -> None:
        """Forget all plans."""
        with self.lock:
            self.plans.clear()


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
    purpose: str, row: Operator, parameters: Any, size: Any, arrays: Any, given: tuple[Any, ...]
) -> Any:
    """
    Return the key of the plan of a call, or None if its arguments are not plain.

    Calls with equal keys have arguments that the same checks accept, but for `out`.  Whether
    elements are aligned depends on an address, so it is looked at here.

    Parameters
    ----------
    purpose : name of the pass
    parameters : those of the rule of the operator
    size : what the sizes of the result depend on, or an array on which they depend
    arrays : an array or several: maps, or gradients
    given : fields of Arguments
    """
    boxes, boxes_num, spatial_scale, layout, _, _, pyramid = given
    kind = cupy().ndarray
    listed = isinstance(arrays, (list, tuple))
    some = [boxes, *arrays] if listed else [boxes, arrays]
    if isinstance(size, kind):
        some.append(size)
        size = None
    if boxes_num is not None or type(layout) is not str:
        return None
    key = [purpose, row.name, layout, listed]
    try:
        key += map(exactly, (*parameters, size, spatial_scale, pyramid))
    except TypeError:
        return None
    for array in some:
        if not isinstance(array, kind):
            return None
        data, dtype = array.data, array.dtype
        if data.ptr % dtype.itemsize:
            return None
        key += (array.shape, array.strides, dtype.char, data.device_id)
    return tuple(key)
