"""Large calls are right, and take no more memory than docs/guarantees.md says.

They have arrays of more than 2**31 elements, a million boxes, or sides of a million pixels.  Each
test runs in a process of its own, whose peak of resident memory is compared with what the call
reads and returns.  `pytest -m large` runs them: it takes 10 GB of memory and some minutes.
"""

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.large,
    pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere"),
]

PREAMBLE = """
import resource, sys
import numpy as np
import roicy
roicy.set_num_threads(2)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

some = np.array([[0, 1, 1, 60, 60]] * 50, np.float32)
roicy.roi_align(np.ones((1, 16, 64, 64), np.float32), some, 7)  # what a first call loads
start = peak()

def took():
    "Megabytes beyond what there was before."
    return (peak() - start) / 2**20

def same(a, b):
    assert a.tobytes() == b.tobytes(), (a, b)
"""


def run(code, *arguments):
    """Run a program, which has assertions of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + code, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr


# Bins and samples are exact in float32, so that a box far away gives the same bits.  The map of
# 2.2e9 elements is zeros, which take no memory, except in the last image and channel.
BEYOND = """
layout, dtype = {layout!r}, np.{dtype}
c, h, w = 550, 2000, 2000
x = np.zeros((1, c, h, w) if layout == "NCHW" else (1, h, w, c), dtype)
seen = x if layout == "NCHW" else x.transpose(0, 3, 1, 2)
assert x.size > 2**31 and x.nbytes > 2**32
patch = np.random.default_rng(0).integers(-8, 9, (3, 40, 40)).astype(dtype)
seen[0, -3:, -40:, -40:] = patch
here = np.array([[0, w - 39, h - 38, w - 2, h - 3], [0, w - 30, h - 30, w - 1, h - 1]], dtype)
there = here - np.array([0, w - 40, h - 40, w - 40, h - 40], dtype)
small = np.zeros((1, c, 40, 40), dtype)
small[0, -3:] = patch
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_forward_beyond_2_31_elements(layout, dtype):
    run(
        BEYOND.format(layout=layout, dtype=dtype)
        + """
def out(result):
    return np.ascontiguousarray(result if layout == "NCHW" else result.transpose(0, 3, 1, 2))
for name, options in (("roi_align", {"sampling_ratio": 2}), ("prroi_pool", {}), ("roi_pool", {})):
    function = getattr(roicy, name)
    same(out(function(x, here, 2, layout=layout, **options)), function(small, there, 2, **options))
options = {"sampling_ratio": 2}
expected = roicy.ps_roi_align(small, there, (1, 2), **options)
same(out(roicy.ps_roi_align(x, here, (1, 2), layout=layout, **options)), expected)
expected = roicy.ps_roi_pool(small, there[:1], (1, 2))
same(out(roicy.ps_roi_pool(x, here[:1], (1, 2), layout=layout)), expected)
g = np.ones((2, c, 2, 2), dtype)
laid_out = g if layout == "NCHW" else g.transpose(0, 2, 3, 1)
grad = roicy.roi_align_backward_boxes(laid_out, x, here, sampling_ratio=2, layout=layout)
same(grad, roicy.roi_align_backward_boxes(g, small, there, sampling_ratio=2))
# of the map, read in rows
pages = 550 * 40 * 8192 * (2 if layout == "NCHW" else 1) / 2**20
pages += 40 * 40 * 550 * x.itemsize / 2**20
assert took() < 3 * pages + 64, took()
"""
    )


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_backward_beyond_2_31_elements(layout):
    run(
        BEYOND.format(layout=layout, dtype="float32")
        + """
g = np.random.default_rng(1).integers(-8, 9, (2, c, 2, 2)).astype(dtype)
given = g if layout == "NCHW" else np.ascontiguousarray(g.transpose(0, 2, 3, 1))
grad = roicy.roi_align_backward(given, here, x.shape, sampling_ratio=2, layout=layout)
seen = grad if layout == "NCHW" else grad.transpose(0, 3, 1, 2)
expected = roicy.roi_align_backward(g, there, small.shape, sampling_ratio=2)
same(np.ascontiguousarray(seen[0, :, -40:, -40:]), expected)
assert not seen[0, ::50, :-40:100].any()
assert took() < x.nbytes / 2**20 + 64, took()
del grad, seen
pooled, argmax = roicy.roi_pool(small, there, 2, return_argmax=True)
y, column = np.divmod(argmax, 40)
far = np.where(argmax < 0, -1, (y + h - 40) * w + column + w - 40).astype(np.int32)
if layout == "NHWC":
    far = np.ascontiguousarray(far.transpose(0, 2, 3, 1))
grad = roicy.roi_pool_backward(given, far, here, x.shape, layout=layout)
seen = grad if layout == "NCHW" else grad.transpose(0, 3, 1, 2)
expected = roicy.roi_pool_backward(g, argmax, there, small.shape)
same(np.ascontiguousarray(seen[0, :, -40:, -40:]), expected)
"""
    )


