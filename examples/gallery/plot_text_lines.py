"""Lines of text, made upright
===========================

A detector of text gives rotated boxes: a centre, a width, a height and an angle.
:func:`roicy.roi_align_rotated` reads along the box, so a reader of text gets upright lines.
"""

import matplotlib.pyplot as plt
import numpy as np

import roicy

# %%
# A page with three lines, each turned by an angle.

HEIGHT, WIDTH = 360, 520
LINES = [
    ("REGION OF INTEREST", (160, 105), 24),
    ("on every core", (390, 150), -38),
    ("upright at last", (190, 275), 8),
]
page = plt.figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
for text, (cx, cy), degrees in LINES:
    page.text(
        cx / WIDTH,
        1 - cy / HEIGHT,
        text,
        rotation=degrees,
        rotation_mode="anchor",
        ha="center",
        va="center_baseline",
        fontsize=15,
        family="serif",
    )
page.canvas.draw()
picture = np.asarray(page.canvas.buffer_rgba())[..., :1].copy()  # (H, W, 1), uint8
plt.close(page)
print("the map is", picture.shape, picture.dtype)

# %%
# Boxes are [image, cx, cy, w, h, angle].  Angles are radians, counter-clockwise as one sees it.

boxes = [[0, cx, cy, 252, 32, np.deg2rad(degrees)] for _, (cx, cy), degrees in LINES]
lines = roicy.roi_align_rotated(picture[None], boxes, (32, 252), sampling_ratio=2, layout="NHWC")
print("the lines are", lines.shape, lines.dtype)

# %%
# The picture: the page with its boxes, and each line as it is read.

figure, axes = plt.subplot_mosaic(
    [["page", "0"], ["page", "1"], ["page", "2"]],
    figsize=(7, 2.7),
    dpi=160,
    layout="constrained",
    width_ratios=[1.15, 1],
)
axes["page"].imshow(picture, cmap="gray")
axes["page"].set_title("the page", fontsize=13)
for i, colour in enumerate(("#d1495b", "#2e86ab", "#3a8f5c")):
    _, cx, cy, w, h, angle = boxes[i]
    corners = np.array([[-w, -h], [w, -h], [w, h], [-w, h], [-w, -h]]) / 2
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    axes["page"].plot(*(corners @ turn + (cx - 0.5, cy - 0.5)).T, color=colour, linewidth=2)
    axes[str(i)].imshow(lines[i], cmap="gray")
    axes[str(i)].spines[:].set(color=colour, linewidth=2.5)
for one in axes.values():
    one.set(xticks=[], yticks=[])
plt.show()
