"""
Calls for which PyTorch's dispatcher would do no more than call a kernel of this package.

The dispatcher decides by the keys of the tensors and of the thread, which stand for modes, tracers
and transforms.  A call with ordinary keys alone may go to the kernel itself, which makes small
calls shorter.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch.overrides import has_torch_function


def _keys(*names: str) -> int:
    sets = [DispatchKeySet(getattr(DispatchKey, name)) for name in names]
    return functools.reduce(operator.or_, sets).raw_repr()


# Outside of inference mode, and in it.
_OF_TENSORS = (
    _keys("CPU", "AutogradCPU", "ADInplaceOrView", "AutocastCPU"),
    _keys("CPU", "AutocastCPU"),
)
_OF_THREADS = (_keys("BackendSelect", "ADInplaceOrView"), _keys("BackendSelect"))


def is_plain(tensors: Sequence[Tensor]) -> bool:
    """Whether nothing but a kernel for the CPU, and autograd, has to see a call with these."""
    return (
        not torch.compiler.is_compiling()
        and not torch._C._autograd._profiler_enabled()
        and not has_torch_function(tensors)
        and torch._C._dispatch_tls_local_include_set().raw_repr() in _OF_THREADS
        and all([torch._C._dispatch_keys(one).raw_repr() in _OF_TENSORS for one in tensors])
    )
