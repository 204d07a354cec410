"""What roicy takes of a model, and why it leaves the rest."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import get_ep_name


class Report(NamedTuple):
    """What roicy takes of a model, and why it leaves the rest; ``print`` shows a line of each.

    Attributes
    ----------
    taken, left : list of str
        Nodes and groups of nodes that roicy computes, and what looked like one and is none.
    """

    taken: list[str]
    left: list[str]

    def __str__(self) -> str:
        lines = [f"roicy: {one}" for one in self.taken]
        lines += [f"left to ONNX Runtime: {one}" for one in self.left]
        return "\n".join(lines or ["nothing in the model is for roicy"])


@contextlib.contextmanager
def told() -> Iterator[Report]:
    """Collect what the provider says of the sessions that this thread makes."""
    report, thread = Report([], []), threading.get_ident()
    log = logging.getLogger("roicy.onnxruntime")
    handler, level = logging.Handler(), log.level

    def emit(record: logging.LogRecord) -> None:
        if record.thread == thread:
            of = report.left if record.levelno != logging.INFO else report.taken
            of.append(record.getMessage())

    handler.emit = emit  # type: ignore[method-assign]
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield report
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def report_of(session: Any) -> Report:
    """Open the model of a session once more, and return what is said of it."""
    from ..compat.onnx import InferenceSession
    from . import _sessions

    model = getattr(session, "_model_path", None) or getattr(session, "_model_bytes", None)
    if model is None:
        raise TypeError(f"session: {session!r}, expected an onnxruntime.InferenceSession")
    given, name = session.get_session_options(), get_ep_name()
    options, providers = _sessions.copy_of(given), session.get_provider_options()
    is_written, options.optimized_model_filepath = bool(given.optimized_model_filepath), ""
    options.enable_profiling, options.log_severity_level = False, 4
    providers[name] = providers.get(name, {}) | ({"groups": "0"} if is_written else {})
    with told() as report:
        InferenceSession(model, options, list(providers.items()))
    if name not in session.get_providers():
        every = [
            f"all, since the session has {session.get_providers()}; if its options have roicy, "
            "ONNX Runtime dropped it for providers="
        ]
        report = Report([], every + [f"{one}, which roicy takes" for one in report.taken])
    if is_written:
        report.left.append("groups: a model that is written to a file has no place for them")
    return report