def test_output_beyond_2_31_elements():
    run("""
x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
boxes = np.tile(np.array([[0, 0, 0, 7, 7]], np.float32), (8200, 1))
boxes[-1] = [0, 1, 2, 5, 6]
out = roicy.roi_align(x, boxes, 512, sampling_ratio=1)
assert out.size > 2**31
same(out[-1:], roicy.roi_align(x, boxes[-1:], 512, sampling_ratio=1))
same(out[5000:5001], roicy.roi_align(x, boxes[:1], 512, sampling_ratio=1))
assert took() < out.nbytes / 2**20 + 64, took()
""")


@pytest.mark.parametrize("size", [1, 3])
def test_a_million_boxes(size):
    run(f"""
rng = np.random.default_rng(0)
k, size = 10**6, {size}
x = rng.standard_normal((3, 4, 200, 300)).astype(np.float32)
columns = [rng.integers(0, 3, (k, 1)), rng.uniform(-10, 290, (k, 2)), np.zeros((k, 2))]
boxes = np.concatenate(columns, axis=1).astype(np.float32)
boxes[:, 3:] = boxes[:, 1:3] + rng.uniform(0, 40, (k, 2))
some = rng.integers(0, k, 100)
for name in ("roi_align", "prroi_pool", "roi_pool"):
    function = getattr(roicy, name)
    out = function(x, boxes, size)
    same(out[some], function(x, boxes[some], size))
    del out
out = np.ones((k, 4, size, size), np.float32)
before = took()
grad = roicy.prroi_pool_backward(out, boxes, x.shape)
expected = roicy.prroi_pool(np.ones_like(x), boxes, size).sum(dtype=np.float64)
np.testing.assert_allclose(grad.sum(dtype=np.float64), expected, rtol=1e-4)
assert roicy.prroi_pool_backward_boxes(out, x, boxes).shape == (k, 5)
# the boxes here and their gradients, two outputs at a time, and 40 bytes a box of order
most = (2 * boxes.nbytes + 2 * out.nbytes + 12 * boxes.nbytes + 40 * k) / 2**20 + 64
assert took() < most, took()
""")


@pytest.mark.parametrize(
    "shape", [(1, 3, 1, 10**6), (1, 3, 10**6, 1), (1, 1, 10**6, 30), (1, 1, 30, 10**6)]
)
def test_sides_of_a_million(shape):
    """One box covers the map.  Means of equal pixels are as exact as docs/guarantees.md promises
    for such long sums.
    """
    run(f"""
shape = {shape}
x = np.random.default_rng(0).standard_normal((shape[1], 1, 1))
x = np.broadcast_to(x, shape).astype(np.float32)
start = peak()
h, w = shape[2:]
bound = (h / 2 + w / 3 + 8) * np.finfo(np.float32).eps / 2
whole = np.array([[0, 0, 0, w, h]], np.float32)
aligned = {{"aligned": True}}
two = {{"sampling_ratio": 2, "aligned": True}}
for name, options in (("roi_align", aligned), ("roi_align", two), ("roi_pool", {{}})):
    box = whole
    if name == "roi_pool":  # whose last row and column belong to it
        box = whole - np.array([0, 0, 0, 1, 1], np.float32)
    out = getattr(roicy, name)(x, box, (2, 3), **options)
    rtol = 0 if name == "roi_pool" else bound
    np.testing.assert_allclose(out, np.broadcast_to(x[:, :, :1, :1], out.shape), rtol=rtol)
g = np.ones((1, shape[1], 2, 3), np.float32)
grad = roicy.roi_align_backward(g, whole, shape, aligned=True)
np.testing.assert_allclose(grad.sum(axis=(2, 3), dtype=np.float64), 6, rtol=1e-6)
assert took() < 2 * x.nbytes / 2**20 + 64 + 2 * 40 * (h + w) / 2**20, took()
""")


