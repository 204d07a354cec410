"""The benchmark: roicy and other installed libraries take turns on the same arrays.

A time means little if a library computes something else.  So the result of each call is compared
with roicy's, and the largest difference is printed beside the time.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

import roicy

from . import timing
from .peers import installed
from .progress import Progress
from .workloads import ALL, each_level

SECONDS = 0.25  # in each round, a call is repeated for so long


def own(name: str, arrays: dict[str, Any], direction: str, threads: int) -> dict[str, Any]:
    """Return calls of roicy, by names that say what makes one faster than another."""
    work = ALL[name]

    def call(layout: str, reuse: bool = False) -> Any:
        return work.call(roicy, arrays, direction, layout, reuse, threads)

    calls, has_out = {"roicy": call(work.layouts[0])}, work.takes_out(direction)
    if has_out:
        calls["roicy out="] = call(work.layouts[0], True)
    if len(work.layouts) == 2:
        last = call("NHWC", has_out)
        calls["roicy NHWC out=" if has_out else "roicy NHWC"] = lambda: [
            result.transpose(0, 3, 1, 2) if has_out else result for result in each_level(last())
        ]
    return calls


def prepared(
    name: str, direction: str, dtype: str, threads: int, peers: list[Any]
) -> tuple[dict[str, Callable[[], Any]], int]:
    """Return the calls of all libraries on one workload, and how many bytes they have to read."""
    work = ALL[name]
    arrays = work.arrays(dtype)
    calls = own(name, arrays, direction, threads)
    for peer in (peer for peer in peers if isinstance(work, peer.takes)):
        call = peer.prepare(work, arrays, direction)
        if call is not None:
            calls[peer.name] = call
    return calls, work.read_bytes(arrays, direction)


def difference(result: np.ndarray, expected: np.ndarray, scale: float = 1.0) -> float:
    """Return the largest difference of two results, over a scale; infinity if their shapes differ.

    Of labels, masks and codes it is the share that differs.
    """
    if result.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind != "f":
        return np.count_nonzero(result != expected) / max(expected.size, 1)
    dtype = np.result_type(expected, np.float32)
    return float(np.abs(np.subtract(result, expected, dtype=dtype)).max(initial=0)) / scale


def measure(
    calls: dict[str, Callable[[], Any]], read: int, dtype: str, rounds: int
) -> dict[str, Any]:
    """Return times and differences of calls, which take turns, and the bytes that they move."""
    expected = each_level(calls["roicy"]())
    scale = max(*(float(np.abs(result).max()) for result in expected), np.finfo(dtype).tiny)
    differences = {}
    for name, function in calls.items():
        pairs = zip(each_level(function()), expected, strict=True)
        differences[name] = max(difference(*pair, scale) for pair in pairs)
    return {
        "seconds": timing.in_turns(calls, rounds, SECONDS),
        "differences": differences,
        "bytes": read + sum(array.nbytes for array in expected),
    }


def table(results: list[dict[str, Any]], rate: float) -> str:
    """Return the results as text: each call has a row, and its time is compared with roicy's."""
    lines = []
    for result in results:
        call = timing.titled(result["workload"], result["direction"], threads=result["threads"])
        lines.append(f"{call:<37} {'ms':>9} {'of roicy':>9} {'of a copy':>9}  difference")
        reference = result["seconds"]["roicy"]
        for key, seconds in result["seconds"].items():
            lines.append(
                f"  {key:<35.35} {seconds * 1e3:>9.3f} {seconds / reference:>8.2f}x "
                f"{seconds / (result['bytes'] / rate):>8.1f}x  {result['differences'][key]:.1e}"
            )
        lines.append("")
    lines.append(
        "of roicy: the time, over roicy's\n"
        "of a copy: the time, over that in which one thread copies the map, the frame or\n"
        "  the masks, and the result\n"
        "difference: the largest, over the largest value of the result; or the share of\n"
        "  labels, of pixels of masks or of bytes of codes that differ"
    )
    return "\n".join(lines)


def plot(results: list[dict[str, Any]], path: str, title: str) -> None:
    """Draw how many times as long as roicy the others take, roicy's own variants left out."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["font.size"] = 12  # a phone shows them as 9 pixels
    names = list(dict.fromkeys(key for result in results for key in result["seconds"]))
    others = [name for name in names if not name.startswith("roicy")] or names[1:]
    figure, axes = plt.subplots(figsize=(5.2, 2.2 + 0.62 * len(results)), layout="constrained")
    rows, height = np.arange(len(results)), 0.8 / max(len(others), 1)
    for at, name in enumerate(others):
        times = [(result["seconds"].get(name, np.nan), result["seconds"]) for result in results]
        ratios = np.array([time / seconds["roicy"] for time, seconds in times])
        where = rows - 0.4 + (at + 0.5) * height
        bars = axes.barh(where, ratios - 1, 0.9 * height, left=1, label=name)
        labels = [f"{ratio:.2g}x" if ratio < 99.5 else f"{ratio:.0f}x" for ratio in ratios]
        axes.bar_label(bars, labels, padding=3)
    axes.axvline(1, color="black", linewidth=1)
    calls = [timing.titled(result["direction"], threads=result["threads"]) for result in results]
    alike = len(set(calls)) == 1
    axes.set_yticks(rows, [
        f"{result['workload']}\n{'' if alike else f'{call}, '}"
        f"{result['seconds']['roicy'] * 1e3:.3g} ms"
        for result, call in zip(results, calls, strict=True)
    ])  # fmt: skip
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.margins(x=0.16)  # labels end within the axes
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("times as long as roicy takes\n(longer bars are slower libraries)")
    title = textwrap.fill(f"{calls[0]}, {title}" if alike else title, 44)
    axes.set_title(title, fontsize=11, loc="left", color="dimgrey")
    figure.legend(loc="outside lower left", ncols=2, frameon=False)
    figure.savefig(path, dpi=140, bbox_inches="tight")
    plt.close(figure)


def run(
    calls: list[tuple[str, str]], dtype: str, threads: list[int], rounds: int, picture: str | None
) -> dict[str, Any]:
    """Measure calls, print the table, draw it where that was asked for, and return the results."""
    source = np.ones(16 << 20)
    target = np.zeros_like(source)
    copies = timing.times(lambda: np.copyto(target, source), 0.5)
    title, rate = timing.title(), 2 * source.nbytes / min(copies)
    results = []
    with Progress("bench", len(calls) * len(threads)) as progress:
        for count in threads:
            peers = list(installed(count))  # PyTorch keeps the number of threads of the latest
            for name, direction in calls:
                progress.begin(f"{name} {direction}")
                found = prepared(name, direction, dtype, count, peers)
                row = {"workload": name, "direction": direction, "dtype": dtype, "threads": count}
                results.append(row | measure(*found, dtype, rounds))
    said = f"{title}; one thread copies {rate / 1e9:.0f} GB/s, read and written; {dtype}"
    print(f"{textwrap.fill(said, 80)}\n\n{table(results, rate)}")
    if picture:
        plot(results, picture, title)
    return {"title": title, "copy_rate": rate, "results": results}
