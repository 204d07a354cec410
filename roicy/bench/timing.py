"""Times of calls in this process, for comparisons of versions.

Everything that times a call on the CPU does so by `times`.

builds.py starts this file as a program, with whatever version of roicy the process imports.  So
this file and workloads.py use nothing of the package but its operators, and what says how it was
built.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

OF_A_CACHE = ("level", "type", "size")
SETTINGS = ("ROICY_ISA", "OMP_", "GOMP_", "KMP_", "MALLOC_", "GLIBC_TUNABLES")


def processor() -> str:
    """Return the name that the system gives to the processor."""
    file = Path("/proc/cpuinfo")
    found = file.exists() and re.search(
        "^model name\\s*: (.*)", file.read_text("utf-8"), re.MULTILINE
    )
    return found[1] if found else platform.processor() or platform.machine()


def usable_cores() -> int:
    """Return how many processors this process may use, also where OpenMP has bound this thread."""
    machine = importlib.import_module("roicy._kernels.machine")
    bound: int = getattr(machine, "bound_processors", int)()
    if bound:
        return bound
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not Linux, or a sandbox that forbids it
        return os.cpu_count() or 1


def caches() -> dict[str, str]:
    """Return the sizes of the caches of a core by their names, where Linux tells them."""
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((folder / name).read_text("utf-8").strip() for name in OF_A_CACHE)
        found[f"L{level}{kind[0].lower() if kind != 'Unified' else ''}"] = size
    return found


def commit_of(package: Path) -> str:
    """Return the commit of the checkout that a package lies in, with a + if it has changed."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        try:
            return subprocess.run(command, capture_output=True, encoding="utf-8").stdout.strip()
        except OSError:
            return ""

    if not git("ls-files", "__init__.py"):
        return "unknown"
    return git("rev-parse", "HEAD") + "+" * bool(git("status", "--porcelain", "-uno", "."))


def versions() -> dict[str, dict[str, Any]]:
    """Return how roicy was built, and what runs it."""
    roicy = importlib.import_module("roicy")
    machine = importlib.import_module("roicy._kernels.machine")
    isa = importlib.import_module("roicy._kernels.isa")
    settings = {name: os.environ[name] for name in sorted(os.environ) if name.startswith(SETTINGS)}
    return {
        "build": {
            "roicy": getattr(roicy, "__version__", "unknown"),
            "compiler": machine.compiler(),
            "cython": machine.cython() if hasattr(machine, "cython") else "unknown",
            "instruction_set": isa.in_use(),
            "openmp": machine.openmp(),
            "openmp_runtime": "LLVM" if getattr(machine, "is_llvms", bool)() else "other",
        },
        "runtime": {
            "python": platform.python_version(),
            "python_compiler": platform.python_compiler(),
            "numpy": np.__version__,
            "libc": " ".join(platform.libc_ver()),
            "settings": settings,
        },
    }


def facts() -> dict[str, dict[str, Any]]:
    """Return what times depend on: the machine, the build of roicy, and what runs it."""
    machine = {
        "host": platform.node(),
        "processor": processor(),
        "caches": caches(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "system": f"{platform.system()} {platform.release()}",
    }
    found = versions()
    package = Path(str(importlib.import_module("roicy").__file__)).parent
    found["build"]["commit"] = commit_of(package)
    return {"machine": machine, **found}


def title() -> str:
    """Return a line that says what was timed, and on which machine."""
    machine, build, runtime = facts().values()
    return (
        f"roicy {build['roicy']} ({build['instruction_set']}) on {machine['processor']}, "
        f"{machine['usable_cores']} of {machine['cores']} cores, Python {runtime['python']}, "
        f"NumPy {runtime['numpy']}"
    )


def titled(*words: str, threads: int) -> str:
    """Return the heading of the rows of a call."""
    return f"{' '.join(words)}, {threads} thread{'s' * (threads != 1)}"


def times(function: Callable[[], Any], seconds: float, least: int = 5) -> list[float]:
    """Return times of at least so many calls, and of `seconds`; a first call is not timed."""
    function()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < least or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return found


def in_turns(
    functions: dict[Any, Callable[[], Any]], rounds: int, seconds: float
) -> dict[Any, float]:
    """Return the least time of each function; in each round, each is called for `seconds`."""
    least = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            least[name] = min(least[name], *times(function, seconds, 1))
    return least


def percentiles(found: list[float], wanted: dict[str, float]) -> dict[str, Any]:
    """Return how many times there are, and percentiles of them by their names."""
    values = np.percentile(found, list(wanted.values())).tolist()
    return {"calls": len(found), **dict(zip(wanted, values, strict=True))}


def measure(work: Any, roicy: Any, run: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return least and median of a call, or why this version cannot make it."""
    direction, arrays = run["direction"], work.arrays(run["dtype"])
    try:
        call = work.call(roicy, arrays, direction, run["layout"], True, run["threads"])
        result = call()
    except (AttributeError, TypeError, ValueError) as error:  # what came later than this version
        return {"missing": f"{type(error).__name__}: {error}"}
    found = times(call, seconds)
    results = result if isinstance(result, (list, tuple)) else [result]
    digest = hashlib.sha256()
    for array in results:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return {
        "least": min(found),
        "median": statistics.median(found),
        "digest": digest.hexdigest()[:16],
        "bytes": work.read_bytes(arrays, direction) + sum(array.nbytes for array in results),
    }


def main() -> None:
    """Read what to time from the standard input, and print facts and times as JSON."""
    asked, roicy = json.load(sys.stdin), importlib.import_module("roicy")
    works = importlib.import_module("workloads").ALL  # which lies beside this program
    found = [measure(works[run["workload"]], roicy, run, asked["seconds"]) for run in asked["runs"]]
    print(json.dumps(facts() | {"runs": found}))


if __name__ == "__main__":
    main()
