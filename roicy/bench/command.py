"""``python -m roicy bench``: its options, and what each of them runs."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import roicy

from .progress import Progress
from .workloads import ALL

SMALL = ["align_tiny", "pool_tiny"]  # of --latency
PASSES = ["forward", "backward", "backward_boxes"]


def add_options(bench: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add, some = bench.add_argument, {"nargs": "+", "metavar": "NAME"}
    text = "Time these workloads only.  --list says what they are."
    add("--workloads", choices=list(ALL), default=list(ALL), help=text, **some)
    text = "Print what each workload is, and time nothing."
    add("--list", action="store_true", help=text)
    text = f"Time these of {', '.join(PASSES)}.  The default is forward."
    add("--passes", choices=PASSES, default=["forward"], help=text, **some | {"metavar": "PASS"})
    text = "Time each of these numbers of threads in turn.  The default is 1."
    add("--threads", type=int, default=[1], help=text, **some | {"metavar": "N"})
    text = "The type of the maps.  The default is float32."
    add("--dtype", choices=["float32", "float64"], default="float32", help=text)
    text = "Each library has so many turns.  The default is %(default)s."
    add("--rounds", type=int, default=5, metavar="N", help=text)
    text = "Draw the times into this picture.  This needs matplotlib."
    add("--plot", metavar="FILE", help=text)
    text = "Write the measurements into this file."
    add("--json", metavar="FILE", help=text)
    add = bench.add_argument_group("from build to build (docs/tracking.md)").add_argument
    text = "Compare two files that --json wrote."
    add("--compare", nargs=2, metavar=("OLD", "NEW"), help=text)
    text = "Print files of --json in a format: pyperf, github (-action-benchmark), or otava."
    add("--convert", nargs="+", metavar=("FORMAT", "FILE"), help=text)
    text = (
        "Compare with a wheel, a commit of this checkout or a version.  The exit code is 1 if this "
        "build is slower."
    )
    add("--against", metavar="WHAT", help=text)
    text = "Let --compare and --against fail unless each call is the same within so much."
    add("--same", type=float, metavar="PERCENT", help=text)
    text = "Run so many processes of each build for --json and --against.  The default is 7."
    add("--processes", type=int, default=7, metavar="N", help=text)
    text = "Repeat a call for so long in a process.  The default is 0.25."
    add("--seconds", type=float, default=0.25, metavar="SECONDS", help=text)
    add = bench.add_argument_group("threads and other work").add_argument
    text = "Time 1, 2, 4, ... threads, up to the number of cores."
    add("--scaling", action="store_true", help=text)
    text = (
        "Time the tasks that are planned for each of these numbers of threads one by one, and deal "
        "them to so many workers.  The default is 2, 16, 32 and 64."
    )
    add("--simulate", type=int, nargs="*", metavar="N", help=text)
    text = "Print percentiles of small calls: alone, beside a busy core, from 8 threads, forked."
    add("--latency", action="store_true", help=text)
    text = (
        "Print percentiles of calls, and of sessions of ONNX Runtime, beside so many Python "
        "threads that compute.  The default is 1, 2 and 4."
    )
    add("--busy", type=int, nargs="*", metavar="N", help=text)


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
    numbers = vars(options) | {"threads": min(options.threads)}
    for name in ("busy", "simulate"):
        numbers[name] = min(getattr(options, name) or [1])
    for name in ("busy", "processes", "rounds", "seconds", "same", "simulate", "threads"):
        if numbers[name] is not None and not numbers[name] > 0:
            raise ValueError(f"--{name}: {numbers[name]}, expected more than 0")
    if options.same is not None and not (options.compare or options.against):
        raise ValueError("--same: expected --compare or --against beside it")
    check_file("--json", options.json)
    check_file("--plot", options.plot, is_picture=True)
    if options.against and options.json:
        check_file("--json", of_the_other(options.json))
    if not (options.compare or options.convert or calls_of(options)):
        names, passes = ", ".join(options.workloads), " or ".join(options.passes)
        raise ValueError(f"no table: none of {names} has a pass {passes}")


def of_the_other(path: str) -> str:
    """Return the file of the build that --against compares with."""
    return str(Path(path).with_suffix(".against.json"))


def calls_of(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the workloads and passes that the options name, as far as there are any."""
    each = itertools.product(options.passes, options.workloads)
    return [(name, direction) for direction, name in each if ALL[name].has(roicy, direction)]


