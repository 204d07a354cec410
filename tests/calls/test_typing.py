"""The annotations suit users' programs, which annotate nothing: all checkers of types agree."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = '''
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import roicy

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Both = tuple[NDArray[Any], F64]


class Tensor:
    """An object of another library, whose type is not said."""

    def __array__(self, dtype=None, copy=None):  # type: ignore[no-untyped-def]
        return np.zeros((1, 2, 3, 4), np.float32)


class Typed:
    def __array__(self, dtype: object = None, copy: bool | None = None) -> F64:
        return np.zeros((1, 2, 3, 4))


class OfDLPack:
    def __dlpack__(self) -> object:
        raise NotImplementedError


class Image:
    """A picture, as Pillow has it."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {}


boxes = [[0, 0.5, 0, 2, 2]]
features = np.zeros((1, 3, 8, 8), np.float32)
pooled = roicy.roi_align(features, boxes, (7, 7))
assert_type(pooled, F32)
pooled = roicy.roi_align(features, np.zeros((2, 5)), 7, 0.25, 2, True, num_threads=2)
double = np.zeros((1, 3, 8, 8))
assert_type(roicy.roi_align(double, boxes, [7, 7], (0.5, 1), sampling_ratio=2.0, out=None), F64)
half = np.zeros((1, 3, 8, 8), np.float16)
halves = roicy.prroi_pool(half, [features[0, 0]], 7, boxes_num=None, layout="NHWC")
assert_type(halves, NDArray[np.float16])
of_bytes = roicy.ps_roi_align(np.zeros((1, 4, 8, 8), np.uint8), boxes, 2)
of_bytes = roicy.ps_roi_align(np.zeros((1, 4, 8, 8), np.int16), np.zeros((1, 5), int), 2)
assert_type(roicy.roi_align(Typed(), [[[0, 0, 2, 2]], []], 7), F64)
of_tensor = roicy.multiscale_roi_align([Tensor()], Tensor(), 7, [0.5], canonical_scale=112)
of_dlpack = roicy.roi_align(OfDLPack(), OfDLPack(), 7)
of_memory = roicy.roi_align(memoryview(b""), boxes, 7)
pyramid = roicy.multiscale_roi_align([features, features], boxes, 7, image_size=(32, 32))
assert_type(pyramid, F32)


def of_any(anything: Any, some: NDArray[Any], bare: np.ndarray) -> F64:
    roicy.roi_align(anything, anything, anything)
    roicy.roi_align(bare, boxes, 7, out=bare)
    return roicy.roi_align(some, boxes, 7)


largest = roicy.roi_pool(features, boxes, 7)
assert_type(largest, F32)
largest, argmax = roicy.roi_pool(features, boxes, 7, out=largest, return_argmax=True)
assert_type(argmax, NDArray[np.int32])
flag = bool(largest.size)
either = roicy.roi_pool(features, boxes, 7, return_argmax=flag)
assert_type(either, F32 | tuple[F32, NDArray[np.int32]])
maxima = roicy.roi_align_max(features, boxes, 7, products=flag)

grad = np.zeros((1, 3, 7, 7), np.float32)
assert_type(roicy.roi_align_backward(grad, boxes, features.shape), F32)
assert_type(roicy.roi_align_backward(grad, boxes, [1, 3, 8, 8]), F32)
assert_type(roicy.multiscale_roi_align_backward(grad, boxes, [(1, 3, 8, 8)], [1.0]), list[F32])
of_pixels = roicy.roi_pool_backward(grad, argmax, boxes, features.shape)
of_boxes = roicy.roi_align_backward_boxes(grad, features, boxes, aligned=True)
assert_type(of_boxes, F32)
print(of_boxes[:, 1:])
assert_type(roicy.prroi_pool_backward_boxes(grad, features, np.zeros((1, 5))), F32)
lists = [np.zeros((1, 4)), np.zeros((0, 4))]
of_images = roicy.multiscale_roi_align_backward_boxes(grad, [features], lists, [1.0])
assert_type(of_images, list[F32])

