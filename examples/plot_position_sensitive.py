"""
Position-sensitive maps
=======================

R-FCN has nine maps for an object: one for its top left part, one for its top, and so on.  A box
fits if each bin finds its own part.  :func:`roicy.ps_roi_align` reads map (p, q) in bin (p, q).
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

import roicy

# %%
# Maps for 3 x 3 parts of one object.  Map (p, q) is high where that part of the object is.

SIZE, BINS = 48, 3
OBJECT = (14.0, 10.0, 35.0, 37.0)  # x1, y1, x2, y2
y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32) + 0.5
xs, ys = (np.linspace(OBJECT[i], OBJECT[i + 2], BINS + 1) for i in (0, 1))
maps = np.stack(
    [
        np.exp(
            -(((x - (xs[q] + xs[q + 1]) / 2) / 5) ** 2) - ((y - (ys[p] + ys[p + 1]) / 2) / 6) ** 2
        )
        for p in range(BINS)
        for q in range(BINS)
    ]
)[None].astype(np.float32)
print("the input is", maps.shape)

# %%
# A box on the object, and one beside it.  The mean of the bins is the vote for the object.

boxes = {"fits": OBJECT, "is off": (24.0, 4.0, 45.0, 31.0)}
rows = [[0, *box] for box in boxes.values()]
pooled = roicy.ps_roi_align(maps, rows, BINS, sampling_ratio=2)
votes = pooled.mean(axis=(1, 2, 3))
print("the output is", pooled.shape, "and the votes are", votes.round(2))

# %%
# The picture: nine maps with the bins that read them, and the bins of both boxes.

figure, axes = plt.subplot_mosaic(
    [[*(f"{p}{q}" for q in range(BINS)), *["fits"] * 3, *["is off"] * 3] for p in range(BINS)],
    figsize=(11, 4.2),
    layout="constrained",
)
colours = {"fits": "#d1495b", "is off": "#8d6cab"}
for channel in range(BINS * BINS):
    p, q = divmod(channel, BINS)
    one = axes[f"{p}{q}"]
    one.imshow(maps[0, channel], cmap="Greys", vmin=0, vmax=1.1, extent=(0, SIZE, SIZE, 0))
    for name, (x1, y1, x2, y2) in boxes.items():
        width, height = (x2 - x1) / BINS, (y2 - y1) / BINS
        one.add_patch(
            Rectangle(
                (x1 + q * width, y1 + p * height),
                width,
                height,
                fill=False,
                edgecolor=colours[name],
                linewidth=2,
            )
        )
for i, name in enumerate(boxes):
    axes[name].imshow(pooled[i, 0], cmap="YlGnBu", vmin=0, vmax=1)
    for (p, q), value in np.ndenumerate(pooled[i, 0]):
        colour = "white" if value > 0.6 else "black"
        axes[name].text(q, p, f"{value:.2f}", ha="center", va="center", color=colour)
    axes[name].set_title(f"the box that {name}: vote {votes[i]:.2f}", color=colours[name])
for one in axes.values():
    one.set(xticks=[], yticks=[])
plt.show()