def runs_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what processes have to time."""
    return [
        {"workload": name, "direction": direction, "layout": layout}
        | {"dtype": options.dtype, "threads": threads}
        for threads in options.threads
        for name, direction in calls_of(options)
        for layout in ALL[name].layouts
    ]


def write(path: str | None, file: dict[str, Any]) -> None:
    """Write a file, where a path is given."""
    if path:
        Path(path).write_text(json.dumps(file, indent=1) + "\n", "utf-8")


def run_against(options: argparse.Namespace, same: float | None) -> int:
    """Build the other version, time both, and print the comparison."""
    from .builds import alternate, install, this_build
    from .compare import report

    with tempfile.TemporaryDirectory() as folder:
        with Progress(f"installing {options.against}"):
            builds = [install(options.against, Path(folder)), this_build()]
        old, new = alternate(builds, runs_of(options), options.processes, options.seconds)
    if options.json:
        write(options.json, new)
        write(of_the_other(options.json), old)
    return report(old, new, same)


def run_compare(paths: list[str], same: float | None) -> int:
    """Compare two files of the same kind."""
    from . import compare, compare_threads

    old, new = map(compare.read, paths)
    if old["schema"] != new["schema"]:
        kinds = " and ".join(file["schema"] for file in (old, new))
        raise ValueError(f"--compare: files of {kinds}, expected two of the same kind")
    of_threads = old["schema"] == compare.THREADS
    return (compare_threads.report if of_threads else compare.report)(old, new, same)


def run_threads(options: argparse.Namespace) -> None:
    """Time threads, other work, or both."""
    from . import busy, simulate, threads, timing
    from .compare import THREADS

    file: dict[str, Any] = {"schema": THREADS, **timing.facts()}
    print(textwrap.fill(timing.title(), 80) + "\n")
    if options.scaling:
        how = timing.usable_cores(), options.rounds, options.seconds
        file["scaling"] = threads.scaling(calls_of(options), options.dtype, *how)
        print(threads.table_of_scaling(file["scaling"]) + "\n")
    if options.simulate is not None:
        counts = options.simulate or simulate.DEFAULT
        how = options.dtype, counts, options.rounds, options.seconds
        each = [(*call, layout) for call in calls_of(options) for layout in ALL[call[0]].layouts]
        file["simulated"] = simulate.simulate(each, *how)
        print(simulate.table(file["simulated"]) + "\n")
    if options.latency:
        small = [name for name in SMALL if name in options.workloads] or options.workloads
        file["latency"] = threads.latency(small, options.threads, max(options.seconds, 0.01))
        print(threads.table_of_latency(file["latency"]))
    if options.busy is not None:
        names = busy.CALLS if options.workloads == list(ALL) else calls_of(options)
        file |= busy.measure(names, options.threads, options.busy or busy.BUSY, options.seconds)
        print("\n" * options.latency + busy.table(file))
    write(options.json, file)


def run_bench(options: argparse.Namespace) -> None:
    """Time the operators beside other libraries; a file gets times of several processes too."""
    from . import beside
    from .builds import alternate, this_build

    how = options.dtype, options.threads, options.rounds, options.plot
    peers = beside.run(calls_of(options), *how)
    if options.json:
        (file,) = alternate([this_build()], runs_of(options), options.processes, options.seconds)
        write(options.json, file | {"peers": peers})


def run(options: argparse.Namespace) -> int:
    """Do what the options ask for, and return the exit code."""
    try:
        check(options)
        same = None if options.same is None else options.same / 100
        if options.list:
            for name, work in ALL.items():
                print(f"{name:<19} {work.about}\n    {work.description}")
        elif options.compare:
            return run_compare(options.compare, same)
        elif options.convert:
            from .convert import convert

            print(convert(options.convert[0], options.convert[1:]))
        elif options.against:
            return run_against(options, same)
        elif options.scaling or options.latency or (options.busy, options.simulate) != (None, None):
            run_threads(options)
        else:
            run_bench(options)
    except (OSError, ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0
