"""What ``python -m roicy bench`` does beside its table: files, comparisons, threads and latency."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ._workloads import CROPS, MASKS

SMALL = ["align_tiny", "pool_tiny"]  # of --latency


def add_options(bench: argparse.ArgumentParser) -> None:
    """Add the options that follow speed from build to build."""
    group = bench.add_argument_group("from build to build (docs/tracking.md)")
    group.add_argument(
        "--compare", nargs=2, metavar=("OLD", "NEW"), help="compare two files that --json wrote"
    )
    group.add_argument(
        "--against",
        metavar="WHAT",
        help="compare with a wheel, a commit of this checkout or a version, built into an "
        "environment of its own; exit code 1 if this build is slower",
    )
    processes = "of --json and --against, each build (default: %(default)s)"
    group.add_argument("--processes", type=int, default=7, help=processes)
    seconds = "in which a call is repeated in a process (default: %(default)s)"
    group.add_argument("--seconds", type=float, default=0.25, help=seconds)
    layouts = ["NCHW", "NHWC"]
    group.add_argument("--layouts", nargs="+", choices=layouts, default=layouts)
    group = bench.add_argument_group("threads and other work")
    scaling = "time 1, 2, 4, ... threads, up to the cores there are"
    group.add_argument("--scaling", action="store_true", help=scaling)
    group.add_argument("--max-threads", type=int, metavar="N", help="of --scaling (default: cores)")
    latency = "percentiles of small calls: alone, beside a busy core, from 8 threads, forked"
    group.add_argument("--latency", action="store_true", help=latency)


def runs_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the calls that the options name."""
    from ._scaling import can_run

    # A frame has its channels last, and masks are planes.
    only = {name: ["NHWC"] for name in CROPS} | {name: ["NCHW"] for name in MASKS}
    return [
        {"workload": name, "direction": direction, "layout": layout}
        | {"dtype": options.dtype, "threads": threads}
        for threads in options.threads
        for direction in options.passes
        for name in options.workloads
        for layout in only.get(name, options.layouts)
        if can_run(name, direction)
    ]


def write(path: str | None, file: dict[str, Any]) -> None:
    """Write a file, where a path is given."""
    if path:
        Path(path).write_text(json.dumps(file, indent=1) + "\n")


def run_against(options: argparse.Namespace) -> int:
    """Build the other version, time both, and print the comparison."""
    from ._against import install
    from ._compare import alternate, report, this_build

    with tempfile.TemporaryDirectory() as folder:
        builds = [install(options.against, Path(folder)), this_build()]
        runs = runs_of(options)
        old, new = alternate(builds, runs, options.processes, options.seconds)
    if options.json:
        write(options.json, new)
        write(str(Path(options.json).with_suffix(".against.json")), old)
    return report(old, new)


def run_threads(options: argparse.Namespace) -> int:
    """Time threads, other work, or both."""
    from . import _scaling, _timing

    file: dict[str, Any] = {"schema": "roicy-threads/1", **_timing.facts()}
    print(_timing.title() + "\n")
    if options.scaling:
        most = options.max_threads or _timing.usable_cores()
        file["scaling"] = _scaling.scaling(
            options.workloads, options.passes, options.dtype, most, options.rounds, options.seconds
        )
        print(_scaling.table_of_scaling(file["scaling"]) + "\n")
    if options.latency:
        small = [name for name in SMALL if name in options.workloads] or options.workloads
        file["latency"] = _scaling.latency(small, options.threads, max(options.seconds, 0.01))
        print(_scaling.table_of_latency(file["latency"]))
    write(options.json, file)
    return 0


def run_bench(options: argparse.Namespace) -> int:
    """Time the operators beside other libraries; a file gets times of several processes too."""
    from . import _bench
    from ._compare import alternate, this_build

    found = _bench.run(
        options.workloads,
        options.passes,
        options.dtype,
        options.threads,
        options.rounds,
        options.plot,
    )
    if options.json:
        (file,) = alternate([this_build()], runs_of(options), options.processes, options.seconds)
        write(options.json, file | {"peers": found})
    return 0


def run(options: argparse.Namespace) -> int:
    """Do what the options ask for, and return the exit code."""
    if min(options.processes, options.rounds) < 1 or options.seconds <= 0:
        print("--processes, --rounds, --seconds: expected more than 0", file=sys.stderr)
        return 2
    try:
        if options.compare:
            from ._compare import read, report

            return report(*map(read, options.compare))
        if options.against:
            return run_against(options)
        if options.scaling or options.latency:
            return run_threads(options)
        return run_bench(options)
    except (OSError, ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
