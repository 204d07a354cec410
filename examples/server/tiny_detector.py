"""Writes tiny_detector.onnx: a detector of 6 kB with random weights, to try servers and commands
on.

    python tiny_detector.py

Its input is an image (3, H, W) from 0 to 1, and its outputs are boxes, labels and scores.  Boxes of
a fixed grid are pooled by RoiAlign from one map, classified, and moved.
"""

from pathlib import Path

import numpy as np
import onnx.parser
from onnx import numpy_helper

MODEL = """<ir_version: 8, opset_import: ["": 16]>
tiny_detector (float[3, height, width] image) =>
    (float[K, 4] boxes, int64[K] labels, float[K] scores) {
    axis = Constant <value_ints = [0]> ()
    batch = Unsqueeze (image, axis)
    strided = Conv <strides = [4, 4], pads = [1, 1, 1, 1]> (batch, kernel)
    features = Relu (strided)
    extents = Shape (image)
    sides = Gather (extents, sides_of_boxes)
    whole = Cast <to = 1> (sides)
    proposals = Mul (grid, whole)
    count = Shape <end = 1> (proposals)
    images = ConstantOfShape <value = int64[1] {0}> (count)
    pooled = RoiAlign <output_height = 3, output_width = 3, sampling_ratio = 2,
        spatial_scale = 0.25> (features, proposals, images)
    rows = Flatten (pooled)
    logits = MatMul (rows, classes)
    probabilities = Softmax (logits)
    labels = ArgMax <axis = 1, keepdims = 0> (probabilities)
    scores = ReduceMax <axes = [1], keepdims = 0> (probabilities)
    moves = MatMul (rows, shifts)
    boxes = Add (proposals, moves)
}"""


def model() -> onnx.ModelProto:
    """Return the model."""
    rng = np.random.default_rng(0)
    starts = np.linspace(0, 0.75, 4)
    grid = [[x, y, x + 0.25, y + 0.25] for y in starts for x in starts]
    weights = {
        "kernel": rng.standard_normal((8, 3, 5, 5)) / 4,
        "grid": np.array(grid),
        "classes": rng.standard_normal((72, 3)) / 3,
        "shifts": rng.standard_normal((72, 4)) / 3,
        "sides_of_boxes": np.array([2, 1, 2, 1]),
    }
    made = onnx.parser.parse_model(MODEL)
    for name, array in weights.items():
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


if __name__ == "__main__":
    onnx.save(model(), Path(__file__).with_suffix(".onnx"))
