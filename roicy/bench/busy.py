"""What calls and sessions take beside Python threads that compute, as those of a server do."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import roicy
from roicy._kernels import machine

from . import timing
from .progress import Progress
from .workloads import ALL

BUSY = [1, 2, 4]
CALLS = [  # small and middle ones
    ("align_tiny", "forward"), ("pool_tiny", "forward"), ("align_few", "forward"),
    ("align_fpn_p4", "backward"), ("align_fpn_p4", "backward_boxes"), ("crop_one", "forward"),
    ("paste_masks", "forward"), ("attention_decoder", "forward"),
]  # fmt: skip
LEAST = 50  # calls, or runs of a session
ROUNDS, RUNS = 3, 5  # of sessions that have threads of their own, which spin for a moment
SESSIONS = (1, 2)  # at once
PERCENTILES: dict[str, float] = {"p50": 50, "p99": 99}
_percentiles = functools.partial(timing.percentiles, wanted=PERCENTILES)


@contextlib.contextmanager
def busy_threads(count: int) -> Iterator[None]:
    """Have so many threads run plain Python meanwhile."""
    ended = False

    def spin() -> None:
        steps = 0
        while not ended:
            steps += 1

    threads = [threading.Thread(target=spin, daemon=True) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        ended = True
        for thread in threads:
            thread.join()


def releases(function: Callable[[], Any]) -> int:
    """Return how often a call gives up the GIL."""
    function()
    before: int = machine.lock_releases()
    result = function()
    count = machine.lock_releases() - before
    del result  # not before: to keep the memory of a large result is no part of the call
    return count


def calls(
    names: list[tuple[str, str]], threads: list[int], counts: list[int], seconds: float
) -> list[dict[str, Any]]:
    """Return what calls from Python take beside each count of busy threads."""
    rows: list[dict[str, Any]] = []
    with Progress("calls", len(names) * len(threads)) as progress:
        for name, direction in names:
            arrays = ALL[name].arrays()
            for own in threads:
                progress.begin(f"{name} {direction}")
                call = ALL[name].call(roicy, arrays, direction, reuse=True, threads=own)
                row = {"workload": name, "direction": direction, "threads": own}
                row |= {"releases": releases(call)}
                for count in counts:
                    with busy_threads(count):
                        found = timing.times(call, seconds, LEAST)
                    rows.append(row | {"busy": count} | _percentiles(found))
    return rows


def _timed(function: Callable[[], Any], count: int) -> list[float]:
    """Return the times of so many calls."""
    found = []
    for _ in range(count):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return found


def sessions(counts: list[int]) -> list[dict[str, Any]]:
    """Return what runs of a session of one thread take, in turns, beside busy threads."""
    from .sessions import each_map, runs

    rows: list[dict[str, Any]] = []
    functions = runs(each_map(), 1)
    for count in counts:
        found: dict[str, list[float]] = {name: [] for name in functions}
        with busy_threads(count):
            for _ in range(LEAST):
                for name, function in functions.items():
                    found[name] += _timed(function, 1)
        rows += [{"nodes": name, "busy": count} | _percentiles(found[name]) for name in found]
    return rows


def sessions_at_once() -> list[dict[str, Any]]:
    """Return what runs take of one session of two threads, and of two that run at once."""
    from .sessions import chain, runs

    rows: list[dict[str, Any]] = []
    pairs = [runs(chain(), 2) for _ in range(max(SESSIONS))]
    with ThreadPoolExecutor(len(pairs)) as pool:
        for count in SESSIONS:
            found: dict[str, list[float]] = {name: [] for name in pairs[0]}
            for _ in range(ROUNDS):
                for name in found:
                    functions = [pair[name] for pair in pairs[:count]]
                    for times in pool.map(_timed, functions, [RUNS] * count):
                        found[name] += times
            rows += [{"nodes": n, "sessions": count} | _percentiles(found[n]) for n in found]
    return rows


def measure(
    names: list[tuple[str, str]], threads: list[int], busy: list[int], seconds: float
) -> dict[str, Any]:
    """Return rows of calls, and where ONNX Runtime is installed of its sessions."""
    counts = sorted({0, *busy})
    file = {"busy": calls(names, threads, counts, seconds)}
    if all(map(importlib.util.find_spec, ("onnx", "onnxruntime"))):
        with Progress("sessions"):
            file |= {"sessions": sessions(counts), "sessions_at_once": sessions_at_once()}
    return file


def _lines(title: str, columns: dict[int, dict[str, str]], note: str = "") -> list[str]:
    """Return a line for each percentile."""
    return [
        f"{text:<32} {name}" + "".join(f" {column[name]:>9}" for column in columns.values())
        for text, name in zip((title, note), PERCENTILES, strict=True)
    ]


def _milliseconds(row: dict[str, Any]) -> dict[str, str]:
    times = {name: row[name] * 1e3 for name in PERCENTILES}
    return {name: f"{time:.{1 if time >= 10 else 3}f}" for name, time in times.items()}


def _table_of_sessions(rows: list[dict[str, Any]], key: str) -> list[str]:
    """Return lines of rows whose columns are `key`, and of the ratio of roicy to the other."""
    by_nodes: dict[str, dict[int, Any]] = {}
    for row in rows:
        by_nodes.setdefault(row["nodes"], {})[row[key]] = row
    lines = []
    for nodes, columns in by_nodes.items():
        lines += _lines(nodes, {count: _milliseconds(row) for count, row in columns.items()})
    own, ours = by_nodes.values()
    ratios = {
        count: {name: f"{ours[count][name] / own[count][name]:.2f}" for name in PERCENTILES}
        for count in own
    }
    return [*lines, *_lines("roicy's over its own", ratios)]


def _head(title: str, columns: list[Any]) -> str:
    return f"{title:<36}" + "".join(f" {column:>9}" for column in columns)


def table(file: dict[str, Any]) -> str:
    """Return what was measured as text."""
    counts = sorted({row["busy"] for row in file["busy"]})
    lines = [_head("ms beside busy Python threads:", counts)]
    calls: dict[tuple[Any, ...], dict[int, Any]] = {}
    for row in file["busy"]:
        key = row["workload"], row["direction"], row["threads"], row["releases"]
        calls.setdefault(key, {})[row["busy"]] = _milliseconds(row)
    for (name, direction, threads, times), columns in calls.items():
        on = f", {threads} threads" if threads > 1 else ""
        lines += _lines(f"{name} {direction}", columns, f"  gives up the GIL {times}x{on}")
    if "sessions" in file:
        lines += ["", _head("a session of one thread, ms beside:", counts)]
        lines += _table_of_sessions(file["sessions"], "busy")
        lines += ["", _head("two threads, ms of sessions at once:", list(SESSIONS))]
        lines += _table_of_sessions(file["sessions_at_once"], "sessions")
    lines.append(
        "\np50, p99: the times that half of all calls, and one of a hundred, exceed\n"
        "a call that gives up the GIL gets it back after 5 ms for each busy thread"
    )
    if "sessions" not in file:
        lines.append("sessions of ONNX Runtime are timed where onnx and onnxruntime are installed")
    return "\n".join(lines)
