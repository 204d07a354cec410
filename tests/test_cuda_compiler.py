"""What NVIDIA's compiler makes of the kernels, which takes no GPU: every instantiation, for every architecture, without spills."""

import re

import pytest

from roicy.cuda import _launch

nvrtc = pytest.importorskip("cuda.bindings.nvrtc")

REGISTERS = 128  # blocks of 128 threads: four of them to a multiprocessor, whatever the architecture


@pytest.mark.parametrize("architecture", [75, 80, 90, 100, 120])
def test_compiles(architecture):
    _, program = nvrtc.nvrtcCreateProgram(_launch.source().encode(), b"roicy.cu", 0, [], [])
    for name in _launch.instantiations():
        assert nvrtc.nvrtcAddNameExpression(program, name.encode())[0] == 0
    # the last is what CuPy adds
    options = [option.encode() for option in (*_launch.OPTIONS, f"--gpu-architecture=sm_{architecture}", "--ptxas-options=-v", "-ftz=true")]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
    nvrtc.nvrtcGetProgramLog(program, log)
    log = log.decode()
    assert error == 0, log
    for name in _launch.instantiations():
        assert nvrtc.nvrtcGetLoweredName(program, name.encode())[0] == 0
    spills = [int(count) for count in re.findall(r"(\d+) bytes spill (?:stores|loads)", log)]
    registers = [int(count) for count in re.findall(r"Used (\d+) registers", log)]
    assert len(registers) == len(_launch.instantiations())
    assert len(spills) >= 2 * len(registers)
    assert not any(spills), log
    assert max(registers) <= REGISTERS
