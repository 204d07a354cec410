"""roicy as an execution provider of ONNX Runtime: RoI nodes, deformable attention and the labels of
pixels of a model run in roicy, all other nodes as ever.

ONNX Runtime loads the provider as a plugin; nothing of ONNX Runtime is compiled in.

Examples
--------
>>> import onnxruntime
>>> from roicy.onnxruntime import use
>>> options = use(onnxruntime.SessionOptions())
>>> # session = onnxruntime.InferenceSession("model.onnx", options)
"""

from __future__ import annotations

import contextlib
import threading
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from .._machine import _threads

if TYPE_CHECKING:
    from ._report import Report

__all__ = [
    "get_ep_name", "get_ep_names", "get_library_path", "install", "register", "report",
    "uninstall", "use",
]  # fmt: skip

OLDEST = (1, 24)  # the first version whose plugins read attributes and have kernels
_GIVEN = "roicy.given"  # an entry of SessionOptions
_lock = threading.Lock()
_threads.renew_after_fork(globals(), _lock=threading.Lock)


def get_ep_name() -> str:
    """Return the name of the provider.

    Returns
    -------
    str

    Examples
    --------
    >>> from roicy import onnxruntime
    >>> onnxruntime.get_ep_name()
    'RoicyExecutionProvider'
    """
    from . import provider  # which takes time to load

    return str(provider.NAME)


def get_ep_names() -> list[str]:
    """Return the names of the providers of the library.  There is one.

    Returns
    -------
    list of str
    """
    return [get_ep_name()]


def get_library_path() -> str:
    """Return the path of the library that ONNX Runtime loads.

    Returns
    -------
    str
    """
    from . import provider

    return str(provider.__file__)


def version() -> tuple[int, ...]:
    """Return the numbers of ONNX Runtime's version, (major, minor)."""
    import onnxruntime

    return tuple(map(int, onnxruntime.__version__.split(".")[:2]))


def _devices() -> list[Any]:
    import onnxruntime

    name = get_ep_name()
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]


def register() -> list[Any]:
    """Register the provider with ONNX Runtime, once in a process.

    Any thread may call it, and any number of times.

    Returns
    -------
    list of onnxruntime.OrtEpDevice
        What ``SessionOptions.add_provider_for_devices`` takes.

    Raises
    ------
    ImportError
        If ONNX Runtime is missing, or older than 1.24.
    """
    import onnxruntime

    if version() < OLDEST:
        raise ImportError(
            f"onnxruntime {onnxruntime.__version__} is installed, and roicy.onnxruntime needs "
            f"{'.'.join(map(str, OLDEST))} or newer"
        )
    # ONNX Runtime holds a lock while it loads the library, which must not wait for imports then.
    from . import _claims  # noqa: F401

    with _lock:
        if not _devices():
            onnxruntime.register_execution_provider_library("roicy", get_library_path())
        return _devices()


def options_of(options: Any, num_threads: int | None) -> dict[str, str]:
    """Return the options of the provider for a session with these options."""
    threads = _threads.check(num_threads) if num_threads is not None else 0
    threads = threads or options.intra_op_num_threads
    given = {"num_threads": str(threads)} if threads else {}
    if options.optimized_model_filepath:  # a file has no place for nodes that stand for several
        given["groups"] = "0"
    return given


