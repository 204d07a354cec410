"""Fixtures of tests that run on the stand-in for CuPy or on a GPU, and what they share."""

import shutil
import sys

import numpy as np
import pytest

from cuda_emulation import standin
from roicy.cuda import _launch


def real():
    try:
        import cupy
    except ImportError:
        return None
    return cupy if cupy.cuda.is_available() else None


def forget():
    """Forget the kernels that were made with another CuPy, and finish what is queued."""
    standin.synchronize(standin.Stream.null)
    _launch._kernel.cache_clear()
    _launch._with_grid.cache_clear()


# Orders in which the stand-in runs threads, and the GPU if there is one.
ORDERS = ("forward", "reverse", "mixed", *(("GPU",) if real() else ()))


@pytest.fixture(params=ORDERS)
def cupy(request, monkeypatch):
    """Return CuPy, or the stand-in, which runs threads in some order."""
    yield from running(request.param, monkeypatch)


@pytest.fixture
def emulated(monkeypatch):
    yield from running("forward", monkeypatch)


def running(order, monkeypatch):
    """Yield what stands for CuPy during a test."""
    module = real() if order == "GPU" else standin
    if module is standin and shutil.which("g++") is None:
        pytest.skip("no g++")
    if module is standin:
        monkeypatch.setattr(standin, "order", order)
    monkeypatch.setitem(sys.modules, "cupy", module)
    forget()
    yield module
    forget()


def assert_close(actual, expected, terms=400):
    """Check sums that add in another order: they differ by less than `terms` roundings."""
    actual = actual.get()
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.size:
        largest = max(np.abs(expected).max(), 1e-30)
        assert np.abs(actual - expected).max() <= terms * np.finfo(expected.dtype).eps * largest


def placed(value, put):
    """Return arguments with arrays, also those of lists, where `put` puts them."""
    if isinstance(value, list):
        return [placed(part, put) for part in value]
    return put(value) if isinstance(value, np.ndarray) else value


def check_agrees(cupy, function, *given, terms=400, **options):
    """Check that a call gives what it gives on the CPU, and return that."""
    expected = function(*given, **options)
    actual = function(*placed(list(given), cupy.asarray), **options)
    both = (actual, expected) if isinstance(expected, list) else ([actual], [expected])
    for one, other in zip(*both, strict=True):
        assert isinstance(one, cupy.ndarray)
        assert_close(one, other, terms)
    return expected


# Gradients of boxes are sums over all channels, bins and pixels, whose terms cancel.
OF_BOXES = {"terms": 4000}
