"""What each operator reads
========================

One picture for each operator: what it reads of a box, and what it makes of it.
:doc:`/which_operator` says which of them you need.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

import roicy

GREY, RED, BLUE = "#57606a", "#d1495b", "#0b5c83"
BINS, SIZE = 3, 10
BOX = (1.6, 2.2, 8.0, 8.3)  # x1, y1, x2, y2
BOXES = [[0, *BOX]]
PALETTE = {"cmap": "YlGnBu", "vmin": 0, "vmax": 1.2}

# %%
# The map is a soft ring.

y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32)
ring = np.exp(-(((np.hypot(y - 4.6, x - 4.6) - 3) / 1.1) ** 2))
maps = ring[None, None]

# %%
# Position-sensitive operators have a map for each bin.  Here there are nine maps, and each has
# the ring a little stronger than the map before.

strength = np.linspace(0.4, 1.2, BINS * BINS, dtype=np.float32)
own_maps = (ring * strength[:, None, None])[None]


def panel(title):
    """Return two axes: for the map and for the bins."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.4, 3.7), dpi=130, width_ratios=[1.55, 1], layout="constrained"
    )
    figure.suptitle(title, fontsize=15, weight="bold")
    left.set(xticks=[], yticks=[])
    right.set(xticks=[], yticks=[])
    return left, right


def show(right, pooled):
    """Draw the bins with their numbers."""
    right.imshow(pooled, **PALETTE)
    for (p, q), value in np.ndenumerate(pooled):
        colour = "white" if value > 0.6 else "black"
        right.text(q, p, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=14)
    right.set_title("output", fontsize=14, color=GREY)


def edges(first, last):
    """Return where the bins of an axis begin and end."""
    return np.linspace(first, last, BINS + 1)


def grid(left, offset=0.0, colour=RED):
    """Draw the bins of the box, where pixel i lies at i."""
    ys, xs = edges(BOX[1], BOX[3]) - offset, edges(BOX[0], BOX[2]) - offset
    left.hlines(ys, xs[0], xs[-1], color=colour, linewidth=2)
    left.vlines(xs, ys[0], ys[-1], color=colour, linewidth=2)


def samples(left, offset=0.0, count=2):
    """Draw the samples of all bins."""
    steps = (np.arange(BINS * count) + 0.5) / (BINS * count)
    xs, ys = np.meshgrid(
        BOX[0] + (BOX[2] - BOX[0]) * steps - offset, BOX[1] + (BOX[3] - BOX[1]) * steps - offset
    )
    left.scatter(xs, ys, s=26, color=RED, zorder=3, edgecolor="white", linewidth=0.6)


def cells(left, inclusive):
    """Draw the whole pixels that bins read; neighbours may share some."""
    colours = (RED, BLUE)
    first = np.floor(np.array(BOX) + 0.5)
    size = np.maximum(first[2:] - first[:2] + inclusive, 1) / BINS
    for p in range(BINS):
        for q in range(BINS):
            low = first[:2] + np.floor(size * (q, p))
            high = first[:2] + np.ceil(size * (q + 1, p + 1))
            inset = 0.08 + 0.12 * ((p + q) % 2)
            width, height = high - low - 2 * inset
            left.add_patch(
                Rectangle(
                    low - 0.5 + inset,
                    width,
                    height,
                    fill=False,
                    edgecolor=colours[(p + q) % 2],
                    linewidth=2,
                )
            )


# %%
# RoIAlign: the mean of a few bilinear samples of each bin.

left, right = panel("roi_align: the mean of samples")
left.imshow(ring, **PALETTE)
grid(left, offset=0.5)
samples(left, offset=0.5)
show(right, roicy.roi_align(maps, BOXES, BINS, sampling_ratio=2, aligned=True)[0, 0])
plt.show()

# %%
# The largest sample in place of their mean.

left, right = panel("roi_align_max: the largest sample")
left.imshow(ring, **PALETTE)
grid(left, offset=0.5)
samples(left, offset=0.5)
show(right, roicy.roi_align_max(maps, BOXES, BINS, sampling_ratio=2, aligned=True)[0, 0])
plt.show()