def use(options: Any, num_threads: int | None = None) -> Any:
    """Have sessions with these options run RoI nodes in roicy.

    The provider is registered if it is not yet.  Another call for the same options changes nothing.
    Give the session no ``providers``: with any, ONNX Runtime drops those of the options, and only
    warns.

    Parameters
    ----------
    options : onnxruntime.SessionOptions
        Options of a session, which get the provider.  ``intra_op_num_threads`` and
        ``optimized_model_filepath`` have to be set before.
    num_threads : int, optional
        Nodes take at most so many of the session's own threads, and what is left to Python at
        most so many of OpenMP's; by default ``intra_op_num_threads`` of `options` where it is
        set, else :func:`roicy.get_num_threads`.

    Returns
    -------
    onnxruntime.SessionOptions
        `options`.

    Raises
    ------
    ImportError
        As :func:`register`.
    TypeError, ValueError
        If `num_threads` is no integer, or less than 1; or if `options` are no SessionOptions, or
        have the provider with other threads already.

    Examples
    --------
    >>> import onnxruntime
    >>> from roicy.onnxruntime import use
    >>> use(onnxruntime.SessionOptions()).has_providers()
    True
    """
    devices = register()
    if not hasattr(options, "add_provider_for_devices"):
        raise TypeError(f"options: {options!r}, expected onnxruntime.SessionOptions")
    given = options_of(options, num_threads)
    before = _given_before(options)
    if before is None:
        options.add_provider_for_devices(devices, given)
        options.add_session_config_entry(_GIVEN, str(given))
    elif before != str(given):
        raise ValueError(f"options: they have the provider with {before} already, not {given}")
    return options


def report(session: Any) -> Report:
    """Say what roicy takes of the model of a session, and why it leaves the rest.

    The model is opened once more for that, with the options of the session.  Of a session without
    the provider, it is what roicy would take.

    Parameters
    ----------
    session : onnxruntime.InferenceSession

    Returns
    -------
    Report
        ``taken`` and ``left``, lists of lines; ``print`` shows them.

    Raises
    ------
    ImportError
        As :func:`register`.
    TypeError
        If `session` is none of ONNX Runtime's.

    Examples
    --------
    >>> import onnx.parser, onnxruntime, roicy.onnxruntime
    >>> model = onnx.parser.parse_model('''<ir_version: 9, opset_import: ["": 18]>
    ... labels (float[1, 5, 6, 7] X) => (int64[1, 24, 28] Y) <float[4] S = {1.0, 1.0, 4.0, 4.0}>
    ... {R = Resize <mode = "cubic"> (X, "", S)  Y = ArgMax <axis = 1, keepdims = 0> (R)}''')
    >>> options = roicy.onnxruntime.use(onnxruntime.SessionOptions())
    >>> session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    >>> print(roicy.onnxruntime.report(session))
    left to ONNX Runtime: node 'Y' (ArgMax): Resize of mode 'cubic'
    """
    register()
    from ._report import report_of

    return report_of(session)


def _given_before(options: Any) -> str | None:
    """Return what an earlier call of `use` gave the provider, which options can have once."""
    try:  # copies of options have the entry, but no providers
        return str(options.get_session_config_entry(_GIVEN)) if options.has_providers() else None
    except Exception:  # ONNX Runtime's for an entry that is missing
        return None


def install() -> AbstractContextManager[Any]:
    """Have all sessions of this process run RoI nodes in roicy, those that other programs make too.

    ``onnxruntime.InferenceSession`` itself is changed, so it does not matter when it was imported,
    and classes that are made of it are changed too.  Sessions that there are stay as they are.
    A further call changes nothing.

    What a program gives counts: of ``providers``, all are kept in their order, and roicy's comes
    just before the CPU's.  A session whose ``sess_options`` have providers is left alone.  Options
    are not changed, and nodes take as many threads of the session as their
    ``intra_op_num_threads`` says, or else at most :func:`roicy.get_num_threads`.

    Returns
    -------
    context manager
        Its end is that of the change, unless another call has made it.

    Raises
    ------
    ImportError
        As :func:`register`.

    Examples
    --------
    >>> import roicy.onnxruntime
    >>> with roicy.onnxruntime.install():
    ...     pass  # import and run the program
    """
    register()
    from . import _sessions

    undo = contextlib.ExitStack()
    with _lock:
        if _sessions.install():
            undo.callback(uninstall)
    return undo


def uninstall() -> None:
    """Undo `install`: sessions that are made from now on are ONNX Runtime's own.

    Without such a call before, nothing happens.

    Examples
    --------
    >>> import roicy.onnxruntime
    >>> _ = roicy.onnxruntime.install()
    >>> roicy.onnxruntime.uninstall()
    """
    from . import _sessions

    with _lock:
        _sessions.uninstall()
