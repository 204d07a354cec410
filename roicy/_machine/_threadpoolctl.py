"""Lets threadpoolctl limit the threads of all calls; it is read where somebody asks for it."""

from __future__ import annotations

import threadpoolctl

import roicy

from .._kernels import machine
from . import _threads


class ThreadpoolController(threadpoolctl.LibController):
    """The threads of roicy's calls, for threadpoolctl.

    Register this class once. Limits of threadpoolctl then hold for calls of all threads of the
    process. Without it they hold for the thread that sets them alone, since OpenMP keeps a limit
    for each thread.

    Examples
    --------
    >>> import roicy, threadpoolctl
    >>> threadpoolctl.register(roicy.ThreadpoolController)  # doctest: +SKIP
    >>> with threadpoolctl.threadpool_limits(1):  # doctest: +SKIP
    ...     serve()  # calls of any thread compute on one thread
    """

    user_api = "openmp"
    internal_api = "roicy"
    filename_prefixes = ("machine",)  # the file of the module of this name
    check_symbols = ("roicy_pool_for",)

    def get_num_threads(self) -> int:
        """Return the most threads of calls that name none."""
        return min(_threads.get_num_threads(), machine.get_limit() or _threads.MOST)

    def set_num_threads(self, num_threads: int) -> None:
        """Set the most threads of any call; there is no limit from the default number on."""
        machine.set_limit(num_threads if num_threads < _threads.get_num_threads() else 0)

    def get_version(self) -> str:
        return roicy.__version__
