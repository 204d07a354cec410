"""The right kernels are chosen, and importing roicy imports little."""

import importlib.util
import subprocess
import sys

import pytest

import roicy
from roicy import _dispatch
from roicy._kernels import machine


def python(code, **environment):
    import os

    keep = {
        name: value
        for name, value in os.environ.items()
        if name not in ("ROICY_ISA", "OMP_NUM_THREADS")
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**keep, **environment},
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
    built = importlib.util.find_spec(f"roicy._kernels.{isa}") is not None
    if isa in machine.supported() and built:
        assert done.stdout.split() == [isa, f"roicy._kernels.{isa}.forward"]
    else:
        assert f"ImportError: ROICY_ISA='{isa}': this " in done.stderr


def test_unknown_override():
    done = python("import roicy", ROICY_ISA="sse9")
    assert done.returncode == 1
    assert (
        "ImportError: ROICY_ISA='sse9': unknown instruction set, "
        "expected one of baseline, avx2, avx512" in done.stderr
    )


@pytest.mark.parametrize("missing", ["machine", "kernels"])
def test_broken_installation(missing):
    """Without its compiled modules the package says what to do, and does not fail at random."""
    if missing == "machine":
        code, expected = "sys.modules['roicy._kernels.machine'] = None", "cannot be loaded"
    else:
        code = "importlib.util.find_spec = lambda name: None"
        expected = "this installation has kernels for no instruction set"
    done = python(f"import importlib.util, sys; {code}; import roicy")
    assert done.returncode == 1
    assert f"{expected}" in done.stderr
    assert "install roicy again" in done.stderr


def test_unsupported_override(monkeypatch):
    monkeypatch.setattr(machine, "supported", lambda: ["baseline"])
    monkeypatch.setenv("ROICY_ISA", "avx512")
    with pytest.raises(
        ImportError,
        match=(
            "ROICY_ISA='avx512': this processor or operating system "
            "does not support it, only baseline"
        ),
    ):
        _dispatch._choose()


def test_the_best_is_chosen():
    best = next(
        name
        for name in machine.supported()
        if importlib.util.find_spec(f"roicy._kernels.{name}") is not None
    )
    assert python(
        "from roicy import _dispatch as d; print(d.ISA)", ROICY_ISA=""
    ).stdout.split() == [best]


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
