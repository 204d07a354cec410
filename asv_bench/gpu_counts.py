"""
A model of what the kernels of the GPU cost, counted without a GPU, beside gpu_counts.json.

    python asv_bench/gpu_counts.py            # count, compare, fail where something is 5 % worse
    python asv_bench/gpu_counts.py --write    # accept the counts as the new ones
    python asv_bench/gpu_counts.py --table    # print the table of docs/gpu.md
    python asv_bench/gpu_counts.py --lines --only "pool_vgg forward NCHW"    # where they are spent

NVIDIA's compiler makes the machine code for an H100 (sm_90), and gpu/machine.cpp runs this code on
a CPU: every warp of a call, instruction by instruction.  So instructions are counted and not
estimated, and the results are compared with those of the CPU's operators.  What makes it a model
is what is left out: time.  There are no caches, no latencies, no limits of the units that
instructions share, and no scheduling of warps.  Sectors are those that instructions ask for; the
caches of a GPU serve most of them.

The calls are smaller than those of the benchmarks, so that a CPU can run them.
"""

import argparse
import json
import os
import shutil
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

import numpy as np

FOLDER = Path(__file__).resolve().parent
COUNTS = FOLDER / "gpu_counts.json"
ALIGNMENT = 512  # bytes, of CuPy's memory
WORSE = 0.05  # a count fails if it has grown by more than this share
# Counts of calls, and then of kernels: registers of a thread, bytes of shared memory of a block,
# and instructions of the machine code.
WHAT = ("instructions", "sectors", "shared", "launches", "allocated", "registers", "code")
# workload, pass, layout, and what is smaller than in the workload of the timings
FPN, C4 = {"shape": (1, 32, 200, 304), "count": 250}, {"shape": (1, 64, 50, 76), "count": 50}
DENSE = {"shape": (1, 32, 100, 152), "count": 250}
WIDE = {"shape": (1, 128, 100, 152), "count": 60}
POOL = {"shape": (1, 32, 50, 76), "count": 500}
PRROI, PS = {"shape": (1, 32, 100, 152), "count": 100}, {"shape": (1, 98, 50, 76), "count": 200}
CAMERA = {"shape": (1, 3, 270, 480), "count": 4}
CALLS = [
    ("align_fpn_p2", "forward", "NCHW", FPN),
    ("align_fpn_p2_sr2", "forward", "NCHW", FPN),
    ("align_mask", "forward", "NCHW", {"shape": (1, 32, 200, 304), "count": 50}),
    ("align_c4", "forward", "NCHW", C4),
    ("align_pyramid", "forward", "NCHW", {"shape": (1, 16, 200, 304), "count": 100}),
    ("align_adaptive", "forward", "NCHW", {"shape": (1, 32, 200, 304), "count": 20}),
    ("align_camera", "forward", "NCHW", CAMERA),
    ("align_tiny", "forward", "NCHW", {}),
    ("prroi_iounet", "forward", "NCHW", PRROI),
    ("align_fpn_p2", "forward", "NHWC", WIDE),
    ("prroi_iounet", "forward", "NHWC", WIDE),
    ("ps_align_lighthead", "forward", "NCHW", PS),
    ("pool_vgg", "forward", "NCHW", POOL),
    ("pool_vgg", "argmax", "NCHW", POOL),
    ("pool_vgg", "forward", "NHWC", {"shape": (1, 128, 50, 76), "count": 100}),
    ("align_fpn_p2", "backward", "NCHW", DENSE),
    ("align_c4", "backward", "NCHW", {"shape": (1, 32, 50, 76), "count": 100}),
    ("align_pyramid", "backward", "NCHW", {"shape": (1, 16, 200, 304), "count": 100}),
    ("align_fpn_p2", "backward", "NHWC", DENSE),
    ("prroi_iounet", "backward", "NCHW", PRROI),
    ("ps_align_lighthead", "backward", "NCHW", PS),
    ("pool_vgg", "backward", "NCHW", POOL),
    ("pool_vgg", "backward", "NHWC", {"shape": (1, 32, 50, 76), "count": 100}),
    ("align_fpn_p2", "backward_boxes", "NCHW", {"shape": (1, 32, 200, 304), "count": 100}),
    ("align_fpn_p2", "backward_boxes", "NHWC", {"shape": (1, 128, 100, 152), "count": 30}),
]


