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


@pytest.mark.parametrize("size", [(112, 112), (48, 96), (300, 310), (17, 250)])
def test_opencv_linear(isa, size):
    """OpenCV computes uint8 with weights of 11 bits, and rounds."""
    cv2 = pytest.importorskip("cv2")
    got = roicy.crop(FRAME, BOXES, size, antialias=False, border="crop", channels="last")
    for k, part in slices(FRAME):
        exact = cv2.resize(part.astype(np.float32), size[::-1], interpolation=cv2.INTER_LINEAR)
        np.testing.assert_allclose(got[k], exact, **CLOSE)
        rounded = cv2.resize(part, size[::-1], interpolation=cv2.INTER_LINEAR)
        np.testing.assert_allclose(got[k], rounded, rtol=0, atol=0.5 + 4 * 255 / 2**11)


@pytest.mark.parametrize("size", [(40, 30), (27, 19), (20, 31)])
def test_opencv_area(isa, size):
    """They agree where both axes are reduced; elsewhere OpenCV interpolates both."""
    cv2 = pytest.importorskip("cv2")
    got = roicy.crop(FRAME, BOXES, size, border="crop", channels="last")
    for k, part in slices(FRAME):
        exact = cv2.resize(part.astype(np.float32), size[::-1], interpolation=cv2.INTER_AREA)
        np.testing.assert_allclose(got[k], exact, **CLOSE)
        rounded = cv2.resize(part, size[::-1], interpolation=cv2.INTER_AREA)
        np.testing.assert_allclose(got[k], rounded, rtol=0, atol=0.501)


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
        np.testing.assert_allclose(roicy.crop(frame, [box], size)[0, 0], np.asarray(want), **CLOSE)
    for size in ((320, 130), (170, 500)):  # enlarged
        want = picture.resize(size[::-1], pillow.Resampling.BILINEAR, box=box)
        got = roicy.crop(frame, [box], size)[0, 0]
        np.testing.assert_allclose(got, np.asarray(want), **CLOSE)


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
