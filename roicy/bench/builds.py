"""Builds of roicy: this one, commits, wheels and versions, and processes that time them in turns.

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
import venv
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 1800
SCHEMA = "roicy-bench/1"  # of the files; docs/tracking.md has it
# Compiles in place, and prints the processor seconds that this and its compilers took.
COMPILE = """
import os, runpy, sys
sys.argv = ["setup.py", "build_ext", "--inplace"]
runpy.run_path("setup.py", run_name="__main__")
print(sum(os.times()[:4]))
"""


class Build(NamedTuple):
    """A version of roicy, and the Python that imports it."""

    name: str
    python: str
    path: str
    commit: str = ""

    def measure(self, runs: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
        """Return facts and times of a new process."""
        program = str(Path(__file__).with_name("timing.py"))
        asked = json.dumps({"runs": runs, "seconds": seconds})
        environment = os.environ | {"PYTHONPATH": self.path}
        printed = run([self.python, program], input=asked, env=environment)
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
        ended = subprocess.run(
            ["git", *arguments], cwd=SOURCE, capture_output=True, encoding="utf-8"
        )
    except FileNotFoundError:
        raise ValueError("git is not installed") from None
    if ended.returncode:
        raise ValueError(f"git {' '.join(arguments)}: {ended.stderr.strip()}")
    return ended.stdout.strip()


def run(command: list[str], **options: Any) -> str:
    """Return what a command prints; RuntimeError with the end of it where the command fails."""
    try:
        ended = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=BUILD_SECONDS, **options
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
    """Compile a commit of the checkout in a folder.

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


def commit_of(what: str) -> str:
    """Return the hash of a commit of the checkout, or an empty text where `what` names none."""
    try:
        return git("rev-parse", "--verify", f"{what}^{{commit}}")
    except ValueError:
        return ""


def install(what: str, folder: Path) -> Build:
    """Install a path, a commit or a version into a new environment in `folder`.

    It gets the NumPy of this process.  Sources are compiled with the Cython of this build, and as
    `CC` and the `ROICY_BUILD_` variables say.
    """
    import numpy as np

    from .._kernels import machine

    found, commit = Path(what).exists(), (SOURCE / "setup.py").exists() and commit_of(what)
    if not (found or commit or re.fullmatch(r"\d+(\.\w+)*", what)):
        raise ValueError(
            f"--against: {what!r} is no file, no commit of {SOURCE} and no version, expected a "
            "wheel, a source distribution, a folder, a commit (in a checkout), or a version"
        )
    venv.create(folder / "environment", with_pip=True)
    scripts = "Scripts" if os.name == "nt" else "bin"
    python = str(folder / "environment" / scripts / Path(sys.executable).name)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run([*pip, f"numpy=={np.__version__}", f"cython=={machine.cython()}", "setuptools>=77"])
    if commit and not found:
        return Build(what, python, compile_commit(commit, folder, {}, python)[0], commit)
    given = str(Path(what).resolve()) if found else f"roicy=={what}"
    run([*pip, "--no-deps", "--no-build-isolation", given])
    return Build(what, python, "")


def alternate(
    builds: list[Build], runs: list[dict[str, Any]], processes: int, seconds: float
) -> list[dict[str, Any]]:
    """Return a file of each build; their processes take turns, and the order of a turn changes."""
    from .progress import Progress

    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    found: list[list[dict[str, Any]]] = [[] for _ in builds]
    with Progress("processes", processes * len(builds)) as progress:
        for turn in range(processes):
            order = range(len(builds))
            for i in order if turn % 2 == 0 else reversed(order):
                progress.begin(builds[i].name)
                found[i].append(builds[i].measure(runs, seconds))
    method = {"processes": processes, "seconds": seconds, "turns": secrets.token_hex(8)}
    return [
        {"schema": SCHEMA, "date": date, **one[0], "method": method}
        | {"runs": joined(build.name, runs, [process["runs"] for process in one])}
        for build, one in zip(builds, found, strict=True)
    ]


def joined(
    name: str, runs: list[dict[str, Any]], processes: list[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the runs with their times of all processes; those that a build lacks are named."""
    rows = []
    for run, *found in zip(runs, *processes, strict=True):
        if "missing" in found[0]:
            call = f"{run['workload']} {run['direction']} {run['layout']}"
            print(f"{name}: {call} is left out, {found[0]['missing']}", file=sys.stderr)
        else:
            times = {what: [one[what] for one in found] for what in ("least", "median")}
            rows.append(run | found[0] | times)
    return rows
