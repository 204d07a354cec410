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
    module = real() if request.param == "GPU" else standin
    if module is standin and shutil.which("g++") is None:
        pytest.skip("no g++")
    if module is standin:
        monkeypatch.setattr(standin, "order", request.param)
    monkeypatch.setitem(sys.modules, "cupy", module)
    forget()
    yield module
    forget()


@pytest.fixture
def emulated(monkeypatch):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    monkeypatch.setattr(standin, "order", "forward")
    monkeypatch.setitem(sys.modules, "cupy", standin)
    forget()
    yield standin
    forget()


def assert_close(actual, expected, terms=400):
    """Check sums that add in another order: they differ by less than `terms` roundings."""
    actual = actual.get()
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.size:
        assert np.abs(actual - expected).max() <= terms * np.finfo(expected.dtype).eps * max(
            np.abs(expected).max(), 1e-30
        )


def placed(value, put):
    """Return arguments with arrays, also those of lists, where `put` puts them."""
    if isinstance(value, list):
        return [placed(part, put) for part in value]
    return put(value) if isinstance(value, np.ndarray) else value


def check_agrees(cupy, function, *given, terms=400, **options):
    """Check that a call gives what it gives on the CPU, and return that."""
    expected = function(*given, **options)
    actual = function(*placed(list(given), cupy.asarray), **options)
    several = isinstance(expected, list)
    for one, other in zip(
        *((actual, expected) if several else ([actual], [expected])), strict=True
    ):
        assert isinstance(one, cupy.ndarray)
        assert_close(one, other, terms)
    return expected


# Gradients of boxes are sums over all channels, bins and pixels, whose terms cancel.
OF_BOXES = {"terms": 4000}
