"""Another version of roicy, built or installed into an environment of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np

from . import _timing
from ._compare import Build
from ._kernels import machine

SOURCE = Path(__file__).resolve().parents[1]


def kind_of(what: str) -> str:
    """Return whether `what` is the path of a distribution, a commit, or a version."""
    if Path(what).exists():
        return "path"
    if (SOURCE / "setup.py").exists() and _git("rev-parse", "--verify", f"{what}^{{commit}}"):
        return "commit"
    if re.fullmatch(r"\d+(\.\w+)*", what):
        return "version"
    raise ValueError(
        f"--against: {what!r} is no file, no commit of {SOURCE} and no version, expected a wheel, "
        "a source distribution, a folder, a commit (in a checkout), or a version"
    )


def _git(*arguments: str) -> str:
    """Return what git prints, or nothing where it fails."""
    try:
        ended = subprocess.run(["git", *arguments], cwd=SOURCE, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


def _run(command: list[str]) -> None:
    """Run a command; RuntimeError with the end of what it printed where it fails."""
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)} failed\n{(ended.stdout + ended.stderr)[-3000:]}")


def install(what: str, folder: Path) -> Build:
    """
    Install a version into a new environment in `folder`, with the NumPy of this process.

    A commit is compiled with the Cython of this build, and as `CC` and the `ROICY_BUILD_`
    variables say.
    """
    kind = kind_of(what)
    print(f"installing {what}", file=sys.stderr)
    venv.create(folder / "environment", with_pip=True)
    scripts = "Scripts" if os.name == "nt" else "bin"
    python = str(folder / "environment" / scripts / Path(sys.executable).name)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _run([*pip, f"numpy=={np.__version__}"])
    if kind == "version":
        _run([*pip, "--no-deps", f"roicy=={what}"])
    elif kind == "path" and not Path(what).is_dir():
        _run([*pip, "--no-deps", str(Path(what).resolve())])
    else:
        source = Path(what).resolve()
        if kind == "commit":
            source = folder / "source"
            commit = _git("rev-parse", "--verify", f"{what}^{{commit}}")
            _run(["git", "clone", "--quiet", "--no-checkout", str(SOURCE), str(source)])
            _run(["git", "-C", str(source), "checkout", "--quiet", commit])
        version = _timing.cython_version(machine.supported)
        cython = "cython" if version == "unknown" else f"cython=={version}"
        _run([*pip, "setuptools>=77", cython])
        _run([*pip, "--no-deps", "--no-build-isolation", str(source)])
    return Build(what, python, None)
