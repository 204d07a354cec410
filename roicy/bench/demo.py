"""The demo: every operator on a photograph, beside its definition.

The definitions stand here once more, as dense NumPy: a box is pooled by a matrix for its rows
and one for its columns, and each rule is the few lines that make such a matrix.
"""

from __future__ import annotations

import functools
import itertools

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
# x1, y1, x2, y2 on the photograph, in pixels; the first one is that of the picture: with the blue
# around her face, the largest pixel of a bin would be violet
BOXES = [(178, 118, 322, 310), (196, 18, 306, 106), (318, 474, 462, 540), (0, 0, 511, 599)]
# what operators get besides the input, boxes and bins
OPERATORS = {"roi_pool": {}, "roi_align": {"aligned": True}, "prroi_pool": {}}
OPERATORS |= {"ps_roi_align": {}, "ps_roi_pool": {}}
STRIDE = 16  # of the picture that is pooled: coarse enough to see its pixels
DRAWN_BINS = 4  # in the picture
DRAWN = {"roi_pool": "largest pixel", "roi_align": "mean of samples", "prroi_pool": "exact mean"}
INK, GREY, ACCENT, BAND = "#1b1f24", "#57606a", "#e4572e", "#2e86ab"


def samples(low, high, bins):
    """Return where roi_align samples, a pixel or less apart, (bins, samples)."""
    size = (high - low) / bins
    count = int(np.ceil(size))
    return low + size * (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / count)


def whole_pixels(low, high, bins, extent, inclusive):
    """Return whether each pixel is in each bin, from floor to ceil, (bins, extent)."""
    low, high = np.floor(low + 0.5), np.floor(high + 0.5)  # coordinates of the demo are positive
    # the type of the data decides where a bin ends
    size = np.float32(max(high - low + inclusive, 1)) / np.float32(bins)
    pixel, p = np.arange(extent), np.arange(bins, dtype=np.float32)[:, None]
    return (pixel >= np.floor(p * size) + low) & (pixel < np.ceil((p + 1) * size) + low)


def weights(name, low, high, extent):
    """Return how much each pixel of a row or a column counts in each bin, (BINS, extent)."""
    pixels = np.arange(extent)
    if name.endswith("align"):  # pixel i is in [i, i + 1): bilinear weights of each sample
        v = samples(low - 0.5, high - 0.5, BINS)
        inside = (v >= -1) & (v <= extent)
        hats = np.maximum(0, 1 - np.abs(np.clip(v, 0, extent - 1)[..., None] - pixels))
        return (hats * inside[..., None]).mean(axis=1)
    if name == "prroi_pool":  # the integral of a pixel's hat over the bin
        size = (high - low) / BINS
        u = np.clip(low + size * np.arange(BINS + 1)[:, None] - pixels, -1, 1)
        return np.diff(np.where(u <= 0, (1 + u) ** 2 / 2, 1 - (1 - u) ** 2 / 2), axis=0) / size
    if name == "roi_pool":
        return whole_pixels(low, high, BINS, extent, 1)
    within = whole_pixels(low, high, BINS, extent, 0) & (pixels < extent - 1)
    return within / np.maximum(within.sum(axis=1, keepdims=True), 1)


def by_definition(name, x, box):
    """Pool one box (PH = PW = BINS) of one image (C, H, W), as the table of the operators says."""
    x1, y1, x2, y2 = box
    wy, wx = weights(name, y1, y2, x.shape[1]), weights(name, x1, x2, x.shape[2])
    if name == "roi_pool":
        bins = [[x[:, rows][:, :, columns].max(axis=(1, 2)) for columns in wx] for rows in wy]
        return np.array(bins).transpose(2, 0, 1)
    x = x.astype(np.float64)
    if name.startswith("ps_"):
        maps = x.reshape(-1, BINS, BINS, *x.shape[1:])
        return np.einsum("py,cpqyx,qx->cpq", wy, maps, wx, optimize=True)
    return np.einsum("py,cyx,qx->cpq", wy, x, wx, optimize=True)


def photograph():
    """Return a photograph that comes with matplotlib: Grace Hopper, (3, 600, 512), from 0 to 1."""
    with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
        picture = matplotlib.image.imread(file, format="jpg")
    return np.ascontiguousarray(picture[:600, :512].transpose(2, 0, 1), np.float32) / 255


def position_sensitive(maps):
    """Return a map for each bin: the same, but weaker the farther the bin is from the middle."""
    p, q = np.mgrid[:BINS, :BINS] - BINS // 2
    strength = (1 - 0.08 * np.hypot(p, q)).astype(np.float32)[:, :, None, None]
    return np.ascontiguousarray((maps[:, None, None] * strength).reshape(-1, *maps.shape[1:]))


def gradient(name, x, boxes, pooled):
    """Return a call that computes the gradient of the input."""
    ones, backward = np.ones_like(pooled), getattr(roicy, f"{name}_backward")
    if name == "roi_pool":
        argmax = roicy.roi_pool(x, boxes, BINS, return_argmax=True)[1]
        return functools.partial(backward, ones, argmax, boxes, x.shape)
    return functools.partial(backward, ones, boxes, x.shape, **OPERATORS[name])


