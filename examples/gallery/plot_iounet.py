"""Moving a box by its gradient
============================

IoU-Net scores a box, and then moves the box uphill by the gradient of its score.  This needs an
operator that is smooth in the coordinates of the box: :func:`roicy.prroi_pool`.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

import roicy

# %%
# A map that is high on an object and low around it.  It stands for what a network has learnt.

SIZE = 64
y, x = np.mgrid[:SIZE, :SIZE].astype(np.float64)
OBJECT = np.array([20.0, 16.0, 46.0, 50.0])
sides = np.stack([x - OBJECT[0], y - OBJECT[1], OBJECT[2] - x, OBJECT[3] - y])
maps = (2 / (1 + np.exp(-sides.min(axis=0))) - 1)[None, None]

# %%
# The score is the sum over the box: the mean that is pooled, times the area.  Its gradient has two
# terms, since the area depends on the box too.


def score_and_gradient(box):
    """Return the score of a box [x1, y1, x2, y2] and its gradient."""
    rows = np.array([[0, *box]])
    width, height = box[2] - box[0], box[3] - box[1]
    pooled = roicy.prroi_pool(maps, rows, 1)
    gradient = roicy.prroi_pool_backward_boxes(np.ones_like(pooled), maps, rows)[0, 1:]
    mean, of_area = pooled.item(), np.array([-height, -width, height, width])
    return mean * width * height, gradient * width * height + mean * of_area


def overlap(box):
    """Return the intersection over union of a box with the object."""
    low, high = np.maximum(box[:2], OBJECT[:2]), np.minimum(box[2:], OBJECT[2:])
    both = np.prod(np.maximum(high - low, 0))
    areas = [np.prod(corners[2:] - corners[:2]) for corners in (box, OBJECT)]
    return both / (sum(areas) - both)


# %%
# Forty small steps uphill, from a detection that is off.

box = np.array([8.0, 22.0, 36.0, 60.0])
path, scores, overlaps = [box], [], []
for _ in range(40):
    score, gradient = score_and_gradient(box)
    scores.append(score)
    overlaps.append(overlap(box))
    box = box + 0.03 * gradient
    path.append(box)
print(f"overlap {overlaps[0]:.2f} -> {overlaps[-1]:.2f}, box {box.round(1)}")

# %%
# The picture: the box on its way, and the overlap with the object after each step.

plt.rcParams.update({"axes.titlesize": 14, "axes.labelsize": 13, "legend.fontsize": 11.5})
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.7), dpi=160, layout="constrained")
left.imshow(maps[0, 0], cmap="PuOr", vmin=-1.5, vmax=1.5)
shown = [0, 3, 8, 18, 40]
for step, colour in zip(shown, plt.cm.viridis(np.linspace(0, 0.9, len(shown))), strict=True):
    x1, y1, x2, y2 = path[step]
    left.add_patch(
        Rectangle(
            (x1, y1),
            x2 - x1,
            y2 - y1,
            fill=False,
            edgecolor=colour,
            linewidth=2.2,
            label=f"step {step}",
        )
    )
left.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, handlelength=1)
left.set(xticks=[], yticks=[], title="the box on the map")
right.plot(overlaps, linewidth=2.2, color="#0b5c83")
right.set(xlabel="step", ylim=(0, 1), title="overlap with the object (IoU)")
right.grid(alpha=0.3)
plt.show()
