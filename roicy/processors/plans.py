"""What image processors do with one picture, as calls of :func:`roicy.resize`.

A plan is made from the settings of a processor, the height, the width and the channels of a
picture.  The calls before the last ones make bytes, of which the next call reads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from . import sizes
from .sizes import Size

Settings = Any  # the keys of a config as attributes, and `torch`: whose numbers are made


class Call(NamedTuple):
    """A call of :func:`roicy.resize`, without what all of a processor have in common."""

    size: Size
    options: Mapping[str, Any] = MappingProxyType({})


class Plan(NamedTuple):
    """What becomes of a picture."""

    shape: tuple[int, ...]  # of its part of pixel_values
    calls: tuple[Call, ...]  # that make it
    facts: Mapping[str, Any] = MappingProxyType({})  # of a picture, which belong to its part
    before: tuple[Call, ...] = ()  # that make bytes first
    whole: Call | None = None  # that makes the first part, of the picture itself
    at: Size = (0, 0)  # where in its part the result lies
    turned: bool = False  # by a quarter, clockwise
    patch: int = 0  # rows of patches that lie side by side


def _pair(c: Settings, value: dict[str, int], name: str) -> Size:
    """Return height and width of a size."""
    if not value or not value.get("height") or not value.get("width"):
        raise ValueError(f"{name}: {value!r}, expected height and width for {c.name}")
    return value["height"], value["width"]


def _resized(c: Settings, height: int, width: int) -> Size:
    """Return the size to which most classes resize a picture; YOLOS wants multiples of 16."""
    size = c.size or {}
    if not c.do_resize:
        return height, width
    if size.get("shortest_edge") and size.get("longest_edge"):
        multiple = 16 if c.name == "YolosImageProcessor" else 0
        edges = size["shortest_edge"], size["longest_edge"]
        return sizes.two_edges(height, width, *edges, multiple)
    if size.get("shortest_edge"):
        return sizes.shortest_edge(height, width, size["shortest_edge"])
    if size.get("max_height") and size.get("max_width"):
        return sizes.within(height, width, (size["max_height"], size["max_width"]))
    return _pair(c, size, "size")


def _middle(c: Settings, inner: Size, outer: Size) -> Call:
    """Return the call that shows the middle of a resized picture; what it lacks is 0.

    Where an odd number of pixels lacks, torchvision's classes begin a pixel earlier.
    """
    place = [
        (want - have) // 2 if c.torch and have < want else -((have - want) // 2)
        for have, want in zip(inner, outer, strict=True)
    ]
    content = (*place, *inner)
    return Call(outer, {} if content == (0, 0, *outer) else {"content": content})


def _framed(c: Settings, height: int, width: int, resized: Size) -> Call:
    """Return the call that resizes a picture, and cuts its middle out if the config says so."""
    if not c.do_center_crop:
        return Call(resized)
    return _middle(c, resized, _pair(c, c.crop_size, "crop_size"))


def _chain(height: int, width: int, steps: list[Size]) -> tuple[Size, tuple[Call, ...]]:
    """Return the last of some sizes, and calls for those before; steps that do nothing fall out."""
    kept = [(height, width)]
    for size in steps:
        if size != kept[-1]:
            kept.append(size)
    return kept[-1], tuple(Call(size) for size in kept[1:-1])


def plain(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Resize, cut the middle out."""
    call = _framed(c, height, width, _resized(c, height, width))
    return Plan((channels, *call.size), (call,))


