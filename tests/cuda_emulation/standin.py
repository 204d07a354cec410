"""A stand-in for the few names of CuPy that roicy.cuda uses.

Its arrays lie in the memory of NumPy arrays, and kernels run on the CPU, one warp after another.

It is stricter than CuPy.  Types of arguments are compared with those of the kernel, addresses have
to be those of memory that is in use, new arrays are full of NaN, memory that is freed is
overwritten, and no array is converted to NumPy implicitly.  Warps and their lanes run in the order
that `order` says, and no result may depend on it.

A kernel runs when it is launched, unless `deferred` is set.  Then each stream has a queue, and
`synchronize` runs the queues in turns.
"""

import ctypes
import hashlib
import math
import os
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from roicy.cuda import _launch

FLAGS = os.environ.get("ROICY_EMULATION_FLAGS", "-Og").split()  # compiles fast
USER = os.getuid() if hasattr(os, "getuid") else 0
BUILT = Path(tempfile.gettempdir()) / f"roicy-cuda-emulation-{USER}"
order = "forward"  # or "reverse" or "mixed"
flushing = False  # subnormal numbers count as 0, as in what CuPy compiles
deferred = False
idle = False  # kernels are counted and do not run, which is for measuring the time of the host
alignment = 16  # bytes at whose multiples new memory begins: what kernels may rely on
# What was asked of the device since these lists were cleared last.
launches = []  # names of kernels that were launched
operations = []  # names of operations of CuPy that are launches, too, or copies from the host
allocations = []  # bytes of new memory

_in_use = {}  # where each piece of memory begins, and where it ends
_freed = []  # memory that was freed, but that kernels in queues may still access


class Stream:
    """A queue of work, which is current inside of `with`."""

    current = None

    def __init__(self):
        self.queue, self.graph, self.outer = [], None, None

    def __enter__(self):
        self.outer, Stream.current = Stream.current, self
        return self

    def __exit__(self, *_):
        Stream.current = self.outer

    def put(self, work):
        if self.graph is not None:
            self.graph.append(work)
        elif deferred:
            self.queue.append(work)
        else:
            work()

    def begin_capture(self):
        self.graph = []

    def end_capture(self):
        """Return a function that repeats the work that was captured."""
        graph, self.graph = self.graph, None
        return lambda: [work() for work in graph]


Stream.null = Stream.current = Stream()


def synchronize(*streams):
    """Run the work of streams in turns, one piece of each at a time, beginning with the first."""
    while any(stream.queue for stream in streams):
        for stream in streams:
            if stream.queue:
                stream.queue.pop(0)()
    _freed.clear()


class Device:
    id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __repr__(self):
        return "<CUDA Device 0>"


def address_of(array):
    return array.__array_interface__["data"][0]


class Memory:
    """Memory that belongs to the stream on which it was made."""

    idle = np.empty(1 << 20, np.uint8)

    def __init__(self, count, fill=255):  # bytes of 255 are NaN
        allocations.append(count)
        self.count, self.stream = count, Stream.current
        if idle:
            # One piece of memory serves all, since the system takes long to give large ones.
            if count > len(Memory.idle):
                Memory.idle = np.empty(count, np.uint8)
            self.host, self.ptr, self.first = Memory.idle, 4096, 0
            return
        self.host = np.empty(count, np.uint8)
        if address_of(self.host) % alignment:
            self.host = np.empty(count + alignment, np.uint8)
        self.host.fill(fill)
        self.first = -address_of(self.host) % alignment
        self.ptr = address_of(self.host) + self.first
        _in_use[self.ptr] = self.ptr + count

    def array(self, shape, dtype):
        return np.ndarray(shape, dtype, self.host, self.first)

    def __del__(self):
        if _in_use.pop(self.ptr, None) is None or idle:
            return
        if deferred or self.stream.graph is not None:
            _freed.append(self.host)
        # The next owner of this memory may write to it when its stream has come so far.
        host = self.host
        self.stream.put(lambda: host.fill(255))


