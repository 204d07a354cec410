"""
The gate of slow commits: counted instructions and cache misses beside those of counts.json.

    python asv_bench/gate.py                  # count, compare, fail where something is worse
    python asv_bench/gate.py --write          # accept the counts of this build as the new ones
    python asv_bench/gate.py --commit main    # beside another commit, which is built first
    python asv_bench/gate.py --requirements   # what pip must install to make counts comparable

All calls are counted in one process by valgrind's callgrind, with the AVX2 kernels, since it does
not know AVX-512, and one thread.  Each call is made some times before it is counted, and start-up
is not counted at all.  The caches are simulated, and have the same sizes on every machine.

Counts depend on the compiler, Cython, Python and NumPy.  If one of them is not the one that
counts.json names, nothing is compared: the gate says why, and passes (with --no-skip it fails).
`--commit` needs no such versions, since it counts both with those that there are.
"""

import argparse
import ctypes
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from benchmarks.common import module_of  # noqa: E402

builds = module_of("builds")
BUILD = {"ROICY_BUILD_ISA": "baseline,avx2"}  # of --commit
COUNTS = FOLDER / "counts.json"
# Size, ways and line of the simulated caches.  The last level is as large as the level 2 cache of a
# core, so the maps of these workloads do not fit into it.  A way of each covers one page.  So it
# does not matter which pages an array got, and counts do not depend on what was allocated before.
CACHES = {"I1": "32768,8,64", "D1": "32768,8,64", "LL": "1048576,256,64"}
LINE = 64
WARM_UP = 10  # calls after which the interpreter has chosen its instructions; they run fast
# A count fails if it has grown by more than this share, and by more than this number.  Some hundred
# lines and instructions more or less depend on where the checkout lies: its path moves objects of
# the interpreter, whose caches of attributes then collide or do not.
WORSE = {
    "instructions": (0.01, 1000),
    "level 1 misses": (0.01, 1000),
    "last level misses": (0.01, 500),
    "bytes moved": (0.01, 500 * LINE),
}
# workload, pass, layout, calls, and what is smaller than in the workload of the timings
FPN, C4 = {"shape": (1, 32, 200, 304), "count": 100}, {"shape": (1, 32, 50, 76), "count": 50}
POOL, PRROI = {"shape": (1, 32, 50, 76), "count": 100}, {"shape": (1, 32, 100, 152), "count": 50}
PS, CAMERA = {"shape": (1, 147, 50, 76), "count": 100}, {"shape": (1, 3, 270, 480), "count": 4}
ROTATED = {"shape": (1, 32, 128, 128), "count": 50}
PASTE = {"image_shape": (400, 544), "count": 20, "sides": (16, 256)}
ONE = {"shape": (1, 4, 32, 32), "count": 1}  # most of it is the front end
FEW = {"shape": (1, 32, 200, 304)}
CALLS = [
    ("align_fpn_p2", "forward", "NCHW", 2, FPN),
    ("align_fpn_p2", "forward", "NHWC", 2, FPN),
    ("align_fpn_p2", "backward", "NCHW", 1, FPN),
    ("align_c4", "backward", "NHWC", 2, C4),
    ("align_c4", "backward_boxes", "NCHW", 2, C4),
    ("align_fpn_p2", "backward_boxes", "NHWC", 2, FPN),
    ("align_pyramid", "forward", "NCHW", 1, FPN),
    ("align_few", "forward", "NCHW", 4, FEW),
    ("align_few", "rounded", "NHWC", 4, FEW),
    ("align_camera", "forward", "NHWC", 2, CAMERA),
    ("align_few", "maximum", "NCHW", 1, FEW),
    ("align_few", "maximum_backward", "NHWC", 1, FEW),
    ("pool_vgg", "forward", "NCHW", 2, POOL),
    ("pool_vgg", "backward", "NHWC", 2, POOL),
    ("prroi_iounet", "forward", "NHWC", 1, PRROI),
    ("ps_align_rfcn", "forward", "NCHW", 1, PS),
    ("rotated_aerial", "forward", "NCHW", 1, ROTATED),
    ("rotated_aerial", "backward", "NHWC", 1, ROTATED),
    ("crop_faces", "forward", "NHWC", 2, {"count": 4}),
    ("crop_text_corners", "forward", "NHWC", 1, {"count": 2}),
    ("paste_masks", "forward", "NCHW", 1, PASTE),
    ("paste_masks_values", "forward", "NCHW", 1, PASTE),
    ("paste_masks_rle", "forward", "NCHW", 1, PASTE),
    ("align_tiny", "forward", "NCHW", 50, ONE),
    ("align_tiny", "backward_boxes", "NHWC", 50, ONE),
    ("pool_tiny", "backward", "NCHW", 50, ONE),
]


