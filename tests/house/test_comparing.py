"""The comparison of builds, threads and files judges as it says."""

import json
import re

import numpy as np
import pytest

import roicy
from roicy.__main__ import main
from roicy._kernels import machine
from roicy.bench import builds, command, compare, simulate, threads, timing
from roicy.bench.workloads import ALL


def run_of(least, **others):
    call = {"workload": "align_tiny", "direction": "forward", "layout": "NCHW"}
    call |= {"dtype": "float32", "threads": 1}
    return call | {"least": least, "median": least, "digest": "a", "bytes": 8} | others


def file_of(*runs, turns="a", **build):
    parts = {"machine": {"cores": 2}, "build": build, "runtime": {}}
    method = {"processes": len(runs[0]["least"]), "seconds": 0.1, "turns": turns}
    return {"schema": builds.SCHEMA, **parts, "method": method, "runs": list(runs)}


STEADY = [1.00, 1.01, 1.00, 1.02, 1.01, 1.00, 1.01]


@pytest.mark.parametrize(
    ("factor", "turns", "processes", "expected"),
    [
        (1.00, "a", 7, "same"),
        (1.02, "a", 7, "cannot tell"),
        (1.10, "a", 7, "slower"),
        (0.90, "a", 7, "faster"),
        (1.05, "a", 7, "slower"),
        (1.05, "b", 7, "cannot tell"),  # not in turns
        (1.10, "a", 3, "cannot tell"),  # of few processes
        (1.30, "a", 3, "slower"),
    ],
)
def test_verdicts(factor, turns, processes, expected, capsys):
    old = file_of(run_of(STEADY[:processes]))
    new = file_of(run_of([factor * one for one in STEADY[:processes]]), turns=turns)
    (row,) = compare.compare(old, new, compare.margin_of(old, new))
    assert row["verdict"] == expected
    assert row["low"] <= row["ratio"] <= row["high"]
    np.testing.assert_allclose([row["ratio"], row["ratio_of_least"]], factor)
    assert compare.report(old, new) == {"slower": 1, "cannot tell": 3}.get(expected, 0)
    assert expected in capsys.readouterr().out


def test_verdicts_of_other_machines_say_so(capsys):
    """Another processor, Python or NumPy may be why a call is slower."""
    old, new = file_of(run_of(STEADY)), file_of(run_of([2 * one for one in STEADY]), turns="b")
    new["machine"], new["runtime"] = {"cores": 2, "processor": "b"}, {"python": "3.14"}
    assert compare.report(old, new) == 1
    said = "not of the builds alone: the files differ in processor, python."
    assert said in capsys.readouterr().out
    assert compare.report(old, old) == 0
    assert "alone" not in capsys.readouterr().out


def test_interval_covers_the_ratio():
    """Of many pairs of builds that are equally fast, few get a verdict."""
    rng = np.random.default_rng(1)
    pairs = 1 + 0.03 * rng.exponential(size=(60, 2, 7))
    files = [[file_of(run_of(list(times))) for times in pair] for pair in pairs]
    verdicts = [compare.compare(*pair, compare.IN_TURNS)[0]["verdict"] for pair in files]
    assert verdicts.count("faster") + verdicts.count("slower") <= 2


@pytest.mark.parametrize(
    ("factor", "same", "code"),
    [(1, 0.05, 0), (1.01, 0.05, 0), (1.04, 0.05, 1), (0.9, 0.05, 1), (0.9, 0.2, 0), (1, 0.001, 1)],
)
def test_same_is_demanded(factor, same, code):
    old, new = (file_of(run_of([scale * one for one in STEADY])) for scale in (1, factor))
    assert compare.report(old, new, same) == code
    assert compare.report(old, old, 0.05) == 0


def threads_file(path, factor):
    """Write a file of --scaling and --latency whose calls on two threads take `factor` as long."""
    row = {"workload": "pool_tiny", "direction": "forward", "layout": "NCHW", "dtype": "float32"}
    scaling = [row | {"threads": 1, "least": 2.0, "efficiency": 1.0}]
    scaling += [row | {"threads": 2, "least": factor, "efficiency": 1 / factor}]
    latency = [{"workload": "pool_tiny", "threads": 1, "situation": "alone", "p50": 1, "p99": 9}]
    parts = {"machine": {}, "build": {"commit": str(factor)}, "runtime": {}}
    file = {"schema": compare.THREADS, **parts, "scaling": scaling, "latency": latency}
    path.write_text(json.dumps(file))
    return str(path)


