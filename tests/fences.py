"""Arrays that end where a page begins that nobody may read."""

import ctypes
import mmap
import os

import numpy as np
import pytest

needs_fences = pytest.mark.skipif(os.name == "nt", reason="pages are protected by a call of POSIX")


def fence(part):
    """Protect the pages of a piece of memory, so that touching one ends the process."""
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    assert protect(ctypes.c_void_p(part.ctypes.data), ctypes.c_size_t(part.nbytes), 0) == 0


def fenced(array, at_end):
    """Return a copy of an array that begins right behind a protected page, or ends before one."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // page) * page
    whole = np.frombuffer(mmap.mmap(-1, size + 2 * page), np.uint8)
    fence(whole[:page])
    fence(whole[page + size :])
    first = page + (size - array.nbytes if at_end else 0)
    copy = whole[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
