"""Configs of image processors: read, and checked key by key."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from .._checks import _arguments
from . import table

SIZES = (
    {"height", "width"}, {"shortest_edge"}, {"shortest_edge", "longest_edge"}, {"longest_edge"},
    {"max_height", "max_width"},
)  # fmt: skip
MOST = 1 << 31  # pixels of a side, or together
COUNTS = ("max_pixels", "max_size", "min_pixels", "size_divisor")  # whose default may be null
PAN_AND_SCAN = (
    "pan_and_scan_min_crop_size", "pan_and_scan_max_num_crops", "pan_and_scan_min_ratio_to_activate"
)  # fmt: skip


def read(config: Any) -> dict[str, Any]:
    """Return what is in a config; of a processor's the image processor's."""
    if isinstance(config, (str, os.PathLike)):
        path, processor = os.fspath(config), {}
        if os.path.isdir(path):  # a processor's config comes first, if it has that
            folder, path = path, os.path.join(path, "preprocessor_config.json")
            if os.path.exists(other := os.path.join(folder, "processor_config.json")):
                processor = _loaded(other)
        config = processor if "image_processor" in processor else _loaded(path)
    if isinstance(config, dict) and isinstance(config.get("image_processor"), dict):
        config = config["image_processor"]
    if not isinstance(config, dict):
        raise TypeError(f"config: {config!r}, expected a path or a dict")
    from copy import deepcopy  # which an import of roicy must not wait for

    return deepcopy(config)  # since a caller may change it


def _loaded(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def name_of(config: dict[str, Any]) -> str:
    """Return the class of a config, by its name in version 5 of transformers."""
    name = config.get("image_processor_type") or config.get("feature_extractor_type")
    short = str(name).replace("FeatureExtractor", "ImageProcessor")
    short = short.removesuffix("Fast").removesuffix("Pil")
    if short not in table.ROWS:
        why = f", which {table.REFUSED[short]}" if short in table.REFUSED else ""
        raise ValueError(
            f"image_processor_type: {name!r}{why}, expected one of {', '.join(table.ROWS)}"
        )
    return short


def standard(name: str, settings: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return settings whose sizes are dicts, as transformers makes them."""
    defaults = table.ROWS[name].defaults
    _check(settings, defaults)
    if settings["do_center_crop"] and name in ("ConvNextImageProcessor", "DonutImageProcessor"):
        raise ValueError(f"do_center_crop: True, expected False for {name}")
    most, size = settings.pop("max_size", None), settings["size"]
    if name == "DonutImageProcessor" and isinstance(size, (list, tuple)):
        size = size[::-1]
    for key, pixels in (("shortest_edge", "min_pixels"), ("longest_edge", "max_pixels")):
        if settings.get(pixels) is not None:
            if not isinstance(size, dict):
                raise ValueError(f"size: {size!r}, expected a dict beside {pixels}")
            size = {k: v for k, v in size.items() if k != pixels} | {key: settings[pixels]}
    if settings.get("use_square_size"):
        size = 224
        settings["default_to_square"] = True
    if given.get("size") is None and "size_divisor" in settings and most:
        size = size | {"longest_edge": most}
    square = settings["default_to_square"] and "max_size" not in defaults
    settings["size"] = _size("size", size, square, most)
    for key, default in defaults.items():
        if key in ("crop_size", "pad_size") or (isinstance(default, dict) and key != "size"):
            settings[key] = _size(key, settings[key], True, None)
    tiles = settings.get("max_image_size", {"longest_edge": 1})
    if "longest_edge" not in tiles:
        raise ValueError(f"max_image_size: {tiles!r}, expected a dict with longest_edge")
    return settings


def _size(name: str, value: Any, square: bool, most: int | None) -> dict[str, int] | None:
    if isinstance(value, int) and not isinstance(value, bool):
        edges = {"shortest_edge": value} | ({"longest_edge": most} if most else {})
        value = {"height": value, "width": value} if square else edges
    elif isinstance(value, (list, tuple)) and len(value) == 2:
        value = {"height": value[0], "width": value[1]}
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) not in SIZES:
        expected = ", or ".join(" and ".join(sorted(keys)) for keys in SIZES)
        raise ValueError(f"{name}: {value!r}, expected a dict with {expected}")
    for key, side in value.items():
        _arguments.integer(f"{name}[{key!r}]", side, 1, MOST)
    return value


def _check(settings: dict[str, Any], defaults: dict[str, Any]) -> None:
    """Check flags, numbers and lists by what their defaults are."""
    given = {key: value for key, value in settings.items() if value is not None}
    if given.get("do_pan_and_scan"):
        for key in PAN_AND_SCAN:
            if key not in given:
                raise ValueError(f"{key}: None, expected a number, since do_pan_and_scan is set")
    for key, value in given.items():
        if key.startswith("do_") or isinstance(defaults[key], bool):
            _arguments.flag(key, value)
        elif isinstance(defaults[key], float) or key == PAN_AND_SCAN[2]:
            _arguments.scale(value, key)
        elif isinstance(defaults[key], int) or key in (*COUNTS, *PAN_AND_SCAN):
            _arguments.integer(key, value, int(key not in ("resample", "size_divisor")), MOST)
    _arguments.choice("downsample_mode", given.get("downsample_mode", "16x"), ("4x", "16x"))
    for key in ("image_mean", "image_std"):
        listed = isinstance(settings[key], (list, tuple))
        for i, value in enumerate(settings[key] if listed else [settings[key]]):
            one = f"{key}[{i}]" if listed else key
            if not math.isfinite(_arguments.number(one, value)):
                raise ValueError(f"{one}: {value!r}, expected a finite number")
    grids = given.get("image_grid_pinpoints", [])
    if not isinstance(grids, (list, tuple)) or not all(
        isinstance(one, (list, tuple)) and len(one) == 2 for one in grids
    ):
        raise ValueError(f"image_grid_pinpoints: {grids!r}, expected a list of [height, width]")
    for i, grid in enumerate(grids):
        for side in grid:
            _arguments.integer(f"image_grid_pinpoints[{i}]", side, 1, MOST)
