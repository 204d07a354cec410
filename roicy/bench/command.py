"""``python -m roicy bench``: its options, and what each of them runs."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import roicy

from .workloads import ALL

SMALL = ["align_tiny", "pool_tiny"]  # of --latency


def add_options(bench: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    names, passes = list(ALL), ["forward", "backward", "backward_boxes"]
    some: dict[str, Any] = {"nargs": "+", "metavar": "NAME", "choices": names, "default": names}
    bench.add_argument("--workloads", help="of " + ", ".join(names), **some)
    some = {"nargs": "+", "choices": passes, "default": ["forward"]}
    bench.add_argument("--passes", help="(default: forward)", **some)
    some = {"nargs": "+", "type": int, "default": [1]}
    bench.add_argument("--threads", help="numbers of threads, in turn (default: 1)", **some)
    bench.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    rounds = "how often each library has its turn (default: %(default)s)"
    bench.add_argument("--rounds", type=int, default=5, help=rounds)
    bench.add_argument("--plot", metavar="FILE", help="draw the times, with matplotlib")
    bench.add_argument("--json", metavar="FILE", help="write the measurements")
    group = bench.add_argument_group("from build to build (docs/tracking.md)")
    group.add_argument(
        "--compare", nargs=2, metavar=("OLD", "NEW"), help="compare two files that --json wrote"
    )
    convert = "print files of --json for pyperf, github (github-action-benchmark) or otava"
    group.add_argument("--convert", nargs="+", metavar=("FORMAT", "FILE"), help=convert)
    group.add_argument(
        "--against",
        metavar="WHAT",
        help="compare with a wheel, a commit of this checkout or a version, built into an "
        "environment of its own; exit code 1 if this build is slower",
    )
    same = "exit code 1 unless each call of --compare or --against is the same within so much"
    group.add_argument("--same", type=float, metavar="PERCENT", help=same)
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
    return [
        {"workload": name, "direction": direction, "layout": layout}
        | {"dtype": options.dtype, "threads": threads}
        for threads in options.threads
        for direction in options.passes
        for name in options.workloads
        for layout in ALL[name].layouts
        if ALL[name].has(roicy, direction)
        and (layout in options.layouts or len(ALL[name].layouts) == 1)
    ]


def share_of(options: argparse.Namespace) -> float | None:
    """Return the share within which calls have to be the same, if that was asked for."""
    return None if options.same is None else float(options.same) / 100


def write(path: str | None, file: dict[str, Any]) -> None:
    """Write a file, where a path is given."""
    if path:
        Path(path).write_text(json.dumps(file, indent=1) + "\n")


def run_against(options: argparse.Namespace) -> int:
    """Build the other version, time both, and print the comparison."""
    from .builds import alternate, install, this_build
    from .compare import report

    with tempfile.TemporaryDirectory() as folder:
        builds = [install(options.against, Path(folder)), this_build()]
        runs = runs_of(options)
        old, new = alternate(builds, runs, options.processes, options.seconds)
    if options.json:
        write(options.json, new)
        write(str(Path(options.json).with_suffix(".against.json")), old)
    return report(old, new, share_of(options))


def run_threads(options: argparse.Namespace) -> int:
    """Time threads, other work, or both."""
    from . import threads, timing

    file: dict[str, Any] = {"schema": "roicy-threads/1", **timing.facts()}
    print(timing.title() + "\n")
    if options.scaling:
        most = options.max_threads or timing.usable_cores()
        file["scaling"] = threads.scaling(
            options.workloads, options.passes, options.dtype, most, options.rounds, options.seconds
        )
        print(threads.table_of_scaling(file["scaling"]) + "\n")
    if options.latency:
        small = [name for name in SMALL if name in options.workloads] or options.workloads
        file["latency"] = threads.latency(small, options.threads, max(options.seconds, 0.01))
        print(threads.table_of_latency(file["latency"]))
    write(options.json, file)
    return 0


def run_bench(options: argparse.Namespace) -> int:
    """Time the operators beside other libraries; a file gets times of several processes too."""
    from . import beside
    from .builds import alternate, this_build

    found = beside.run(
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
    numbers = (options.processes, options.rounds, options.seconds, options.same or 1)
    if min(numbers) <= 0 or options.same == 0:
        print("--processes, --rounds, --seconds, --same: expected more than 0", file=sys.stderr)
        return 2
    try:
        if options.compare:
            from .compare import read, report

            return report(*map(read, options.compare), share_of(options))
        if options.convert:
            from .convert import convert

            print(convert(options.convert[0], options.convert[1:]))
            return 0
        if options.against:
            return run_against(options)
        if options.scaling or options.latency:
            return run_threads(options)
        return run_bench(options)
    except (OSError, ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