def name_of(workload, direction, layout):
    return f"{workload} {direction} {layout}"


class OnMachine:
    """What the stand-in for CuPy takes as its module of kernels: it runs their machine code."""

    machine = None
    launches: ClassVar[list] = []  # (name, counts) of a call

    def __init__(self, code, options, name_expressions):
        from gpu.machine import Machine

        from roicy.cuda._launch import instantiations

        if OnMachine.machine is None:
            # Each kernel is asked for by itself; one compilation of all takes less time.
            names = [n for n in instantiations() if "float" in n and "rotated" not in n]
            OnMachine.machine = Machine(code, options, names)

    def get_function(self, name):
        def function(grid, block, arguments):
            given = [
                np.uint64(value.host.__array_interface__["data"][0]).tobytes()
                if hasattr(value, "host")
                else value.tobytes()
                for value in arguments
            ]
            counts = self.machine.run(name, grid[0], block[0], given)
            OnMachine.launches.append((name.split("<")[0], counts))

        return function


def stand_in():
    """Let roicy.cuda use the stand-in for CuPy, with kernels that run as machine code."""
    sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "tests")]
    from cuda_emulation import standin

    standin.RawModule = OnMachine
    standin.alignment = ALIGNMENT  # sectors depend on it
    sys.modules["cupy"] = standin
    return standin


def prepared(roicy, workloads, workload, direction, layout, smaller, put):
    """Return a function without parameters, which makes a call."""
    work = workloads.WORKLOADS[workload]._replace(**smaller)
    arrays = work.arrays()
    if direction != "argmax":
        return workloads.call(roicy, work, arrays, direction, layout, False, 1, put)
    input, boxes = put(arrays["input"]), put(arrays["boxes"])
    return lambda: roicy.roi_pool(
        input, boxes, work.output_size, work.spatial_scale, return_argmax=True
    )


def check(actual, expected):
    """Check results of a call with those of the CPU."""
    if isinstance(expected, (list, tuple)):
        for mine, theirs in zip(actual, expected, strict=True):
            check(mine, theirs)
        return
    close = 0.0  # numbers of pixels are the same
    if expected.dtype.kind == "f":  # sums are rounded in another order here and there
        close = 16 * float(np.finfo(expected.dtype).eps * np.abs(expected).max())
    np.testing.assert_allclose(actual.get(), expected, rtol=0, atol=close)


def count_call(standin, row):
    """Make a call, compare its result with that of the CPU, and return its launches and counts."""
    import roicy
    from roicy import _workloads

    call = prepared(roicy, _workloads, *row, standin.asarray)
    OnMachine.launches = []
    standin.allocations.clear()
    result = call()
    allocated, launches = sum(standin.allocations), OnMachine.launches
    check(result, prepared(roicy, _workloads, *row, np.asarray)())
    return launches, {
        "instructions": sum(counts["instructions"] for _, counts in launches),
        "sectors": sum(counts["global_sectors"] for _, counts in launches),
        "shared": sum(counts["shared_wavefronts"] for _, counts in launches),
        "launches": len(launches),
        "allocated": allocated,
    }


def count(only, show_lines):
    """Return the counts of all calls, and the resources of all kernels."""
    standin = stand_in()
    found = {}
    for row in CALLS:
        name = name_of(*row[:3])
        if only not in name:
            continue
        launches, found[name] = count_call(standin, row)
        if show_lines:
            print(f"\n{name}: warp instructions of each line of the source")
            for kernel, counts in launches:
                print(f"{kernel}: {counts['instructions']}")
                print(OnMachine.machine.by_line(f"{kernel}<float>", counts["each"]))
    resources = OnMachine.machine.resources()
    return found, {name.split("<")[0]: values for name, values in resources.items()}


def versions():
    """Return what the counts depend on, besides the sources."""
    return {"nvrtc": version("nvidia-cuda-nvrtc")}


