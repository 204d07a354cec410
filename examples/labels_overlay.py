"""From camera frames to their labels, drawn over them: semantic segmentation of a video.

    python examples/labels_overlay.py --frames 300 --output overlay.ppm
    python examples/labels_overlay.py --model segformer.onnx

A frame becomes the network's input in one call, a letterbox.  The network gives a small map for
each class, and one call makes labels of the whole frame of them, without the padding.  Frames are
made here, and so are the maps, by the colours of the frame, unless --model names an ONNX file whose
first output is (1, C, h, w).  The median times of the four steps are printed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import roicy

HEIGHT, WIDTH = 1080, 1920  # of a frame
SIZE = (512, 512)  # of the network's input, unless the model has another
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLASSES, STRIDE = 8, 4  # of the maps that are made here
STEPS = ("input", "network", "labels", "overlay")

Network = Callable[[np.ndarray], np.ndarray]


def buffers(count: int) -> list[np.ndarray]:
    """Return frames (1080, 1920, 3) of BGR bytes: patches of some colours."""
    rng = np.random.default_rng(0)
    patches = rng.integers(0, 256, (count, HEIGHT // 60, WIDTH // 60, 3), dtype=np.uint8)
    return list(patches.repeat(60, axis=1).repeat(60, axis=2))


def by_colours(input: np.ndarray) -> np.ndarray:
    """Return maps (1, C, h, w) that tell how near colours are to those of classes."""
    height, width = (extent // STRIDE for extent in input.shape[2:])
    means = input[0].reshape(3, height, STRIDE, width, STRIDE).mean(axis=(2, 4))
    colours = np.random.default_rng(1).standard_normal((CLASSES, 3, 1, 1), np.float32)
    return -((means - colours) ** 2).sum(axis=1)[None]


def of_model(path: str, threads: int | None) -> tuple[Network, tuple[int, int]]:
    """Return a network that runs in ONNX Runtime, and the size of its input."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    size = tuple(
        extent if isinstance(extent, int) else usual
        for extent, usual in zip(given.shape[2:], SIZE, strict=True)
    )
    return lambda input: session.run(None, {given.name: input})[0], size


def shown(size: tuple[int, int]) -> np.ndarray:
    """Return where the frame lies in an input of some size, as [x1, y1, x2, y2]."""
    height, width = size
    scale = min(height / HEIGHT, width / WIDTH)
    rows, columns = round(HEIGHT * scale), round(WIDTH * scale)
    top, left = (height - rows) // 2, (width - columns) // 2
    return np.array([left, top, left + columns, top + rows])


def run(frames: int, threads: int | None, model: str | None, output: str | None) -> None:
    """Label frames, and print what each step took."""
    network, size = of_model(model, threads) if model else (by_colours, SIZE)
    ring, box = buffers(4), shown(size)
    input = np.empty((1, 3, *size), np.float32)
    labels = np.empty((HEIGHT, WIDTH), np.uint8)  # label_map says if there are more classes
    drawn = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    palette = np.random.default_rng(2).integers(0, 128, (256, 3), dtype=np.uint8)
    seconds = np.empty((frames, len(STEPS)))
    for number in range(frames):
        frame = ring[number % len(ring)]
        times = [time.perf_counter()]
        roicy.crop(
            frame, [[0, 0, WIDTH, HEIGHT]], size, scale=1 / 255, mean=MEAN, std=STD,
            swap_channels=True, fit="letterbox", out=input, num_threads=threads,
        )  # fmt: skip
        times.append(time.perf_counter())
        maps = network(input)
        times.append(time.perf_counter())
        stride = np.array(size[::-1]) / maps.shape[:1:-1]
        part = (box / np.tile(stride, 2)).tolist()
        roicy.label_map(maps[0], (HEIGHT, WIDTH), box=part, out=labels, num_threads=threads)
        times.append(time.perf_counter())
        np.take(palette, labels, axis=0, out=drawn, mode="clip")  # no label is beyond the table
        drawn += frame >> 1
        times.append(time.perf_counter())
        seconds[number] = np.diff(times)
    found = np.unique(labels)
    print(f"{frames} frames, maps {maps.shape}, {len(found)} classes in the last one")
    for step, median in zip(STEPS, np.median(seconds, axis=0) * 1e3, strict=True):
        print(f"{step}: median {median:.2f} ms")
    if output:
        picture = np.ascontiguousarray(drawn[..., ::-1])
        Path(output).write_bytes(b"P6 %d %d 255\n" % (WIDTH, HEIGHT) + picture.tobytes())
        print(f"wrote {output}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--threads", type=int, help="by default roicy.get_num_threads()")
    parser.add_argument("--model", help="an ONNX file; by default maps are made of colours")
    parser.add_argument("--output", help="write the last frame with its labels to this .ppm file")
    options = parser.parse_args()
    run(options.frames, options.threads, options.model, options.output)


if __name__ == "__main__":
    main()
