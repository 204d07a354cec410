"""How times change with the number of threads, and with what else the machine does."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import roicy

from . import timing
from .progress import Progress
from .workloads import ALL, each_level

PYTHON_THREADS = 8
MIN_CALLS = 1000  # with fewer calls, there is no percentile 99.9
PERCENTILES = {"p50": 50, "p99": 99, "p99.9": 99.9}


def scaling(
    calls: list[tuple[str, str]], dtype: str, most: int, rounds: int, seconds: float
) -> list[dict[str, Any]]:
    """Return times of calls on 1, 2, 4, ... and `most` threads, in turns on the same arrays."""
    rows: list[dict[str, Any]] = []
    counts = sorted({*(1 << i for i in range(most.bit_length())), most})
    with Progress("scaling", len(calls)) as progress:
        for name, direction in calls:
            progress.begin(f"{name} {direction}")
            work, arrays = ALL[name], ALL[name].arrays(dtype)
            functions = {
                count: work.call(roicy, arrays, direction, reuse=True, threads=count)
                for count in counts
            }
            moved = work.read_bytes(arrays, direction)
            moved += sum(array.nbytes for array in each_level(functions[1]()))
            least = timing.in_turns(functions, rounds, seconds)
            for count, best in least.items():
                speedup = least[1] / best
                rows.append(
                    {"workload": name, "direction": direction, "layout": "NCHW", "dtype": dtype}
                    | {"threads": count, "least": best, "speedup": speedup}
                    | {"efficiency": speedup / count, "bytes_per_second": moved / best}
                )
    return rows


def table_of_scaling(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text."""
    head = f"{'workload':<18} {'pass':<14} {'threads':>7} {'ms':>9} {'speed-up':>9}"
    lines = [f"{head} {'efficiency':>10} {'GB/s':>6}"]
    lines += [
        f"{row['workload']:<18} {row['direction']:<14} {row['threads']:>7} "
        f"{row['least'] * 1e3:>9.3f} {row['speedup']:>8.2f}x {row['efficiency']:>10.0%} "
        f"{row['bytes_per_second'] / 1e9:>6.1f}"
        for row in rows
    ]
    lines.append(
        "\nms: the least time of a call\n"
        "efficiency: speed-up over threads\n"
        "GB/s: bytes of the map (or of the gradient that is read) and of the result, over\n"
        "  the time; boxes that reach a part of the map read less"
    )
    return "\n".join(lines)


def alone(name: str, threads: int, seconds: float) -> list[float]:
    """Return the times of small calls that write to one array: of `seconds`, and MIN_CALLS."""
    work = ALL[name]
    function: Callable[[], Any] = work.call(roicy, work.arrays(), reuse=True, threads=threads)
    for _ in range(20):
        function()
    return timing.times(function, seconds, MIN_CALLS)


def beside_busy_core(name: str, threads: int, seconds: float) -> list[float]:
    """Time calls while another process spins."""
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        return alone(name, threads, seconds)
    finally:
        spinning.kill()
        spinning.wait()


def from_python_threads(name: str, threads: int, seconds: float) -> list[float]:
    """Time calls that eight threads of Python make at the same time, each on its own arrays."""
    with ThreadPoolExecutor(PYTHON_THREADS) as pool:
        calls = [pool.submit(alone, name, threads, seconds) for _ in range(PYTHON_THREADS)]
        return [one for call in calls for one in call.result()]


def in_forked_workers(name: str, threads: int, seconds: float) -> list[float]:
    """Time calls in as many forked processes as there are cores; none where nothing forks."""
    if not hasattr(os, "fork"):
        return []
    alone(name, threads, 0)  # as in a program that has called roicy before it forks
    workers = max(timing.usable_cores(), 2)
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        found = pool.starmap(alone, [(name, threads, seconds)] * workers, chunksize=1)
        return [one for times in found for one in times]


SITUATIONS: dict[str, Callable[[str, int, float], list[float]]] = {
    "alone": alone,
    "beside a busy core": beside_busy_core,
    f"{PYTHON_THREADS} Python threads": from_python_threads,
    "forked workers": in_forked_workers,
}


def latency(names: list[str], threads: list[int], seconds: float) -> list[dict[str, Any]]:
    """Return percentiles of the times of small calls in each situation."""
    rows: list[dict[str, Any]] = []
    with Progress("latency", len(names) * len(threads) * len(SITUATIONS)) as progress:
        for name, count, situation in itertools.product(names, threads, SITUATIONS):
            progress.begin(f"{name} {situation}")
            found = SITUATIONS[situation](name, count, seconds)
            if found:
                row = {"workload": name, "threads": count, "situation": situation}
                times = timing.percentiles(found, PERCENTILES)
                rows.append(row | times | {"worst": max(found)})
    return rows


def table_of_latency(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text."""
    head = f"{'situation':<20} {'calls':>8}"
    head += "".join(f" {f'{name} us':>10}" for name in (*PERCENTILES, "worst"))
    lines: list[str] = []
    for row in rows:
        call = timing.titled(row["workload"], threads=row["threads"])
        if call not in lines:
            lines += [*([""] if lines else []), call, head]
        times = "".join(f" {row[name] * 1e6:>10.1f}" for name in (*PERCENTILES, "worst"))
        lines.append(f"{row['situation']:<20} {row['calls']:>8}{times}")
    lines.append(
        "\np99: the time that one call of a hundred exceeds\n"
        "forked workers: as many processes as cores, each of which makes calls"
    )
    return "\n".join(lines)
