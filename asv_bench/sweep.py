"""
Compare roicy with torchvision on shapes that nobody chose.

The workloads of the suite are those of detectors.  This sweep draws others at random: 1 to 1024
channels, maps of 16 to 8000 pixels a side, 1 to 1000 boxes of 1 % to 100 % of the map's sides, all
sampling ratios, passes and layouts.  So it finds shapes for which roicy chooses a bad strategy.
Both libraries are timed in turns, by default on one thread, and the least time of each counts.

    python asv_bench/sweep.py --cases 500

prints a table of the worst ratios.  It needs `pip install torch torchvision tqdm`.  Where
torchvision lacks an operator or pass, its nearest relative stands in, as PASSES says.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from typing import Any, NamedTuple

import device
import numpy as np
from tqdm import tqdm

import roicy
from roicy.bench import timing
from roicy.bench.peers import TorchVision
from roicy.bench.workloads import Workload

WORST = 20  # rows of the table
ROUNDS = 5  # in which the libraries have their turns
CHANNELS = (1, 2, 3, 8, 15, 16, 64, 256, 1024)
SIDES = (16, 50, 200, 800, 2000, 8000)
SHARES = (0.01, 0.05, 0.2, 0.5, 1.0)  # sides of boxes, as a share of the sides of the map
BOXES = (1, 10, 100, 1000)
BINS = (1, 2, 7, 14)
RATIOS = (0, 1, 2, 4)

# For each pass, the operator and pass of torchvision with which it is compared.
PASSES = {
    ("roi_align", "forward"): ("roi_align", "forward"),
    ("roi_align", "backward"): ("roi_align", "backward"),
    ("roi_align", "backward_boxes"): ("roi_align", "backward"),
    ("roi_align_max", "forward"): ("roi_align", "forward"),
    ("prroi_pool", "forward"): ("roi_align", "forward"),
    ("ps_roi_align", "forward"): ("ps_roi_align", "forward"),
    ("ps_roi_align", "backward"): ("ps_roi_align", "backward"),
    ("ps_roi_align", "backward_boxes"): ("ps_roi_align", "backward"),
    ("ps_roi_pool", "forward"): ("ps_roi_pool", "forward"),
    ("ps_roi_pool", "backward"): ("ps_roi_pool", "backward"),
    ("roi_pool", "forward"): ("roi_pool", "forward"),
    ("roi_pool", "argmax"): ("roi_pool", "forward"),
    ("roi_pool", "backward"): ("roi_pool", "backward"),
}

# Larger cases are not drawn, since torchvision would take too much time or memory.
MOST_SAMPLES = 5e7
MOST_ELEMENTS = 1 << 26

RATIO_ALLOWED = 1.5
SMALL, SMALL_ALLOWED = 50e-6, 15e-6  # seconds: calls this short may take so much more


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
    def channels_per_output(self) -> int:
        """Return how many input channels an output channel has."""
        return self.bins**2 if self.operator.startswith("ps_") else 1

    @property
    def sampling_ratio(self) -> int:
        """Return 0, adaptive, for operators that look at every pixel."""
        return self.ratio if "align" in self.operator else 0

    @property
    def is_small_enough(self) -> bool:
        """Return whether torchvision needs neither long nor much memory."""
        elements = self.channels * self.channels_per_output * self.side**2
        window = (self.share * self.side) ** 2
        samples = window if self.sampling_ratio == 0 else (self.bins * self.sampling_ratio) ** 2
        work = self.boxes * self.channels * max(samples, self.bins**2)
        return elements <= MOST_ELEMENTS and work <= MOST_SAMPLES

    def workload(self) -> Workload:
        """Return the call of roicy."""
        shape = (1, self.channels * self.channels_per_output, self.side, self.side)
        sides, bins = (max(round(self.share * self.side), 1),) * 2, (self.bins, self.bins)
        options = {"sampling_ratio": self.ratio} if "align" in self.operator else {}
        return Workload("drawn", self.operator, shape, self.boxes, bins, 1.0, sides, options)


def draw(count: int, seed: int) -> list[Case]:
    """Draw cases, about as many of each pass and layout."""
    rng = np.random.default_rng(seed)
    kinds = itertools.cycle(itertools.product(PASSES, ("NCHW", "NHWC")))
    cases: list[Case] = []
    while len(cases) < count:
        (operator, direction), layout = next(kinds)
        while True:
            numbers = [rng.choice(values).item() for values in (CHANNELS, SIDES, BOXES, SHARES)]
            channels, side, boxes, share = numbers
            bins, ratio = rng.choice(BINS).item(), rng.choice(RATIOS).item()
            case = Case(operator, direction, layout, channels, side, boxes, share, bins, ratio)
            if case.is_small_enough:
                cases.append(case)
                break
    return cases


def calls_of(case: Case, threads: int, peer: TorchVision) -> dict[str, Any]:
    """Return the calls of roicy and of torchvision, the latter always with channels first."""
    work = case.workload()
    arrays = work.arrays()
    if case.direction == "argmax":
        work = work._replace(parameters={"return_argmax": True})
    direction = case.direction.replace("argmax", "forward")
    ours = work.call(roicy, arrays, direction, case.layout, threads=threads)
    operator, direction = PASSES[case.operator, case.direction]
    options = {"sampling_ratio": case.sampling_ratio} if "align" in operator else {}
    options |= {"aligned": True} if operator == "roi_align" else {}
    other = work._replace(operator=operator, parameters=options)
    return {"roicy": ours, "torchvision": peer.prepare(other, arrays, direction)}


def is_too_slow(ours: float, theirs: float) -> bool:
    return ours > max(RATIO_ALLOWED * theirs, theirs + SMALL_ALLOWED * (theirs < SMALL))


def table(results: list[dict[str, Any]]) -> str:
    """Return a table in Markdown."""
    rows = [
        Case(**result["case"])._asdict()
        | {"roicy ms": 1e3 * result["roicy"], "torchvision ms": 1e3 * result["torchvision"]}
        | {"roicy / torchvision": result["roicy"] / result["torchvision"]}
        for result in results
    ]
    return "\n".join(device.table(rows))


def main() -> None:
    """Draw cases, time them, print the worst and how many are slower than allowed."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each case")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    peer = TorchVision(options.threads)
    results = []
    for case in tqdm(draw(options.cases, options.seed), disable=not sys.stderr.isatty()):
        calls = calls_of(case, options.threads, peer)
        times = timing.in_turns(calls, ROUNDS, options.seconds / ROUNDS / 2)
        results.append({"case": case._asdict()} | times)
    results.sort(key=lambda result: result["torchvision"] / result["roicy"])
    print(table(results[:WORST]))
    slow = [result for result in results if is_too_slow(result["roicy"], result["torchvision"])]
    ratios = [result["roicy"] / result["torchvision"] for result in results]
    print(f"\n{len(results)} cases, median ratio {np.median(ratios):.3f}; slower than allowed:")
    print(table(slow) if slow else "none")


if __name__ == "__main__":
    main()
