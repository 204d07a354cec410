"""Position-sensitive maps
=======================

R-FCN has nine maps for an object: one for its top left part, one for its top, and so on.  A box
fits if each bin finds its own part.  :func:`roicy.ps_roi_align` reads map (p, q) in bin (p, q).
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

import roicy

# %%
# Maps for 3 x 3 parts of one object.  Map (p, q) is high where that part of the object is.  The
# bottom right part is hidden by something else, so its map is weak.

SIZE, BINS = 48, 3
OBJECT = (9.0, 6.0, 39.0, 42.0)  # x1, y1, x2, y2
y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32) + 0.5
xs, ys = (np.linspace(OBJECT[i], OBJECT[i + 2], BINS + 1) for i in (0, 1))
middles = [((xs[q] + xs[q + 1]) / 2, (ys[p] + ys[p + 1]) / 2) for p in range(3) for q in range(3)]
maps = np.stack([np.exp(-(((x - mx) / 8) ** 4) - ((y - my) / 9) ** 4) for mx, my in middles])
maps[8] *= 0.25
maps = maps[None].astype(np.float32)
print("the input is", maps.shape)

# %%
# A box on the object, and one beside it.  The mean of the bins is the vote for the object.

boxes = {"fits": OBJECT, "is off": (16.0, 1.0, 46.0, 37.0)}
rows = [[0, *box] for box in boxes.values()]
pooled = roicy.ps_roi_align(maps, rows, BINS, sampling_ratio=2)
votes = pooled.mean(axis=(1, 2, 3))
print("the output is", pooled.shape, "and the votes are", votes.round(2))

# %%
# The picture: nine maps with the bins that read them, and the bins of both boxes.

figure, axes = plt.subplot_mosaic(
    [[*(f"{p}{q}" for q in range(BINS)), *["fits"] * 3, *["is off"] * 3] for p in range(BINS)],
    figsize=(7, 3.1),
    dpi=160,
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
        axes[name].text(q, p, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=13)
    title = f"the box that {name}:\nvote {votes[i]:.2f}"
    axes[name].set_title(title, color=colours[name], fontsize=13)
for one in axes.values():
    one.set(xticks=[], yticks=[])
plt.show()
