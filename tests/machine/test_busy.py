"""Calls and sessions beside busy Python threads, as `bench --busy` times them."""

import functools
import threading

import numpy as np
import pytest

from roicy.bench import busy, compare_threads


def test_busy_threads(monkeypatch):
    """Each call has a row for each number of threads, which run while it is timed."""
    monkeypatch.setattr(busy, "LEAST", 3)
    running = []
    times = busy.timing.times
    monkeypatch.setattr(
        busy.timing, "times", lambda *a: (running.append(threading.active_count()), times(*a))[1]
    )
    before = threading.active_count()
    names = [("pool_tiny", "forward"), ("align_fpn_p4", "backward")]
    rows = busy.calls(names, [1], [0, 1, 2], 0.001)
    assert [(row["workload"], row["busy"], row["releases"]) for row in rows] == [
        (name, count, int(name != "pool_tiny")) for name, _ in names for count in (0, 1, 2)
    ]
    assert [count - running[0] for count in running] == [0, 1, 2] * 2
    assert threading.active_count() == before
    assert all(0 < row["p50"] <= row["p99"] and row["calls"] >= 3 for row in rows)
    table = busy.table({"busy": rows})
    assert "gives up the GIL 0x" in table
    assert "gives up the GIL 1x" in table
    assert "onnxruntime are installed" in table


def test_sessions_beside_busy_threads(monkeypatch):
    """Both sessions of a pair compute the same, and roicy's provider has the nodes of one."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from roicy.bench import sessions

    monkeypatch.setattr(busy, "LEAST", 2)
    monkeypatch.setattr(busy, "ROUNDS", 1)
    for make in (sessions.each_map, sessions.chain):
        monkeypatch.setattr(sessions, make.__name__, functools.partial(make, (2, 8, 5)))
        own, ours = (run() for run in sessions.runs(make((2, 8, 5)), 2).values())
        for one, other in zip(own, ours, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)
    file = busy.measure([("pool_tiny", "forward")], [1], [1], 0.001)
    assert [(row["nodes"], row["busy"]) for row in file["sessions"]] == [
        (name, count) for count in (0, 1) for name in ("ONNX Runtime's own", "roicy's provider")
    ]
    at_once = file["sessions_at_once"]
    assert [row["calls"] for row in at_once] == [busy.RUNS] * 2 + [2 * busy.RUNS] * 2
    found = compare_threads.compare(file, file, 0.1)
    assert {table: len(rows) for table, rows in found.items()} == {
        "busy": 2, "sessions": 4, "sessions_at_once": 4,
    }  # fmt: skip
    ratio = at_once[3]["p50"] / at_once[2]["p50"]
    assert f"{ratio:.2f}" in busy.table(file)
