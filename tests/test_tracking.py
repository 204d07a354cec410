"""The gate of slow commits and the comparison of builds judge as they say."""

import importlib.util
import json
from pathlib import Path

import pytest

from roicy._kernels import machine
from roicy._timing import cython_version

ROOT = Path(__file__).parent.parent


@pytest.fixture
def gate():
    path = ROOT / "asv_bench" / "gate.py"
    if not path.exists():
        pytest.skip("the ASV suite is not here")
    spec = importlib.util.spec_from_file_location("gate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CALL = "align_fpn_p2 forward NCHW"
VERSIONS = {"compiler": "GCC 1", "cython": "3"}


def counts(instructions=1_000_000, lines=50_000):
    return {
        CALL: {
            "instructions": instructions,
            "level 1 misses": lines,
            "last level misses": lines,
            "bytes moved": 64 * lines,
        }
    }


@pytest.mark.parametrize(
    ("now", "code", "said"),
    [
        (counts(), 0, "passed"),
        (counts(1_009_900), 0, "passed"),
        (counts(1_015_000), 1, "1 counts are worse"),
        (counts(lines=50_600), 1, "3 counts are worse"),
        (counts(980_000), 0, "Better"),
        ({}, 1, "1 are not in both"),
        (counts() | {"another": counts()[CALL]}, 1, "1 are not in both"),
    ],
)
def test_gate_judges(gate, capsys, now, code, said):
    old = {"versions": VERSIONS, "counts": counts()}
    assert gate.judge(old, VERSIONS, now, False) == code
    assert said in capsys.readouterr().out


def test_gate_ignores_few_lines(gate):
    """A handful of lines more are the interpreter's, even if they are many times as many."""
    assert gate.compare(counts(lines=30), counts(lines=60)) == []


@pytest.mark.parametrize("no_skip", [False, True])
def test_gate_says_why_it_skips(gate, capsys, no_skip):
    old = {"versions": VERSIONS, "counts": counts()}
    assert gate.judge(old, VERSIONS | {"compiler": "GCC 2"}, counts(2_000_000), no_skip) == no_skip
    assert "SKIPPED" in capsys.readouterr().out


def test_gate_counts_all_passes_and_layouts(gate):
    stored = json.loads(gate.COUNTS.read_text())
    assert list(stored["counts"]) == [gate.name_of(*call[:3]) for call in gate.CALLS]
    directions = {(call[1].removesuffix("_backward"), call[2]) for call in gate.CALLS}
    for direction in ("forward", "backward", "backward_boxes"):
        assert {(direction, "NCHW"), (direction, "NHWC")} <= directions


def test_gate_reads_files_of_callgrind(gate, tmp_path):
    events = "Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw ILdmr DLdmr DLdmw"
    text = f"desc: Trigger: Client Request: {CALL}, 2\nevents: {events}\n"
    (tmp_path / "counts.1").write_text(text + "totals: 2000 9 9 2 4 6 0 2 4 0 0 2\n")
    (tmp_path / "counts.2").write_text("desc: Trigger: Program termination\n")
    expected = {
        "instructions": 1000,
        "level 1 misses": 6,
        "last level misses": 3,
        "bytes moved": 4 * 64,
    }
    assert gate.read_counts(tmp_path) == {CALL: expected}


def test_version_of_cython():
    assert cython_version(machine.supported)[:2] == "3."
    assert cython_version(len) == "unknown"