class Pointer:
    """An address on the device, with what keeps its memory in use."""

    def __init__(self, ptr, mem=None):
        self.ptr, self.mem, self.device_id = ptr, mem, 0


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array on the device."""

    device = Device()

    def __init__(self, host, mem=None):
        self.host = host
        self.mem, self.pointer = mem, None
        self.shape, self.strides, self.ndim = host.shape, host.strides, host.ndim
        self.dtype, self.size = host.dtype, host.size

    @property
    def data(self):
        if self.pointer is None:
            self.pointer = Pointer(address_of(self.host), self.mem)
        return self.pointer

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return _made(ufunc.__name__, getattr(ufunc, method)(*map(_host, inputs), **keywords))

    def __getitem__(self, key):
        return ndarray(np.asarray(self.host[key]), self.mem)

    def __setitem__(self, key, value):
        operations.append("copy")
        value = _host(value)
        Stream.current.put(lambda: self.host.__setitem__(key, value))

    def astype(self, dtype, copy=True):
        if not copy and self.dtype == dtype:
            return self
        return _made("astype", self.host.astype(dtype))

    def transpose(self, axes):
        return ndarray(self.host.transpose(axes), self.mem)

    def view(self, dtype):
        return ndarray(self.host.view(dtype), self.mem)

    def reshape(self, shape):
        return ndarray(self.host.reshape(shape), self.mem)

    def fill(self, value):
        operations.append("fill")
        Stream.current.put(lambda: self.host.fill(value))

    def get(self):
        synchronize(Stream.null, Stream.current)
        return self.host.copy()


def _host(value):
    return value.host if isinstance(value, ndarray) else value


def _made(name, host):
    """Return what an operation has computed, which runs at once."""
    assert not deferred, name
    operations.append(name)
    return asarray(host, name)


def asarray(value, name="copy from host"):
    if isinstance(value, ndarray):
        return value
    value = np.asarray(value)
    if name == "copy from host":
        operations.append(name)
    if idle or value.nbytes > 1 << 30:  # the system provides only the pages that are written
        allocations.append(value.nbytes)
        return ndarray(value.copy(order="C"))
    result = empty(value.shape, value.dtype)
    result.host[...] = value
    return result


def empty(shape, dtype):
    shape = shape if isinstance(shape, tuple) else (shape,)
    dtype = np.dtype(dtype)
    memory = Memory(math.prod(shape) * dtype.itemsize)
    return ndarray(memory.array(shape, dtype), memory)


def zeros(shape, dtype):
    result = empty(shape, dtype)
    result.fill(0)
    return result


def ascontiguousarray(array):
    if array.host.flags.c_contiguous:
        return array
    return _made("ascontiguousarray", np.ascontiguousarray(array.host))


def concatenate(parts):
    return _made("concatenate", np.concatenate([part.host for part in parts]))


def where(condition, a, b):
    return _made("where", np.where(condition.host, _host(a), _host(b)))


def may_share_memory(a, b):
    return np.may_share_memory(a.host, b.host)


class cuda:
    Stream, Device = Stream, Device

    class runtime:
        @staticmethod
        def getDevice():
            return 0

    @staticmethod
    def alloc(count):
        memory = Memory(count)
        return Pointer(memory.ptr, memory)

    @staticmethod
    def get_current_stream():
        return Stream.current


floor, fmax, log2, sqrt = np.floor, np.fmax, np.log2, np.sqrt
maximum, minimum = np.maximum, np.minimum


def instantiations():
    """Return the names of all kernels, as NVRTC wants them."""
    kernel = r"__global__ void (?:__launch_bounds__\(.*\)\s+)?(\w+)\("
    names = re.findall(kernel, _launch.source())
    return [f"{name}<{kind}>" for name in names for kind in ("float", "double")]


class RawModule:
    """Kernels, of which only `name_expressions` can be had.

    All of them are compiled at once for each source text, since one compilation takes less time.
    """

    libraries = {}  # noqa: RUF012

    def __init__(self, code, options, name_expressions):
        assert "--fmad=false" in options
        self.names = name_expressions
        self.library = self.libraries.get((code, options))
        if self.library is None:
            self.library = self.libraries[code, options] = compiled(code, options)

    def get_function(self, name):
        assert name in self.names
        number = instantiations().index(name)
        types = getattr(self.library, f"types_{number}")
        types.restype = ctypes.c_char_p
        run = getattr(self.library, f"run_{number}")
        return Function(name, types().decode().split(), run, self.library.flush_subnormals)


def compiled(code, options):
    """Return a library of all kernels."""
    launchers = "\n".join(f"LAUNCHER({i}, {name})" for i, name in enumerate(instantiations()))
    text = f"{Path(__file__).with_name('shim.h').read_text()}\n{code}\n{launchers}\n"
    flags = "-std=c++20 -shared -fPIC -ffp-contract=off -Wall -Wno-unknown-pragmas -Werror".split()
    flags += [*FLAGS, "-U_FORTIFY_SOURCE"]  # which takes jumps between stacks for errors
    compiler = os.environ.get("CXX", "g++")
    if "clang" not in compiler:
        # Lanes jump between stacks, so what GCC finds out about the memory that functions use is
        # wrong: it drops stores that other lanes read.
        flags += ["-fno-ipa-pure-const", "-fno-ipa-modref"]
    flags += [option for option in options if option.startswith("-D")]
    BUILT.mkdir(exist_ok=True)
    library = BUILT / f"{hashlib.sha256((text + repr(flags)).encode()).hexdigest()[:20]}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=BUILT) as folder:
            source, made = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
            source.write_text(text)
            subprocess.run([compiler, *flags, str(source), "-o", str(made)], check=True)
            made.replace(library)  # other processes may build it at the same time
    return ctypes.CDLL(str(library))


def _address(argument, expected, where):
    """Return the address that an argument says, which has to be one of memory in use."""
    if isinstance(argument, ndarray):
        # CuPy has no arrays of structures, so these are passed as bytes.
        structures = expected.startswith("*V") and argument.dtype == np.uint8
        found = f"*{argument.dtype.kind}{argument.dtype.itemsize}"
        assert structures or expected == found, (where, argument.dtype)
        address = argument.data.ptr
    else:
        assert isinstance(argument, np.uint64), where
        address = int(argument)
        assert address == 0 or any(a <= address < b for a, b in _in_use.items()), where
    size = int(expected[2:])
    assert address % (8 if expected.startswith("*V") else size) == 0, where
    return address


class Function:
    def __init__(self, name, types, run, flush):
        self.name, self.types, self.run, self.flush = name, types, run, flush

    def __call__(self, grid, block, arguments):
        launches.append(self.name)
        if idle:
            return
        assert len(arguments) == len(self.types), (self.name, len(arguments), self.types)
        held = []
        for i, (argument, expected) in enumerate(zip(arguments, self.types, strict=True)):
            where = f"{self.name}, argument {i}: {expected}"
            if expected.startswith("*"):
                held.append(ctypes.c_void_p(_address(argument, expected, where)))
            elif expected.startswith("V"):
                assert isinstance(argument, np.ndarray), where
                assert (argument.shape, argument.dtype.itemsize) == ((), int(expected[1:])), where
                held.append(argument.copy())
            else:
                assert isinstance(argument, np.generic), where
                found = f"{argument.dtype.kind}{argument.dtype.itemsize}"
                assert expected == found, (where, argument.dtype)
                held.append(np.array(argument))
        Stream.current.put(lambda: self.work(grid, block, held))

    def work(self, grid, block, held):
        addresses = [
            value.ctypes.data if isinstance(value, np.ndarray) else ctypes.addressof(value)
            for value in held
        ]
        warps = grid[0] * block[0] // 32
        coprime = (s for s in range(warps // 3 + 2, 2 * warps + 3) if math.gcd(s, warps) == 1)
        step = {"forward": 1, "reverse": -1}.get(order) or next(coprime)
        self.flush(int(flushing))
        numbers = map(ctypes.c_longlong, (grid[0], block[0], step))
        self.run(*numbers, (ctypes.c_void_p * len(addresses))(*addresses))