@pytest.mark.parametrize(
    ("factor", "options", "code", "verdicts"),
    [
        (1.2, [], 0, "0 faster, 0 slower, 3 same"),
        (1.9, [], 1, "0 faster, 1 slower, 2 same"),  # as with a lock
        (0.5, [], 0, "1 faster, 0 slower, 2 same"),
        (1.2, ["--same", "10"], 1, "0 faster, 1 slower, 2 same"),
    ],
)
def test_threads_are_compared(tmp_path, capsys, factor, options, code, verdicts):
    files = threads_file(tmp_path / "old", 1), threads_file(tmp_path / "new", factor)
    assert main(["bench", "--compare", *files, *options]) == code
    said = capsys.readouterr().out
    assert verdicts in said
    assert f"commit: 1 -> {factor}" in said
    assert re.search(rf"float32 2 .* {factor:.3f} .* {1 / factor:.2f}", said)


def test_files_of_busy_are_compared(tmp_path, capsys):
    row = {"workload": "pool_tiny", "direction": "forward", "threads": 1, "busy": 2, "releases": 1}
    paths = []
    for p50 in (1.0, 1.5):
        file = {"schema": compare.THREADS, "machine": {}, "build": {}, "runtime": {}}
        file["busy"] = [row | {"calls": 9, "p50": p50, "p99": 2.0}]
        paths.append(tmp_path / str(p50))
        paths[-1].write_text(json.dumps(file))
    assert main(["bench", "--compare", *map(str, paths)]) == 1
    assert "0 faster, 1 slower, 0 same" in capsys.readouterr().out
    assert main(["bench", "--compare", str(paths[0]), str(paths[0])]) == 0


ONE = run_of(STEADY)
TWO = run_of(STEADY, threads=2)


@pytest.mark.parametrize(
    ("old", "new", "same", "code", "said"),
    [
        (file_of(ONE), file_of(ONE), 0.05, 0, "1 same"),
        (file_of(ONE), file_of(ONE, TWO), 0.05, 1, "1 same"),
        (file_of(ONE), file_of(ONE, TWO), None, 0,
         "left out, since only one has it: align_tiny forward NCHW float32 2\n"),
        (file_of(ONE), file_of(TWO), None, 2, "no call in common"),
        (file_of(ONE, compiler="GCC 12"), file_of(ONE, compiler="Clang 19"), None, 0,
         "compiler: GCC 12 -> Clang 19"),
        (file_of(ONE), file_of(ONE | {"digest": "b"}), None, 0, "other bits"),
    ],
)  # fmt: skip
def test_what_differs_is_named(old, new, same, code, said, capsys):
    """Calls of one file alone, other machines and builds, and other bits."""
    assert compare.report(old, new, same) == code
    assert "".join(capsys.readouterr()).count(said) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "schema None, expected 'roicy-bench/1'"),
        ('{"schema": "roicy-bench/1", "machine": {}}', "no build, runtime, method, runs"),
        (json.dumps(file_of(ONE)), "expected two of the same kind"),
    ],
)
def test_files_that_are_not_compared(tmp_path, capsys, text, said):
    path = tmp_path / "file.json"
    path.write_text(text)
    assert main(["bench", "--compare", str(path), threads_file(tmp_path / "threads", 1)]) == 2
    assert said in capsys.readouterr().err


