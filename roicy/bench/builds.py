"""
Builds of roicy: this one, commits, wheels and versions, and processes that time them in turns.

`compile_commit` is the only way in which a commit is built, for `--against`, for the gate and for
the history of counts.  The latter two load this file by its path, without roicy.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 1800
SCHEMA = "roicy-bench/1"  # of the files; docs/tracking.md has it
# A process loads this file by its path, so that any version of roicy can be timed by it.
PROGRAM = """
import importlib.util
spec = importlib.util.spec_from_file_location("timing", {path!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.main()
"""
# Compiles in place, and prints the processor seconds that this and its compilers took.
COMPILE = """
import os, runpy, sys
sys.argv = ["setup.py", "build_ext", "--inplace"]
runpy.run_path("setup.py", run_name="__main__")
print(sum(os.times()[:4]))
"""


class Build:
    """A version of roicy, and the Python that imports it."""

    def __init__(self, name: str, python: str, path: str | None, commit: str = ""):
        self.name, self.python, self.commit = name, python, commit
        self.environment = {
            name: value for name, value in os.environ.items() if name != "PYTHONPATH"
        }
        if path:
            self.environment["PYTHONPATH"] = path

    def measure(self, runs: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
        """Return facts and times of a new process."""
        program = PROGRAM.format(path=str(Path(__file__).with_name("timing.py")))
        with tempfile.TemporaryDirectory() as folder:  # nothing there can be imported instead
            asked = json.dumps({"runs": runs, "seconds": seconds})
            command = [self.python, "-c", program]
            printed = run(command, input=asked, env=self.environment, cwd=folder)
        found = dict(json.loads(printed.splitlines()[-1]))
        if self.commit:  # whose sources lie in a folder without git
            found["build"]["commit"] = self.commit
        return found


def this_build() -> Build:
    """Return the version that runs now."""
    folders = [str(SOURCE), os.environ.get("PYTHONPATH", "")]
    return Build("this", sys.executable, os.pathsep.join(filter(None, folders)))


def git(*arguments: str) -> str:
    """Return what git prints about the checkout; ValueError where it fails."""
    try:
        ended = subprocess.run(["git", *arguments], cwd=SOURCE, capture_output=True, text=True)
    except FileNotFoundError:
        raise ValueError("git is not installed") from None
    if ended.returncode:
        raise ValueError(f"git {' '.join(arguments)}: {ended.stderr.strip()}")
    return ended.stdout.strip()


def run(command: list[str], **options: Any) -> str:
    """Return what a command prints; RuntimeError with the end of it where the command fails."""
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_SECONDS, **options
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{' '.join(command)} took more than {BUILD_SECONDS} s") from None
    if ended.returncode:
        said = (ended.stdout + ended.stderr)[-3000:]
        raise RuntimeError(f"{' '.join(command)} failed\n{said}")
    return ended.stdout


def compile_commit(
    commit: str, folder: Path, settings: dict[str, str], python: str = sys.executable
) -> tuple[str, float]:
    """
    Compile a commit of the checkout in a folder.

    `python` needs NumPy, Cython and setuptools.  `settings` are environment variables, such as
    `ROICY_BUILD_ISA`.  Return the path from which it is imported, and the processor seconds that
    its build took.
    """
    archive, source = folder / "source.tar", folder / "source"
    source.mkdir(parents=True)
    git("archive", "--output", str(archive), commit)
    run(["tar", "-x", "-f", str(archive), "-C", str(source)])
    printed = run([python, "-c", COMPILE], cwd=source, env=os.environ | settings)
    return str(source), float(printed.splitlines()[-1])


def kind_of(what: str) -> str:
    """Return whether `what` is the path of a distribution, a commit, or a version."""
    if Path(what).exists():
        return "path"
    try:
        if (SOURCE / "setup.py").exists() and git("rev-parse", "--verify", f"{what}^{{commit}}"):
            return "commit"
    except ValueError:
        pass
    if re.fullmatch(r"\d+(\.\w+)*", what):
        return "version"
    raise ValueError(
        f"--against: {what!r} is no file, no commit of {SOURCE} and no version, expected a wheel, "
        "a source distribution, a folder, a commit (in a checkout), or a version"
    )


def install(what: str, folder: Path) -> Build:
    """
    Install a version into a new environment in `folder`, with the NumPy of this process.

    Sources are compiled with the Cython of this build, and as `CC` and the `ROICY_BUILD_`
    variables say.
    """
    import numpy as np

    kind = kind_of(what)
    venv.create(folder / "environment", with_pip=True)
    scripts = "Scripts" if os.name == "nt" else "bin"
    python = str(folder / "environment" / scripts / Path(sys.executable).name)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run([*pip, f"numpy=={np.__version__}"])
    if kind == "version":
        run([*pip, "--no-deps", f"roicy=={what}"])
    elif kind == "path" and not Path(what).is_dir():
        run([*pip, "--no-deps", str(Path(what).resolve())])
    else:
        run([*pip, "setuptools>=77", *cython_of_this_build()])
        if kind == "commit":
            path, _ = compile_commit(what, folder, {}, python)
            return Build(what, python, path, git("rev-parse", f"{what}^{{commit}}"))
        run([*pip, "--no-deps", "--no-build-isolation", str(Path(what).resolve())])
    return Build(what, python, None)


def cython_of_this_build() -> list[str]:
    """Return what pip must install to compile as this build was compiled."""
    from .._kernels import machine
    from .timing import cython_version

    version = cython_version(machine.supported)
    return ["cython" if version == "unknown" else f"cython=={version}"]


def alternate(
    builds: list[Build], runs: list[dict[str, Any]], processes: int, seconds: float
) -> list[dict[str, Any]]:
    """Return a file of each build; their processes take turns, and the order of a turn changes."""
    files: list[dict[str, Any]] = [{} for _ in builds]
    from .progress import Progress

    with Progress("processes", processes * len(builds)) as progress:
        for turn in range(processes):
            order = range(len(builds))
            for i in order if turn % 2 == 0 else reversed(order):
                progress.now(builds[i].name)
                add(files[i], builds[i].measure(runs, seconds), runs)
                progress.update()
    turns = secrets.token_hex(8)
    for build, file in zip(builds, files, strict=True):
        for run in file["runs"]:
            if "missing" in run:
                call = f"{run['workload']} {run['direction']} {run['layout']}"
                print(f"{build.name}: {call} is left out, {run['missing']}", file=sys.stderr)
        file["method"] = {"processes": processes, "seconds": seconds, "turns": turns}
        file["runs"] = [run for run in file["runs"] if run["least"]]
    return files


def add(file: dict[str, Any], found: dict[str, Any], runs: list[dict[str, Any]]) -> None:
    """Add the times of a process to those of the processes before it."""
    if not file:
        facts = {name: found[name] for name in ("machine", "build", "runtime")}
        date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        file |= {"schema": SCHEMA, "date": date, **facts}
        file["runs"] = [run | {"least": [], "median": []} for run in runs]
    for run, times in zip(file["runs"], found["runs"], strict=True):
        if "missing" in times:
            run["missing"] = times["missing"]
        else:
            run["least"].append(times["least"])
            run["median"].append(times["median"])
            run |= {"digest": times["digest"], "bytes": times["bytes"]}
