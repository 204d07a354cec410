"""Crop boxes from every frame of a video into one batch that is used again and again.

    python examples/video_loop.py --frames 10000

The frames are made here, as a camera would deliver them: a few buffers in turn, with rows that
are longer than the picture.  Boxes move over them.  The rate, the median and the 99th percentile
of a call, and how much the memory of the process has grown are printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import roicy

HEIGHT, WIDTH, ROW = 1080, 1920, 2048  # pixels; rows of buffers are padded
SIZE = (112, 112)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def buffers(count: int, color: str | None) -> list[np.ndarray]:
    """Return views of the visible part of camera buffers."""
    rng = np.random.default_rng(0)
    shape = (HEIGHT * 3 // 2, ROW) if color else (HEIGHT, ROW, 3)
    return [rng.integers(0, 256, shape, dtype=np.uint8)[:, :WIDTH] for _ in range(count)]


def boxes(number: int, count: int) -> np.ndarray:
    """Return where the boxes are in a frame: they move on circles."""
    angle = number / 50 + np.arange(count) * 2 * np.pi / count
    radius = 380 + 30 * np.sin(number / 20)
    x, y = WIDTH / 2 + 2 * radius * np.cos(angle), HEIGHT / 2 + radius * np.sin(angle)
    side = 90 + 60 * np.sin(angle) ** 2
    return np.column_stack([x - side, y - side, x + side, y + side])


def resident() -> int:
    """Return the bytes of memory that the process has; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * 4096


def run(frames: int, count: int, threads: int | None, color: str | None) -> None:
    """Crop, and print what it took."""
    ring = buffers(4, color)
    batch = np.empty((count, 3, *SIZE), np.float32)  # a runtime's input tensor, for instance
    seconds = np.empty(frames)
    before = 0
    for number in range(frames):
        frame, where = ring[number % len(ring)], boxes(number, count)
        start = time.perf_counter()
        roicy.crop(
            frame, where, SIZE, scale=1 / 255, mean=MEAN, std=STD, swap_channels=color is None,
            color=color, out=batch, num_threads=threads,
        )  # fmt: skip
        seconds[number] = time.perf_counter() - start
        if (number + 1) % 1000 == 0:
            print(f"{number + 1} of {frames} frames", file=sys.stderr)
        if number == min(100, frames - 1):
            before = resident()  # everything has been loaded and allocated
    after = resident()  # before percentiles, for which NumPy loads more code
    median, p99 = np.percentile(seconds * 1e3, [50, 99])
    print(f"{frames} frames of {count} boxes: {frames / seconds.sum():.0f} frames/s")
    print(f"a call: median {median:.3f} ms, p99 {p99:.3f} ms, worst {seconds.max() * 1e3:.3f} ms")
    print(f"memory: {after / 1e6:.1f} MB, {(after - before) / 1e6:+.2f} MB since frame 100")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--frames", type=int, default=10000)
    parser.add_argument("--boxes", type=int, default=16)
    parser.add_argument("--threads", type=int, help="by default roicy.get_num_threads()")
    parser.add_argument("--color", choices=["nv12", "i420"], help="by default BGR")
    options = parser.parse_args()
    run(options.frames, options.boxes, options.threads, options.color)


if __name__ == "__main__":
    main()
