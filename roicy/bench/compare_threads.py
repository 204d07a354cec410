"""Two files of tables of threads compared: a ratio and a verdict for each row."""

from __future__ import annotations

import sys
from typing import Any

from .compare import FASTER, SAME, SLOWER, counted, differing, warned

# A lock that threads wait for doubles the time of two threads.  Other programs on the machine move
# these times by a third, since each file was measured in one go.
MARGIN = 0.4
TABLES = {  # what names a row, and which of its numbers is judged
    "scaling": (("workload", "direction", "layout", "dtype", "threads"), "least"),
    "simulated": (("workload", "direction", "layout", "dtype", "threads"), "least"),
    "latency": (("workload", "threads", "situation"), "p50"),
    "busy": (("workload", "direction", "threads", "busy"), "p50"),
    "sessions": (("nodes", "busy"), "p50"),
    "sessions_at_once": (("nodes", "sessions"), "p50"),
}

MORE = {"scaling": ("efficiency", 1, ""), "simulated": ("work", 1, "")}  # than what is judged


def compare(
    old: dict[str, Any], new: dict[str, Any], margin: float
) -> dict[str, list[dict[str, Any]]]:
    """Return a row for each row that both files have, table by table."""
    found: dict[str, list[dict[str, Any]]] = {}
    for table, (key, what) in TABLES.items():
        before = {tuple(row[name] for name in key): row for row in old.get(table, ())}
        for row in new.get(table, ()):
            call = tuple(row[name] for name in key)
            if call in before:
                ratio = row[what] / before[call][what]
                verdict = SLOWER if ratio > 1 + margin else FASTER if ratio < 1 - margin else SAME
                one = {"call": call, "old": before[call], "new": row, "ratio": ratio}
                found.setdefault(table, []).append(one | {"verdict": verdict})
    return found


def text_of(table: str, rows: list[dict[str, Any]]) -> str:
    """Return the rows of a table as text."""
    more, scale, unit = MORE.get(table, ("p99", 1e6, " us"))
    what = TABLES[table][1]
    names = (f"old {what} us", f"new {what} us", "ratio", f"old {more}{unit}", f"new {more}{unit}")
    lines = [f"{table:<46}" + "".join(f" {name:>15}" for name in names) + "  verdict"]
    for row in rows:
        old, new = row["old"], row["new"]
        numbers = [f"{old[what] * 1e6:.1f}", f"{new[what] * 1e6:.1f}", f"{row['ratio']:.3f}"]
        numbers += [f"{old[more] * scale:.2f}", f"{new[more] * scale:.2f}"]
        call = " ".join(map(str, row["call"]))
        lines.append(
            f"{call:<46}" + "".join(f" {one:>15}" for one in numbers) + f"  {row['verdict']}"
        )
    return "\n".join([*lines, ""])


def report(old: dict[str, Any], new: dict[str, Any], same: float | None = None) -> int:
    """Print the comparison, and return the exit code, as compare.report does."""
    margin = same or MARGIN
    found = compare(old, new, margin)
    for line in differing(old, new):
        print(line)
    if not found:
        print("no table: the files have no row in common", file=sys.stderr)
        return 2
    for table, rows in found.items():
        print(text_of(table, rows))
    verdicts = [row["verdict"] for rows in found.values() for row in rows]
    print(counted(verdicts, (FASTER, SLOWER, SAME), margin) + warned(old, new))
    if same is not None:
        rows_of = [sum(len(file.get(table, ())) for table in TABLES) for file in (old, new)]
        return int(verdicts.count(SAME) < max(rows_of))
    return int(SLOWER in verdicts)