def why_not():
    """Return why this machine cannot count, or None."""
    for name in ("nvidia-cuda-nvrtc", "cuda-bindings", "nvidia-cuda-nvdisasm"):
        try:
            version(name)
        except PackageNotFoundError:
            return f"the package {name} is not installed"
    if shutil.which(os.environ.get("CXX", "g++").split()[0]) is None:
        return "there is no C++ compiler"
    return None


def compare(old, new):
    """Return (call or kernel, count, old, new, change, verdict) of all that moved, worst first."""
    rows = []
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in new or name not in old:
            rows.append((name, "-", 0, 0, float("inf"), "not in both"))
            continue
        for what in WHAT:
            before, now = old[name].get(what), new[name].get(what)
            if before is None or before == now:
                continue
            change = now / before - 1 if before else float("inf")
            verdict = "WORSE" if change > WORSE else "better" if change < -WORSE else ""
            rows.append((name, what, before, now, change, verdict))
    return sorted(rows, key=lambda row: -row[4])


def judge(old, new, no_skip):
    """Print what moved, and return the exit code."""
    differing = [
        f"{key} {new['versions'][key]}, and the counts are of {value}"
        for key, value in old["versions"].items()
        if new["versions"][key] != value
    ]
    if differing:
        print("SKIPPED, counts are not comparable: " + "; ".join(differing))
        return int(no_skip)
    rows = compare(old["calls"], new["calls"]) + compare(old["kernels"], new["kernels"])
    if rows:
        print(f"{'call or kernel':<36} {'count':<14} {'before':>12} {'now':>12} {'change':>8}")
    for name, what, before, now, change, verdict in rows:
        print(f"{name:<36} {what:<14} {before:>12} {now:>12} {change:>+8.2%}  {verdict}")
    spilling = [name for name, values in new["kernels"].items() if values["spills"]]
    if spilling:
        print("FAILED: registers of these kernels spill: " + ", ".join(spilling))
        return 1
    verdicts = {row[-1] for row in rows}
    if verdicts & {"WORSE", "not in both"}:
        print(
            "FAILED.  If that is meant, run `python asv_bench/gpu_counts.py --write`, and say in "
            "the commit why gpu_counts.json changes."
        )
        return 1
    if "better" in verdicts:
        print("Better: `python asv_bench/gpu_counts.py --write` keeps what was gained.")
    print(f"passed: {len(new['calls'])} calls, no count more than {WORSE:.0%} worse")
    return 0


def table(calls):
    """Return the lines of the table of docs/gpu.md."""
    lines = ["| call | warp instructions | sectors of 32 bytes | launches | allocated |"]
    lines.append("|---|---:|---:|---:|---:|")
    for name, counts in calls.items():
        thousands = [f"{counts[what] / 1000:,.0f} k" for what in ("instructions", "sectors")]
        lines.append(
            f"| `{name}` | {' | '.join(thousands)} | {counts['launches']} | "
            f"{counts['allocated'] / 1e6:.2f} MB |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write the counts to {COUNTS.name}")
    parser.add_argument("--table", action="store_true", help="print the table of docs/gpu.md")
    parser.add_argument("--no-skip", action="store_true", help="fail where nothing can be compared")
    parser.add_argument("--only", metavar="TEXT", default="", help="count only these calls")
    parser.add_argument("--lines", action="store_true", help="print the counts of lines of source")
    options = parser.parse_args()
    old = json.loads(COUNTS.read_text()) if COUNTS.exists() else None
    if options.table:
        print(table(old["calls"]))
        return 0
    reason = why_not()
    if reason:
        print("SKIPPED: " + reason)
        return int(options.no_skip)
    start = time.monotonic()
    calls, kernels = count(options.only, options.lines)
    new = {"versions": versions(), "calls": calls, "kernels": kernels}
    print(f"counted {len(calls)} calls in {time.monotonic() - start:.0f} s")
    if options.write:
        if options.only:
            parser.error("--write: needs all counts, expected no --only")
        COUNTS.write_text(json.dumps(new, indent=1) + "\n")
        print(f"wrote {COUNTS}")
        return 0
    if options.only and old:
        old["calls"] = {name: old["calls"][name] for name in calls if name in old["calls"]}
    return judge(old or new, new, options.no_skip)


if __name__ == "__main__":
    sys.exit(main())