cut = roicy.crop_and_resize(features, [[0, 0, 1, 1]], [0], 2, "nearest", 1, layout="NCHW")
assert_type(cut, F32)
frame = np.zeros((48, 64, 3), np.uint8)
crops = roicy.crop(frame, [[0, 0, 4, 4]], 2, mean=(1, 2, 3), std=np.ones(3), scale=1 / 255)
crops = roicy.crop([frame, frame], [[[0, 0, 4, 4]], []], (2, 3), out=crops, channels="last")
crops = roicy.crop(Image(), Tensor(), 2, dtype="uint8", fit="letterbox", pad_value=114)
crops = roicy.crop([Tensor(), Image()], [[], []], 2, antialias=flag, border="crop")
crops = roicy.crop(frame[..., 0], boxes, 2, color="nv12", color_range="full", color_matrix="bt709")
crops = roicy.crop((frame, frame), boxes, 2, color="nv21", color_matrix="bt2020")
crops = roicy.crop(frame, boxes, 2, antialias="pillow", dtype="int8", quantization=(0.5, -3))
crops = roicy.crop([(frame, frame, frame), frame[..., 0]], [boxes, []], 2, color="i420")
crops, matrices = roicy.crop(frame, boxes, 2, boxes_num=[1], return_matrices=True, num_threads=1)
lines, widths = roicy.crop_lines(frame, boxes, 48, mean=0.5, dtype="int8", color=None, out=crops)
patches = roicy.resize(frame, (28, 56), patch=14, merge=2, repeat=2, mean=(1, 2, 3))
assert_type(patches, NDArray[Any])
sized = roicy.resize([Tensor(), Image()], 8, [[[0, 0, 4, 4]], []], content=(0, -2, 8, 12))
sized = roicy.resize(frame, 8, filter="box", tiles=(2, 3), overview="last", alpha="drop")
assert_type(matrices, F64)
assert_type(roicy.crop(frame, boxes, 2, return_matrices=flag), NDArray[Any] | Both)

masks = np.zeros((1, 28, 28), np.float32)
images = roicy.paste_masks(masks, [[0, 0, 4, 4]], (8, 9), threshold=0.5, rule="mmdet")
assert_type(images, NDArray[Any])
mixed = roicy.prototype_masks(masks, masks[0], of_boxes[:, 1:], (8, 9), rule="yolov5_native")
assert_type(mixed, NDArray[Any])
codes = roicy.paste_masks(Tensor(), Tensor(), [8, 9], threshold=None, padding=1, format="rle")
print(codes[0]["counts"].decode(), codes[0]["size"])

named = roicy.label_map(masks, (8, 9), labels=[3], threshold=0.5, below=0, box=(0, 0, 9.5, 28))
assert_type(named, NDArray[Any])
named, best = roicy.label_map(Tensor(), [8, 9], via=(80, 90), values=True, dtype=np.int64)
assert_type(best, NDArray[Any])
assert_type(roicy.resize_masks(masks, (8, 9), threshold=1, via=(80, 90)), NDArray[Any])
print(roicy.resize_masks(masks, [8, 9], box=[0, 0, 9.5, 28], format="rle")[0]["size"])
weights = np.ones(1)
named, segments = roicy.label_segments(masks, [8, 9], align_corners=True, weights=weights)
named, segments = roicy.label_segments(masks, [8, 9], weights=[0.5], codes=True)

value, at, by = np.zeros((1, 6, 1, 4)), np.zeros((1, 3, 1, 1, 2, 2)), np.zeros((1, 3, 1, 1, 2))
sums = roicy.deformable_attention(value, [(2, 3)], at, by, padding="border", num_threads=1)
assert_type(sums, NDArray[Any])
given = (value, np.array([[2, 3]]), at[:, :, :, 0], by[:, :, :, 0])
of_value, of_places, _ = roicy.deformable_attention_backward(sums, *given, points=[2])

