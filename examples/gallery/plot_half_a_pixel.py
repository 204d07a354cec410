"""Half a pixel
============

Where is pixel 3 of a map?  Systems answer in three ways, and the same box then reads other
pixels.  :doc:`/half_a_pixel` has the numbers of each system.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

import roicy

INK, GREY, RED, BLUE = "#1b1f24", "#57606a", "#d1495b", "#2e86ab"
PIXELS, BOX = 8, (2, 6)

# %%
# A map whose values are its column numbers.  What is read of it is a position.

ramp = np.tile(np.arange(PIXELS, dtype=np.float32), (1, 1, PIXELS, 1))
box = [[0, BOX[0], BOX[0], BOX[1], BOX[1]]]
centres = roicy.roi_align(ramp, box, (1, 4), sampling_ratio=1, aligned=False)[0, 0, 0]
corners = roicy.roi_align(ramp, box, (1, 4), sampling_ratio=1, aligned=True)[0, 0, 0]
print("aligned=False reads", centres)
print("aligned=True  reads", corners)

# %%
# TensorFlow's ``crop_and_resize`` puts its first and last sample on the edges of the box.  So do
# the bins of :func:`roicy.roi_align` if the box is half a bin larger on every side.

half = (BOX[1] - BOX[0]) / 3 / 2
wider = [[0, BOX[0] - half, BOX[0] - half, BOX[1] + half, BOX[1] + half]]
edges = roicy.roi_align(ramp, wider, (1, 4), sampling_ratio=1)[0, 0, 0]
print("crop_and_resize reads", edges.round(3))

# %%
# The picture has the coordinates of the box from left to right.  Squares are pixels, dots are
# samples, one in each of four bins.


def draw(axes, first, samples, title, text):
    """Draw a row of pixels, of which the first begins at `first`, and the box with its samples."""
    reads = (first + np.arange(PIXELS) < BOX[1]) & (first + np.arange(1, PIXELS + 1) > BOX[0])
    for i in range(PIXELS):
        colour = "#cfe3ee" if reads[i] else "white"
        axes.add_patch(Rectangle((first + i, 0), 1, 1, facecolor=colour, edgecolor=GREY))
        axes.text(
            first + i + 0.5,
            0.22,
            str(i),
            ha="center",
            va="center",
            color=GREY,
            fontsize=13,
            zorder=4,
            bbox={"facecolor": colour, "edgecolor": "none", "pad": 1.5},
        )
    axes.add_patch(
        Rectangle((BOX[0], -0.13), BOX[1] - BOX[0], 1.26, fill=False, edgecolor=RED, linewidth=2.5)
    )
    axes.scatter(samples, np.full(4, 0.62), s=55, color=BLUE, zorder=3)
    axes.set_title(f"{title}\n", loc="left", fontsize=15, weight="bold", color=INK)
    axes.text(-0.7, 1.42, text, fontsize=13, color=INK)
    axes.set(xlim=(-0.7, 8.2), ylim=(-0.25, 1.3), xticks=range(9), yticks=[])
    axes.spines[["top", "left", "right", "bottom"]].set_visible(False)
    axes.tick_params(length=0, labelcolor=GREY, labelsize=13)


figure, rows = plt.subplots(3, 1, figsize=(6.4, 6.4), dpi=160, layout="constrained")
at_bins = BOX[0] + 0.5 + np.arange(4)
draw(
    rows[0], 0, at_bins, "aligned=True: pixel i covers [i, i + 1)",
    f"reads {', '.join(f'{v:g}' for v in corners)}: mean {corners.mean():g}",
)  # fmt: skip
draw(
    rows[1], -0.5, at_bins, "aligned=False: pixel i lies at i",
    f"reads {', '.join(f'{v:g}' for v in centres)}: mean {centres.mean():g}",
)  # fmt: skip
draw(
    rows[2], -0.5, np.linspace(*BOX, 4), "crop_and_resize: samples on the edges",
    f"reads {', '.join(f'{v:.3g}' for v in edges)}: mean {edges.mean():.3g}",
)  # fmt: skip
rows[2].set_xlabel("coordinate, as boxes have it", loc="left", color=GREY, fontsize=13)
plt.show()
