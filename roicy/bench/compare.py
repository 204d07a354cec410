"""Two builds or two machines compared: ratios of times, their intervals, and a verdict for each.

docs/tracking.md describes the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .builds import SCHEMA
from .timing import titled

PARTS = ("machine", "build", "runtime", "method", "runs")
THREADS = "roicy-threads/1"  # of files of --scaling and the like; docs/tracking.md has it
TABLES = {"scaling", "simulated", "latency", "busy"}  # of which such a file has one at least
OF_A_RUN = ("least", "digest")
KEY = ("workload", "direction", "layout", "dtype", "threads")
LEVEL = 0.99  # of the intervals: many calls are compared at once
RESAMPLES = 4000
# Smaller differences get no verdict: of processes that took turns, and of files that were measured
# one after the other, between which a machine changes.
IN_TURNS, ONE_BY_ONE = 0.02, 0.05
# A process runs the same code up to a tenth more slowly than another, as long as it lives (R001
# in docs/records.md), so a few processes tell only larger differences.
FEW_PROCESSES, MARGIN_OF_FEW = 5, 0.10
FASTER, SLOWER, SAME, UNKNOWN = "faster", "slower", "same", "cannot tell"


def read(path: str, option: str = "--compare") -> dict[str, Any]:
    """Return a file that `--json` wrote; ValueError where it is not one.

    Only `--compare` takes those of `--scaling` and the like.
    """
    name = f"{option}: {path}"
    try:
        file = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{name}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{name}: not JSON ({error})") from None
    schema = file.get("schema") if isinstance(file, dict) else None
    if schema == THREADS and option == "--compare":
        return read_threads(name, file)
    if schema != SCHEMA:
        raise ValueError(f"{name}: schema {schema!r}, expected {SCHEMA!r}")
    missing = [part for part in PARTS if not isinstance(file.get(part), (dict, list))]
    runs = [] if missing else file["runs"]
    missing += [part for part in (*KEY, *OF_A_RUN) if any(part not in run for run in runs)]
    if missing:
        raise ValueError(f"{name}: no {', '.join(missing)}, expected all of docs/tracking.md")
    return dict(file)


def read_threads(name: str, file: dict[str, Any]) -> dict[str, Any]:
    """Return a file of threads; ValueError where it lacks something."""
    missing = [part for part in PARTS[:3] if not isinstance(file.get(part), dict)]
    missing += [] if TABLES & file.keys() else [" or ".join(sorted(TABLES))]
    if missing:
        raise ValueError(f"{name}: no {', '.join(missing)}, expected all of docs/tracking.md")
    return file


def interval(old: list[float], new: list[float]) -> tuple[float, float, float]:
    """Return the ratio of the medians, new over old, and a bootstrap interval of it.

    Each number is the least time of a process, and processes are what is drawn again.
    """
    rng = np.random.default_rng(0)
    medians = [
        np.median(rng.choice(np.asarray(times), (RESAMPLES, len(times))), axis=1)
        for times in (old, new)
    ]
    low, high = np.quantile(medians[1] / medians[0], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(np.median(new) / np.median(old)), float(low), float(high)


def margin_of(old: dict[str, Any], new: dict[str, Any]) -> float:
    """Return the share that a difference between two files must exceed."""
    if min(file["method"]["processes"] for file in (old, new)) < FEW_PROCESSES:
        return MARGIN_OF_FEW
    return IN_TURNS if old["method"]["turns"] == new["method"]["turns"] else ONE_BY_ONE


def verdict(least: float, low: float, high: float, margin: float) -> str:
    """Return "faster" or "slower" where the interval and the ratio of the least times say so, and
    "same" where all of the interval lies within the margin.
    """
    if high < 1 - margin and least < 1 - margin / 2:
        return FASTER
    if low > 1 + margin and least > 1 + margin / 2:
        return SLOWER
    return SAME if 1 - margin <= low and high <= 1 + margin else UNKNOWN


def by_call(file: dict[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the runs of a file by what they call."""
    return {tuple(run[name] for name in KEY): run for run in file["runs"]}