@pytest.mark.parametrize(
    ("channels", "size"), [(1, 1), (1, 512), (2, (1, 2**20)), (1, (2**22, 1)), (256, 512)]
)
def test_outputs(channels, size):
    run(f"""
size = {size}
x = np.ones((1, {channels}, 50, 60), np.float32)
boxes = np.array([[0, 3, 4, 50, 40], [0, 0, 0, 59, 49]], np.float32)
out = roicy.roi_align(x, boxes, size, sampling_ratio=1)
assert took() < out.nbytes / 2**20 + 64 + 64 * sum(out.shape[2:]) / 2**20, took()
np.testing.assert_allclose(out, 1, rtol=1e-6)
""")


# Only the rows that are read are written, so that the file takes no room.  Two segments read them.
EXTERNAL = """
import onnx, onnxruntime
import onnx.parser
from roicy.compat.onnx import InferenceSession
path, count, width = sys.argv[1] + "/model.onnx", 1150000, 1000
with open(sys.argv[1] + "/table", "wb") as file:
    file.truncate(2 * count * width)
    for row in (3, 700000, count - 1):
        file.seek(2 * row * width)
        file.write((row % 1000 + np.arange(width) / 8).astype(np.float16).tobytes())
assert 2 * count * width > 2**31
model = onnx.parser.parse_model('''<ir_version: 9, opset_import: ["": 16]>
large (int64[M] which, float[K, 4] rois, int64[K] images) => (float[K, C, 2, 2] Y) {
    shape = Constant <value_ints = [1, 1, -1, 1000]> ()
    zero = Constant <value = int64 {0}> ()
    first = Gather (table, which)
    wide = Cast <to = 1> (first)
    X = Reshape (wide, shape)
    P = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (X, rois, images)
    means = ReduceMean <keepdims = 0> (P)
    nothing = Cast <to = 7> (means)
    none = Mul (nothing, zero)
    again = Add (which, none)
    second = Gather (table, again)
    width = Cast <to = 1> (second)
    Z = Reshape (width, shape)
    Y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (Z, rois, images)
}''')
table = onnx.TensorProto(name="table", data_type=onnx.TensorProto.FLOAT16, dims=[count, width])
table.data_location = onnx.TensorProto.EXTERNAL
table.external_data.add(key="location", value="table")
model.graph.initializer.append(table)
onnx.save_model(model, path)
which = np.array([3, count - 1, 700000, 3])
rois = np.array([[0, 0, 900, 4], [10, 1, 40, 3]], np.float32)
feed = {"which": which, "rois": rois, "images": np.zeros(2, np.int64)}

start = peak()
session = InferenceSession(path, num_threads=1)
got = session.run(None, feed)[0]
assert took() < 100, took()
numbers = np.arange(width, dtype=np.float32) / 8
maps = np.stack([row % 1000 + numbers for row in which]).astype(np.float16).astype(np.float32)
rows = np.concatenate([np.zeros((2, 1), np.float32), rois], axis=1)
expected = roicy.roi_align(maps[None, None], rows, 2, 1.0, 2, True)
np.testing.assert_array_equal(got, expected)
(alone,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feed)
np.testing.assert_allclose(got, alone, rtol=1e-6)
"""


def test_external_data_beyond_2_31_bytes(tmp_path):
    """A model's data stay in their file, mapped once, and only the pages that are read are here."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    run(EXTERNAL, str(tmp_path))
