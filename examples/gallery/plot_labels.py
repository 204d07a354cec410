"""Labels of a photograph, and what is computed for them
=====================================================

A segmentation network gives a small map for each class.  :func:`roicy.label_map` labels each pixel
of the picture by the map that is largest there.  It does not enlarge the maps for that: most pixels
lie between four numbers that leave no choice.
"""

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

import roicy

# %%
# Maps of an eighth of the photograph, one for each class.  Here they tell how near a colour is to
# that of the class.  Those of a network would know more.

STRIDE = 8
CLASSES = {  # a pixel [x, y] that shows each, and the colour in which it is drawn
    "skin": ((280, 290), "#ffb000"),
    "black cloth": ((150, 450), "#5b3fd6"),
    "white cloth": ((265, 475), "#f2f2f2"),
    "blue cloth": ((60, 50), "#00a6d6"),
    "red cloth": ((110, 320), "#e0283c"),
    "wall": ((450, 120), "#7ccf6b"),
}

with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
    photo = plt.imread(file, format="jpg").astype(np.float32) / 255
height, width, _ = photo.shape
coarse = photo.reshape(height // STRIDE, STRIDE, width // STRIDE, STRIDE, 3).mean(axis=(1, 3))
wanted = np.array([coarse[y // STRIDE, x // STRIDE] for (x, y), _ in CLASSES.values()])
maps = -((coarse - wanted[:, None, None]) ** 2).sum(axis=-1)
print("maps", maps.shape)

# %%
# One call labels the photograph, and another one counts pixels in the same pass.

labels = roicy.label_map(maps, (height, width))
_, segments = roicy.label_segments(maps, (height, width))
for name, segment in zip(CLASSES, segments, strict=True):
    print(f"{name}: {segment['area']} pixels, box {segment['bbox']}")

# %%
# A cell is what lies between four numbers of a map; at the border numbers repeat.  A pixel there
# has no value above the largest of the four, and none below the least.  So a class can only win a
# pixel if its largest number reaches the least ones of all classes.  Where that is one class, it
# has the whole cell.

padded = np.pad(maps, ((0, 0), (1, 1), (1, 1)), mode="edge")
corners = np.lib.stride_tricks.sliding_window_view(padded, (2, 2), axis=(1, 2))
least, largest = corners.min(axis=(-1, -2)), corners.max(axis=(-1, -2))
candidates = (largest >= least.max(axis=0)).sum(axis=0)
half = STRIDE // 2
cells = candidates.repeat(STRIDE, 0).repeat(STRIDE, 1)[half:-half, half:-half]
computed, all_values = np.where(cells > 1, cells, 0).sum(), labels.size * len(maps)
print(f"{(cells > 1).mean():.0%} of the pixels have more than one candidate")
print(f"{computed / all_values:.0%} of all values are computed")

# %%
# The picture: the labels on the photograph, and what is computed for them, darker for more
# candidates.  Colours have edges everywhere, and there are few classes.  Of the smooth maps that
# the benchmark times, about one percent of the values are computed.

names, drawn_in = list(CLASSES), [colour for _, colour in CLASSES.values()]
style = {"cmap": ListedColormap(drawn_in), "interpolation": "none"}
style |= {"vmin": -0.5, "vmax": len(names) - 0.5}
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 4.7), dpi=160, layout="constrained")
grey = np.repeat(photo.mean(axis=-1, keepdims=True), 3, axis=-1)
left.imshow(grey)
left.imshow(labels, alpha=0.6, **style)
left.set_title("labels", fontsize=14)
right.imshow(labels, alpha=0.45, **style)
right.imshow(np.ma.masked_less(cells, 2), cmap="Greys", vmin=0, vmax=4, interpolation="none")
right.set_title("computed cells", fontsize=14)
for one in (left, right):
    one.set(xticks=[], yticks=[])
patches = [Patch(facecolor=colour, edgecolor="black") for colour in drawn_in]
figure.legend(patches, names, loc="outside lower center", ncols=3, fontsize=11.5, frameon=False)
plt.show()
