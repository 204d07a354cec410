"""Compare roicy with torchvision on shapes that nobody chose.

The workloads of the suite are those of detectors.  This sweep draws others at random: 1 to 1024
channels, maps of 16 to 8000 pixels a side, 1 to 1000 boxes of 1 % to 100 % of the map's sides, all
sampling ratios, passes and layouts.  So it finds shapes for which roicy chooses a bad strategy.
Both libraries are timed in turns, by default on one thread, and the least time of each counts.

    python asv_bench/sweep.py --cases 500

prints a table of the worst ratios.  It needs `pip install torch torchvision`.  Where torchvision
lacks an operator or pass, its nearest relative stands in.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any, NamedTuple

import numpy as np

import roicy
from roicy.bench import timing
from roicy.bench.peers import TorchVision
from roicy.bench.progress import Progress
from roicy.bench.workloads import Workload

WORST = 20  # rows of the table
ROUNDS = 5  # in which the libraries have their turns
CHANNELS = (1, 2, 3, 8, 15, 16, 64, 256, 1024)
SIDES = (16, 50, 200, 800, 2000, 8000)
SHARES = (0.01, 0.05, 0.2, 0.5, 1.0)  # sides of boxes, as a share of the sides of the map
BOXES = (1, 10, 100, 1000)
BINS = (1, 2, 7, 14)
RATIOS = (0, 1, 2, 4)
PASSES = {
    "roi_align": ("forward", "backward", "backward_boxes"),
    "roi_align_max": ("forward",),
    "prroi_pool": ("forward",),
    "ps_roi_align": ("forward", "backward", "backward_boxes"),
    "ps_roi_pool": ("forward", "backward"),
    "roi_pool": ("forward", "argmax", "backward"),
}
# what torchvision computes in place of what it lacks
RELATIVES = {"roi_align_max": "roi_align", "prroi_pool": "roi_align"}
RELATIVES |= {"backward_boxes": "backward", "argmax": "forward"}
# Larger cases are not drawn, since torchvision would take too much time or memory.
MOST_SAMPLES = 5e7
MOST_ELEMENTS = 1 << 26
RATIO_ALLOWED = 1.5
SMALL, SMALL_ALLOWED = 0.050, 0.015  # ms: calls this short may take so much more


class Case(NamedTuple):
    operator: str
    direction: str
    layout: str
    channels: int  # channels of the output
    side: int
    boxes: int
    share: float
    bins: int
    ratio: int

    @property
    def input_channels(self) -> int:
        return self.channels * (self.bins**2 if self.operator.startswith("ps_") else 1)

    @property
    def is_small_enough(self) -> bool:
        """Return whether torchvision needs neither long nor much memory."""
        is_adaptive = self.ratio == 0 or "align" not in self.operator
        across = self.share * self.side if is_adaptive else self.bins * self.ratio
        work = self.boxes * self.channels * max(across, self.bins) ** 2
        return self.input_channels * self.side**2 <= MOST_ELEMENTS and work <= MOST_SAMPLES


def draw(count: int, seed: int) -> list[Case]:
    """Draw cases, about as many of each pass and layout."""
    rng = np.random.default_rng(seed)
    passes = [(operator, one) for operator, each in PASSES.items() for one in each]
    kinds = itertools.cycle(itertools.product(passes, ("NCHW", "NHWC")))
    cases: list[Case] = []
    for kind, layout in itertools.islice(kinds, count):
        while True:
            choices = (CHANNELS, SIDES, BOXES, SHARES, BINS, RATIOS)
            case = Case(*kind, layout, *(rng.choice(values).item() for values in choices))
            if case.is_small_enough:
                cases.append(case)
                break
    return cases


def calls_of(case: Case, threads: int, peer: TorchVision) -> dict[str, Any]:
    """Return the calls of roicy and of torchvision, the latter always with channels first."""
    shape = (1, case.input_channels, case.side, case.side)
    sides, bins = (max(round(case.share * case.side), 1),) * 2, (case.bins, case.bins)
    options = {"sampling_ratio": case.ratio} if "align" in case.operator else {}
    work = Workload("drawn", case.operator, shape, case.boxes, bins, 1.0, sides, options)
    operator = RELATIVES.get(case.operator, case.operator)
    options = {"sampling_ratio": 0} | options if "align" in operator else {}
    options |= {"aligned": True} if operator == "roi_align" else {}
    other, arrays = work._replace(operator=operator, parameters=options), work.arrays()
    if case.direction == "argmax":
        work = work._replace(parameters={"return_argmax": True})
    direction = case.direction.replace("argmax", "forward")
    return {
        "roicy": work.call(roicy, arrays, direction, case.layout, threads=threads),
        "torchvision": peer.prepare(other, arrays, RELATIVES.get(direction, direction)),
    }


def is_too_slow(row: dict[str, Any]) -> bool:
    ours, theirs = row["roicy ms"], row["torchvision ms"]
    return ours > max(RATIO_ALLOWED * theirs, theirs + SMALL_ALLOWED * (theirs < SMALL))


def row_of(case: Case, seconds: dict[str, float]) -> dict[str, Any]:
    """Return what the tables have of a case."""
    times = {f"{name} ms": 1e3 * spent for name, spent in seconds.items()}
    return case._asdict() | times | {"ratio of times": seconds["roicy"] / seconds["torchvision"]}


def table(rows: list[dict[str, Any]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(rows[0])} |", "|---" * len(rows[0]) + "|"]
    for row in rows:
        cells = (f"{one:.4g}" if isinstance(one, float) else str(one) for one in row.values())
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Draw cases, time them, print the worst and how many are slower than allowed."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each case")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    peer, rows = TorchVision(options.threads), []
    with Progress("sweep", options.cases) as progress:
        for case in draw(options.cases, options.seed):
            progress.begin(f"{case.operator} {case.direction} {case.layout}")
            calls = calls_of(case, options.threads, peer)
            seconds = timing.in_turns(calls, ROUNDS, options.seconds / ROUNDS / 2)
            rows.append(row_of(case, seconds))
    rows.sort(key=lambda row: -row["ratio of times"])
    slow = list(filter(is_too_slow, rows))
    median = np.median([row["ratio of times"] for row in rows])
    print(table(rows[:WORST]))
    print(f"\n{len(rows)} cases, median ratio {median:.3f}; slower than allowed:")
    print(table(slow) if slow else "none")


if __name__ == "__main__":
    main()
