"""``python -m roicy onnx``: which nodes of a model roicy takes, and what that gains."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]

from ...bench.progress import Progress
from ...onnxruntime._report import told
from ._session import InferenceSession

TYPES = {
    "float": "f4", "double": "f8", "float16": "f2", "int64": "i8", "int32": "i4", "int16": "i2",
    "int8": "i1", "uint8": "u1", "bool": "?",
}  # fmt: skip


def run(asked: argparse.Namespace) -> None:
    """Print which nodes of a model roicy takes, and with --bench the times of both sessions.

    asked: the options of the command, which roicy/__main__.py explains.
    """
    for option, number in (("--threads", asked.threads), ("--rounds", asked.rounds)):
        if number < 1:
            raise ValueError(f"{option}: {number}, expected 1 or more")
    files = (one.rpartition("=") for one in asked.input)
    given = {name: _loaded(file) for name, _, file in files}
    with told() as report, Progress("making a session"):
        try:
            session = InferenceSession(asked.model, _options(asked.threads))
        except Exception as error:  # ONNX Runtime's have no class of their own
            raise ValueError(str(error).splitlines()[0][:300]) from None
    if report.taken or report.left:
        print(report._replace(left=report.left if asked.explain or not report.taken else []))
    else:
        print(
            "nothing in the model is for roicy: it has no RoI nodes, deformable attention, or "
            "labels of maps that it resizes; roicy.crop can cut and resize regions for its input"
        )
    if asked.bench:
        feed = _inputs(session.get_inputs(), asked.shape, given)
        with Progress("running it with roicy and without"):
            lines = list(_compare(session, asked.model, feed, asked.threads, asked.rounds))
        print("\n".join(lines))


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return options


def _loaded(file: str) -> np.ndarray:
    """Return the array of a file of --input."""
    try:
        array: np.ndarray = np.load(file)
    except OSError as error:
        raise ValueError(f"--input: {file!r} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise ValueError(
            f"--input: {file!r} is no array of numbers that numpy.save wrote"
        ) from None
    return array


def _inputs(
    inputs: list[Any], shapes: list[str], arrays: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return what a model is run on: arrays of files, random numbers, and zeros for integers."""
    given: dict[str, list[int]] = {}
    for one in shapes:
        name, _, extents = one.rpartition("=")
        try:
            given[name] = [int(extent) for extent in extents.split("x")]
        except ValueError:
            name = ""
        if not name:
            raise ValueError(f"--shape {one}: expected NAME=EXTENTxEXTENT...")
    known = [value.name for value in inputs]
    others = [name for name in known if name not in arrays]
    for option, names, expected in (("--input", arrays, known), ("--shape", given, others)):
        for name in names:
            if name not in expected:
                raise ValueError(f"{option}: {name!r}, expected any of {expected}")
    rng, feed = np.random.default_rng(0), dict(arrays)
    for value in inputs:
        if value.name in arrays:
            continue
        kind = TYPES.get(value.type.removeprefix("tensor(").removesuffix(")"))
        if kind is None:
            raise ValueError(f"--input: {value.name!r} is {value.type}, expected its array")
        extents = given.get(value.name, value.shape)
        if not all(isinstance(extent, int) for extent in extents):
            example = "x".join(map(str, _example(extents)))
            raise ValueError(
                f"--shape: input {value.name!r} is {value.type} of {extents}, expected its "
                f"extents, as in --shape {value.name}={example}"
            )
        numbers = rng.random(extents) if kind[0] == "f" else np.zeros(extents)
        feed[value.name] = numbers.astype(kind)
    return feed


def _example(extents: list[Any]) -> list[int]:
    """Return extents for those that a model leaves open: of a picture those that are usual."""
    rank = len(extents)
    is_last = rank == 4 and extents[3] in (1, 3, 4)  # channels
    usual = {0: 1, 1: 800, 2: 800} if is_last else {rank - 1: 800, rank - 2: 800, rank - 3: 3, 0: 1}
    usual = {0: 3, 1: 800, 2: 800} if rank == 3 else usual if rank == 4 else {}
    return [one if isinstance(one, int) else usual.get(i, 1) for i, one in enumerate(extents)]


def _compare(
    session: Any, model: str, feed: dict[str, np.ndarray], threads: int, rounds: int
) -> Iterator[str]:
    """Yield lines with the times of both sessions, taken in turns, and how their results differ."""
    runs = {"ONNX Runtime with roicy": session.run}
    try:
        alone = onnxruntime.InferenceSession(
            model, _options(threads), providers=["CPUExecutionProvider"]
        )
        runs["ONNX Runtime alone"] = alone.run
    except Exception as error:  # nodes that it lacks
        yield f"ONNX Runtime cannot run the model: {str(error).splitlines()[0][:120]}"
    try:
        results = {name: run(None, feed) for name, run in runs.items()}
    except Exception as error:
        said = str(error).splitlines()[0][:300]
        raise ValueError(f"the model does not run on these inputs: {said}") from None
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run(None, feed)
            times[name].append(time.perf_counter() - start)
    for name, taken in times.items():
        on = f"{threads} thread{'s' * (threads != 1)}"
        yield f"{name}: {1000 * min(taken):.1f} ms, the least of {rounds} runs on {on}"
    if len(runs) == 2:
        least = [min(taken) for taken in times.values()]
        yield f"ONNX Runtime alone takes {least[1] / least[0]:.2f} times as long"
        for value, *pair in zip(session.get_outputs(), *results.values(), strict=True):
            yield f"output {value.name!r}: {_difference(*pair)}"


def _difference(one: Any, other: Any) -> str:
    if not isinstance(one, np.ndarray) or one.dtype.kind not in "biuf":
        return "not compared"
    if one.shape != other.shape:
        return f"shapes {one.shape} and {other.shape}"
    if not one.size:
        return f"shape {one.shape}"
    difference = np.abs(one.astype(np.float64) - other.astype(np.float64)).max()
    return f"shape {one.shape}, largest difference {difference:.3g} of {np.abs(other).max():.3g}"
