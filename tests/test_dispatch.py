"""The right kernels are chosen, and importing roicy imports little."""

import os
import pkgutil
import re
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import roicy
from roicy import _dispatch
from roicy._kernels import machine

SHARED_LIBRARIES = "*" + EXTENSION_SUFFIXES[0]
OF_A_BUILD = ("*.so", "*.pyd", "__pycache__")


def python(code, folder=None, **environment):
    keep = {
        name: value
        for name, value in os.environ.items()
        if name not in ("ROICY_ISA", "OMP_NUM_THREADS")
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**keep, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("isa", _dispatch.KNOWN)
def test_override(isa):
    done = python(
        "from roicy import _dispatch as d; print(d.ISA, d.kernels.forward.__name__)",
        ROICY_ISA=isa,
    )
    if isa in _dispatch.usable():
        assert done.stdout.split() == [isa, f"roicy._kernels.{isa}.forward"]
    else:
        assert f"ImportError: ROICY_ISA='{isa}': expected one that this " in done.stderr


def test_unknown_override():
    done = python("import roicy", ROICY_ISA="sse9")
    assert done.returncode == 1
    assert "ImportError: ROICY_ISA='sse9': expected one that this processor has: " in done.stderr


@pytest.mark.parametrize("missing", ["machine", "kernels"])
def test_broken_installation(missing):
    """Without its compiled modules the package says what to do, and does not fail at random."""
    if missing == "machine":
        code, expected = "sys.modules['roicy._kernels.machine'] = None", "cannot be loaded"
    else:
        code = "importlib.util.find_spec = lambda name: None"
        expected = "this build has kernels for no instruction set"
    done = python(f"import importlib.util, sys; {code}; import roicy")
    assert done.returncode == 1
    assert f"{expected}" in done.stderr
    assert "install roicy again" in done.stderr


def test_clone_that_is_not_built(tmp_path):
    """The error names the folder as the cause, and both ways out."""
    root = Path(roicy.__file__).parent
    shutil.copytree(root, tmp_path / "roicy", ignore=shutil.ignore_patterns(*OF_A_BUILD))
    (tmp_path / "pyx").mkdir()
    done = python("import roicy", tmp_path)
    assert done.returncode == 1
    for words in (f"from {tmp_path}, ", "Start Python in another folder", "pip install -e ."):
        assert words in done.stderr


def test_unsupported_override(monkeypatch):
    monkeypatch.setattr(machine, "supported", lambda: ["baseline"])
    monkeypatch.setenv("ROICY_ISA", "avx512")
    with pytest.raises(
        ImportError,
        match="ROICY_ISA='avx512': expected one that this processor has: baseline",
    ):
        _dispatch._choose()


def test_the_best_is_chosen():
    best = next(name for name in machine.supported() if name in _dispatch.built())
    assert python(
        "from roicy import _dispatch as d; print(d.ISA)", ROICY_ISA=""
    ).stdout.split() == [best]


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_kernels_that_cannot_run_are_not_imported(isa, monkeypatch):
    """Their start-up code would already end the process."""
    monkeypatch.setattr(machine, "supported", lambda: ["baseline"])
    monkeypatch.setitem(_dispatch._LOADERS, isa, lambda: pytest.fail("imported"))
    expected = f"instruction set '{isa}': expected one that this processor has: baseline"
    with pytest.raises(ImportError, match=expected):
        _dispatch.load(isa)


def test_only_dispatch_imports_kernels():
    """Anything else might import what the processor cannot run."""
    root = Path(__file__).parent.parent
    name = re.compile(r"_kernels\.(?:\{|baseline|avx2|avx512)")
    found = {
        str(path.relative_to(root))
        for folder in ("roicy", "tests", "asv_bench", "examples", ".ci")
        for path in (root / folder).rglob("*.py")
        if name.search(path.read_text())
    }
    assert found <= {str(Path("roicy", "_dispatch.py")), str(Path("tests", Path(__file__).name))}


def test_every_kernel_is_named():
    """Tools that freeze programs find the kernels by the import statements of load."""
    folders = Path(_dispatch.__file__).parent / "_kernels"
    for isa in _dispatch.usable():
        files = {path.name.partition(".")[0] for path in (folders / isa).glob(SHARED_LIBRARIES)}
        assert files == set(vars(_dispatch.load(isa)))
    found = {module.name for module in pkgutil.walk_packages(roicy.__path__, "roicy.")}
    assert {f"roicy._kernels.{isa}.forward" for isa in _dispatch.built()} <= found


def test_import_brings_in_only_numpy():
    code = """
import sys, numpy
before = set(sys.modules)
import roicy
new = {name.split(".")[0] for name in set(sys.modules) - before}
new -= set(sys.stdlib_module_names)
print(sorted(name for name in new if "cython_" not in name))  # two modules of no file
"""
    done = python(code)
    assert done.stdout.strip() == "['roicy']", done.stderr


def test_public_names():
    assert set(roicy.__all__) <= set(dir(roicy))
    for name in roicy.__all__:
        assert getattr(roicy, name).__doc__


def test_show_config(capsys):
    roicy.show_config()
    shown = capsys.readouterr().out
    for word in (roicy.__version__, _dispatch.ISA, "openmp", "threads", "numpy"):
        assert word in shown
