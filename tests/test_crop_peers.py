"""roicy.crop beside OpenCV, Pillow and torchvision, where their definitions agree."""

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


def test_opencv_blob(isa):
    cv2 = pytest.importorskip("cv2")
    mean, std = np.array([123.7, 116.3, 103.5]), np.array([58.4, 57.1, 57.4])
    parts = [part for _, part in slices(FRAME)]
    blob = cv2.dnn.blobFromImages(parts, 1.0, (64, 80), mean.tolist(), swapRB=True)
    got = roicy.crop(
        FRAME, BOXES, (80, 64), antialias=False, border="crop", swap_channels=True, mean=mean,
        std=std,
    )  # fmt: skip
    np.testing.assert_allclose(
        got * std.reshape(3, 1, 1), blob, rtol=0, atol=0.501 + 4 * 255 / 2**11
    )


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


@pytest.mark.parametrize("size", [(112, 90), (250, 260), (13, 47)])
def test_torchvision(size):
    """PyTorch computes positions in float32, so neighbours are weighed that much differently."""
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    frame = FRAME.astype(np.float32)
    for antialias in (False, True):
        got = roicy.crop(frame, BOXES, size, antialias=antialias, border="crop")
        for k, part in slices(frame):
            if antialias and (size[0] < part.shape[0] or size[1] < part.shape[1]):
                continue  # it reduces with a triangle of twice the area
            planes = torch.from_numpy(part.transpose(2, 0, 1).copy())
            want = functional.resize(planes, list(size), antialias=antialias)
            np.testing.assert_allclose(
                got[k], want.numpy(), rtol=0, atol=2 * 255 * 2.0**-24 * max(FRAME.shape)
            )
