"""``python -m roicy bench``: its options, and what each of them runs."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import roicy

from .progress import Progress
from .workloads import ABOUT, ALL

SMALL = ["align_tiny", "pool_tiny"]  # of --latency
PASSES = ["forward", "backward", "backward_boxes"]


def add_options(bench: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    some: dict[str, Any] = {"nargs": "+", "metavar": "NAME", "choices": list(ALL)}
    text = "Time these workloads only.  --list says what they are."
    bench.add_argument("--workloads", help=text, **some)
    text = "Print what each workload is, and time nothing."
    bench.add_argument("--list", action="store_true", help=text)
    some = {"nargs": "+", "choices": PASSES, "default": ["forward"], "metavar": "PASS"}
    text = f"Time these of {', '.join(PASSES)}.  The default is forward."
    bench.add_argument("--passes", help=text, **some)
    some = {"nargs": "+", "type": int, "default": [1], "metavar": "N"}
    text = "Time each of these numbers of threads in turn.  The default is 1."
    bench.add_argument("--threads", help=text, **some)
    text = "The type of the maps.  The default is float32."
    bench.add_argument("--dtype", choices=["float32", "float64"], default="float32", help=text)
    text = "Each library has so many turns.  The default is %(default)s."
    bench.add_argument("--rounds", type=int, default=5, metavar="N", help=text)
    text = "Draw the times into this picture.  This needs matplotlib."
    bench.add_argument("--plot", metavar="FILE", help=text)
    text = "Write the measurements into this file."
    bench.add_argument("--json", metavar="FILE", help=text)
    _add_options_of_builds(bench.add_argument_group("from build to build (docs/tracking.md)"))
    group = bench.add_argument_group("threads and other work")
    text = "Time 1, 2, 4, ... threads, up to the number of cores."
    group.add_argument("--scaling", action="store_true", help=text)
    text = "The most threads of --scaling.  The default is the number of cores."
    group.add_argument("--max-threads", type=int, metavar="N", help=text)
    text = "Print percentiles of small calls: alone, beside a busy core, from 8 threads, forked."
    group.add_argument("--latency", action="store_true", help=text)


def _add_options_of_builds(group: Any) -> None:
    """Add the options that compare builds."""
    text = "Compare two files that --json wrote."
    group.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"), help=text)
    text = (
        "Print files of --json in the format pyperf, github (of github-action-benchmark) or otava."
    )
    group.add_argument("--convert", nargs="+", metavar=("FORMAT", "FILE"), help=text)
    text = (
        "Compare with a wheel, a commit of this checkout or a version, which is built into an "
        "environment of its own.  The exit code is 1 if this build is slower."
    )
    group.add_argument("--against", metavar="WHAT", help=text)
    text = (
        "Let the exit code of --compare or --against be 1 unless each call is the same within so "
        "much."
    )
    group.add_argument("--same", type=float, metavar="PERCENT", help=text)
    text = "Run so many processes of each build for --json and --against.  The default is 7."
    group.add_argument("--processes", type=int, default=7, metavar="N", help=text)
    text = "Repeat a call for so long in a process.  The default is 0.25."
    group.add_argument("--seconds", type=float, default=0.25, metavar="SECONDS", help=text)
    layouts = ["NCHW", "NHWC"]
    some: dict[str, Any] = {"nargs": "+", "choices": layouts, "default": layouts}
    text = "Time NCHW or NHWC in --json and --against.  The default is both."
    group.add_argument("--layouts", metavar="LAYOUT", help=text, **some)


def described() -> str:
    """Return what each workload is for, and what it computes."""
    return "\n".join(
        f"{name:<19} {ABOUT[name]}\n    {work.description}" for name, work in ALL.items()
    )


def check_file(option: str, path: str | None, is_picture: bool = False) -> None:
    """Check that a file can be written to, before anything is computed; ValueError if it cannot."""
    if path is None:
        return
    file = Path(path)
    if is_picture:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        if file.suffix[1:].lower() not in FigureCanvasAgg.get_supported_filetypes():
            expected = "a name that ends in .png, .pdf, .svg or another type of pictures"
            raise ValueError(f"{option}: {path!r}, expected {expected}")
    is_new = not file.exists()
    try:
        file.open("ab").close()
    except OSError as error:
        raise ValueError(f"{option}: {path!r} cannot be written: {error.strerror}") from None
    if is_new:
        file.unlink()


def check(options: argparse.Namespace) -> None:
    """Check what argparse does not; ValueError names the first option that is wrong."""
    numbers = {"processes": options.processes, "rounds": options.rounds}
    numbers |= {"seconds": options.seconds, "same": options.same, "threads": min(options.threads)}
    for name, number in (numbers | {"max-threads": options.max_threads}).items():
        if number is not None and not number > 0:
            raise ValueError(f"--{name}: {number}, expected more than 0")
    if options.same is not None and not (options.compare or options.against):
        raise ValueError("--same: expected --compare or --against beside it")
    check_file("--json", options.json)
    check_file("--plot", options.plot, is_picture=True)
    if options.against and options.json:
        check_file("--json", str(beside(options.json)))
    if not (options.compare or options.convert or runs_of(options)):
        names, passes = ", ".join(options.workloads), " or ".join(options.passes)
        raise ValueError(f"no table: none of {names} has a pass {passes}")


def beside(path: str) -> Path:
    """Return the file of the build that --against compares with."""
    return Path(path).with_suffix(".against.json")


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
        with Progress(f"installing {options.against}"):
            builds = [install(options.against, Path(folder)), this_build()]
        runs = runs_of(options)
        old, new = alternate(builds, runs, options.processes, options.seconds)
    if options.json:
        write(options.json, new)
        write(str(beside(options.json)), old)
    return report(old, new, share_of(options))


def run_threads(options: argparse.Namespace) -> int:
    """Time threads, other work, or both."""
    from . import threads, timing

    file: dict[str, Any] = {"schema": "roicy-threads/1", **timing.facts()}
    print(textwrap.fill(timing.title(), 80) + "\n")
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
    if options.list:
        print(described())
        return 0
    options.workloads = options.workloads or list(ALL)
    try:
        check(options)
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
