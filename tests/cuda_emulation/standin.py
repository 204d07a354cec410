"""
A stand-in for the few names of CuPy that roicy.cuda uses.

Its arrays lie in the memory of NumPy arrays, and kernels run on the CPU, one warp after another.

It is stricter than CuPy.  Types of arguments are compared with those of the kernel, new arrays
are full of NaN, and no array is converted to NumPy implicitly.  Warps and their lanes run in the
order that `order` says, and no result may depend on it.
"""

import contextlib
import ctypes
import hashlib
import math
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

FLAGS = os.environ.get("ROICY_EMULATION_FLAGS", "-O2").split()
BUILT = (
    Path(tempfile.gettempdir())
    / f"roicy-cuda-emulation-{os.getuid() if hasattr(os, 'getuid') else 0}"
)
order = "forward"  # or "reverse" or "mixed"
launches = []  # names of the kernels that were launched


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array on the device."""

    device = contextlib.nullcontext()

    def __init__(self, host):
        self.host = host
        self.shape, self.dtype, self.strides, self.ndim, self.size = (
            host.shape,
            host.dtype,
            host.strides,
            host.ndim,
            host.size,
        )

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return ndarray(getattr(ufunc, method)(*map(_host, inputs), **keywords))

    def __getitem__(self, key):
        return ndarray(np.asarray(self.host[key]))

    def __setitem__(self, key, value):
        self.host[key] = _host(value)

    def astype(self, dtype, copy=True):
        return ndarray(self.host.astype(dtype, copy=copy))

    def transpose(self, axes):
        return ndarray(self.host.transpose(axes))

    def fill(self, value):
        self.host.fill(value)

    def get(self):
        return self.host.copy()


def _host(value):
    return value.host if isinstance(value, ndarray) else value


def asarray(value):
    return ndarray(np.array(value))


def empty(shape, dtype):
    poison = {"f": np.nan, "i": -(2**30), "u": 255}  # bytes of 255 are NaN in structures too
    return ndarray(np.full(shape, poison[np.dtype(dtype).kind], dtype))


def zeros(shape, dtype):
    return ndarray(np.zeros(shape, dtype))


def ascontiguousarray(array):
    return ndarray(np.ascontiguousarray(array.host))


def concatenate(parts):
    return ndarray(np.concatenate([part.host for part in parts]))


def where(condition, a, b):
    return ndarray(np.where(condition.host, _host(a), _host(b)))


def may_share_memory(a, b):
    return np.may_share_memory(a.host, b.host)


class cuda:
    class runtime:
        @staticmethod
        def getDevice():
            return 0


floor, fmax, log2, maximum, minimum, sqrt = (
    np.floor,
    np.fmax,
    np.log2,
    np.maximum,
    np.minimum,
    np.sqrt,
)


class RawModule:
    """Kernels, which are compiled once for each source text."""

    def __init__(self, code, options, name_expressions):
        assert "--fmad=false" in options
        launchers = "\n".join(f"LAUNCHER({i}, {name})" for i, name in enumerate(name_expressions))
        text = f"{Path(__file__).with_name('shim.h').read_text()}\n{code}\n{launchers}\n"
        flags = [
            "-std=c++20",
            "-shared",
            "-fPIC",
            "-ffp-contract=off",
            "-Wall",
            "-Wno-unknown-pragmas",
            "-Werror",
            *FLAGS,
        ]
        flags += ["-U_FORTIFY_SOURCE"]  # it takes jumps between stacks for errors
        flags += [option for option in options if option.startswith("-D")]
        BUILT.mkdir(exist_ok=True)
        library = BUILT / f"{hashlib.sha256((text + repr(flags)).encode()).hexdigest()[:20]}.so"
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=BUILT) as folder:
                source, made = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
                source.write_text(text)
                subprocess.run(
                    [os.environ.get("CXX", "g++"), *flags, str(source), "-o", str(made)], check=True
                )
                made.replace(library)  # other processes may build it at the same time
        self.library = ctypes.CDLL(str(library))
        self.numbers = {name: i for i, name in enumerate(name_expressions)}

    def get_function(self, name):
        number = self.numbers[name]
        types = getattr(self.library, f"types_{number}")
        types.restype = ctypes.c_char_p
        return Function(name, types().decode().split(), getattr(self.library, f"run_{number}"))


class Function:
    def __init__(self, name, types, run):
        self.name, self.types, self.run = name, types, run

    def __call__(self, grid, block, arguments):
        launches.append(self.name)
        assert len(arguments) == len(self.types), (self.name, len(arguments), self.types)
        held = []
        for i, (argument, expected) in enumerate(zip(arguments, self.types, strict=True)):
            where = f"{self.name}, argument {i}: {expected}"
            if isinstance(argument, ndarray):
                # CuPy has no arrays of structures, so these are passed as bytes.
                structures = (
                    expected.startswith("*V")
                    and argument.dtype == np.uint8
                    and argument.size % int(expected[2:]) == 0
                )
                assert (
                    structures or expected == f"*{argument.dtype.kind}{argument.dtype.itemsize}"
                ), (where, argument.dtype)
                held.append(ctypes.c_void_p(argument.host.__array_interface__["data"][0]))
            elif expected.startswith("*"):
                assert isinstance(argument, np.uint64), where
                assert argument == 0, where
                held.append(ctypes.c_void_p(0))
            elif expected.startswith("V"):
                assert isinstance(argument, np.ndarray), where
                assert (argument.shape, argument.dtype.itemsize) == ((), int(expected[1:])), where
                held.append(argument)
            else:
                assert isinstance(argument, np.generic), where
                assert expected == f"{argument.dtype.kind}{argument.dtype.itemsize}", (
                    where,
                    argument.dtype,
                )
                held.append(np.array(argument))
        addresses = [
            value.ctypes.data if isinstance(value, np.ndarray) else ctypes.addressof(value)
            for value in held
        ]
        warps = grid[0] * block[0] // 32
        step = {"forward": 1, "reverse": -1}.get(order) or next(
            s for s in range(warps // 3 + 2, 2 * warps + 3) if math.gcd(s, warps) == 1
        )
        self.run(
            ctypes.c_longlong(grid[0]),
            ctypes.c_longlong(block[0]),
            ctypes.c_longlong(step),
            (ctypes.c_void_p * len(addresses))(*addresses),
        )
