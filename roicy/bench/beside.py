"""
The benchmark: roicy and other installed libraries take turns on the same arrays.

A time means little if a library computes something else.  So the result of each call is compared
with roicy's, and the largest difference is printed beside the time.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

import roicy

from . import peers_of_images, timing
from .peers import Unsupported, installed
from .progress import Progress
from .workloads import ALL, CROPS, MASKS, each_level

SECONDS = 0.25  # in each round, a call is repeated for so long


def own(name: str, arrays: dict[str, Any], direction: str, threads: int) -> dict[str, Any]:
    """Return calls of roicy, by names that say what makes one faster than another."""
    work = ALL[name]
    calls = {"roicy": work.call(roicy, arrays, direction, threads=threads)}
    if direction == "backward_boxes":
        calls["roicy NHWC"] = work.call(roicy, arrays, direction, "NHWC", threads=threads)
    elif name not in MASKS or work.result != "rle":  # codes have no `out`
        calls["roicy out="] = work.call(roicy, arrays, direction, reuse=True, threads=threads)
    if direction != "backward_boxes" and len(work.layouts) == 2:
        last = work.call(roicy, arrays, direction, "NHWC", True, threads)
        calls["roicy NHWC out="] = lambda: [
            result.transpose(0, 3, 1, 2) for result in each_level(last())
        ]
    return calls


def on_host(result: Any) -> np.ndarray:
    """Return a result of any library as a NumPy array."""
    if hasattr(result, "cpu"):  # PyTorch's
        result = result.detach().cpu().numpy()
    return result.get() if hasattr(result, "get") else result  # CuPy's


def copy_rate() -> float:
    """Return the bytes that one thread reads and writes in a second when it copies memory."""
    source = np.ones(16 << 20)
    target = np.zeros_like(source)
    return 2 * source.nbytes / min(timing.times(lambda: np.copyto(target, source), 0.5))


def prepared(
    name: str, direction: str, dtype: str, threads: int, peers: list[Any]
) -> tuple[dict[str, Callable[[], Any]], int]:
    """Return the calls of all libraries on one workload, and how many bytes they have to read."""
    work = ALL[name]
    arrays = work.arrays(dtype)
    calls = own(name, arrays, direction, threads)
    if name in CROPS:
        return calls | peers_of_images.of_crop(work, arrays, threads), work.bytes_in_boxes(arrays)
    if name in MASKS:
        calls |= peers_of_images.of_paste_masks(work, arrays, threads)
    else:
        for peer in peers:
            with contextlib.suppress(Unsupported):
                calls[f"{peer.package} {peer.version}"] = peer.prepare(work, arrays, direction)
    return calls, work.read_bytes(arrays, direction)


def measure(
    calls: dict[str, Callable[[], Any]],
    read: int,
    dtype: str,
    rounds: int,
    after_round: Callable[[], Any],
) -> dict[str, Any]:
    """Return times and differences of calls, which take turns, and the bytes that they move."""
    expected = each_level(calls["roicy"]())
    scale = max(*(float(np.abs(result).max()) for result in expected), np.finfo(dtype).tiny)
    differences = {}
    for name, function in calls.items():
        pairs = zip(each_level(function()), expected, strict=True)
        largest = max(difference(on_host(result), other) for result, other in pairs)
        differences[name] = largest / scale
    return {
        "seconds": timing.in_turns(calls, rounds, SECONDS, after_round),
        "differences": differences,
        "bytes": read + sum(array.nbytes for array in expected),
    }


def difference(result: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference of two results; infinity if their shapes differ."""
    if result.shape != expected.shape:
        return float("inf")
    dtype = np.result_type(expected, np.float32)
    return float(np.abs(np.subtract(result, expected, dtype=dtype)).max(initial=0))


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
        "of a copy: the time, over that in which one thread copies the bytes that the\n"
        "  call has to read and write\n"
        "difference: the largest, over the largest value of the result"
    )
    return "\n".join(lines)


COLOURS = ("#2e86ab", "#5aa9a2", "#f2a65a", "#6c757d", "#8d6a9f")


def _labels(results: list[dict[str, Any]], first: str) -> tuple[str, list[str]]:
    """Return what all calls have in common, and what tells each of them from the others."""
    kinds = [
        f"{result['direction']}, {result['threads']} thread{'s' * (result['threads'] > 1)}, "
        for result in results
    ]
    shared = kinds[0] if len(set(kinds)) == 1 else ""
    return shared, [
        f"{result['workload']}\n{'' if shared else kind}{result['seconds'][first] * 1e3:.3g} ms"
        for result, kind in zip(results, kinds, strict=True)
    ]


def plot(results: list[dict[str, Any]], path: str, title: str) -> None:
    """Draw how many times as long as roicy the others take, roicy's own variants left out."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    # On a phone, a picture of this width shows 12 points as 9 pixels.
    plt.rcParams["font.size"] = 12
    names = list(dict.fromkeys(key for result in results for key in result["seconds"]))
    others = [name for name in names if not name.startswith("roicy")] or names[1:]
    height = 0.8 / max(len(others), 1)
    figure, axes = plt.subplots(figsize=(5.2, 1.5 + 0.62 * len(results)))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    for at, name in enumerate(others):
        rows = [row for row, result in enumerate(results) if name in result["seconds"]]
        ratios = [results[row]["seconds"][name] / results[row]["seconds"][names[0]] for row in rows]
        bars = axes.barh(
            [row - 0.4 + (at + 0.5) * height for row in rows],
            [ratio - 1 for ratio in ratios],
            height * 0.9,
            left=1,
            color=COLOURS[at % len(COLOURS)],
            label=name,
        )
        labels = [f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:.0f}" for ratio in ratios]
        axes.bar_label(bars, labels, padding=3)
    axes.axvline(1, color="#1b1f24", linewidth=1)
    shared, labels = _labels(results, names[0])
    axes.set_yticks(range(len(results)), labels)
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel(f"times as long as {names[0]} takes\n(longer bars are slower libraries)")
    title = textwrap.fill(shared + title, 44)
    axes.set_title(title, fontsize=11, loc="left", color="#57606a")
    if others:
        figure.legend(loc="upper left", bbox_to_anchor=(0, 0), ncols=2, frameon=False)
    figure.savefig(path, dpi=140, bbox_inches="tight")
    plt.close(figure)


def run(
    workloads: list[str],
    directions: list[str],
    dtype: str,
    threads: list[int],
    rounds: int,
    plot_path: str | None,
) -> dict[str, Any]:
    """Measure, print the table, draw it where that was asked for, and return the results."""
    title, rate = timing.title(), copy_rate()
    calls = [
        (name, direction)
        for direction in directions
        for name in workloads
        if ALL[name].has(roicy, direction)
    ]
    results = []
    with Progress("bench: rounds", len(calls) * len(threads) * rounds) as progress:
        progress.now("loading libraries")
        for count in threads:
            peers = list(installed(count))  # PyTorch keeps the number of threads of the latest
            for name, direction in calls:
                progress.now(f"{name} {direction}")
                found = prepared(name, direction, dtype, count, peers)
                row = {"workload": name, "direction": direction, "dtype": dtype, "threads": count}
                results.append(row | measure(*found, dtype, rounds, progress.update))
    copies = f"one thread copies {rate / 1e9:.0f} GB/s, read and written"
    print(textwrap.fill(f"{title}; {copies}; {dtype}", 80) + f"\n\n{table(results, rate)}")
    if plot_path:
        plot(results, plot_path, title)
    return {"title": title, "copy_rate": rate, "results": results}
