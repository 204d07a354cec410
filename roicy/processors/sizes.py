"""How large the image processors of transformers make a picture.

All sizes are (height, width).  Sums and roundings are in the order of transformers 5.24, since a
size that differs by a pixel changes all numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

Size = tuple[int, int]
LARGEST = 4096  # a side of what Idefics3 resizes


def shortest_edge(height: int, width: int, edge: int) -> Size:
    """Return the size whose shorter side is `edge`."""
    longer = int(edge * max(height, width) / min(height, width))
    return (longer, edge) if width <= height else (edge, longer)


def two_edges(height: int, width: int, edge: int, most: int, multiple: int = 0) -> Size:
    """Return the size whose shorter side is `edge`, unless the longer one exceeds `most` then.

    multiple: of which YOLOS wants both sides.
    """
    short, long, exact = float(min(height, width)), float(max(height, width)), None
    if long / short * edge > most:
        exact = most * short / long
        edge = round(exact)
    by = edge if exact is None else exact
    kept = (height <= width and height == edge) or (width <= height and width == edge)
    if kept and not (multiple and width < height):
        size = height, width
    elif width < height:
        size = int(by * height / width), edge
    else:
        size = edge, int(by * width / height)
    return (size[0] - size[0] % multiple, size[1] - size[1] % multiple) if multiple else size


def within(height: int, width: int, most: Size) -> Size:
    """Return the largest size of the same aspect that fits."""
    by = min(most[0] / height, most[1] / width)
    return int(height * by), int(width * by)


def longest_edge(height: int, width: int, edge: int) -> Size:
    """Return SAM's size, whose longer side is `edge`."""
    by = edge * 1.0 / max(height, width)
    return int(height * by + 0.5), int(width * by + 0.5)


def even_edges(height: int, width: int, edge: int) -> Size:
    """Return the size of Idefics3, whose longer side is `edge`, and the other one is even."""
    aspect = width / height
    if width >= height:
        height, width = int(edge / aspect), edge
        height += height % 2
    else:
        height, width = edge, int(edge * aspect)
        width += width % 2
    height, width = max(height, 1), max(width, 1)
    aspect = width / height
    if width >= height and width > LARGEST:
        height, width = int(LARGEST / aspect), LARGEST
    elif height > width and height > LARGEST:
        height, width = LARGEST, int(LARGEST * aspect)
    return max(height, 1), max(width, 1)


def whole_tiles(height: int, width: int, side: int) -> Size:
    """Return the size in whole tiles to which Idefics3 resizes a picture again."""
    aspect = width / height
    if width >= height:
        width = math.ceil(width / side) * side
        return math.ceil(int(width / aspect) / side) * side, width
    height = math.ceil(height / side) * side
    return height, math.ceil(int(height * aspect) / side) * side


def smart(height: int, width: int, unit: int, least: int, most: int) -> Size:
    """Return Qwen2-VL's size: whole units, and from `least` to `most` pixels."""
    if max(height, width) / min(height, width) > 200:
        raise ValueError(
            f"pictures: one of {height} x {width} pixels, expected sides whose ratio is at most 200"
        )
    rows, columns = round(height / unit) * unit, round(width / unit) * unit
    if rows * columns > most:
        by = math.sqrt((height * width) / most)
        rows = max(unit, math.floor(height / by / unit) * unit)
        columns = max(unit, math.floor(width / by / unit) * unit)
    elif rows * columns < least:
        by = math.sqrt(least / (height * width))
        rows, columns = math.ceil(height * by / unit) * unit, math.ceil(width * by / unit) * unit
    return rows, columns


@functools.lru_cache(64)
def most_patches(height: int, width: int, patch: int, most: int) -> Size:
    """Return SigLIP 2's size: the largest scale with at most so many patches, by bisection."""
    precision = 1e-5

    def scaled(by: float, side: int) -> int:
        return int(max(patch, math.ceil(side * by / patch) * patch))

    low, high = precision / 10, 100.0
    while high - low >= precision:
        middle = (low + high) / 2
        if (scaled(middle, height) / patch) * (scaled(middle, width) / patch) <= most:
            low = middle
        else:
            high = middle
    return scaled(low, height), scaled(low, width)


