"""What patches of other projects have in common: who wants them, and modules that come later.

A project is patched as long as somebody wants it: a context of any thread, or `install`.  Its
modules are not imported for that.  Those that are imported meanwhile are patched then.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from .._checks import _names
from .._docs import Documented, fill_in
from .._machine import _threads

PROJECTS: dict[str, Project] = {}
_lock = threading.RLock()
_installed: list[tuple[Project, bool]] = []
_threads.renew_after_fork(globals(), _lock=threading.RLock)
log = functools.partial(_names.log, "roicy.torch")


class Project:
    """A project that can be patched.

    modules : a pattern of the names of modules that it has
    wanted : how many want it patched
    inexact : how many of them take results that PyTorch rounds otherwise
    """

    def __init__(self, name: str, modules: str):
        self.name, self.modules, self.wanted, self.inexact = name, re.compile(modules), 0, 0
        PROJECTS[name] = self

    def patch(self, module: Any) -> None:
        """Patch a module; again, that changes nothing."""
        raise NotImplementedError

    def restore(self) -> None:
        """Undo all of it."""
        raise NotImplementedError


class _Loader:
    """Loads a module as its own loader does, and has it patched then."""

    def __init__(self, loader: Any, project: Project):
        self.loader, self.project = loader, project

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        with _lock:
            if self.project.wanted:
                self.project.patch(module)


class _Finder:
    """Finds modules of wanted projects as others do."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        project = next((one for one in PROJECTS.values() if one.modules.fullmatch(name)), None)
        if project is None or not project.wanted:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, project)
                return spec
        return None


_finder: Any = _Finder()


def _begin(project: Project, exact: bool) -> None:
    with _lock:
        project.wanted += 1
        project.inexact += not exact
        try:
            if _finder not in sys.meta_path:
                sys.meta_path.insert(0, _finder)
            for name, module in list(sys.modules.items()):
                if project.modules.fullmatch(name):
                    project.patch(module)
        except BaseException:
            _end(project, exact)
            raise


def _end(project: Project, exact: bool) -> None:
    with _lock:
        project.wanted -= 1
        project.inexact -= not exact
        if not project.wanted:
            project.restore()
        if _finder in sys.meta_path and not any(one.wanted for one in PROJECTS.values()):
            sys.meta_path.remove(_finder)


@contextlib.contextmanager
def patched(name: str, exact: bool = True) -> Iterator[None]:
    """Have a project patched in a context."""
    _require(name)
    project = PROJECTS[name]
    _begin(project, exact)
    try:
        yield
    finally:
        _end(project, exact)


def documented(name: str) -> Callable[[Documented], Documented]:
    """Fill in the docstring of a function that has a project patched in a context."""
    return functools.partial(
        fill_in,
        Returns=["context manager"],
        Raises=[f"ModuleNotFoundError\n    If {name} is not installed."],
        See_Also=["install : the same for good, and of other projects"],
    )


def _require(name: str) -> None:
    if sys.modules.get(name) is None and importlib.util.find_spec(name) is None:
        raise ModuleNotFoundError(f"{name} is not installed", name=name)


def install(*projects: str, exact: bool = True) -> AbstractContextManager[Any]:
    """Have models of other projects computed by roicy on the CPU, for good.

    Modules that are imported later are patched, too, so a server calls this once, and first.  A
    further call for the same projects changes nothing.  The logger ``roicy.torch`` says at level
    INFO what is exchanged, and why PyTorch enlarges some maps all the same, and as a WARNING what
    has a known name and is left alone, since it is not the definition that roicy knows.

    Parameters
    ----------
    *projects : str
        Of "transformers", "mmcv", "groundingdino", "detrex", "rfdetr", "ultralytics" and
        "torchvision"; by default all of them, whether they are installed or not.
    exact : bool, optional
        As in :func:`patch_transformers`.

    Returns
    -------
    context manager
        Its end is that of what this call has changed.

    Raises
    ------
    ValueError
        If a project is not known.
    ModuleNotFoundError
        If a project that is named is not installed.

    See Also
    --------
    uninstall : undoes it
    patch_torchvision, patch_transformers, patch_mmcv : one project, in a context

    Examples
    --------
    >>> import roicy.torch
    >>> with roicy.torch.install():
    ...     pass  # import and run the program
    """
    for name in projects:
        if name not in PROJECTS:
            raise ValueError(f"projects: {name!r}, expected one of {', '.join(PROJECTS)}")
        _require(name)
    with _lock, contextlib.ExitStack() as undo:  # where one of them fails, too
        for name in projects or PROJECTS:
            one = PROJECTS[name], exact
            if one not in _installed:
                _begin(*one)
                _installed.append(one)
                undo.callback(_uninstall, [one])
        return undo.pop_all()


def uninstall() -> None:
    """Undo `install`.  Contexts that are open keep what they have patched until they end.

    Examples
    --------
    >>> import roicy.torch
    >>> _ = roicy.torch.install()
    >>> roicy.torch.uninstall()
    """
    _uninstall(_installed)


def _uninstall(projects: list[tuple[Project, bool]]) -> None:
    with _lock:
        for one in list(projects):
            if one in _installed:
                _installed.remove(one)
                _end(*one)
