"""Make what the image processors of transformers make, with roicy.resize: equal pixel_values.

    python examples/image_processors.py                       # 0 numbers should differ
    python examples/image_processors.py --calls 20 --threads 2

It compares with transformers, if it is installed: with its processors of Pillow, which are those
without a "Fast" in older versions, and in time with those of torchvision, too.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import roicy

CLIP = {
    "mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711),
    "scale": 1 / 255,
}  # fmt: skip
HALVES = {"mean": 0.5, "std": 0.5, "scale": 1 / 255}
SIZES = [(1080, 1920), (3024, 4032), (768, 1024), (480, 360)]


def clip(picture: np.ndarray, size: int = 224) -> np.ndarray:
    """The shorter side becomes `size` pixels, and the middle is kept."""
    height, width = picture.shape[:2]
    short = min(height, width)
    resized = int(size * height / short), int(size * width / short)
    top, left = (resized[0] - size) // 2, (resized[1] - size) // 2
    return roicy.resize(picture, size, content=(-top, -left, *resized), **CLIP)


def siglip(picture: np.ndarray, size: int = 224) -> np.ndarray:
    return roicy.resize(picture, size, **HALVES)


def vit(picture: np.ndarray, size: int = 224) -> np.ndarray:
    return roicy.resize(picture, size, filter="bilinear", **HALVES)


def smart_resize(
    height: int, width: int, unit: int = 28, least: int = 56 * 56, most: int = 28 * 28 * 1280
) -> tuple[int, int]:
    """Return a size of nearly the same aspect, of whole units, with at least and at most so many
    pixels.
    """
    rows, columns = round(height / unit), round(width / unit)
    if rows * columns * unit**2 > most:
        by = math.sqrt(height * width / most) * unit
        rows, columns = max(1, math.floor(height / by)), max(1, math.floor(width / by))
    elif rows * columns * unit**2 < least:
        by = math.sqrt(least / (height * width)) / unit
        rows, columns = math.ceil(height * by), math.ceil(width * by)
    return rows * unit, columns * unit


def qwen2_vl(picture: np.ndarray) -> np.ndarray:
    """Patches of 14 pixels, 2 x 2 of which are merged, of a video of two equal frames."""
    size = smart_resize(*picture.shape[:2])
    return roicy.resize(picture, size, patch=14, merge=2, repeat=2, **CLIP)[0]


PROCESSORS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str, str]] = {
    "CLIP": (clip, "clip", "CLIPImageProcessor"),
    "SigLIP": (siglip, "siglip", "SiglipImageProcessor"),
    "ViT": (vit, "vit", "ViTImageProcessor"),
    "Qwen2-VL": (qwen2_vl, "qwen2_vl", "Qwen2VLImageProcessor"),
}


def photograph(height: int, width: int) -> np.ndarray:
    """Return soft shapes with some noise, (H, W, 3)."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    shapes = [np.sin(x / a) * np.cos(y / b) for a, b in ((90, 70), (33, 50), (11, 9))]
    picture = 128 + 80 * np.stack(shapes, axis=-1) + rng.normal(0, 12, (height, width, 3))
    return np.clip(picture, 0, 255).astype(np.uint8)


def least(calls: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """Return the least of many times of each call, in ms; they take turns."""
    found = dict.fromkeys(calls, math.inf)
    for _ in range(times):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            found[name] = min(found[name], 1e3 * (time.perf_counter() - start))
    return found


def theirs(folder: str, name: str) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Return the processors of transformers: that of Pillow, and if there is one of torchvision."""
    package = f"transformers.models.{folder}.image_processing"
    try:
        pillow = getattr(importlib.import_module(f"{package}_pil_{folder}"), name + "Pil")()
        others = {"torchvision": getattr(importlib.import_module(f"{package}_{folder}"), name)()}
    except ImportError:  # before version 5
        pillow, others = getattr(importlib.import_module(f"{package}_{folder}"), name)(), {}
    return {
        key: lambda picture, one=one: np.asarray(one(picture, return_tensors="pt")["pixel_values"])
        for key, one in {"Pillow": pillow, **others}.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=0, help="calls that are timed")
    parser.add_argument("--threads", type=int, default=1, help="of roicy and of torch")
    options = parser.parse_args()
    roicy.set_num_threads(options.threads)
    pictures = [photograph(*size) for size in SIZES]
    for name, (ours, folder, processor) in PROCESSORS.items():
        try:
            others = theirs(folder, processor)
        except ImportError:
            others = {}
        if "torchvision" in others:
            import torch

            torch.set_num_threads(options.threads)
        for picture in pictures:
            result = ours(picture)
            height, width = picture.shape[:2]
            said = f"{name}, {height} x {width}: {result.shape}"
            if others:
                differ = np.count_nonzero(others["Pillow"](picture) != result)
                said += f", {differ} numbers differ from Pillow's"
            if options.calls:
                calls = {"roicy": ours, **others}
                took = least({k: partial(f, picture) for k, f in calls.items()}, options.calls)
                said += "".join(f", {key} {value:.1f} ms" for key, value in took.items())
            print(said, flush=True)


if __name__ == "__main__":
    main()
