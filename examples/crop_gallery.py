"""Draw what the options of roicy.crop do to one picture.

    python examples/crop_gallery.py --output crops.png

The picture is made here: a scene with a tilted face and a plate in perspective.
"""

from __future__ import annotations

import argparse

import matplotlib as mpl
import numpy as np

import roicy

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Polygon

FACE = (60, 70, 180, 210)
TILTED = (0, 120, 140, 110, 130, 0.35)  # frame, cx, cy, w, h, radians
PLATE = [(300, 150), (440, 185), (436, 225), (296, 190)]


def scene(height: int = 300, width: int = 500) -> np.ndarray:
    """Return a picture (H, W, 3) of uint8."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    picture = np.stack([120 + 0.2 * x, 150 - 0.2 * y, 190 - 0.25 * x], axis=-1)
    picture += 25 * (np.sin(x / 1.1) * np.sin(y / 1.1))[..., None]  # fine texture, which aliases
    cos, sin = np.cos(TILTED[5]), np.sin(TILTED[5])
    u, v = cos * (x - 120) - sin * (y - 140), sin * (x - 120) + cos * (y - 140)
    picture[(u / 50) ** 2 + (v / 62) ** 2 < 1] = (235, 190, 160)
    for eye in (-20, 20):
        picture[(u - eye) ** 2 + (v + 15) ** 2 < 45] = (40, 40, 60)
    picture[(abs(v - 28) < 4) & (abs(u) < 22)] = (170, 60, 60)
    corners = np.array(PLATE, np.float64)
    across, down = corners[1] - corners[0], corners[3] - corners[0]
    s, t = np.linalg.solve(
        np.stack([across, down], axis=1),
        np.stack([x - corners[0, 0], y - corners[0, 1]]).reshape(2, -1),
    ).reshape(2, height, width)
    picture[(s > 0) & (s < 1) & (t > 0) & (t < 1)] = (250, 250, 245)
    stripes = (np.floor(s * 14) % 2 == 0) & (abs(t - 0.5) < 0.3) & (abs(s - 0.5) < 0.45)
    picture[stripes] = (30, 30, 30)
    return picture.clip(0, 255).astype(np.uint8)


def crops(picture: np.ndarray) -> dict[str, np.ndarray]:
    """Return a crop for each title."""
    whole = (0, 0, picture.shape[1], picture.shape[0])

    def one(box, size, **options):
        options = {"dtype": np.uint8, "channels": "last", "pad_value": 114} | options
        return roicy.crop(picture, [box], size, **options)[0]

    return {
        "stretch, areas": one(whole, (75, 75)),
        "stretch, points": one(whole, (75, 75), antialias=False),
        "letterbox": one(whole, (75, 75), fit="letterbox"),
        "cover": one(whole, (75, 75), fit="cover"),
        "upright box": one(FACE, (112, 112)),
        "rotated box": one(TILTED, (112, 112)),
        "corners": one(PLATE, (48, 144)),
        "off the frame:\nconstant": one((-60, -50, 120, 130), (112, 112), border="constant"),
        "off the frame:\nimage": one((-60, -50, 120, 130), (112, 112)),
    }


def draw(path: str) -> None:
    """Write the picture and its crops."""
    picture = scene()
    shown = crops(picture)
    figure, axes = plt.subplot_mosaic(
        "ffab;cdeg;hhij", figsize=(8, 6.6), height_ratios=[1, 1, 0.9], layout="constrained"
    )
    first, *others = axes.values()
    first.imshow(picture)
    first.set_title("frame", fontsize=14)
    for corners, colour in (
        ([FACE[:2], (FACE[2], FACE[1]), FACE[2:], (FACE[0], FACE[3])], "#2e86ab"),
        (PLATE, "#e4572e"),
    ):
        first.add_patch(Polygon(corners, fill=False, edgecolor=colour, linewidth=1.5))
    for axis, (title, crop) in zip(others, shown.items(), strict=True):
        axis.imshow(crop, interpolation="nearest")
        axis.set_title(title, fontsize=14)
    for axis in axes.values():
        axis.set_axis_off()
    figure.savefig(path, dpi=160)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--output", default="crops.png", help="the file (default: %(default)s)")
    path = parser.parse_args().output
    draw(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
