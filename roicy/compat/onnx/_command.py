"""``python -m roicy onnx``: what is found in a model, how it is cut, and what that gains."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]

from ._model import Graph, load
from ._session import InferenceSession, _type_string, describe


def run(
    model: str, bench: bool, shapes: list[str], files: list[str], threads: int, rounds: int
) -> None:
    """
    Print what is found in a model, and with `bench` the times of both sessions.

    Parameters
    ----------
    model : str
        Its path.
    bench : bool
        Whether to run it, and without roicy too.
    shapes : list of str
        Of inputs whose extents the model leaves open: "NAME=1x3x800x1088"; without "NAME=", of the
        first input.
    files : list of str
        Arrays for inputs, "NAME=FILE.npy"; the others are random numbers.
    threads, rounds : int
        Threads of both, and how often each has its turn.
    """
    options = _options(threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the lines below say it
        session = InferenceSession(model, options, num_threads=threads)
    for line in describe(session):
        print(line)
    if bench:
        graph = Graph(*load(model))
        given = arrays_of(graph, files)
        feed = given | random_inputs(graph, shapes, set(given))
        for line in _compare(session, model, feed, threads, rounds):
            print(line)


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return options


def arrays_of(graph: Graph, files: list[str]) -> dict[str, np.ndarray]:
    """Return the arrays that files have for inputs of a model."""
    names = [value.name for value in graph.inputs]
    found = {}
    for one in files:
        name, _, file = one.rpartition("=")
        if (name or names[0]) not in names:
            raise ValueError(f"--input: {name!r}, expected any of {names}")
        found[name or names[0]] = np.load(file)
    return found


def random_inputs(graph: Graph, shapes: list[str], others: set[str]) -> dict[str, np.ndarray]:
    """Return random inputs of a model but for others; of integers and bool, zeros."""
    given: dict[str, list[int]] = {}
    for one in shapes:
        name, _, extents = one.rpartition("=")
        try:
            given[name or graph.inputs[0].name] = [int(extent) for extent in extents.split("x")]
        except ValueError:
            raise ValueError(f"--shape {one}: expected NAME=EXTENTxEXTENT...") from None
    rng = np.random.default_rng(0)
    feed = {}
    for value in graph.inputs:
        if value.name in others:
            continue
        dims = value.type.tensor_type.shape.dim
        extents = given.pop(value.name, None) or [dim.dim_value for dim in dims]
        if 0 in extents:
            example = "x".join(str(extent or 800) for extent in extents)
            raise ValueError(
                f"--shape: input {value.name!r} is {_type_string(value.type)} of "
                f"{[dim.dim_param or dim.dim_value for dim in dims]}, expected its extents, as in "
                f"--shape {value.name}={example}"
            )
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        numbers = rng.random(extents) if dtype.kind == "f" else np.zeros(extents)
        feed[value.name] = numbers.astype(dtype)
    if given:
        raise ValueError(f"--shape: {next(iter(given))!r}, expected an input without a file")
    return feed


def _compare(
    session: InferenceSession, model: str, feed: dict[str, np.ndarray], threads: int, rounds: int
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
    except ValueError:
        raise
    except Exception as error:  # ONNX Runtime's have no class of their own
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
