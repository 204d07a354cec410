"""Objects that are arrays by a protocol, or of a class of their own."""

import numpy as np


class Named(np.ndarray):
    """A class of somebody's own, which a plan does not take as it is."""


class WithArray:
    """Memory that NumPy reads by the method ``__array__``."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        assert dtype is None
        assert copy is None
        return self.array


class WithDLPack:
    """Memory that is exchanged by DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