def name_of(workload, direction, layout):
    return f"{workload} {direction} {layout}"


def prepared(roicy, workloads, workload, direction, layout, smaller):
    """Return a function without parameters, which makes a call of the gate."""
    work = workloads.ALL[workload]._replace(**smaller)
    arrays = work.arrays("float16" if direction == "rounded" else "float32")
    if direction.startswith("maximum"):
        work = work._replace(operator="roi_align_max")
    backward = "backward_boxes" if direction == "backward_boxes" else "backward"
    direction = backward if "backward" in direction else "forward"
    return work.call(roicy, arrays, direction, layout, reuse=True)


def count_here(library, only):
    """Make all calls; this runs in a process of its own, under callgrind."""
    from benchmarks.common import workloads

    import roicy

    counter = ctypes.CDLL(library)
    print(json.dumps(versions_here()))
    gc.disable()  # it would run at calls that depend on everything before
    for workload, direction, layout, calls, smaller in CALLS:
        name = name_of(workload, direction, layout)
        if only and not re.search(only, name):
            continue
        try:
            call = prepared(roicy, workloads, workload, direction, layout, smaller)
            for _ in range(WARM_UP):
                call()
        except (AttributeError, TypeError, ValueError) as error:  # of a commit before the operator
            print(f"{name}: {error}", file=sys.stderr)
            continue
        counter.start_counting()
        call()  # the simulated caches are empty before it
        encoded = f"{name}, {calls}".encode()
        repeats = range(calls)
        counter.forget_counts()
        for _ in repeats:
            call()
        counter.write_counts(encoded)
        counter.stop_counting()


def versions_here():
    """Return what the counts of this process depend on."""
    found = module_of("timing").facts()
    build, runtime = found["build"], found["runtime"]
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    profiled = ", profiled" if "--enable-optimizations" in arguments else ""
    return {
        "compiler": build["compiler"],
        "cython": build["cython"],
        "python": f"{runtime['python']}, {runtime['python_compiler']}{profiled}",
        "numpy": runtime["numpy"],
        "libc": runtime["libc"],
    }


def read_counts(folder):
    """Return the counts of each call, by its name, from the files that callgrind wrote."""
    counts = {}
    for path in Path(folder).glob("counts.*"):
        text = path.read_text()
        trigger = re.search(r"^desc: Trigger: Client Request: (.*), (\d+)$", text, re.MULTILINE)
        if trigger is None:
            continue  # of the end of the process
        events = re.search(r"^events: (.*)$", text, re.MULTILINE)[1].split()
        values = re.search(r"^(?:summary|totals): (.*)$", text, re.MULTILINE)[1].split()
        found = dict.fromkeys(events, 0) | dict(zip(events, map(int, values), strict=False))
        calls = int(trigger[2])
        first = found["D1mr"] + found["D1mw"] + found["I1mr"]
        last = found["DLmr"] + found["DLmw"] + found["ILmr"]
        # A miss reads a line, and a dirty miss writes another one back.
        lines = last + found["ILdmr"] + found["DLdmr"] + found["DLdmw"]
        counts[trigger[1]] = {
            "instructions": round(found["Ir"] / calls),
            "level 1 misses": round(first / calls),
            "last level misses": round(last / calls),
            "bytes moved": round(lines * LINE / calls),
        }
    return {name: counts[name] for name in (name_of(*row[:3]) for row in CALLS) if name in counts}