roicy.set_num_threads(roicy.get_num_threads())
roicy.show_config()
version: str = roicy.__version__
'''
WRONG = [
    'roicy.roi_align(np.ones((1, 1, 2, 2)), np.ones((1, 5)), "7")',
    'roicy.roi_align(np.ones((1, 1, 2, 2)), np.ones((1, 5)), 7, layout="CHW")',
    'roicy.crop(np.ones((2, 2), np.uint8), [], 7, fit="contain")',
    "roicy.roi_align(np.ones((1, 1, 2, 2)), np.ones((1, 5)), 7, 1.0, 2, True, None)",
    'roicy.roi_align("map", np.ones((1, 5)), 7)',
    'roicy.roi_align(np.ones((1, 1, 2, 2)), [["0"]], 7)',
    "roicy.crop(np.ones((2, 2), np.uint8), [], 7, color='rgb')",
    "roicy.crop_lines(np.ones((2, 2), np.uint8), [], 7, fit='cover')",
    "roicy.paste_masks(np.ones((1, 2, 2)), [[0, 0, 1, 1]], (4, 4), format='png')",
    "roicy.roi_pool(np.ones((1, 1, 2, 2)), np.ones((1, 5)), 7, return_argmax=1)",
    "y: int = roicy.prroi_pool(np.ones((1, 1, 2, 2)), np.ones((1, 5)), 7)",
    "roicy.crop(features, [], 7, meen=1)",
    "roicy.resize(features, 7, filter='cubic')",
    "roicy.resize(features, 7, fit='cover')",
    "roicy.crop(features, [], 7, return_matrices=True, thread=1)",
    "roicy.crop_lines(features, [], 7, meen=1)",
    "roicy.crop_lines(features, [], 7, size=1)",
    "roicy.crop_lines(features, [], 7, return_matrices=True)",
    "roicy.crop_and_resize(features, boxes, [0], 7, methode='nearest')",
    "roicy.roi_align(features, boxes, 7, alligned=True)",
    "roicy.roi_align_max_backward(features, features, boxes, product=True)",
    "roicy.roi_align_backward_boxes(features, features, boxes, alligned=True)",
    "roicy.roi_pool(features, boxes, 7, return_argmx=True)",
    "roicy.roi_align_rotated(features, boxes, 7, clockwize=True)",
    "roicy.multiscale_roi_align([features], boxes, 7, imagesize=(8, 8))",
    "roicy.paste_masks(features[0], boxes, (8, 8), format='rle', treshold=0.5)",
    "roicy.deformable_attention(features, [(1, 2)], boxes, boxes, mode='bicubic')",
    "roicy.label_map(features, (8, 8), mode='bicubic')",
    "roicy.set_num_threads(num_thread=1)",
    "roicy.compat.mmcv.RoIAlignRotated(7, 1.0, alligned=True)",
    "roicy.compat.onnx.RoiAlign(features, boxes, [0], output_hight=2)",
    "roicy.compat.torchvision.MultiScaleRoIAlign(['0'], 7, 2, canonical_skale=1)",
    "roicy.compat.paddle.vision.ops.roi_align(features, boxes, [1], 7, alligned=True)",
]
HEAD = """import numpy as np
import roicy
import roicy.compat.mmcv, roicy.compat.onnx, roicy.compat.paddle, roicy.compat.torchvision
features, boxes = np.ones((1, 1, 2, 2)), np.ones((1, 5))
"""
PYTHON = sys.executable
# What is run, and with programs that are wrong these options too.
CHECKERS = {
    "mypy": ("--strict",),
    "pyright": ("--pythonpath", PYTHON),
    "basedpyright": ("--level", "error", "--pythonpath", PYTHON),
    "pyrefly": ("check", "--output-format", "min-text", "--python-interpreter-path", PYTHON),
    "ty": ("check", "--output-format", "concise", "--python", PYTHON),
}
STRICTER = {"pyrefly": ("--preset", "default")}


@pytest.mark.parametrize("name", CHECKERS)
def test_programs(tmp_path, name):
    """A checker accepts the program that is right, and refuses each line of the wrong one."""
    pytest.importorskip(name)
    command = [str(Path(PYTHON).with_name(name)), *CHECKERS[name], "program.py"]
    first = HEAD.count("\n") + 1
    for text, options, expected in (
        (PROGRAM, (), set()),
        (HEAD + "\n".join(WRONG), STRICTER.get(name, ()), {*range(first, first + len(WRONG))}),
    ):
        (tmp_path / "program.py").write_text(text)
        ended = subprocess.run([*command, *options], capture_output=True, text=True, cwd=tmp_path)
        errors = [line for line in ended.stdout.splitlines() if "error" in line.lower()]
        found = [re.search(r"program\.py:(\d+):", line) for line in errors]
        assert {int(line[1]) for line in found if line} == expected, ended.stdout
