"""NVIDIA's compiler, which needs no GPU, compiles all kernels without spills."""

import re

import pytest
from cuda_emulation import standin

from roicy.cuda import _launch

nvrtc = pytest.importorskip("cuda.bindings.nvrtc")

# With so many registers, a multiprocessor of any architecture holds four blocks of 128 threads for
# float, and three for double.
REGISTERS = {"f": 128, "d": 168}
SHARED = 48 << 10  # bytes that a block may have on every architecture


def compiled(names, *options):
    """Return the program of some kernels, and what the compiler says of them."""
    _, program = nvrtc.nvrtcCreateProgram(_launch.source().encode(), b"roicy.cu", 0, [], [])
    for name in names:
        assert nvrtc.nvrtcAddNameExpression(program, name.encode())[0] == 0
    given = [option.encode() for option in (*_launch.OPTIONS, *options)]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
    log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
    nvrtc.nvrtcGetProgramLog(program, log)
    assert error == 0, log.decode()
    return program, log.decode()


@pytest.mark.parametrize("architecture", [75, 80, 90, 100, 120])
def test_compiles(architecture):
    names = standin.instantiations()
    # CuPy adds the last option.
    options = f"--gpu-architecture=sm_{architecture}", "--ptxas-options=-v", "-ftz=true"
    program, log = compiled(names, *options)
    for name in names:
        assert nvrtc.nvrtcGetLoweredName(program, name.encode())[0] == 0
    reports = log.split("Compiling entry function")[1:]
    assert len(reports) == len(names)
    for report in reports:
        (kind,) = re.match(r" '_Z\d+[a-z_]+I([fd])", report).groups()  # float or double
        spills = [int(count) for count in re.findall(r"(\d+) bytes spill (?:stores|loads)", report)]
        assert len(spills) >= 2
        assert not any(spills), report
        assert int(re.search(r"Used (\d+) registers", report)[1]) <= REGISTERS[kind]
        assert int((re.search(r"(\d+) bytes smem", report) or "00")[1]) <= SHARED


@pytest.mark.parametrize(
    ("options", "flushes"),
    [(["-ftz=true"], True), (["--ftz=false", "-ftz=true"], True), (["--ftz=false"], False)],
)
def test_last_option_decides_about_subnormal_numbers(options, flushes):
    """CuPy appends -ftz=true to the options of a module.  So an option of ours would have no
    effect, and docs/gpu.md says that subnormal numbers count as 0.
    """
    program, _ = compiled(["forward_bins<float>"], *options)
    text = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    nvrtc.nvrtcGetPTX(program, text)
    assert (".ftz." in text.decode()) == flushes