# %%
# PrRoIPool: all points of a bin count, so nothing jumps when the box moves.

left, right = panel("prroi_pool: the mean of the whole surface")
left.imshow(ring, interpolation="bilinear", **PALETTE)
for p in range(BINS):
    for q in range(p % 2, BINS, 2):
        corner = edges(BOX[0], BOX[2])[q], edges(BOX[1], BOX[3])[p]
        size = (BOX[2] - BOX[0]) / BINS, (BOX[3] - BOX[1]) / BINS
        left.add_patch(Rectangle(corner, *size, color=RED, alpha=0.35, linewidth=0))
grid(left)
show(right, roicy.prroi_pool(maps, BOXES, BINS)[0, 0])
plt.show()

# %%
# RoIPool: the largest of whole pixels.  The box is rounded, and bins may share pixels.

left, right = panel("roi_pool: the largest whole pixel")
left.imshow(ring, **PALETTE)
cells(left, inclusive=1)
show(right, roicy.roi_pool(maps, BOXES, BINS)[0, 0])
plt.show()


# %%
# Position-sensitive: bin (p, q) reads the map p * 3 + q, and no other.


def draw_own_maps(left, of_a_bin):
    """Draw nine maps, each with the bin that reads it."""
    left.set_axis_off()
    for channel in range(BINS * BINS):
        p, q = divmod(channel, BINS)
        axes = left.inset_axes([q / BINS, 1 - (p + 1) / BINS, 0.95 / BINS, 0.95 / BINS])
        axes.imshow(own_maps[0, channel], **PALETTE)
        axes.set(xticks=[], yticks=[])
        of_a_bin(axes, p, q)


def a_bin(offset):
    """Return what draws the edges of bin (p, q)."""

    def draw(axes, p, q):
        size = (BOX[2] - BOX[0]) / BINS, (BOX[3] - BOX[1]) / BINS
        corner = BOX[0] - offset + q * size[0], BOX[1] - offset + p * size[1]
        axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=RED, linewidth=2))

    return draw


left, right = panel("ps_...: a map for each bin")
draw_own_maps(left, a_bin(0.5))
show(right, roicy.ps_roi_align(own_maps, BOXES, BINS, sampling_ratio=2)[0, 0])
plt.show()

# %%
# A pyramid has maps of several scales.  A small box reads the fine map, a large one the coarse.

side = 64
yy, xx = np.mgrid[:side, :side].astype(np.float32)
fine = np.exp(-(((np.hypot(yy - 30, xx - 30) - 20) / 4) ** 2))
coarse = fine.reshape(side // 4, 4, side // 4, 4).mean(axis=(1, 3))
pyramid = [fine[None, None], coarse[None, None]]
small, large = (2, 14, 26, 38), (4, 2, 60, 60)
pooled = roicy.multiscale_roi_align(
    pyramid,
    [[0, *small], [0, *large]],
    BINS,
    [1, 1 / 4],
    sampling_ratio=2,
    aligned=True,
    canonical_scale=56,
    canonical_level=2,
)

figure, axes = plt.subplots(2, 2, figsize=(6.4, 6.2), dpi=130, width_ratios=[1.55, 1])
figure.suptitle("multiscale_roi_align: a level for each box", fontsize=15, weight="bold")
for i, (level, scale, box) in enumerate([(fine, 1, small), (coarse, 1 / 4, large)]):
    x1, y1, x2, y2 = np.array(box) * scale - 0.5
    axes[i, 0].imshow(level, **PALETTE)
    axes[i, 0].add_patch(
        Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=RED, linewidth=2)
    )
    axes[i, 0].set_title(f"level of scale {scale:g}", fontsize=14, color=GREY)
    show(axes[i, 1], pooled[i, 0])
for one in axes.flat:
    one.set(xticks=[], yticks=[])
figure.tight_layout()
plt.show()

# sphinx_gallery_thumbnail_number = 1
