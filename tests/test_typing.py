"""The annotations pass mypy --strict in a user's program."""

import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
from numpy.typing import NDArray

import roicy


def pooled(x: NDArray[np.float32], boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    return roicy.roi_align(x, boxes, (7, 7), 0.25, sampling_ratio=2, aligned=True, num_threads=2)


def with_argmax(
    x: NDArray[np.float64], boxes: list[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    largest: NDArray[np.float64] = roicy.roi_pool(x, boxes, 7)
    return roicy.roi_pool(x, boxes, 7, out=largest, return_argmax=True)


def gradient(g: NDArray[np.float32], boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    return roicy.prroi_pool_backward(g, boxes, (1, 2, 3, 4), layout="NHWC", boxes_num=[1])


class OfAnotherLibrary:
    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.float32]:
        return np.zeros((1, 2, 3, 4), np.float32)


def of_lists(x: NDArray[np.float32], picture: NDArray[np.uint16]) -> NDArray[np.float32]:
    roicy.roi_align(picture, [[0, 0.5, 0, 2, 2]], 7, sampling_ratio=2.0)
    roicy.roi_align(OfAnotherLibrary(), [[[0, 0, 2, 2]], []], 7)
    roicy.multiscale_roi_align([OfAnotherLibrary()], OfAnotherLibrary(), 7, [0.5])
    return roicy.ps_roi_align(x, ([[0, 0, 2, 2]], x[0, 0]), 1)


def batch(frame: NDArray[np.uint8]) -> NDArray[np.float32]:
    crops, matrices = roicy.crop(frame, [[0, 0, 4, 4]], 2, mean=(1, 2, 3), return_matrices=True)
    points: NDArray[np.float64] = matrices
    return roicy.crop([frame, frame], [[[0, 0, 4, 4]], []], (2, 3), out=crops, channels="last")


def images(m: NDArray[np.float32], boxes: NDArray[np.float32]) -> NDArray[np.bool_]:
    codes = roicy.paste_masks(m, boxes, (8, 9), format="rle")
    print(codes[0]["counts"].decode())
    return roicy.paste_masks(m, boxes, (8, 9), threshold=0.5, rule="mmdet")


roicy.set_num_threads(roicy.get_num_threads())
roicy.show_config()
version: str = roicy.__version__
"""
WRONG = {
    'roicy.roi_align(np.ones((1, 1, 2, 2)), np.ones((1, 5)), "7")': "arg-type",
    'roicy.roi_align(np.ones((1, 1, 2, 2)), np.ones((1, 5)), 7, layout="CHW")': "arg-type",
    'roicy.crop(np.ones((2, 2), np.uint8), [], 7, fit="contain")': "call-overload",
    "roicy.roi_align(np.ones((1, 1, 2, 2)), np.ones((1, 5)), 7, 1.0, 2, True, None)": "call-arg",
    'roicy.roi_align("map", np.ones((1, 5)), 7)': "arg-type",
    'roicy.roi_align(np.ones((1, 1, 2, 2)), [["0"]], 7)': "arg-type",
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


def test_programs_that_are_wrong(tmp_path):
    pytest.importorskip("mypy")
    done = check(tmp_path, "import numpy as np\nimport roicy\n" + "\n".join(WRONG))
    found = done.stdout.splitlines()
    for i, code in enumerate(WRONG.values()):
        assert any(line.startswith(f"program.py:{i + 3}:") and code in line for line in found), (
            done.stdout
        )
