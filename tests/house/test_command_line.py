"""The command line says what it does, tries files before it works, and fits 80 columns."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import roicy
from roicy import __main__
from roicy._machine import _config
from roicy.bench import beside, busy, command, compare, progress, simulate, threads
from roicy.bench.workloads import ALL

README = Path(__file__).parents[2] / "README.md"
RUN = {"workload": "align_tiny", "direction": "backward_boxes", "layout": "NCHW"}
RUN |= {"dtype": "float32", "threads": 16, "least": [1000.0], "median": [1000.0], "digest": "a"}
FILE = {"schema": "roicy-bench/1", "machine": {}, "build": {}, "runtime": {}}
FILE |= {"method": {"processes": 1, "turns": "a"}, "runs": [RUN | {"workload": w} for w in ALL]}


def said_by(capsys, *arguments):
    """Return the exit code of a command, and what it printed to the output and to the errors."""
    try:
        code = __main__.main(list(arguments))
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def widest(text):
    return max(map(len, text.splitlines()))


def test_no_command_prints_help(capsys):
    code, said, _ = said_by(capsys)
    assert code == 0
    assert {"demo", "info", "bench", "onnx"} <= set(said.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("demo", "--output", "no/x.png"), "--output: 'no/x.png' cannot be written: No such file"),
        (("demo", "--output", "x.txt"), "--output: 'x.txt', expected a name that ends in .png"),
        (("bench", "--json", "no/x"), "--json: 'no/x' cannot be written: No such file"),
        (("bench", "--json", "."), "--json: '.' cannot be written: Is a directory"),
        (("bench", "--plot", "no/x.png"), "--plot: 'no/x.png' cannot be written: No such file"),
        (("bench", "--compare", "a", "b"), "--compare: a: No such file or directory"),
        (("bench", "--convert", "github", "a"), "--convert: a: No such file or directory"),
        (("bench", "--compare", sys.executable, "b"), f"--compare: {sys.executable}: not JSON"),
        (("bench", "--rounds", "0"), "--rounds: 0, expected more than 0"),
        (("bench", "--threads", "1", "0"), "--threads: 0, expected more than 0"),
        (("bench", "--busy", "1", "0"), "--busy: 0, expected more than 0"),
        (("bench", "--same", "1"), "--same: expected --compare or --against beside it"),
        (
            ("bench", "--workloads", "paste_masks", "crop_one", "--passes", "backward"),
            "no table: none of paste_masks, crop_one has a pass backward\n",
        ),
    ],
)
def test_what_is_wrong_is_a_line(capsys, monkeypatch, tmp_path, arguments, message):
    """It names the option, and nothing has been computed."""
    if "--plot" in arguments or "demo" in arguments:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "run_bench", lambda _: pytest.fail("it works already"))
    code, said, errors = said_by(capsys, *arguments)
    assert (code, said, errors.count("\n")) == (2, "", 1)
    assert errors.startswith(message)
    assert not list(tmp_path.iterdir())


def test_files_that_can_be_written_stay(tmp_path):
    path = tmp_path / "old.json"
    path.write_text("{}")
    command.check_file("--json", str(path))
    command.check_file("--json", str(tmp_path / "new.json"))
    assert [file.name for file in tmp_path.iterdir()] == ["old.json"]
    assert path.read_text() == "{}"


def test_workloads_are_listed(capsys):
    code, said, _ = said_by(capsys, "bench", "--list")
    assert code == 0
    assert [line.split()[0] for line in said.splitlines()[::2]] == list(ALL)
    assert widest(said) <= 80


def test_tables_fit(capsys, tmp_path):
    """Also with the longest names, and with times of seconds."""
    path = tmp_path / "file.json"
    path.write_text(json.dumps(FILE))
    code, said, _ = said_by(capsys, "bench", "--compare", str(path), str(path))
    assert code == 0
    assert widest(said) <= 80
    other = FILE | {"runs": [run | {"digest": "b"} for run in FILE["runs"]]}
    assert compare.report(FILE, other) == 0
    said = capsys.readouterr().out
    assert widest(said) <= 80
    assert said.endswith("(beyond, or within, 10 %)\n")
    assert "*: the results have other bits" in said
    seconds = {"roicy": 10.0, "a library of a long name 2026.0.0+its.commit": 90.0}
    row = RUN | {"seconds": seconds, "differences": dict.fromkeys(seconds, 1e-7), "bytes": 10**11}
    assert widest(beside.table([row], 1e9)) <= 80
    rates = {"speedup": 16.0, "efficiency": 1.0, "bytes_per_second": 1e12, "least": 10.0}
    assert widest(threads.table_of_scaling([run | rates for run in FILE["runs"]])) <= 80
    dealt = {"work": 10.0, "balance": 1.0, "serial": 1.0, "speedup": 99.0, "tasks": 99999}
    assert widest(simulate.table([run | dealt for run in FILE["runs"]])) <= 80
    times = dict.fromkeys((*threads.PERCENTILES, "worst"), 1.0)
    row = RUN | times | {"situation": "beside a busy core", "calls": 10**7}
    assert widest(threads.table_of_latency([row])) <= 80
    rows = [r | times | {"busy": n, "releases": 1} for r in FILE["runs"] for n in (0, 1, 2, 4)]
    nodes = [{"nodes": n, "busy": b, "sessions": b} | times for n in ("a", "b") for b in (0, 4)]
    both = {"sessions": nodes, "sessions_at_once": nodes}
    assert widest(busy.table({"busy": rows} | both)) <= 80


@pytest.mark.parametrize("on_terminal", [False, True])
def test_progress(capsys, monkeypatch, on_terminal):
    """What takes long is seen on the standard error, line by line where that is no terminal."""
    monkeypatch.setattr(progress, "PERIOD", 0.01)
    monkeypatch.setattr(progress, "RENEWED", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal)
    said = ""
    with progress.Progress("bench", 3) as work:
        work.begin("align_tiny")
        while "align_tiny" not in said:
            time.sleep(0.01)
            said += capsys.readouterr().err
    said += capsys.readouterr().err
    assert "bench: 1 of 3, align_tiny, 0 s" in said
    assert said.startswith("\r") == on_terminal
    assert said.endswith("\r" if on_terminal else "\n")


def test_nothing_is_shown_of_short_work(capsys):
    with progress.Progress("bench"):
        pass
    assert capsys.readouterr().err == ""


def test_as_a_module():
    """`python -m roicy` is what the installed script runs."""
    found = subprocess.run([sys.executable, "-m", "roicy", "--version"], capture_output=True)
    assert found.stdout.decode().split() == ["roicy", roicy.__version__]


def test_facts_for_programs(capsys):
    """`info --json` says what `info` prints."""
    code, said, _ = said_by(capsys, "info", "--json")
    found = json.loads(said)
    assert code == 0
    assert found["roicy"] == __main__.__version__
    assert found["threads"] == roicy.get_num_threads() or not found["openmp"]
    assert found["instruction_set"] in found["built"]
    _, printed, _ = said_by(capsys, "info")
    words = [word for value in found.values() for word in np.ravel(value)]
    assert all(str(word) in printed for word in words if word != 0)


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="pipes of POSIX")
@pytest.mark.parametrize(
    ("command", "unbuffered"),
    [("info", ""), ("info --json", "1"), ("bench --list", "1"), ("bench --help", ""), ("", "1")],
)
def test_a_reader_that_goes_away(command, unbuffered):
    """A program whose output nobody reads ends as coreutils do: by the signal, without a word."""
    program = subprocess.Popen(
        [sys.executable, "-m", "roicy", *command.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )
    program.stdout.close()
    assert program.stderr.read() == b""
    program.stderr.close()
    assert program.wait() == -signal.SIGPIPE


def test_ratios_are_no_milliseconds(monkeypatch, tmp_path):
    """Numbers of a picture and of the README say what they are: 4.1x, or 5.7 ms."""
    figure = pytest.importorskip("matplotlib.figure")
    shown = []
    save = figure.Figure.savefig
    monkeypatch.setattr(
        figure.Figure, "savefig", lambda self, *a, **k: (shown.append(self), save(self, *a, **k))
    )
    seconds = {"roicy": 0.0057, "slow": 0.0234, "slower": 0.9}
    row = {"workload": "align_tiny", "direction": "forward", "threads": 1, "seconds": seconds}
    beside.plot([row], str(tmp_path / "times.png"), "here")
    (axes,) = shown[0].axes
    assert [text.get_text() for text in axes.texts] == ["4.1x", "158x"]
    ticks = [tick.get_text() for tick in axes.get_xticklabels() if tick.get_text()]
    assert ticks
    assert all(tick.endswith("x") for tick in ticks)


@pytest.mark.skipif(not README.is_file(), reason="the README is not here")
def test_times_of_the_readme():
    rows = re.findall(r"^\| .*\(`\w+`\) \|(.*)\|$", README.read_text(), re.MULTILINE)
    assert rows
    for cells in rows:
        own, *others = (cell.strip() for cell in cells.split("|"))
        assert re.fullmatch(r"[\d.]+ ms", own)
        peer = r"-|(\w[\w .]* )?[\d.]+x( \([\d.]+\))?"  # -, 4.1x, OpenCV 5.0 2.5x, 8.0x (1.32)
        assert all(re.fullmatch(peer, one) for other in others for one in other.split(", "))


def test_paths_of_any_script(monkeypatch):
    """A path is spelt in what the output can encode."""
    facts = _config.facts() | {"openmp_runtimes": ["/opt/\u00fc x/libgomp.so.1"]}
    monkeypatch.setattr(_config, "facts", lambda: facts)
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    roicy.show_config()
    out.flush()
    assert b"threads" in out.buffer.getvalue()


def test_no_file_is_read_in_an_unknown_encoding():
    """Files of the system and of reports are read and written as what they are."""
    code = """
import numpy as np, roicy, roicy._machine._config, roicy.bench.timing
boxes = np.array([[0, 1, 1, 5, 5.0]])
roicy.roi_align(np.ones((1, 2, 9, 9)), boxes, 2)
roicy.crop(np.ones((9, 9, 3), np.uint8), boxes[:, 1:], 2)
roicy.show_config()
roicy.bench.timing.versions()
"""
    strict = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    done = subprocess.run([sys.executable, *strict, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
