"""roicy.crop beside OpenCV and Pillow, where their definitions agree."""

import numpy as np
import pytest

import roicy

BOXES = [(3, 5, 200, 140), (10, 20, 70, 190), (0, 0, 240, 200), (100, 50, 131, 90)]
FRAME = np.random.default_rng(0).integers(0, 256, (200, 240, 3), dtype=np.uint8)
# Weights of float32 and sums of a few dozen numbers to 255.
CLOSE = {"rtol": 0, "atol": 3e-4}


def slices(frame):
    for k, (x1, y1, x2, y2) in enumerate(BOXES):
        yield k, np.ascontiguousarray(frame[y1:y2, x1:x2])


@pytest.mark.parametrize(
    ("way", "size"),
    [
        ("INTER_LINEAR", (112, 112)), ("INTER_LINEAR", (48, 96)), ("INTER_LINEAR", (300, 310)),
        ("INTER_LINEAR", (17, 250)), ("INTER_AREA", (40, 30)), ("INTER_AREA", (27, 19)),
        ("INTER_AREA", (20, 31)),
    ],
)  # fmt: skip
def test_opencv(way, size, isa):
    """OpenCV rounds bytes, and weighs them by 11 bits where it interpolates.  It does so to both
    axes unless both are reduced.
    """
    cv2 = pytest.importorskip("cv2")
    interpolation, area = getattr(cv2, way), way == "INTER_AREA"
    got = roicy.crop(FRAME, BOXES, size, antialias=area, border="crop", channels="last")
    for k, part in slices(FRAME):
        exact = cv2.resize(part.astype(np.float32), size[::-1], interpolation=interpolation)
        np.testing.assert_allclose(got[k], exact, **CLOSE)
        rounded = cv2.resize(part, size[::-1], interpolation=interpolation)
        atol = 0.501 if area else 0.5 + 4 * 255 / 2**11
        np.testing.assert_allclose(got[k], rounded, rtol=0, atol=atol)


def test_pillow(isa):
    """Pillow's BOX weighs whole pixels, so sizes have to divide each other."""
    pillow = pytest.importorskip("PIL.Image")
    frame = FRAME[..., 0].astype(np.float32)
    picture = pillow.fromarray(frame)
    box = (10, 20, 130, 180)
    for size in ((40, 24), (160, 120), (16, 60)):
        want = picture.resize(size[::-1], pillow.Resampling.BOX, box=box)
        np.testing.assert_allclose(roicy.crop(frame, [box], size)[0, 0], want, **CLOSE)
    for size in ((320, 130), (170, 500)):  # enlarged
        want = picture.resize(size[::-1], pillow.Resampling.BILINEAR, box=box)
        np.testing.assert_allclose(roicy.crop(frame, [box], size)[0, 0], want, **CLOSE)