def run(output):
    """Pool, check, print the table and draw the picture."""
    picture = photograph()
    boxes = np.array([(0, *box) for box in BOXES], np.float32)
    sides = f"{picture.shape[2]} x {picture.shape[1]} pixels"
    print(f"A photograph of {sides}, {len(BOXES)} boxes, {BINS} x {BINS} bins\n")
    print(f"{'operator':<14}{'input':<18}{'output':<16}{'forward':>10}{'gradient':>11}   off by")
    for name in OPERATORS:
        x = (position_sensitive(picture) if name.startswith("ps_") else picture)[None]
        call = functools.partial(getattr(roicy, name), x, boxes, BINS, **OPERATORS[name])
        pooled = call()
        expected = np.stack([by_definition(name, x[0], box) for box in BOXES])
        difference = np.abs(pooled - expected).max()
        shapes = f"{'x'.join(map(str, x.shape)):<18}{'x'.join(map(str, pooled.shape)):<16}"
        least = (1e3 * min(times(f, SECONDS)) for f in (call, gradient(name, x, boxes, pooled)))
        print(f"{name:<14}{shapes}{'{:7.3f} ms{:8.3f} ms'.format(*least)}   {difference:.1e}")
        if not difference < 1e-5:
            raise SystemExit(f"{name} is off its definition")
    draw(picture, output)
    print(f"\noff by: the largest difference from the definition\nWrote {output}")


def draw(picture, output):
    """Draw some operators: what each bin of a box reads of the map, and below it what was pooled.

    All text is at least a fortieth of the width large, so that it can be read on a phone.
    """
    c, h, w = picture.shape
    small = picture[:, : h // STRIDE * STRIDE]
    small = small.reshape(c, -1, STRIDE, w // STRIDE, STRIDE).mean(axis=(2, 4))
    plt.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK, "axes.edgecolor": INK})
    figure, axes = plt.subplot_mosaic(
        [["photograph", ".", *DRAWN], ["photograph", ".", *(f"{name} below" for name in DRAWN)]],
        figsize=(8, 6.1),
        width_ratios=[1.3, 0.1, 1, 1, 1],
    )
    figure.subplots_adjust(0.015, 0.015, 0.985, 0.79, 0.09, 0.06)
    title = figure.suptitle("One box, three ways to pool it", x=0.015, y=0.97, ha="left")
    title.set(fontsize=23, weight="bold")
    for one in axes.values():
        one.set_xticks([])
        one.set_yticks([])
    draw_photograph(axes["photograph"], picture)
    for name in DRAWN:
        draw_bins(axes[name], name, small)
        draw_pooled(axes[f"{name} below"], name, small)
    first = next(iter(DRAWN))
    style = {"fontsize": 14.5, "color": GREY, "labelpad": 7}
    axes[first].set_ylabel("what each bin reads", **style)
    axes[f"{first} below"].set_ylabel("what comes out", **style)
    figure.savefig(output, dpi=160)
    plt.close(figure)


def draw_photograph(axes, picture):
    """Draw the photograph with the box that is pooled, and say below it from what."""
    axes.set_anchor("N")
    axes.imshow(picture.transpose(1, 2, 0))
    left, top, right, bottom = BOXES[0]
    box = Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=ACCENT, lw=3.5)
    axes.add_patch(box)
    text = f"The box is pooled\nfrom a map of 1/{STRIDE}\nof this size."
    style = {"fontsize": 14.5, "linespacing": 1.35, "color": GREY, "va": "top"}
    axes.text(0, -0.05, text, transform=axes.transAxes, **style)


def bins_of(name, low, high):
    """Return where the bins begin and end on the pixels of the picture."""
    if name == "roi_pool":
        pixels = [np.flatnonzero(row) for row in whole_pixels(low, high, DRAWN_BINS, 1000, True)]
        return [(row[0] - 0.5, row[-1] + 0.5) for row in pixels]
    # roi_align has pixel i in [i, i + 1), where the picture has it around i
    shift = 0.5 if name == "roi_align" else 0
    return itertools.pairwise(np.linspace(low, high, DRAWN_BINS + 1) - shift)


def draw_bins(axes, name, small):
    """Draw what an operator reads of the box that is shown, on the pixels of the small picture."""
    x1, y1, x2, y2 = np.array(BOXES[0]) / STRIDE
    smooth = "bilinear" if name == "prroi_pool" else "nearest"
    axes.imshow(small.transpose(1, 2, 0), alpha=0.9, interpolation=smooth)
    axes.set_xlim(x1 - 2.1, x2 + 1.1)
    axes.set_ylim(y2 + 1.1, y1 - 2.1)
    for p, (top, bottom) in enumerate(bins_of(name, y1, y2)):
        for q, (left, right) in enumerate(bins_of(name, x1, x2)):
            inset, colour = 0, BAND if name == "roi_align" else ACCENT
            if name == "roi_pool":  # neighbours share pixels
                inset, colour = (0.22, ACCENT) if (p + q) % 2 else (0.06, BAND)
            width, height = right - left - 2 * inset, bottom - top - 2 * inset
            style = {"fill": False, "edgecolor": colour, "linewidth": 2.2}
            axes.add_patch(Rectangle((left + inset, top + inset), width, height, **style))
    if name == "roi_align":
        ys, xs = (samples(*ends, DRAWN_BINS) - 0.5 for ends in ((y1, y2), (x1, x2)))
        axes.scatter(*np.meshgrid(xs, ys), s=14, color=ACCENT, linewidths=0, zorder=3)
    axes.set_title(f"{name}\n", fontsize=16, weight="bold", pad=9)
    style = {"ha": "center", "fontsize": 13.5, "color": GREY}
    axes.text(0.5, 1.03, DRAWN[name], transform=axes.transAxes, **style)


def draw_pooled(axes, name, small):
    """Draw what an operator makes of the box that is shown."""
    x1, y1, x2, y2 = BOXES[0]
    row, x = np.array([(0, x1, y1, x2, y2)], np.float32), small[None].astype(np.float32)
    pooled = getattr(roicy, name)(x, row, DRAWN_BINS, 1 / STRIDE, **OPERATORS[name])
    colours = np.clip(pooled[0].transpose(1, 2, 0), 0, 1)
    axes.imshow(colours, aspect=(y2 - y1) / (x2 - x1), interpolation="nearest")