def environment_of(isa, path):
    """Return a short environment of fixed length, since it lies above the stack and so moves it."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
    return (
        kept
        | {
            "ROICY_ISA": isa,
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            # Larger arrays begin at the same place of a page, whatever was freed before.
            "MALLOC_MMAP_THRESHOLD_": "16384",
        }
        | ({"PYTHONPATH": str(path)} if path else {})
    )


def count(only, isa="avx2", path=None):
    """
    Return the versions, and the counts of all calls, from a process under callgrind.

    `only` is a pattern of names of calls, or None.  `path` is the folder from which that process
    imports roicy, if it is not the one from which this process does.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/counter.so"
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run(
            [*compiler, "-O1", "-shared", "-fPIC", f"{FOLDER}/counter.c", "-o", library], check=True
        )
        command = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            "--cache-sim=yes",
            "--simulate-wb=yes",
            *(f"--{name}={value}" for name, value in CACHES.items()),
            f"--callgrind-out-file={folder}/counts",
            sys.executable,
            __file__,
            "--count-here",
            library,
            *(["--only", only] if only else []),
        ]
        ended = subprocess.run(
            command, env=environment_of(isa, path), capture_output=True, text=True
        )
        if ended.returncode:
            raise RuntimeError(f"the counted process failed:\n{ended.stderr[-3000:]}")
        valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True)
        versions = json.loads(ended.stdout.splitlines()[0])
        return versions | {"valgrind": valgrind.stdout.strip()}, read_counts(folder)


def count_commit(commit, only):
    """
    Return versions and counts of another commit, without the calls whose change is accepted.

    Those are the calls whose counts in counts.json differ between that commit and this tree.
    """
    commit = builds.git("rev-parse", "--verify", f"{commit}^{{commit}}")
    listed = builds.git("ls-tree", commit, "asv_bench/counts.json")
    then = json.loads(builds.git("show", f"{commit}:asv_bench/counts.json")) if listed else {}
    before, now = then.get("counts", {}), json.loads(COUNTS.read_text())["counts"]
    with tempfile.TemporaryDirectory(prefix="roicy-") as folder:
        path = builds.compile_commit(commit, Path(folder), BUILD)
        versions, counts = count(only, path=path)
    accepted = [name for name in counts if name in before and before[name] != now.get(name)]
    if accepted:
        print(f"counts.json has new counts, which are accepted: {', '.join(accepted)}")
    kept = {name: found for name, found in counts.items() if name not in accepted}
    return {"versions": versions, "counts": kept}