def convnext(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Below 384 pixels, resize to more, and cut the middle out."""
    edge = c.size.get("shortest_edge")
    if not edge:
        raise ValueError(f"size: {c.size!r}, expected a shortest_edge for {c.name}")
    call = Call((height, width))
    if c.do_resize and edge < 384:
        resized = sizes.shortest_edge(height, width, int(edge / c.crop_pct))
        call = _middle(c, resized, (edge, edge))
    elif c.do_resize:
        call = Call((edge, edge))
    return Plan((channels, *call.size), (call,))


def dpt(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Resize to multiples, and pad to others."""
    size = height, width
    if c.do_resize:
        given = _pair(c, c.size, "size")
        size = sizes.multiples(height, width, given, c.ensure_multiple_of, c.keep_aspect_ratio)
    call = _framed(c, height, width, size)
    if not c.do_pad or not c.size_divisor:
        return Plan((channels, *call.size), (call,))
    whole = [math.ceil(side / c.size_divisor) * c.size_divisor for side in call.size]
    at = (whole[0] - call.size[0]) // 2, (whole[1] - call.size[1]) // 2
    return Plan((channels, *whole), (call,), at=at)


def detector(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Resize so that the longer side is no longer than it may be."""
    size = c.size or {}
    if set(size) == {"shortest_edge"}:
        raise ValueError(f"size: {size!r}, expected a longest_edge beside it for {c.name}")
    resized = _resized(c, height, width)
    by = getattr(c, "size_divisor", None)
    if c.do_resize and by:
        resized = math.ceil(resized[0] / by) * by, math.ceil(resized[1] / by) * by
    return Plan((channels, *resized), (Call(resized),))


def sam(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Resize the longer side."""
    size = height, width
    if c.do_resize:
        if not c.size or not c.size.get("longest_edge"):
            raise ValueError(f"size: {c.size!r}, expected a longest_edge for {c.name}")
        size = sizes.longest_edge(height, width, c.size["longest_edge"])
    facts = {"original_sizes": (height, width), "reshaped_input_sizes": size}
    call = _framed(c, height, width, size)
    return Plan((channels, *call.size), (call,), facts)


def pixtral(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Resize to whole patches, if it is too large."""
    size, edge = (height, width), (c.size or {}).get("longest_edge")
    patch = _pair(c, c.patch_size, "patch_size")
    if c.do_resize:
        most = (edge, edge) if edge else _pair(c, c.size, "size")
        size = sizes.pixtral(height, width, most, patch)
    call = _framed(c, height, width, size)
    facts = {"image_sizes": size if c.torch else call.size}  # before or after the crop
    return Plan((channels, *call.size), (call,), facts)


def donut(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Turn, resize the shorter side, resize so that it fits, and pad."""
    size = _pair(c, c.size, "size")
    turned = c.do_align_long_axis and (
        (size[1] < size[0] and width > height) or (size[1] > size[0] and width < height)
    )
    if turned and c.torch and min(height, width) == 1:
        raise ValueError(
            f"pictures: one of {height} x {width} pixels, which torchvision misreads when it is "
            "turned, expected more"
        )
    if turned:
        height, width = width, height
    steps, now = [], (height, width)
    if c.do_resize:
        now = sizes.shortest_edge(*now, min(size))
        steps.append(now)
    fits = [min(now[0], size[0]), min(now[1], size[1])]
    if c.do_thumbnail and fits != list(now):
        if now[0] > now[1]:
            fits[1] = int(now[1] * fits[0] / now[0])
        elif now[1] > now[0]:
            fits[0] = int(now[0] * fits[1] / now[1])
        now = fits[0], fits[1]
        steps.append(now)
    last, before = _chain(height, width, steps)
    call = Call(last)
    if c.do_pad:
        content = ((size[0] - last[0]) // 2, (size[1] - last[1]) // 2, *last)
        call = Call(size, {} if content == (0, 0, *size) else {"content": content})
    return Plan((channels, *call.size), (call,), before=before, turned=turned)


def _square(c: Settings, height: int, width: int) -> dict[str, Any]:
    """Return the options that show a picture in the middle of a square of its mean colour."""
    mean = c.image_mean if isinstance(c.image_mean, (list, tuple)) else [-1]
    colour = tuple(int(number * 255) for number in mean)
    if not 0 <= min(colour) <= max(colour) <= 255:
        raise ValueError(f"image_mean: {c.image_mean!r}, expected a colour from 0 to 1 a channel")
    side = max(height, width)
    top, left = (side - height) // 2, (side - width) // 2
    box = (-left, -top, side - left, side - top)
    return {"boxes": [box], "border": "constant", "pad_value": colour}


def llava(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Pad to a square, resize, cut the middle out."""
    if not c.do_pad or height == width:
        return plain(c, height, width, channels)
    side, options = max(height, width), _square(c, height, width)
    call = _framed(c, side, side, _resized(c, side, side))
    inner = call.options.get("content", (0, 0, *call.size))
    if inner[2] < call.size[0] or inner[3] < call.size[1]:  # pixels that lack are 0
        return Plan((channels, *call.size), (call,), before=(Call((side, side), options),))
    return Plan((channels, *call.size), (Call(call.size, {**call.options, **options}),))


def llava_next(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Tiles of the grid that fits best, after the whole picture."""
    edge = c.size.get("shortest_edge")
    shown = (edge, edge) if edge else _pair(c, c.size, "size")
    side = (c.crop_size or {}).get("height") or shown[0]
    facts = {"image_sizes": (height, width)}
    if _resized(c, *shown) != shown and c.do_resize:
        raise ValueError(f"size: {c.size!r}, expected a shortest_edge, or height and width")
    if getattr(c, "several", False) and c.name == "LlavaOnevisionImageProcessor":
        # which shows each of several pictures of a sample once
        if c.do_center_crop:
            raise ValueError("do_center_crop: True, expected False for several pictures")
        wide = max(height, width)
        size = _resized(c, wide, wide)
        options = {} if height == width else _square(c, height, width)
        return Plan((1, channels, *size), (Call(size, options),), facts)
    grid = sizes.best_grid(height, width, c.image_grid_pinpoints)
    inner = sizes.inside(height, width, grid)
    place = (grid[0] - inner[0]) // 2, (grid[1] - inner[1]) // 2
    options = {} if inner == grid else {"content": (*place, *inner)}

    def shows(height: int, width: int) -> Call:
        return _framed(c, height, width, _resized(c, height, width))

    whole, tile, calls = shows(*shown), Call((side, side)), []
    if whole == shows(side, side) == tile and not (grid[0] % side or grid[1] % side):
        rows, columns = grid[0] // side, grid[1] // side
        call = Call(tile.size, {**options, "tiles": (rows, columns), "overview": "first"})
        return Plan((rows * columns + 1, channels, *tile.size), (call,), facts)
    # Other tiles, also those that are left at the ends of a grid, are resized once more.
    for top, left in itertools.product(range(0, grid[0], side), range(0, grid[1], side)):
        box = left, top, min(left + side, grid[1]), min(top + side, grid[0])
        call = shows(box[3] - top, box[2] - left)
        calls.append(Call(call.size, {**call.options, "boxes": [box], "border": "crop"}))
    if {call.size for call in calls} != {whole.size}:
        raise ValueError(
            f"image_grid_pinpoints: {grid}, of which tiles of {side} pixels differ in size, "
            "expected multiples, or do_center_crop and crop_size"
        )
    shape = len(calls) + 1, channels, *whole.size
    return Plan(shape, tuple(calls), facts, (Call(grid, options),), whole)


def got_ocr2(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Tiles of nearly the aspect of the picture, and the whole picture last."""
    tile = _pair(c, c.size, "size")
    grid, cut = (1, 1), c.crop_to_patches and (c.torch or c.max_patches > 1)
    if cut:
        grid = sizes.canvas(height, width, tile, c.min_patches, c.max_patches)
    count = grid[0] * grid[1] + (grid != (1, 1))
    size = tile if c.do_resize or cut else (height, width)
    options = {} if count == 1 else {"tiles": grid, "overview": "last"}
    return Plan((count, channels, *size), (Call(size, options),), {"num_patches": count})


def gemma3(c: Settings, height: int, width: int, channels: int) -> Plan:
    """The whole picture, and parts of one that is much longer than wide."""
    size = _resized(c, height, width)
    boxes: list[tuple[int, ...]] = []
    if c.do_pan_and_scan and not (c.do_resize or c.torch):
        raise ValueError(f"do_resize: False, expected True beside do_pan_and_scan for {c.name}")
    if c.do_pan_and_scan:
        size = _pair(c, c.size, "size")
        rule = (
            c.pan_and_scan_min_crop_size, c.pan_and_scan_max_num_crops,
            c.pan_and_scan_min_ratio_to_activate,
        )  # fmt: skip
        boxes = sizes.scanned(height, width, rule)
    options = {"boxes": [(0, 0, width, height), *boxes], "border": "crop"} if boxes else {}
    shape = len(boxes) + 1, channels, *size
    return Plan(shape, (Call(size, options),), {"num_crops": len(boxes)})


def idefics3(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Resize the longer side, resize to whole tiles, and show these and the whole of them."""
    side, steps, now = c.max_image_size["longest_edge"], [], (height, width)
    if c.do_resize:
        edge = (c.size or {}).get("longest_edge")
        now = sizes.even_edges(*now, edge) if edge else _pair(c, c.size, "size")
        steps.append(now)
    steps.append(sizes.whole_tiles(*now, side) if c.do_image_splitting else (side, side))
    whole, before = _chain(height, width, steps)
    rows, columns = whole[0] // side, whole[1] // side
    if (rows, columns) == (1, 1):
        facts = {"rows": 0, "cols": 0}
        return Plan((1, channels, side, side), (Call((side, side)),), facts, before)
    # The overview is made of the bytes of the tiles, so these are made first.
    if whole != (before[-1].size if before else (height, width)):
        before = (*before, Call(whole))
    call = Call((side, side), {"tiles": (rows, columns), "overview": "last"})
    facts = {"rows": rows, "cols": columns}
    return Plan((rows * columns + 1, channels, side, side), (call,), facts, before)


def qwen2_vl(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Patches, of which some are merged, of two equal frames."""
    patch, merge, size = c.patch_size, c.merge_size, (height, width)
    if c.do_resize:
        least, most = (c.size or {}).get("shortest_edge"), (c.size or {}).get("longest_edge")
        if not least or not most:
            raise ValueError(f"size: {c.size!r}, expected shortest_edge and longest_edge")
        size = sizes.smart(height, width, patch * merge, least, most)
    grid = size[0] // patch, size[1] // patch
    options = {"patch": patch, "merge": merge, "repeat": c.temporal_patch_size}
    shape = grid[0] * grid[1], channels * c.temporal_patch_size * patch**2
    return Plan(shape, (Call(size, options),), {"image_grid_thw": (1, *grid)})


def siglip2(c: Settings, height: int, width: int, channels: int) -> Plan:
    """Patches whose pixels lie together, as many as fit."""
    patch, size = c.patch_size, (height, width)
    if c.do_resize:
        size = sizes.most_patches(height, width, patch, c.max_num_patches)
    grid = size[0] // patch, size[1] // patch
    call = Call(size, {"patch": patch, "channels": "last"})
    shape = grid[0] * grid[1], channels * patch**2
    return Plan(shape, (call,), {"spatial_shapes": grid})


def minicpm(c: Settings, height: int, width: int, channels: int) -> Plan:
    """The whole picture, and slices of a large one."""
    if not c.do_resize:
        raise ValueError(f"do_resize: False, expected True for {c.name}")
    side, patch = c.scale_resolution, c.patch_size
    unit = patch * (2 if c.downsample_mode == "4x" else 4)
    grid = sizes.slices(height, width, c.max_slice_nums, side) if c.slice_mode else None
    source = sizes.minicpm(height, width, side, unit, grid is None)
    calls, targets = [Call(source)], [source]
    if grid is not None:
        whole = sizes.refined(height, width, grid, side, unit)
        slice = whole[0] // grid[0], whole[1] // grid[1]
        calls.append(Call(slice, {"tiles": grid}))
        targets += [slice] * (grid[0] * grid[1])
    columns = sum(target[0] * target[1] for target in targets) // patch
    facts = {
        "target_sizes": [(target[0] // patch, target[1] // patch) for target in targets],
        "grids": list(grid or (0, 0)), "num_patches_per_image": len(targets),
    }  # fmt: skip
    return Plan((channels, patch, columns), tuple(calls), facts, patch=patch)


def in_columns(picture: Any, patch: int) -> Any:
    """Return the rows of patches of a picture (C, h, w) side by side, (C, patch, columns)."""
    channels, height, width = picture.shape[-3:]
    split = picture.reshape(-1, channels, height // patch, patch, width)
    return split.transpose(1, 3, 0, 2, 4).reshape(channels, patch, -1)
