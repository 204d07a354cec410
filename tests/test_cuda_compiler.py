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


@pytest.mark.parametrize("architecture", [75, 80, 90, 100, 120])
def test_compiles(architecture):
    _, program = nvrtc.nvrtcCreateProgram(_launch.source().encode(), b"roicy.cu", 0, [], [])
    for name in standin.instantiations():
        assert nvrtc.nvrtcAddNameExpression(program, name.encode())[0] == 0
    # CuPy adds the last option.
    options = [
        option.encode()
        for option in (
            *_launch.OPTIONS,
            f"--gpu-architecture=sm_{architecture}",
            "--ptxas-options=-v",
            "-ftz=true",
        )
    ]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
    nvrtc.nvrtcGetProgramLog(program, log)
    log = log.decode()
    assert error == 0, log
    for name in standin.instantiations():
        assert nvrtc.nvrtcGetLoweredName(program, name.encode())[0] == 0
    reports = log.split("Compiling entry function")[1:]
    assert len(reports) == len(standin.instantiations())
    for report in reports:
        (kind,) = re.match(r" '_Z\d+[a-z_]+I([fd])", report).groups()  # float or double
        spills = [int(count) for count in re.findall(r"(\d+) bytes spill (?:stores|loads)", report)]
        assert len(spills) >= 2
        assert not any(spills), report
        assert int(re.search(r"Used (\d+) registers", report)[1]) <= REGISTERS[kind]
        assert int((re.search(r"(\d+) bytes smem", report) or "00")[1]) <= SHARED


def compiled(*options):
    """Return the PTX of a kernel."""
    _, program = nvrtc.nvrtcCreateProgram(_launch.source().encode(), b"roicy.cu", 0, [], [])
    assert nvrtc.nvrtcAddNameExpression(program, b"forward_bins<float>")[0] == 0
    given = [option.encode() for option in (*_launch.OPTIONS, *options)]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
    assert error == 0
    text = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode()


def test_last_option_decides_about_subnormal_numbers():
    """CuPy appends -ftz=true to the options of a module.  So an option of ours would have no
    effect, and docs/gpu.md says that subnormal numbers count as 0.
    """
    assert ".ftz." in compiled("-ftz=true")
    assert ".ftz." in compiled("--ftz=false", "-ftz=true")
    assert ".ftz." not in compiled("--ftz=false")
