"""Boxes of all sizes from a pyramid
=================================

A feature pyramid has the same scene at several scales.  Small boxes need the fine maps, and large
ones need no more than a coarse map has.  :func:`roicy.multiscale_roi_align` chooses the level of
each box, and pools all boxes in one call.
"""

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

import roicy

# %%
# Levels of stride 4, 8, 16 and 32.  Here a level is the photograph, made smaller; a network would
# have 256 channels.

with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
    photo = plt.imread(file, format="jpg")[:576, :512].astype(np.float32) / 255


def shrink(picture, stride):
    """Return the means of squares of stride x stride pixels."""
    height, width, _ = picture.shape
    parts = picture.reshape(height // stride, stride, width // stride, stride, 3)
    return parts.mean(axis=(1, 3))


STRIDES = (4, 8, 16, 32)
levels = [np.ascontiguousarray(shrink(photo, stride)[None]) for stride in STRIDES]
print("the levels are", [level.shape for level in levels])

# %%
# Boxes in pixels of the photograph.  ``image_size`` gives the scale of each level.  A box as large
# as a square of side 224 belongs to level 4, of stride 16.

boxes = {
    "badge": (196, 18, 306, 106),
    "face": (178, 118, 332, 322),
    "medals": (318, 474, 462, 540),
    "whole": (0, 0, 511, 575),
}
rows = np.array([[0, *box] for box in boxes.values()], np.float32)
pooled = roicy.multiscale_roi_align(
    levels, rows, 14, image_size=photo.shape[:2], sampling_ratio=2, aligned=True, layout="NHWC"
)
print("the output is", pooled.shape)

# %%
# The rule is short.  These are the strides that it gives:

sizes = np.sqrt((rows[:, 3] - rows[:, 1]) * (rows[:, 4] - rows[:, 2]))
level = np.clip(np.floor(4 + np.log2(sizes / 224) + 1e-6), 2, 5).astype(int)
for name, size, one in zip(boxes, sizes, level, strict=True):
    print(f"{name:7} {size:5.0f} pixels: stride {2**one}")

# %%
# The picture: each level with the boxes that are pooled from it, and the 14 x 14 bins of each
# box.

COLOURS = ("#ff5a4f", "#ffd23f", "#59c3ff", "#7bd88f")
figure, axes = plt.subplots(2, 4, figsize=(7, 4.4), dpi=160, layout="constrained")
for i, (stride, one) in enumerate(zip(STRIDES, axes[0], strict=True)):
    one.imshow(levels[i][0])
    one.set_title(f"stride {stride}", fontsize=14)
    for name, at, (x1, y1, x2, y2), colour in zip(
        boxes, level, boxes.values(), COLOURS, strict=True
    ):
        if 2**at == stride:
            corner = (x1 / stride - 0.5, y1 / stride - 0.5)
            one.add_patch(
                Rectangle(
                    corner,
                    (x2 - x1) / stride,
                    (y2 - y1) / stride,
                    fill=False,
                    edgecolor=colour,
                    linewidth=2.5,
                    label=name,
                )
            )
for one, name, bins, (x1, y1, x2, y2), colour in zip(
    axes[1], boxes, pooled, boxes.values(), COLOURS, strict=True
):
    one.imshow(bins, aspect=(y2 - y1) / (x2 - x1))
    one.set_title(name, fontsize=14)
    one.spines[:].set(color=colour, linewidth=3)
for one in axes.flat:
    one.set(xticks=[], yticks=[])
plt.show()
