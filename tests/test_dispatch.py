"""The right kernels are chosen, and importing roicy imports little."""

import shutil
from pathlib import Path

import pytest
from conftest import python

import roicy
from roicy._kernels import isa, machine
from roicy._machine import _dispatch

OF_A_BUILD = ("*.so", "*.pyd", "__pycache__")


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512", "sse9"])
def test_override(isa):
    done = python(
        "from roicy._machine import _dispatch as d; print(d.ISA, d.isa.in_use())", ROICY_ISA=isa
    )
    if isa in _dispatch.usable():
        assert done.stdout.split() == [isa, isa]
    else:
        message = f"ImportError: ROICY_ISA='{isa}': expected one that this processor has: "
        assert message in done.stderr


def test_broken_installation():
    """Without its compiled modules the package says what to do, and does not fail at random."""
    done = python("import sys; sys.modules['roicy._kernels.machine'] = None; import roicy")
    assert done.returncode == 1
    assert "cannot be loaded" in done.stderr
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


def test_the_best_is_chosen():
    best = next(name for name in machine.supported() if name in isa.built())
    code = "from roicy._machine import _dispatch as d; print(d.ISA)"
    assert python(code, ROICY_ISA="").stdout.split() == [best]


@pytest.mark.parametrize("name", ["avx2", "avx512"])
def test_kernels_that_cannot_run_are_not_used(name, monkeypatch):
    """Their first instruction would end the process."""
    monkeypatch.setattr(machine, "supported", lambda: ["baseline"])
    monkeypatch.setattr(isa, "use", lambda _: pytest.fail("used"))
    expected = f"instruction set '{name}': expected one that this processor has: baseline"
    with pytest.raises(ImportError, match=expected):
        _dispatch.use(name)


def test_import_brings_in_only_numpy():
    code = """
import sys, numpy
before = set(sys.modules)
import roicy
new = {name.split(".")[0] for name in set(sys.modules) - before}
new -= set(sys.stdlib_module_names)
print(sorted(name for name in new if "cython_" not in name))  # modules of Cython itself
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
