"""The command ``python -m roicy onnx``."""

import re
from pathlib import Path

import numpy as np
import pytest

from roicy.__main__ import main

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx.parser")
from onnx_models import box_inputs, chain, of_roicy, parsed, roi_align  # noqa: E402

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/deployed.md"
inputs = pytest.fixture(box_inputs)


def test_command(tmp_path, capsys):
    path = tmp_path / "chain.onnx"
    onnx.save(chain(), path)
    assert main(["onnx", str(path)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("roicy: node") == 2
    shapes = ["--shape", "X=1x3x20x25", "--shape", "rois=5x4", "--shape", "images=5"]
    assert main(["onnx", str(path), "--bench", "--rounds", "1", *shapes]) == 0
    printed = capsys.readouterr().out
    assert "ONNX Runtime with roicy: " in printed
    assert " ms, the least of 1 runs on 1 thread\n" in printed
    assert "ONNX Runtime alone takes" in printed
    assert "output 'last': shape (5, 3, 3, 3), largest difference" in printed


def test_commands_of_the_page(monkeypatch, capsys):
    """They run on a model that is in the repository."""
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^    python -m roicy (onnx .+)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert main(command.split()) == 0
    assert capsys.readouterr().out.count("roicy: node 'pooled' (RoiAlign)") == 2


def test_arrays_for_the_command(tmp_path, capsys, inputs):
    path = tmp_path / "chain.onnx"
    onnx.save(chain(), path)
    given = []
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
        given += ["--input", f"{name}={tmp_path}/{name}.npy"]
    assert main(["onnx", str(path), "--bench", "--rounds", "1", *given]) == 0
    (mean,) = of_roicy(chain(), inputs)[:1]
    assert f"of {np.abs(mean).max():.3g}\n" in capsys.readouterr().out
    wrong = ["--input", f"Z={tmp_path}/X.npy"]
    assert main(["onnx", str(path), "--bench", *wrong]) == 1
    assert "--input: 'Z', expected any of ['X', 'rois', 'images']" in capsys.readouterr().err
    np.save(tmp_path / "X.npy", inputs["X"][0])
    assert main(["onnx", str(path), "--bench", *given]) == 1
    said = capsys.readouterr().err
    assert "the model does not run on these inputs: " in said
    assert "Invalid rank for input: X" in said


def test_errors_of_the_command(tmp_path, capsys):
    path = tmp_path / "later.onnx"
    onnx.save(roi_align(opset=22), path)
    shapes = ["--shape", "X=1x3x8x9", "--shape", "rois=5x4", "--shape", "images=5"]
    assert main(["onnx", str(path), "--bench", *shapes]) == 0
    assert "ONNX Runtime cannot run the model" in capsys.readouterr().out
    assert main(["onnx", str(path), "--bench"]) == 1
    assert "--shape: input 'X' is tensor(float)" in capsys.readouterr().err
    assert main(["onnx", str(path), "--bench", "--shape", "X=big"]) == 1
    assert "--shape X=big: expected NAME=" in capsys.readouterr().err
    path.write_bytes(b"nothing")
    assert main(["onnx", str(path)]) == 1
    assert f"{path}: [ONNXRuntimeError]" in capsys.readouterr().err
    assert main(["onnx", str(tmp_path / "none")]) == 1
    onnx.save(parsed("plain (float[N] X) => (float[N] Y) { Y = Neg (X) }"), path)
    assert main(["onnx", str(path)]) == 0
    assert "nothing in the model is for roicy: it has no RoI" in capsys.readouterr().out


@pytest.mark.parametrize(("kind", "example"), [
    ("float[N, C, H, W]", "1x3x800x800"), ("float[N, H, W, 3]", "1x800x800x3"),
    ("float[3, H, W]", "3x800x800"), ("float[K, 4]", "1x4"), ("float[N, C, 64, 80]", "1x3x64x80"),
])  # fmt: skip
def test_extents_of_an_example(kind, example, tmp_path, capsys):
    """They are those of one picture."""
    path = tmp_path / "plain.onnx"
    onnx.save(parsed(f"plain ({kind} X) => ({kind} Y) {{ Y = Neg (X) }}"), path)
    assert main(["onnx", str(path), "--bench"]) == 1
    assert f"--shape X={example}\n" in capsys.readouterr().err


def test_explanation(tmp_path, capsys):
    """What is taken, and with --explain what is not; of a model of which nothing is, always."""
    text = """two (float[1, 5, 6, 7] X) => (int64[1, 1, 24, 28] Y, int64[1, 1, 24, 28] Z)
        <float[4] S = {1.0, 1.0, 4.0, 4.0}> {
        R = Resize <mode = "linear"> (X, "", S)
        Y = ArgMax <axis = 1> (R)
        Q = Resize <mode = "cubic"> (X, "", S)
        Z = ArgMax <axis = 1> (Q)
    }"""
    path, taken = tmp_path / "two.onnx", "roicy: labels of 'X' -> 'Y'\n"
    left = "left to ONNX Runtime: node 'Z' (ArgMax): Resize of mode 'cubic'\n"
    onnx.save(parsed(text, 18), path)
    for options, printed in (([], taken), (["--explain"], taken + left)):
        assert main(["onnx", str(path), *options]) == 0
        assert capsys.readouterr().out == printed
    onnx.save(parsed(text.replace("linear", "cubic"), 18), path)
    assert main(["onnx", str(path)]) == 0
    assert sorted(capsys.readouterr().out.splitlines(True)) == [left.replace("'Z'", "'Y'"), left]