def pixtral(height: int, width: int, most: Size, patch: Size) -> Size:
    """Return Pixtral's size: no more than `most`, in whole patches."""
    ratio = max(height / most[0], width / most[1])
    if ratio > 1:
        height, width = math.floor(height / ratio), math.floor(width / ratio)
    return ((height - 1) // patch[0] + 1) * patch[0], ((width - 1) // patch[1] + 1) * patch[1]


def multiples(height: int, width: int, size: Size, multiple: int, keep: bool) -> Size:
    """Return DPT's size: multiples near `size`, or of the same aspect if `keep` says so."""
    down, across = size[0] / height, size[1] / width
    if keep:
        down = across = across if abs(1 - across) < abs(1 - down) else down

    def nearest(side: float) -> int:
        return round(side / multiple) * multiple

    return nearest(down * height), nearest(across * width)


def best_grid(height: int, width: int, sizes: Sequence[Sequence[int]]) -> Size:
    """Return the size of a grid of LLaVA-NeXT that shows most of a picture, and wastes least."""
    best, most, least = None, 0, math.inf
    for down, across in sizes:
        by = min(across / width, down / height)
        shown = min(int(width * by) * int(height * by), width * height)
        wasted = down * across - shown
        if shown > most or (shown == most and wasted < least):
            best, most, least = (down, across), shown, wasted
    if best is None:
        raise ValueError(
            f"pictures: one of {height} x {width} pixels, of which no grid of image_grid_pinpoints "
            "shows anything"
        )
    return best


def inside(height: int, width: int, grid: Size) -> Size:
    """Return the size of a picture that keeps its aspect in a grid, rounded up."""
    across, down = grid[1] / width, grid[0] / height
    if across < down:
        return min(math.ceil(height * across), grid[0]), grid[1]
    return grid[0], min(math.ceil(width * down), grid[1])


@functools.lru_cache(64)
def canvas(height: int, width: int, tile: Size, least: int, most: int) -> Size:
    """Return the rows and columns of tiles whose aspect is nearest to that of a picture.

    Of two that are as near, more tiles are taken, unless these have over twice its area.
    """
    grids = [
        (across, down)
        for across in range(1, most + 1)
        for down in range(1, most // across + 1)
        if least <= across * down
    ]
    best, nearest = (1, 1), math.inf
    for across, down in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        differs = abs(width / height - across / down)
        tie = differs == nearest and width * height > 0.5 * tile[0] * tile[1] * across * down
        if differs < nearest or tie:
            best, nearest = (across, down), differs
    return best[1], best[0]


def slices(height: int, width: int, most: int, side: int) -> Size | None:
    """Return the rows and columns of MiniCPM-V's slices, or None for a small picture."""
    count = min(math.ceil(width * height / (side * side)), most)
    if count <= 1:
        return None
    best, least, aspect = (1, 1), math.inf, math.log(width / height)
    for number in (count - 1, count, count + 1):
        if number == 1 or number > most:
            continue
        for rows in range(1, number + 1):
            if number % rows == 0:
                error = abs(aspect - math.log(number // rows / rows))
                if error < least or (error == least and rows > best[0]):
                    best, least = (rows, number // rows), error
    return best


def _units(length: float, unit: int) -> int:
    return max(round(length / unit) * unit, unit)


def minicpm(height: float, width: float, side: int, unit: int, grow: bool) -> Size:
    """Return MiniCPM-V's size: about side * side pixels, in whole units; smaller ones may grow."""
    if height * width > side * side or grow:
        aspect = width / height
        height = int(side / math.sqrt(aspect))
        width = int(height * aspect)
    return _units(height, unit), _units(width, unit)


def refined(height: int, width: int, grid: Size, side: int, unit: int) -> Size:
    """Return the size of MiniCPM-V's slices together."""
    down, across = _units(height, grid[0]), _units(width, grid[1])
    size = minicpm(down / grid[0], across / grid[1], side, unit, True)
    return size[0] * grid[0], size[1] * grid[1]


def scanned(height: int, width: int, rule: tuple[int, int, float]) -> list[tuple[int, ...]]:
    """Return the boxes of Gemma 3's pan and scan, which follow each other along the longer side.

    rule: the least side of one, the most of them, and the least ratio of sides.
    """
    least, most, ratio = rule
    long, short = max(height, width), min(height, width)
    if long / short < ratio:
        return []
    count = max(2, min(math.floor(long / least), math.floor(long / short + 0.5)))
    count = min(most, count)
    side = math.ceil(long / count)
    if min(side, short) < least:
        return []
    ends = [(side * i, min(side * (i + 1), long)) for i in range(count)]
    if width >= height:
        return [(low, 0, high, height) for low, high in ends]
    return [(0, low, width, high) for low, high in ends]
