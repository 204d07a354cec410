"""Speed on more threads than the machine has: tasks are timed one by one and dealt to workers."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import roicy
from roicy._kernels import machine

from .progress import Progress
from .workloads import ALL

DEFAULT = [2, 16, 32, 64]  # threads
SHORTEST = 0.05  # seconds for which calls on each number of threads are repeated


class Timed(NamedTuple):
    """Least times of a call, in seconds: of its tasks, and of all else, which one thread does."""

    groups: list[tuple[int, np.ndarray]]  # what is shared out at a time: to how many, and times
    serial: float

    @property
    def work(self) -> float:
        """The time of all tasks."""
        return float(sum(times.sum() for _, times in self.groups))

    @property
    def balance(self) -> float:
        """The mean load of workers over the largest, of the tasks that take most of the time."""
        workers, times = max(self.groups, key=lambda group: group[1].sum(), default=(1, np.ones(1)))
        return float(times.sum()) / (workers * dealt(times, workers))

    @property
    def dealt(self) -> float:
        """The time until the last worker is done, who each take the next task when they are."""
        return sum(dealt(times, workers) for workers, times in self.groups)


def dealt(times: np.ndarray, workers: int) -> float:
    """Return when the last task ends, if whoever is free first takes the next one."""
    ends = [0.0] * workers
    for each in times:
        heapq.heapreplace(ends, ends[0] + float(each))
    return max(ends)


def timed(functions: dict[int, Callable[[], Any]], rounds: int, seconds: float) -> dict[int, Timed]:
    """Return the least times of each call; they are made in turns.

    Each second time the last task is first, so that none always finds what all read out of cache.
    """
    found: dict[int, Timed] = {}
    end = time.perf_counter() + len(functions) * max(seconds, SHORTEST)
    while rounds > 0 or time.perf_counter() < end:
        rounds -= 1
        for count, function in functions.items():
            start = time.thread_time()  # as of tasks
            groups = machine.times_of_tasks(function, rounds % 2 == 1)
            whole = time.thread_time() - start
            serial = whole - sum(sum(times) for _, times in groups) / 1e9
            one = Timed([(n, np.array(times[1:]) / 1e9) for n, times in groups], serial)
            if count in found:
                each = zip(found[count].groups, one.groups, strict=True)
                least = [(n, np.minimum(a, b)) for (n, a), (_, b) in each]
                one = Timed(least, min(found[count].serial, one.serial))
            found[count] = one
    return found


def simulate(
    calls: list[tuple[str, str, str]], dtype: str, counts: list[int], rounds: int, seconds: float
) -> list[dict[str, Any]]:
    """Return how calls, each a workload, a pass and a layout, would do on these threads."""
    rows: list[dict[str, Any]] = []
    with Progress("simulate", len(calls)) as progress:
        for name, direction, layout in calls:
            progress.begin(f"{name} {direction} {layout}")
            work, arrays = ALL[name], ALL[name].arrays(dtype)
            functions = {
                count: work.call(roicy, arrays, direction, layout, reuse=True, threads=count)
                for count in sorted({1, *counts})
            }
            found = timed(functions, rounds, seconds)
            for count in counts:
                one, of = found[1], found[count]
                least = of.serial + of.dealt
                rows.append(
                    {"workload": name, "direction": direction, "layout": layout, "dtype": dtype}
                    | {"threads": count, "tasks": sum(len(times) for _, times in of.groups)}
                    | {"work": of.work / one.work if one.work else 1.0}
                    | {"balance": of.balance}
                    | {"serial": of.serial, "least": least}
                    | {"speedup": (one.serial + one.work) / least}
                )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text."""
    head = f"{'workload':<18} {'pass':<14} {'':<4} {'threads':>7} {'tasks':>5}"
    lines = [f"{head} {'work':>5} {'even':>5} {'ms':>5} {'speed':>6}"]
    lines += [
        f"{row['workload']:<18} {row['direction']:<14} {row['layout']:<4} {row['threads']:>7} "
        f"{row['tasks']:>5} {row['work']:>5.2f} {row['balance']:>5.2f} "
        f"{row['serial'] * 1e3:>5.2f} {row['speedup']:>5.1f}x"
        for row in rows
    ]
    lines.append(
        "\nwork: of all tasks, over that of one thread's tasks\n"
        "even: the mean worker's time over the last one's, who end together at 1\n"
        "ms: what one thread does before, between and after tasks\n"
        "speed: over one thread, if memory were as fast for all as it is for one"
    )
    return "\n".join(lines)
