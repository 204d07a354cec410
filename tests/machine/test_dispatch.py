"""The right kernels are chosen, and importing roicy imports little."""

import ast
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
    """And inspect, of which Cython takes constants; NumPy before 2.4 does not import it."""
    code = """
import inspect, sys, numpy
before = set(sys.modules)
import roicy
new = {name.split(".")[0] for name in set(sys.modules) - before}
print(sorted(name for name in new if "cython_" not in name and name[0] != "_"))
from roicy import *
new = {name.split(".")[0] for name in set(sys.modules) - before} - new
print(sorted(name for name in new if name[0] != "_"))
"""
    done = python(code)  # without modules of Cython itself
    at_once, later = (set(ast.literal_eval(line)) for line in done.stdout.splitlines())
    assert "roicy" in at_once <= {"roicy", "threading"}, done.stderr
    assert later <= {"json"}  # what is asked for must not wait for more


def test_public_names():
    assert set(roicy.__all__) | roicy._LATER.keys() <= set(dir(roicy))
    for name in roicy.__all__:
        assert getattr(roicy, name).__doc__
    with pytest.raises(AttributeError, match="'roicy' has no attribute 'roi_allign'"):
        _ = roicy.roi_allign


def test_what_is_imported_later():
    """Only the operators on feature maps are imported at once, and threads may ask for the rest."""
    code = """
import importlib.util, sys, threading
import roicy
later = {name: f"roicy.{module}" for name, module in roicy._LATER.items()}
if importlib.util.find_spec("threadpoolctl") is None:
    del later["ThreadpoolController"]
early = sys.modules.keys() & set(later.values())
found = []
def ask():
    start.wait()
    found.append([getattr(roicy, name) for name in later])
start = threading.Barrier(8)
threads = [threading.Thread(target=ask) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
expected = [getattr(sys.modules[module], name) for name, module in later.items()]
print(early, found == 8 * [expected])
"""
    done = python(code)
    assert done.stdout == "set() True\n", done.stderr
    assert python("import roicy; print(roicy.labels.__name__)").stdout == "roicy.labels\n"


def test_checkers_know_what_is_imported_later():
    """A checker of types reads the imports that are never executed."""
    tree = ast.parse(Path(roicy.__file__).read_text())
    (branch,) = [one for one in tree.body if ast.unparse(one).startswith("if TYPE_CHECKING")]
    later = [one for one in branch.body if one.module]  # and not the modules themselves
    known = {alias.name: one.module for one in later for alias in one.names}
    assert known == roicy._LATER


def test_show_config(capsys):
    roicy.show_config()
    shown = capsys.readouterr().out
    for word in (roicy.__version__, _dispatch.ISA, "openmp", "threads", "numpy"):
        assert word in shown
