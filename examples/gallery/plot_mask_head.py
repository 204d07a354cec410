"""A Mask R-CNN head on feature maps
=================================

A detector pools each box from feature maps, gives the bins to a small network, and pastes the
mask that comes back into the picture.  Here are both ends of that, on a photograph.  Two thresholds
stand in for the network.
"""

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

import roicy

# %%
# Feature maps at stride 4, such as a network's first stage learns: brightness, contrasts of
# colour, and edges.  They are (N, C, H, W).

STRIDE, BINS = 4, 28
with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
    photo = plt.imread(file, format="jpg")[:600, :512].astype(np.float32) / 255
small = photo.reshape(150, STRIDE, 128, STRIDE, 3).mean(axis=(1, 3))
light = small.mean(axis=2)
dy, dx = np.gradient(light)
features = np.stack([light, small[..., 0] - small[..., 2], np.hypot(dy, dx)])[None]
features = np.ascontiguousarray(features, np.float32)

# %%
# Boxes of two detections are in pixels of the photograph, so ``spatial_scale`` is 1 / 4.  Both are
# pooled in one call, 28 x 28 bins each, as a mask head does.

boxes = {"face": (178, 118, 332, 322), "medals": (318, 474, 462, 540)}
rows = [[0, *box] for box in boxes.values()]
pooled = roicy.roi_align(features, rows, BINS, 1 / STRIDE, sampling_ratio=2, aligned=True)
print("the head gets", pooled.shape)

# %%
# In place of the network: skin is redder than what is around it, and medals are lighter than the
# cloth.

masks = np.stack([pooled[0, 1] > 0.12, pooled[1, 0] > 0.2])

# %%
# Masks are pasted into the picture by :func:`roicy.paste_masks`, which thresholds them too.

corners = np.array(list(boxes.values()), np.float32)
pasted = roicy.paste_masks(masks.astype(np.float32), corners, photo.shape[:2])
print("the pasted masks are", pasted.shape, pasted.dtype)

# %%
# The picture: boxes on the photograph, what the head gets, and the pasted masks.

figure, axes = plt.subplot_mosaic(
    [["photo", "face0", "face2", "result"], ["photo", "medals0", "medals2", "result"]],
    figsize=(7, 4.1),
    dpi=160,
    width_ratios=[1.45, 1, 1, 1.45],
    layout="constrained",
)
colours = {"face": "#ff5a4f", "medals": "#3ddc84"}
axes["photo"].imshow(photo)
axes["photo"].set_title("boxes", fontsize=14)
shaded = photo.copy()
for i, (name, (x1, y1, x2, y2)) in enumerate(boxes.items()):
    axes["photo"].add_patch(
        Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=colours[name], linewidth=2.5)
    )
    axes[f"{name}0"].imshow(pooled[i, 0], cmap="gray")
    axes[f"{name}0"].set_title(f"{name}:\nbrightness", fontsize=13)
    axes[f"{name}2"].imshow(pooled[i, 2], cmap="magma")
    axes[f"{name}2"].set_title(f"{name}:\nedges", fontsize=13)
    colour = matplotlib.colors.to_rgb(colours[name])
    shaded += 0.6 * pasted[i][..., None] * (colour - shaded)
axes["result"].imshow(shaded)
axes["result"].set_title("pasted masks", fontsize=14)
for one in axes.values():
    one.set(xticks=[], yticks=[])
plt.show()
