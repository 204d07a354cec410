"""Faces and plates for the next network
=====================================

A detector finds faces and number plates in the frames of a camera.  The next network wants each of
them upright, in one size, with normalised channels.  :func:`roicy.crop` does this in one call.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Polygon

import roicy

RED, BLUE = "#d1495b", "#2e86ab"

# %%
# A frame with two faces, one of them tilted, and a plate that is seen from the side.

HEIGHT, WIDTH = 360, 640
y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
frame = np.stack([150 + 0.1 * x, 175 - 0.1 * y, 200 - 0.1 * x], axis=-1)


def draw_face(cx, cy, angle):
    """Draw a face that is turned by `angle`, and return where its eyes and its mouth are."""
    cos, sin = np.cos(angle), np.sin(angle)
    u, v = cos * (x - cx) - sin * (y - cy), sin * (x - cx) + cos * (y - cy)
    frame[(u / 56) ** 2 + (v / 70) ** 2 < 1] = (235, 190, 160)
    for eye in (-22, 22):
        frame[(u - eye) ** 2 + (v + 18) ** 2 < 60] = (40, 40, 60)
    frame[(abs(v - 32) < 5) & (abs(u) < 24)] = (170, 60, 60)
    parts = np.array([[-22, -18], [22, -18], [0, 32]])
    return parts @ np.array([[cos, -sin], [sin, cos]]) + (cx, cy)


def draw_plate(corners):
    """Draw a plate with dark bars between four corners."""
    across, down = corners[1] - corners[0], corners[3] - corners[0]
    offset = np.stack([x - corners[0, 0], y - corners[0, 1]]).reshape(2, -1)
    s, t = np.linalg.solve(np.stack([across, down], axis=1), offset).reshape(2, HEIGHT, WIDTH)
    frame[(s > 0) & (s < 1) & (t > 0) & (t < 1)] = (250, 250, 245)
    frame[(np.floor(s * 14) % 2 == 0) & (abs(t - 0.5) < 0.3) & (abs(s - 0.5) < 0.45)] = (30, 30, 30)


landmarks = [draw_face(130, 150, 0.0), draw_face(330, 210, 0.5)]
plate = np.array([[430, 90], [600, 140], [592, 200], [422, 150]], np.float64)
draw_plate(plate)
frame = frame.clip(0, 255).astype(np.uint8)

# %%
# Faces are aligned by their landmarks: eyes and mouth go to the same places in every result.  Three
# points give the affine matrix of each face.

SIZE = 112
wanted = np.array([[38.0, 46.0], [74.0, 46.0], [56.0, 86.0]])
matrices = []
for points in landmarks:
    of_points = np.concatenate([points, np.ones((3, 1))], axis=1)
    matrices.append(np.linalg.solve(of_points, wanted).T)
faces = roicy.crop(frame, np.array(matrices), (SIZE, SIZE), dtype=np.uint8, channels="last")

# %%
# A plate is a box of four corners, clockwise.  Its perspective is undone.  Corners are counted from
# the edge of the first pixel, and landmarks from its middle: hence the half.

corners = plate[None] + 0.5
plates = roicy.crop(frame, corners, (48, 144), dtype=np.uint8, channels="last")

# %%
# For a network the same call scales and normalises, and puts the channels first.

batch = roicy.crop(
    frame,
    np.array(matrices),
    (SIZE, SIZE),
    scale=1 / 255,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)
print(batch.shape, batch.dtype, "from", f"{batch.min():.1f}", "to", f"{batch.max():.1f}")

# %%
# The picture: the frame, and what was cut out of it.

figure = plt.figure(figsize=(7, 5.4), dpi=160, layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[1.9, 1])
axes = above.subplots()
axes.imshow(frame)
axes.set_title("the frame", fontsize=14)
for points in landmarks:
    axes.scatter(*points.T, s=30, color=BLUE, edgecolor="white", linewidth=0.8)
axes.add_patch(Polygon(plate, fill=False, edgecolor=RED, linewidth=2.5))
panels = below.subplots(1, 3, width_ratios=[1, 1, 3])
titles = ("face 1", "face 2", "the plate")
for panel, picture, title in zip(panels, (*faces, *plates), titles, strict=True):
    panel.imshow(picture)
    panel.set_title(title, fontsize=14)
for panel in (axes, *panels):
    panel.set(xticks=[], yticks=[])
plt.show()
