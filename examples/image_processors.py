"""Make what an image processor of transformers makes, with roicy.ImageProcessor, and compare.

    python examples/image_processors.py                        # some networks: 0 should differ
    python examples/image_processors.py preprocessor_config.json
    python examples/image_processors.py --calls 20 --threads 1 # times, too

It compares with transformers 5 and its two backends, if they are installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import roicy

# What the configs of some checkpoints say beside their class
CONFIGS: dict[str, dict[str, Any]] = {
    "CLIP": {"image_processor_type": "CLIPImageProcessor", "size": 336, "crop_size": 336},
    "SigLIP": {
        "image_processor_type": "SiglipImageProcessor", "size": {"height": 384, "width": 384},
    },
    "SigLIP 2": {"image_processor_type": "Siglip2ImageProcessor"},
    "ViT": {"image_processor_type": "ViTImageProcessor"},
    "DINOv2": {
        "image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256},
        "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
    },
    "ConvNeXt": {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 224}},
    "DETR": {"image_processor_type": "DetrImageProcessor"},
    "RT-DETR": {"image_processor_type": "RTDetrImageProcessor"},
    "SegFormer": {"image_processor_type": "SegformerImageProcessor"},
    "Mask2Former": {"image_processor_type": "Mask2FormerImageProcessor"},
    "SAM": {"image_processor_type": "SamImageProcessor"},
    "Depth Anything": {
        "image_processor_type": "DPTImageProcessor", "size": {"height": 518, "width": 518},
        "ensure_multiple_of": 14, "keep_aspect_ratio": True,
    },
    "Qwen2.5-VL": {
        "image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 12845056,
    },
    "Qwen3-VL": {
        "image_processor_type": "Qwen2VLImageProcessor", "patch_size": 16,
        "size": {"shortest_edge": 65536, "longest_edge": 16777216},
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    },
    "LLaVA 1.5": {
        "image_processor_type": "LlavaImageProcessor", "size": 336, "crop_size": 336,
        "do_pad": True,
    },
    "LLaVA-NeXT": {
        "image_processor_type": "LlavaNextImageProcessor", "size": 336, "crop_size": 336,
    },
    "LLaVA-OneVision": {"image_processor_type": "LlavaOnevisionImageProcessor"},
    "SmolVLM": {
        "image_processor_type": "SmolVLMImageProcessor", "size": {"longest_edge": 2048},
        "max_image_size": {"longest_edge": 512},
    },
    "InternVL": {
        "image_processor_type": "GotOcr2ImageProcessor", "size": {"height": 448, "width": 448},
        "crop_to_patches": True, "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    },
    "Pixtral": {"image_processor_type": "PixtralImageProcessor"},
    "Gemma 3": {
        "image_processor_type": "Gemma3ImageProcessor", "size": {"height": 896, "width": 896},
    },
    "MiniCPM-V 4.6": {"image_processor_type": "MiniCPMV4_6ImageProcessor"},
    "Donut": {
        "image_processor_type": "DonutImageProcessor", "size": {"height": 1280, "width": 960},
    },
}  # fmt: skip
BACKENDS = ("torchvision", "pil")
SIZES = [(1080, 1920), (3024, 4032), (768, 1024), (480, 360)]


def photograph(height: int, width: int) -> np.ndarray:
    """Return soft shapes with some noise, (H, W, 3)."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    shapes = [np.sin(x / a) * np.cos(y / b) for a, b in ((90, 70), (33, 50), (11, 9))]
    picture = 128 + 80 * np.stack(shapes, axis=-1) + rng.normal(0, 12, (height, width, 3))
    return np.clip(picture, 0, 255).astype(np.uint8)


def theirs(config: dict[str, Any], backend: str) -> Callable[[np.ndarray], Any] | None:
    """Return the image processor of transformers, if it is installed."""
    name = config["image_processor_type"].removesuffix("Fast") + "Pil" * (backend == "pil")
    try:
        auto = importlib.import_module("transformers.models.auto.image_processing_auto")
        made = auto.get_image_processor_class_from_name(name)(**config)
    except (AttributeError, ImportError, TypeError):
        return None
    return lambda picture: made(picture, return_tensors="np")


def differing(ours: dict[str, Any], others: Any) -> int:
    """Return how many numbers differ, of all arrays."""
    return sum(
        np.count_nonzero(np.asarray(others[key]) != np.asarray(value))
        for key, value in ours.items()
    )


def least(calls: list[Callable[[], object]], times: int) -> list[float]:
    """Return the least of many times of each call, in ms; they take turns."""
    found = [math.inf] * len(calls)
    for _ in range(times):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            found[i] = min(found[i], 1e3 * (time.perf_counter() - start))
    return found


def compare(name: str, config: dict[str, Any], picture: np.ndarray, calls: int) -> None:
    """Print how many numbers differ from each backend, and times."""
    height, width = picture.shape[:2]
    for backend in BACKENDS:
        ours = roicy.ImageProcessor.from_config(config, backend=backend)
        result = ours(picture)
        said = f"{name}, {height} x {width}, {backend}: {np.shape(result['pixel_values'])}"
        if (other := theirs(config, backend)) is not None:
            said += f", {differing(result, other(picture))} numbers differ"
        timed = [partial(one, picture) for one in (ours, other) if one is not None]
        if calls:
            took = least(timed, calls)
            said += f", {took[0]:.2f} ms"
            if other is not None:
                said += f", theirs {took[1]:.2f} ms, {took[1] / took[0]:.1f} times"
        print(said, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("configs", nargs="*", help="files; by default some networks")
    parser.add_argument("--calls", type=int, default=0, help="calls that are timed")
    parser.add_argument("--threads", type=int, default=1, help="of roicy and of PyTorch")
    options = parser.parse_args()
    roicy.set_num_threads(options.threads)
    try:
        importlib.import_module("torch").set_num_threads(options.threads)
    except ImportError:
        pass
    configs = CONFIGS
    if options.configs:
        configs = {path: json.load(open(path, encoding="utf-8")) for path in options.configs}
    for name, config in configs.items():
        for size in SIZES:
            compare(name, config, photograph(*size), options.calls)


if __name__ == "__main__":
    main()
