"""A thin diagonal, pooled by each operator
========================================

A line one pixel wide shows what an operator loses.  Whole pixels make stairs, few samples miss
the line, and the largest pixel makes it thick.
"""

import matplotlib.pyplot as plt
import numpy as np

import roicy

# %%
# A map with a line, and a box that covers most of it.

SIZE, BINS = 64, 14
y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32)
line = np.clip(1.2 - np.abs(y - 0.62 * x - 9) / np.hypot(1, 0.62), 0, 1)
maps = line[None, None]
boxes = [[0, 3.3, 5.7, 60.6, 58.2]]

# %%
# Every operator pools the same box.  ``sampling_ratio=1`` takes one sample of each bin, ``-1`` as
# many as the bin has pixels.  For ``prroi_pool`` pixel i lies at i, so its box moves by half a
# pixel.

aligned = {"aligned": True}
results = {
    "roi_pool": roicy.roi_pool(maps, boxes, BINS),
    "roi_align, one sample": roicy.roi_align(maps, boxes, BINS, sampling_ratio=1, **aligned),
    "roi_align, 2 x 2 samples": roicy.roi_align(maps, boxes, BINS, sampling_ratio=2, **aligned),
    "roi_align, adaptive": roicy.roi_align(maps, boxes, BINS, sampling_ratio=-1, **aligned),
    "prroi_pool": roicy.prroi_pool(maps, np.array(boxes) - [0, 0.5, 0.5, 0.5, 0.5], BINS),
    "roi_align_max": roicy.roi_align_max(maps, boxes, BINS, **aligned),
    "ps_roi_pool, equal maps": roicy.ps_roi_pool(np.repeat(maps, BINS * BINS, axis=1), boxes, BINS),
}

# %%
# The exact mean over each bin is what :func:`roicy.prroi_pool` computes.  How far are the others
# from it?

exact = results["prroi_pool"]
for name, pooled in results.items():
    print(f"{name:26} sum {pooled.sum():6.2f}   largest error {np.abs(pooled - exact).max():.2f}")

# %%
# The picture: the map with its box, then each operator.

figure, axes = plt.subplots(2, 4, figsize=(7, 4.3), dpi=160, layout="constrained")
x1, y1, x2, y2 = boxes[0][1:]
axes[0, 0].imshow(line, cmap="magma", vmin=0, vmax=1)
axes[0, 0].add_patch(
    plt.Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor="white", linewidth=1.5)
)
axes[0, 0].set_title("the map\nand the box", fontsize=13)
for one, (name, pooled) in zip(axes.flat[1:], results.items(), strict=True):
    one.imshow(pooled[0, 0], cmap="magma", vmin=0, vmax=1)
    one.set_title(name.replace(", ", ",\n"), fontsize=13)
for one in axes.flat:
    one.set(xticks=[], yticks=[])
plt.show()