def compare(old: dict[str, Any], new: dict[str, Any], margin: float) -> list[dict[str, Any]]:
    """Return a row for each call that both files have."""
    before, after, rows = by_call(old), by_call(new), []
    for call in (call for call in after if call in before):
        one, other = before[call], after[call]
        ratio, low, high = interval(one["least"], other["least"])
        times = {"old": min(one["least"]), "new": min(other["least"])}
        least = times["new"] / times["old"]
        rows.append(
            {name: other[name] for name in KEY}
            | times
            | {"ratio": ratio, "low": low, "high": high, "ratio_of_least": least}
            | {"verdict": verdict(least, low, high, margin)}
            | {"same_bits": one["digest"] == other["digest"]}
        )
    return rows


def differing(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a line for each fact in which the files differ."""
    return [
        f"{name}: {old[part].get(name)} -> {new[part].get(name)}"
        for part in ("machine", "build", "runtime")
        for name in old[part] | new[part]
        if old[part].get(name) != new[part].get(name)
    ]


def warned(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Return a line that says what verdicts are about if not of builds alone, or an empty text."""
    pairs = [("machine", "processor"), ("machine", "usable_cores")]
    pairs += [("runtime", "python"), ("runtime", "numpy")]
    names = [name for part, name in pairs if old[part].get(name) != new[part].get(name)]
    if not names:
        return ""
    return f"\nThese verdicts are not of the builds alone: the files differ in {', '.join(names)}."


def counted(verdicts: list[str], each: tuple[str, ...], margin: float) -> str:
    """Return a line with the number of each verdict."""
    counts = ", ".join(f"{verdicts.count(one)} {one}" for one in each)
    return f"{counts} (beyond, or within, {100 * margin:g} %)"


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text."""
    head = f"{'':<18} {'old ms':>9} {'new ms':>9} {'least':>6} {'median':>6}  {'interval':<13}"
    tables: dict[str, list[str]] = {}
    for row in rows:
        words = (row["direction"], row["layout"], row["dtype"])
        lines = tables.setdefault(titled(*words, threads=row["threads"]), [f"{head}  verdict"])
        lines.append(
            f"{row['workload']:<18} {row['old'] * 1e3:>9.3f} {row['new'] * 1e3:>9.3f} "
            f"{row['ratio_of_least']:>6.3f} {row['ratio']:>6.3f}  "
            f"{row['low']:.3f} - {row['high']:.3f}  {row['verdict']}{' *' * (not row['same_bits'])}"
        )
    lines = ["\n".join([call, *lines, ""]) for call, lines in tables.items()]
    lines.append(
        "least, median: the ratio new / old of the least times of the processes; less\n"
        f"  than 1 is faster\ninterval: of the ratio of the medians, {LEVEL:.0%}, by bootstrap "
        "over processes"
    )
    if not all(row["same_bits"] for row in rows):
        lines.append("*: the results have other bits")
    return "\n".join(lines)


def report(old: dict[str, Any], new: dict[str, Any], same: float | None = None) -> int:
    """Print the comparison, and return the exit code.

    It is 0 if nothing is slower, 1 if something is, 2 if no call is compared, and 3 if no call has
    another verdict than "cannot tell".  With `same`, a share, it is 1 unless every call is in both
    files and the same within this share.
    """
    margin = same or margin_of(old, new)
    rows = compare(old, new, margin)
    lacking = sorted(by_call(old).keys() ^ by_call(new).keys())
    for line in differing(old, new):
        print(line)
    for call in lacking:
        print("left out, since only one has it:", *call)
    if not rows:
        print("no table: the files have no call in common", file=sys.stderr)
        return 2
    print(table(rows))
    verdicts = [row["verdict"] for row in rows]
    print(counted(verdicts, (FASTER, SLOWER, SAME, UNKNOWN), margin) + warned(old, new))
    if same is not None:
        return int(bool(lacking) or verdicts.count(SAME) < len(rows))
    return 3 if verdicts.count(UNKNOWN) == len(rows) else int(SLOWER in verdicts)