def why_not():
    """Return why this machine cannot count, or None."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if shutil.which(os.environ.get("CC", "cc").split()[0]) is None:
        return "there is no C compiler, which the part of the gate in C needs"
    tried = subprocess.run(
        [sys.executable, "-c", "import roicy"],
        env=os.environ | {"ROICY_ISA": "avx2"},
        capture_output=True,
        text=True,
    )
    if tried.returncode:
        return "no AVX2 kernels: " + (tried.stderr.strip().splitlines() or ["import failed"])[-1]
    return None


def compare(old, new):
    """Return (call, count, old, new, change, verdict) of all counts that moved, worst first."""
    rows = []
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in new or name not in old:
            rows.append((name, "-", None, None, float("inf"), "not in both"))
            continue
        for what, (share, least) in WORSE.items():
            before, now = old[name][what], new[name][what]
            change = now / before - 1 if before else float(now > 0)
            worse = change > share and now - before > least
            better = change < -share and before - now > least
            verdict = "WORSE" if worse else "better" if better else ""
            if verdict or (abs(change) > share / 4 and abs(now - before) > least):
                rows.append((name, what, before, now, change, verdict))
    return sorted(rows, key=lambda row: -row[4])


def accepted(old, versions, counts):
    """Return what `--write` writes: counts that hardly moved stay as they are in `old`."""
    if old["versions"] != versions:
        return counts
    moved = {row[0] for row in compare(old["counts"], counts)}
    return {name: found if name in moved else old["counts"][name] for name, found in counts.items()}


def table(rows):
    lines = [f"{'call':<36} {'count':<18} {'before':>12} {'now':>12} {'change':>8}"]
    for name, what, before, now, change, verdict in rows:
        if before is None:
            lines.append(f"{name:<36} {what:<18} {'':>12} {'':>12} {'':>8}  {verdict}")
        else:
            lines.append(f"{name:<36} {what:<18} {before:>12} {now:>12} {change:>+8.2%}  {verdict}")
    return "\n".join(lines)


def judge(old, versions, counts, no_skip):
    """Print what moved, and return the exit code."""
    differing = [
        f"{key} {versions.get(key)}, and the counts are of {value}"
        for key, value in old["versions"].items()
        if versions.get(key) != value
    ]
    if differing:
        print("SKIPPED, counts are not comparable: " + "; ".join(differing))
        return int(no_skip)
    rows = compare(old["counts"], counts)
    if rows:
        print(table(rows))
    verdicts = [row[-1] for row in rows]
    if "WORSE" in verdicts or "not in both" in verdicts:
        print(
            f"FAILED: {verdicts.count('WORSE')} counts are worse, "
            f"{verdicts.count('not in both')} are not in both.\nIf that is meant, run "
            "`python asv_bench/gate.py --write`, and say in the commit why counts.json changes."
        )
        return 1
    if "better" in verdicts:
        print("Better: `python asv_bench/gate.py --write` keeps what was gained.")
    print(f"passed: {len(counts)} calls, no count more than 1 % worse")
    return 0


def write(path, versions, counts):
    """Write counts to a file."""
    content = {"versions": versions, "caches": CACHES, "counts": counts}
    Path(path).write_text(json.dumps(content, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="write the counts to counts.json")
    parser.add_argument("--requirements", action="store_true", help="print what pip must install")
    parser.add_argument("--no-skip", action="store_true", help="fail where nothing can be compared")
    parser.add_argument("--only", metavar="PATTERN", help="count only these calls")
    parser.add_argument("--commit", metavar="COMMIT", help="compare with this commit, built first")
    parser.add_argument("--json", metavar="FILE", help="also write the counts to another file")
    parser.add_argument("--count-here", metavar="LIBRARY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count_here:
        count_here(options.count_here, options.only)
        return 0
    if options.write and options.only:
        parser.error("--write: needs all counts, expected no --only")
    old = json.loads(COUNTS.read_text()) if COUNTS.exists() else {"versions": {}, "counts": {}}
    if options.requirements:
        print(" ".join(f"{name}=={old['versions'][name]}" for name in ("cython", "numpy")))
        return 0
    reason = why_not()
    if reason:
        print("SKIPPED: " + reason)
        return int(options.no_skip)
    start = time.monotonic()
    try:
        versions, counts = count(options.only)
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    print(f"counted {len(counts)} calls in {time.monotonic() - start:.0f} s")
    if options.json:
        write(options.json, versions, counts)
    if options.write:
        write(COUNTS, versions, accepted(old, versions, counts))
        print(f"wrote {COUNTS}")
        return 0
    if options.commit:
        old = count_commit(options.commit, options.only)
        counts = {name: counts[name] for name in counts if name in old["counts"]}
    elif options.only:
        old["counts"] = {name: old["counts"][name] for name in counts if name in old["counts"]}
    return judge(old, versions, counts, options.no_skip)


if __name__ == "__main__":
    sys.exit(main())
