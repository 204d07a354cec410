"""
The demo: every operator on a photograph, beside its definition.

The definitions stand here once more, as dense NumPy: a box is pooled by a matrix for its rows
and one for its columns, and each rule is the few lines that make such a matrix.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import matplotlib.cbook
import matplotlib.image
import numpy as np

import roicy

from .timing import times

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

BINS = 7
SECONDS = 0.05  # in which a call is repeated
# x1, y1, x2, y2 on the photograph, in pixels
BOXES = {
    "face": (178, 118, 332, 322),
    "badge": (196, 18, 306, 106),
    "medals": (318, 474, 462, 540),
    "whole": (0, 0, 511, 599),
}
SHOWN = "face"  # the box that is pooled in the picture
STRIDE = 16  # of the picture that is pooled: coarse enough to see its pixels
DRAWN_BINS = 4  # in the picture
# operators of the picture
DRAWN = {
    "roi_pool": "largest pixel",
    "roi_align": "mean of samples",
    "prroi_pool": "exact mean",
}
INK, GREY, ACCENT, BAND = "#1b1f24", "#57606a", "#e4572e", "#2e86ab"


def hat(u):
    """The bilinear kernel."""
    return np.maximum(0, 1 - np.abs(u))


def area_left_of(u):
    """Its integral."""
    u = np.clip(u, -1, 1)
    return np.where(u <= 0, (1 + u) ** 2 / 2, 1 - (1 - u) ** 2 / 2)


def sample_positions(low, high, bins, ratio):
    """Where roi_align samples, (bins, samples)."""
    size = (high - low) / bins
    count = ratio if ratio > 0 else int(np.ceil(size))
    return low + size * (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / count)


def sampled(low, high, bins, extent, ratio=-1):
    """
    Rows: bins; columns: pixels; entries: the weight of the pixel in the mean of the bin's
    samples.
    """
    v = sample_positions(low, high, bins, ratio)
    inside = (v >= -1) & (v <= extent)
    weights = hat(np.clip(v, 0, extent - 1)[..., None] - np.arange(extent)) * inside[..., None]
    return weights.mean(axis=1)


def integrated(low, high, bins, extent):
    """Entries: the integral of the pixel's hat over the bin, by the bin's length."""
    ends = low + (high - low) / bins * np.arange(bins + 1)
    left_of = area_left_of(ends[:, None] - np.arange(extent))
    return np.diff(left_of, axis=0) / ((high - low) / bins)


def whole_pixels(low, high, bins, extent, inclusive):
    """Entries: whether the pixel is in the bin, from floor to ceil."""
    low, high = np.floor(low + 0.5), np.floor(high + 0.5)  # coordinates of the demo are positive
    # the type of the data decides where a bin ends
    size = np.float32(max(high - low + inclusive, 1)) / np.float32(bins)
    pixel, p = np.arange(extent), np.arange(bins, dtype=np.float32)[:, None]
    return (pixel >= np.floor(p * size) + low) & (pixel < np.ceil((p + 1) * size) + low)


def by_definition(name, x, box, scale):
    """Pool one box (PH = PW = BINS) of one image (C, H, W), as the table of the operators says."""
    x = x.astype(np.float64)
    x1, y1, x2, y2 = np.array(box, np.float64) * scale
    rows_and_columns = []
    for low, high, extent in ((y1, y2, x.shape[1]), (x1, x2, x.shape[2])):
        if name.endswith("align"):
            rows_and_columns.append(sampled(low - 0.5, high - 0.5, BINS, extent))
        elif name == "prroi_pool":
            rows_and_columns.append(integrated(low, high, BINS, extent))
        elif name == "ps_roi_pool":
            within = whole_pixels(low, high, BINS, extent - 1, 0).astype(float)
            rows_and_columns.append(
                np.pad(within / np.maximum(within.sum(axis=1, keepdims=True), 1), ((0, 0), (0, 1)))
            )
        else:
            rows_and_columns.append(whole_pixels(low, high, BINS, extent, 1))
    wy, wx = rows_and_columns
    if name == "roi_pool":
        return np.array(
            [
                [
                    [channel[np.ix_(rows, columns)].max(initial=-np.inf) for columns in wx]
                    for rows in wy
                ]
                for channel in x
            ]
        )
    if name.startswith("ps_"):
        maps = x.reshape(-1, BINS, BINS, *x.shape[1:])
        return np.einsum("py,cpqyx,qx->cpq", wy, maps, wx)
    return np.einsum("py,cyx,qx->cpq", wy, x, wx)


def photograph():
    """Return a photograph that comes with matplotlib: Grace Hopper, (3, 600, 512), from 0 to 1."""
    with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
        picture = matplotlib.image.imread(file, format="jpg")
    return np.ascontiguousarray(picture[:600, :512].transpose(2, 0, 1), np.float32) / 255


def shrink(picture, stride):
    """Mean of squares of stride x stride pixels."""
    c, h, w = picture.shape
    return picture.reshape(c, h // stride, stride, w // stride, stride).mean(axis=(2, 4))


def features(picture):
    """
    Feature maps at stride 4 of the kind that networks learn first: colours, their contrasts,
    and edges by direction.
    """
    small = shrink(picture, 4)
    dy, dx = np.gradient(small.mean(axis=0))
    directions = np.arange(8) * np.pi / 8
    edges = np.maximum(
        np.cos(directions)[:, None, None] * dx + np.sin(directions)[:, None, None] * dy, 0
    )
    contrasts = np.stack(
        [
            small[0] - small[1],
            small[1] - small[2],
            small[2] - small[0],
            np.hypot(dy, dx),
            small.mean(axis=0),
        ]
    )
    return np.concatenate([small, contrasts, edges]).astype(np.float32)


def position_sensitive(maps):
    """
    Return maps of their own for each bin: one map, but weaker the farther the bin is from the
    middle of the box.
    """
    p, q = np.mgrid[:BINS, :BINS] - BINS // 2
    strength = (1 - 0.08 * np.hypot(p, q)).astype(np.float32)
    return np.ascontiguousarray(
        (maps[:, None, None] * strength[:, :, None, None]).reshape(-1, *maps.shape[1:])
    )


Operator = tuple[str, Callable[..., Any], dict[str, Any]]
OPERATORS: list[Operator] = [
    ("roi_pool", roicy.roi_pool, {}),
    ("roi_align", roicy.roi_align, {"aligned": True}),
    ("prroi_pool", roicy.prroi_pool, {}),
    ("ps_roi_align", roicy.ps_roi_align, {}),
    ("ps_roi_pool", roicy.ps_roi_pool, {}),
]


def gradient(name, function, x, boxes, scale, parameters):
    """A call that computes the gradient of the input."""
    pooled = function(x, boxes, BINS, scale, **parameters)
    ones = np.ones_like(pooled)
    if name == "roi_pool":
        argmax = roicy.roi_pool(x, boxes, BINS, scale, return_argmax=True)[1]
        return lambda: roicy.roi_pool_backward(ones, argmax, boxes, x.shape)
    backward = getattr(roicy, name + "_backward")
    return lambda: backward(ones, boxes, x.shape, scale, **parameters)


def run(output):
    """Pool, check, print the table and draw the picture."""
    picture = photograph()
    boxes = np.array([(0, *box) for box in BOXES.values()], np.float32)
    maps = features(picture)
    sources = [("photograph", picture, 1.0), ("feature maps", maps, 0.25)]
    print(
        f"A photograph of {picture.shape[2]} x {picture.shape[1]} pixels, "
        f"{len(BOXES)} boxes, {BINS} x {BINS} bins\n"
    )
    print(f"{'operator':<14}{'input':<18}{'output':<16}{'forward':>10}{'gradient':>11}   off by")
    for title, plain, scale in sources:
        print(f"- {title}")
        for name, function, parameters in OPERATORS:
            x = (position_sensitive(plain) if name.startswith("ps_") else plain)[None]
            pooled = function(x, boxes, BINS, scale, **parameters)
            expected = np.stack([by_definition(name, x[0], box, scale) for box in BOXES.values()])
            difference = np.abs(pooled - expected).max()
            call = functools.partial(function, x, boxes, BINS, scale, **parameters)
            backward = gradient(name, function, x, boxes, scale, parameters)
            shown = (1e3 * min(times(each, SECONDS)) for each in (call, backward))
            shapes = f"{'x'.join(map(str, x.shape)):<18}{'x'.join(map(str, pooled.shape)):<16}"
            milliseconds = "{:7.3f} ms{:8.3f} ms".format(*shown)
            print(f"{name:<14}{shapes}{milliseconds}   {difference:.1e}")
            if not difference < 1e-5:
                raise SystemExit(f"{name} is off its definition")
    draw(picture, output)
    print(f"\noff by: the largest difference from the definition\nWrote {output}")


def draw(picture, output):
    """
    Draw some operators: what each bin of a box reads of the map, and below it what was pooled.

    All text is at least a fortieth of the width large, so that it can be read on a phone.
    """
    small = shrink(picture[:, : picture.shape[1] // STRIDE * STRIDE], STRIDE)
    plt.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK, "axes.edgecolor": INK})
    figure = plt.figure(figsize=(8, 6.1), facecolor="white")
    grid = figure.add_gridspec(
        2,
        4,
        width_ratios=[1.3, 1, 1, 1],
        left=0.015,
        right=0.985,
        bottom=0.015,
        top=0.79,
        wspace=0.07,
        hspace=0.06,
    )
    figure.text(
        0.015, 0.945, "One box, three ways to pool it", fontsize=23, weight="bold", va="center"
    )
    draw_photograph(figure.add_subplot(grid[:, 0], anchor="N"), picture)
    shown = [operator for operator in OPERATORS if operator[0] in DRAWN]
    for i, operator in enumerate(shown, start=1):
        draw_bins(figure.add_subplot(grid[0, i]), operator, small)
        draw_pooled(figure.add_subplot(grid[1, i]), operator, small)
    for axes in figure.axes:
        axes.set_xticks([])
        axes.set_yticks([])
    figure.savefig(output, dpi=160)
    plt.close(figure)


def draw_photograph(axes, picture):
    """Draw the photograph with the box that is pooled, and below it what the rows are."""
    axes.imshow(picture.transpose(1, 2, 0))
    left, top, right, bottom = BOXES[SHOWN]
    axes.add_patch(
        Rectangle(
            (left, top), right - left, bottom - top, fill=False, edgecolor=ACCENT, linewidth=3.5
        )
    )
    axes.text(
        0,
        -0.05,
        f"Above: the box on a\nmap of 1/{STRIDE} of the\nsize, and what each\nof {DRAWN_BINS} x "
        f"{DRAWN_BINS} bins reads.\n\nBelow: what comes\nout of them.",
        transform=axes.transAxes,
        va="top",
        fontsize=14.5,
        linespacing=1.35,
        color=GREY,
    )


def draw_bins(axes, operator, small):
    """Draw what an operator reads of the box that is shown, on the pixels of the small picture."""
    name = operator[0]
    x1, y1, x2, y2 = np.array(BOXES[SHOWN]) / STRIDE
    margin = 1.6
    axes.imshow(
        small.transpose(1, 2, 0),
        alpha=0.9,
        interpolation="bilinear" if name == "prroi_pool" else "nearest",
    )
    axes.set_xlim(x1 - margin - 0.5, x2 + margin - 0.5)
    axes.set_ylim(y2 + margin - 0.5, y1 - margin - 0.5)
    if name.endswith("align"):
        # an aligned operator has pixel i in [i, i + 1), where the picture has it around i
        draw_samples(axes, (y1 - 0.5, y2 - 0.5), (x1 - 0.5, x2 - 0.5))
    elif name == "prroi_pool":
        edges = (np.linspace(low, high, DRAWN_BINS + 1) for low, high in ((y1, y2), (x1, x2)))
        lines(axes, *edges, fill=True)
    else:
        draw_whole_pixels(axes, (y1, y2), (x1, x2))
    axes.set_title(f"{name}\n", fontsize=16, weight="bold", pad=9)
    axes.text(
        0.5, 1.03, DRAWN[name], transform=axes.transAxes, ha="center", fontsize=13.5, color=GREY
    )


def draw_samples(axes, of_y, of_x):
    """Draw the bins between two edges of each axis, and their samples."""
    lines(axes, *(np.linspace(*edges, DRAWN_BINS + 1) for edges in (of_y, of_x)))
    ys, xs = (sample_positions(*edges, DRAWN_BINS, -1).ravel() for edges in (of_y, of_x))
    points_y, points_x = (points.ravel() for points in np.meshgrid(ys, xs, indexing="ij"))
    axes.scatter(points_x, points_y, s=14, color=ACCENT, linewidths=0, zorder=3)


def draw_whole_pixels(axes, of_y, of_x):
    """Draw a rectangle around the pixels of each bin."""
    rows, columns = (whole_pixels(*edges, DRAWN_BINS, 1000, True) for edges in (of_y, of_x))
    for p in range(DRAWN_BINS):
        for q in range(DRAWN_BINS):
            (ry,), (rx,) = np.nonzero(rows[p]), np.nonzero(columns[q])
            inset = 0.22 if (p + q) % 2 else 0.06  # neighbours may share pixels
            axes.add_patch(
                Rectangle(
                    (rx[0] - 0.5 + inset, ry[0] - 0.5 + inset),
                    len(rx) - 2 * inset,
                    len(ry) - 2 * inset,
                    fill=False,
                    edgecolor=ACCENT if (p + q) % 2 else BAND,
                    linewidth=2.2,
                )
            )


def draw_pooled(axes, operator, small):
    """Draw what an operator makes of the box that is shown."""
    function, parameters = operator[1:3]
    x1, y1, x2, y2 = BOXES[SHOWN]
    row = np.array([(0, x1, y1, x2, y2)], np.float32)
    x = np.ascontiguousarray(small[None], np.float32)
    pooled = function(x, row, DRAWN_BINS, 1 / STRIDE, **parameters)
    axes.imshow(
        np.clip(pooled[0].transpose(1, 2, 0), 0, 1),
        aspect=(y2 - y1) / (x2 - x1),
        interpolation="nearest",
    )


def lines(axes, edges_y, edges_x, fill=False):
    """The borders of the bins, shaded in turn where all of a bin counts."""
    axes.hlines(edges_y, edges_x[0], edges_x[-1], color=ACCENT if fill else BAND, linewidth=2.2)
    axes.vlines(edges_x, edges_y[0], edges_y[-1], color=ACCENT if fill else BAND, linewidth=2.2)
    if fill:
        for p in range(DRAWN_BINS):
            for q in range(p % 2, DRAWN_BINS, 2):
                axes.add_patch(
                    Rectangle(
                        (edges_x[q], edges_y[p]),
                        edges_x[1] - edges_x[0],
                        edges_y[1] - edges_y[0],
                        color="white",
                        alpha=0.3,
                        linewidth=0,
                    )
                )
