"""The annotations suit users' programs, which annotate nothing: mypy --strict and pyright agree."""

import json
import subprocess
import sys

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
assert_type(matrices, F64)
assert_type(roicy.crop(frame, boxes, 2, return_matrices=flag), NDArray[Any] | Both)

masks = np.zeros((1, 28, 28), np.float32)
images = roicy.paste_masks(masks, [[0, 0, 4, 4]], (8, 9), threshold=0.5, rule="mmdet")
assert_type(images, NDArray[Any])
codes = roicy.paste_masks(Tensor(), Tensor(), [8, 9], threshold=None, padding=1, format="rle")
print(codes[0]["counts"].decode(), codes[0]["size"])

roicy.set_num_threads(roicy.get_num_threads())
roicy.show_config()
version = roicy.__version__
assert_type(version, str)
'''
WRONG = {
    'roicy.roi_align(np.ones((1, 1, 2, 2)), np.ones((1, 5)), "7")': "arg-type",
    'roicy.roi_align(np.ones((1, 1, 2, 2)), np.ones((1, 5)), 7, layout="CHW")': "arg-type",
    'roicy.crop(np.ones((2, 2), np.uint8), [], 7, fit="contain")': "call-overload",
    "roicy.roi_align(np.ones((1, 1, 2, 2)), np.ones((1, 5)), 7, 1.0, 2, True, None)": "call-arg",
    'roicy.roi_align("map", np.ones((1, 5)), 7)': "arg-type",
    'roicy.roi_align(np.ones((1, 1, 2, 2)), [["0"]], 7)': "arg-type",
    "roicy.crop(np.ones((2, 2), np.uint8), [], 7, color='rgb')": "call-overload",
    "roicy.crop_lines(np.ones((2, 2), np.uint8), [], 7, fit='cover')": "call-arg",
    "roicy.paste_masks(np.ones((1, 2, 2)), [[0, 0, 1, 1]], (4, 4), format='png')": "call-overload",
    "roicy.roi_pool(np.ones((1, 1, 2, 2)), np.ones((1, 5)), 7, return_argmax=1)": "call-overload",
    "y: int = roicy.prroi_pool(np.ones((1, 1, 2, 2)), np.ones((1, 5)), 7)": "assignment",
}


def check(tmp_path, program):
    path = tmp_path / "program.py"
    path.write_text(program)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--cache-dir",
        str(tmp_path / "cache"),
        str(path),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)


def test_a_program_that_is_right(tmp_path):
    pytest.importorskip("mypy")
    done = check(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stdout


def test_pyright_agrees(tmp_path):
    """Pyright accepts the program, and refuses the lines that mypy refuses."""
    pytest.importorskip("basedpyright")
    path = tmp_path / "program.py"
    for text in (PROGRAM, "import numpy as np\nimport roicy\n" + "\n".join(WRONG)):
        path.write_text(text)
        command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
        command += ["--level", "error", "--outputjson", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        found = json.loads(done.stdout)["generalDiagnostics"]
        lines = {one["range"]["start"]["line"] - 1 for one in found}
        assert lines == (set() if text is PROGRAM else set(range(1, len(WRONG) + 1))), done.stdout


def test_programs_that_are_wrong(tmp_path):
    pytest.importorskip("mypy")
    done = check(tmp_path, "import numpy as np\nimport roicy\n" + "\n".join(WRONG))
    found = done.stdout.splitlines()
    for i, code in enumerate(WRONG.values()):
        assert any(line.startswith(f"program.py:{i + 3}:") and code in line for line in found), (
            done.stdout
        )
