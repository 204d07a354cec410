"""The examples run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "examples").is_dir(), reason="they are not here")


def run(*arguments):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=ROOT / "examples"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_crop_gallery(tmp_path):
    pytest.importorskip("matplotlib")
    assert "wrote" in run("crop_gallery.py", "--output", tmp_path / "crops.png")
    assert (tmp_path / "crops.png").stat().st_size > 50000


@pytest.mark.parametrize("color", [(), ("--color", "nv12")], ids=["bgr", "nv12"])
def test_video_loop(color):
    said = run("video_loop.py", "--frames", 20, "--boxes", 3, "--threads", 1, *color)
    assert "20 frames of 3 boxes" in said
    assert "p99" in said


def test_labels_overlay(tmp_path):
    out = tmp_path / "overlay.ppm"
    said = run("labels_overlay.py", "--frames", 3, "--threads", 1, "--output", out)
    assert "3 frames, maps (1, 8, 128, 128), 8 classes" in said
    assert "labels: median" in said
    head = b"P6 1920 1080 255\n"
    assert out.read_bytes().startswith(head)
    assert out.stat().st_size == len(head) + 1920 * 1080 * 3


def test_labels_overlay_of_a_model(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 18]>
        one (float[1, 3, 96, 160] input) => (float[N, C, h, w] maps) {
            weights = RandomUniform <shape = [5, 3, 8, 8], low = -1.0, seed = 1.0> ()
            maps = Conv <strides = [8, 8]> (input, weights)
        }
    """)
    onnx.save(model, tmp_path / "model.onnx")
    model = tmp_path / "model.onnx"
    said = run("labels_overlay.py", "--frames", 2, "--threads", 1, "--model", model)
    assert "2 frames, maps (1, 5, 12, 20), " in said


def test_image_processors():
    """They make what the processors of transformers make, where it is installed."""
    sizes = "import image_processors as one; one.SIZES = [(480, 360)]; one.main()"
    lines = run("-c", sizes).splitlines()
    assert "Qwen2.5-VL, 480 x 360, torchvision: (884, 1176)" in "\n".join(lines)
    assert len(lines) > 40
    assert not [line for line in lines if "differ" in line and ", 0 numbers differ" not in line]


def test_preprocessing_server():
    pytest.importorskip("PIL")
    said = run("preprocessing_server.py", "--requests", 6)
    assert "6 requests by 2 workers" in said
    assert "0 numbers differ; torch was not imported by a worker" in said


@pytest.mark.slow
def test_many_machines():
    pytest.importorskip("distributed")
    said = run("many_machines.py", "--maps", 300, "--block", 10)
    assert "killed worker" in said
    assert "0 of 300 results differ in a bit" in said
