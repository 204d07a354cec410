"""roicy.compat.openvino gives OpenVINO's numbers."""

import numpy as np
import pytest
from turned import make

from roicy.compat import openvino

runtime = pytest.importorskip("openvino")
operations = pytest.importorskip("openvino.opset15")

CORE = runtime.Core()
CORE.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})


def run(name, arrays, *attributes):
    inputs = [operations.parameter(list(array.shape), array.dtype) for array in arrays]
    model = runtime.Model([getattr(operations, name)(*inputs, *attributes)], inputs)
    return CORE.compile_model(model, "CPU")(arrays)[0]


def agree(name, arrays, *attributes):
    mine = getattr(openvino, name)(*arrays, *attributes)
    # Positions go up to 30 pixels.
    slack = 100 * np.finfo(np.float32).eps * np.abs(arrays[0]).max()
    np.testing.assert_allclose(mine, run(name, arrays, *attributes), rtol=0, atol=slack)


def problem(rng, high):
    """Return a map, boxes [x1, y1, x2, y2] up to `high`, and their images."""
    x = rng.standard_normal((2, 8, 21, 30), dtype=np.float32)
    boxes = np.sort(rng.uniform(-0.2 * high, 1.2 * high, (40, 2, 2)), axis=1).reshape(40, 4)
    boxes[:8] = [0, 0, high, high]
    boxes[:4, :2] = rng.uniform(0, high, (4, 2))
    return x, boxes.astype(np.float32), rng.integers(0, 2, 40).astype(np.int32)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("aligned_mode", ["asymmetric", "half_pixel_for_nn", "half_pixel"])
def test_roi_align(aligned_mode, mode, rng):
    for ratio in (0, 2):
        agree("roi_align", problem(rng, 60), 3, 2, ratio, 0.37, mode, aligned_mode)


@pytest.mark.parametrize("size", [(1, 1), (3, 5)])
def test_roi_pooling(size, rng):
    for method, high in (("max", 60), ("bilinear", 1)):
        x, boxes, images = problem(rng, high)
        coords = np.concatenate([images[:, None], boxes], axis=1, dtype=np.float32)
        agree("roi_pooling", (x, coords), list(size), 0.37, method)


@pytest.mark.parametrize(
    ("mode", "high", "parts"),
    [("average", 60, (1, 1)), ("bilinear", 2, (2, 2)), ("bilinear", 2, (1, 4))],
)
def test_psroi_pooling(mode, high, parts, rng):
    x, boxes, images = problem(rng, high)
    coords = np.concatenate([images[:, None], boxes], axis=1, dtype=np.float32)
    agree("psroi_pooling", (x, coords), 2, 2, 0.5, *parts, mode)


@pytest.mark.parametrize("clockwise", [False, True])
@pytest.mark.parametrize("ratio", [0, 2])
def test_roi_align_rotated(ratio, clockwise, rng):
    x, boxes, bins = make(rng, "blocks", 0.25, np.float32)
    boxes[:, 3:5] = np.abs(boxes[:, 3:5])  # it raises sizes to those of a pixel
    images, turned = boxes[:, 0].astype(np.int32), np.ascontiguousarray(boxes[:, 1:])
    agree("roi_align_rotated", (x, turned, images), *bins, ratio, 0.25, clockwise)