def test_files_are_converted(tmp_path, capsys):
    """Other tools read each call's times, and a row of each file."""
    call = "align_tiny forward NCHW float32 1"
    file = file_of(run_of([0.002, 0.003, 0.001]), compiler="GCC 12")
    file["machine"]["processor"], file["build"]["commit"] = "a CPU", "abc"
    paths = []
    for date in ("2026-02-01", "2026-01-01"):
        paths.append(str(tmp_path / date))
        (tmp_path / date).write_text(json.dumps(file | {"date": date}))
    assert main(["bench", "--convert", "github", paths[0]]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["unit"], row["value"], row["range"]) == (call, "ms", 2, "2")
    assert main(["bench", "--convert", "otava", *paths]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "time,commit,align_tiny_forward_NCHW_float32_1"
    assert lines[1:] == ["2026-01-01,abc,0.002", "2026-02-01,abc,0.002"]
    for wrong, said in ((["github", *paths], "2 files, exp"), (["xml"], "'xml', expected")):
        assert main(["bench", "--convert", *wrong]) == 2
        assert said in capsys.readouterr().err
    pyperf = pytest.importorskip("pyperf")
    assert main(["bench", "--convert", "pyperf", paths[0]]) == 0
    suite = pyperf.BenchmarkSuite.loads(capsys.readouterr().out)
    assert suite.get_benchmark(call).get_values() == (0.002, 0.003, 0.001)


def test_processes_take_turns(tmp_path, capsys):
    """Two builds are timed by processes of their own; a call that is unknown is named."""
    call = {"direction": "forward", "layout": "NCHW", "dtype": "float32", "threads": 1}
    runs = [call | {"workload": "pool_tiny"}, call | {"workload": "pool_tiny", "layout": "CHWN"}]
    both = [builds.this_build(), builds.this_build()]
    old, new = builds.alternate(both, runs, 2, 0.001)
    assert [len(run["least"]) for run in (*old["runs"], *new["runs"])] == [2, 2]
    assert old["runs"][0]["digest"] == new["runs"][0]["digest"]
    said = capsys.readouterr().err
    assert said.count("this: pool_tiny forward CHWN is left out, ValueError: layout") == 2
    assert old["build"] == new["build"] == timing.facts()["build"]
    path = tmp_path / "file.json"
    path.write_text(json.dumps(old))
    assert compare.read(str(path)) == old
    assert set(old) == {"schema", "date", *compare.PARTS}


def test_what_is_compared_against(tmp_path):
    with pytest.raises(ValueError, match="--against: 'no such commit' is no file, no commit"):
        builds.install("no such commit", tmp_path)
    assert not list(tmp_path.iterdir())


def test_scaling():
    rows = threads.scaling([("pool_tiny", "forward")], "float32", 3, 1, 0.001)
    assert [row["threads"] for row in rows] == [1, 2, 3]
    assert {row["direction"] for row in rows} == {"forward"}
    assert rows[0]["speedup"] == rows[0]["efficiency"] == 1
    assert rows[1]["efficiency"] == rows[1]["speedup"] / 2
    assert "pool_tiny" in threads.table_of_scaling(rows)


def test_simulation():
    """Tasks that are timed give the same bits, in either order, and are dealt as they come."""
    calls = [("align_few", "backward", layout) for layout in ("NCHW", "NHWC")]
    rows = simulate.simulate(calls, "float32", [1, 64], 1, 0.001)
    assert [row["threads"] for row in rows] == [1, 64, 1, 64]
    for one, many in zip(rows[::2], rows[1::2], strict=True):
        sums = [one[name] for name in ("work", "balance", "speedup")]  # in other orders
        assert sums == pytest.approx([1, 1, 1])
        assert many["tasks"] > 64 > one["tasks"]
        assert 1 / 64 < many["balance"] <= 1
        assert many["speedup"] == pytest.approx(one["least"] / many["least"])
    assert "align_few" in simulate.table(rows)
    assert simulate.dealt(np.array([3.0, 1, 1, 1, 4]), 2) == 7
    work = ALL["align_few"]
    call = work.call(roicy, work.arrays(), "backward", reuse=True, threads=64)
    out = call()
    expected = out.copy()
    for backwards in (False, True):
        out[:] = np.nan
        workers, times = machine.times_of_tasks(call, backwards)[-1]
        assert workers == 64
        assert min(times) > 0
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(MemoryError, match="timed already"):
        machine.times_of_tasks(lambda: machine.times_of_tasks(call))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_latency(monkeypatch):
    monkeypatch.setattr(threads, "MIN_CALLS", 10)
    rows = threads.latency(["pool_tiny"], [1], 0.001)
    assert [row["situation"] for row in rows] == list(threads.SITUATIONS)
    for row in rows:
        assert 0 < row["p50"] <= row["p99"] <= row["p99.9"] <= row["worst"]
    assert rows[2]["calls"] >= 10 * threads.PYTHON_THREADS
    assert "forked workers" in threads.table_of_latency(rows)


def test_runs_of_options(monkeypatch):
    """Operators run in each layout and pass that they have, and crops once."""
    found = []
    monkeypatch.setattr(
        command, "run_against", lambda options, _: found.extend(command.runs_of(options))
    )
    names = ["--workloads", "pool_tiny", "crop_one", "--passes", "forward", "backward_boxes"]
    main(["bench", "--against", "HEAD", *names])
    calls = [(run["workload"], run["direction"], run["layout"]) for run in found]
    assert calls == [
        ("pool_tiny", "forward", "NCHW"),
        ("pool_tiny", "forward", "NHWC"),
        ("crop_one", "forward", "NHWC"),
    ]
    for run in found:
        measured = timing.measure(ALL[run["workload"]], roicy, run, 0.001)
        assert 0 < measured["least"] <= measured["median"]
        assert measured["bytes"] > 1000
    nothing = timing.measure(ALL["pool_tiny"], object(), found[0], 0.001)
    assert nothing == {"missing": "AttributeError: 'object' object has no attribute 'roi_pool'"}
