"""Maps of float16, bfloat16 and small integers give the bits that their values give as float32.

No converted copy of the map is made.
"""

import contextlib
import ctypes
import itertools
import platform
import struct
import sys
import tracemalloc

import numpy as np
import pytest
from conftest import (
    ISAS,
    LAYOUTS,
    SUMS,
    WITH_BOX_GRADIENTS,
    assert_same_bits,
    operator,
    pairs,
    random_boxes,
    to_layout,
    views,
)

import roicy
from roicy._kernels.plan import narrow
from roicy._machine import _memory

try:
    import ml_dtypes

    BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    BFLOAT16 = None
OPERATORS = [*SUMS, "roi_pool", "roi_align_max"]
# Each shape is N, C of the output, H and W.  There are whole and partial blocks, and runs of pixels
# that are longer or shorter than the numbers converted together.  With channels last, some maps are
# converted where boxes read them, once for all boxes or once for each.  Other boxes are too large
# for that, with one block or many.
SHAPES = {
    "blocks": (2, 37, 26, 31),
    "camera": (1, 3, 20, 150),
    "wide camera": (1, 3, 9, 2500),
    "row": (2, 16, 1, 3),
    "whole blocks": (1, 32, 9, 70),
    "large boxes": (1, 16, 260, 300),
    "large boxes of many blocks": (1, 144, 130, 140),
}


SMALL = [
    *map(np.dtype, ("float16", "uint8", "int8", "uint16", "int16")),
    *([BFLOAT16] if BFLOAT16 else []),
]


@pytest.fixture(params=SMALL, ids=str)
def small(request):
    return request.param


def is_whole(small):
    return small.kind in "iu"


def limits(small):
    """Return the lowest and the highest number of a type of integers, or what others are within."""
    return (np.iinfo(small).min, np.iinfo(small).max) if is_whole(small) else (0, 255)


def make(rng, name, shape, small, layout="NCHW"):
    n, c, h, w = SHAPES[shape]
    if name.startswith("ps_"):
        c = max(c // 4, 1) * 4
    low, high = limits(small)
    values = rng.standard_normal((n, c, h, w)) * (high - low) / 6 + (high + low) / 2
    x = to_layout(np.clip(values, low, high).astype(small), layout)
    return x, random_boxes(rng, n, 40, (h, w), np.float32)


@pairs(how=itertools.product(OPERATORS, LAYOUTS), shape=SHAPES, small=SMALL, isa=ISAS)
def test_forward(how, shape, small, isa, rng):
    name, layout = how
    x, boxes = make(rng, name, shape, small, layout)
    wide = x.astype(np.float32)
    expected = operator(name)(wide, boxes, 2, layout=layout)
    for threads in (1, 3):
        out = np.full_like(expected, np.nan)
        assert operator(name)(x, boxes, 2, layout=layout, out=out, num_threads=threads) is out
        assert_same_bits(out, expected)
    result = operator(name)(x, boxes, 2, layout=layout)
    assert_same_bits(result, expected if is_whole(small) else expected.astype(small))


@pairs(
    name=["roi_align", "prroi_pool"],
    shape=["camera", "wide camera"],
    small=SMALL,
    layout=LAYOUTS,
    isa=ISAS,
)
def test_crops_of_a_camera(name, shape, small, layout, isa, rng):
    """There are so few channels that lanes are bin rows.  The map may lie in any way, and of some
    boxes a few columns are read at a time.
    """
    x, boxes = make(rng, name, shape, small, layout)
    pool, backward = operator(name), operator(name, "_backward_boxes")
    expected = pool(x.astype(np.float32), boxes, (33, 20), layout=layout)
    g = rng.standard_normal(expected.shape).astype(np.float32)
    of_boxes = backward(g, x.astype(np.float32), boxes, layout=layout)
    for given in (x, *views(x)):
        out = np.full_like(expected, np.nan)
        assert_same_bits(pool(given, boxes, (33, 20), layout=layout, out=out), expected)
        assert_same_bits(backward(g, given, boxes, layout=layout), of_boxes)


@pairs(name=OPERATORS, small=SMALL, isa=ISAS)
def test_any_strides(name, small, isa, rng):
    x, boxes = make(rng, name, "blocks", small)
    x = np.ascontiguousarray(x[:, :36])
    expected = operator(name)(x.astype(np.float32), boxes, 2)
    backwards = x[::-1, :, ::-1].copy()[::-1, :, ::-1]
    for view in (*views(x), backwards, np.flip(np.flip(x, 3).copy(), 3)):
        found = operator(name)(view, boxes, 2, out=np.empty_like(expected))
        assert_same_bits(found, expected)
    one = np.broadcast_to(x[:1, :, :1], (2, *x.shape[1:]))
    found = operator(name)(one, boxes, 2, out=np.empty_like(expected))
    assert_same_bits(found, operator(name)(one.astype(np.float32), boxes, 2))


@pairs(
    how=itertools.product(WITH_BOX_GRADIENTS, LAYOUTS),
    shape=["blocks", "whole blocks", "large boxes of many blocks"],
    small=SMALL,
    isa=ISAS,
)
def test_gradient_of_boxes(how, shape, small, isa, rng):
    name, layout = how
    x, boxes = make(rng, name, shape, small, layout)
    g = rng.standard_normal(operator(name)(x, boxes, 2, layout=layout).shape).astype(np.float32)
    backward = operator(name, "_backward_boxes")
    expected = backward(g, x.astype(np.float32), boxes, layout=layout)
    assert_same_bits(backward(g, x, boxes, layout=layout), expected)
    computed = f"expected float32, in which the input of {x.dtype.name} is computed"
    with pytest.raises(TypeError, match=f"grad_output: dtype float64, {computed}"):
        backward(g.astype(np.float64), x, boxes, layout=layout)


@contextlib.contextmanager
def flushed_denormals():
    """Let the processor treat denormal float32 as 0 in this thread, as some frameworks do."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("known of Linux on x86-64 only")
    library = ctypes.CDLL("libm.so.6")
    before = ctypes.create_string_buffer(32)
    library.fegetenv(before)
    changed = ctypes.create_string_buffer(before.raw, 32)
    control = struct.unpack_from("I", changed, 28)[0]
    # bits "flush to zero" and "denormals are zeros"
    struct.pack_into("I", changed, 28, control | 0x8040)
    library.fesetenv(changed)
    try:
        assert np.float32(1e-40) * np.float32(1) == 0
        yield
    finally:
        library.fesetenv(before)


@pairs(small=SMALL, isa=ISAS, layout=LAYOUTS, denormals=["as they are", "flushed"])
def test_every_value(small, isa, layout, denormals):
    """Each of the 2**16 or 2**8 values is read exactly: NaN, infinities and denormal numbers too.
    This holds even if the processor treats denormal float32 as 0.
    """
    bits = np.arange(2 ** (8 * small.itemsize), dtype=f"u{small.itemsize}")
    rows, columns = 16, len(bits) // 16
    # ps_roi_pool does not read the last row and column.
    x = np.zeros((1, 16, rows + 1, columns + 1), small)
    x[0, :, :-1, :-1] = bits.view(small).reshape(rows, columns)
    x = to_layout(x, layout)
    with np.errstate(invalid="ignore"):  # signalling NaN warns on aarch64
        expected = bits.view(small).astype(np.float32)
    y, column = np.divmod(np.arange(len(bits)), columns)
    boxes = np.stack([np.zeros_like(y), column, y, column + 1, y + 1], 1).astype(np.float32)
    out = to_layout(np.empty((len(bits), 16, 1, 1), np.float32), layout)
    if denormals == "flushed" and small == BFLOAT16:
        pytest.skip("its denormal numbers are those of float32")
    with flushed_denormals() if denormals == "flushed" else contextlib.nullcontext():
        roicy.ps_roi_pool(x, boxes, 1, layout=layout, out=out, num_threads=1)
    for channel in out.reshape(len(bits), 16).T:
        numbers = ~np.isnan(expected)
        assert_same_bits(channel[numbers], expected[numbers])
        assert np.isnan(channel[~numbers]).all()


def test_results_of_the_input_s_type(small, rng):
    """Results are float32 rounded once, to the nearest, and to the range of integers."""
    x, boxes = make(rng, "prroi_pool", "blocks", small)
    expected = roicy.prroi_pool(x.astype(np.float32), boxes, 3)
    out = np.zeros(expected.shape, small)
    assert roicy.prroi_pool(x, boxes, 3, out=out) is out
    if is_whole(small):
        np.testing.assert_array_equal(out, np.rint(expected))
        for limit in limits(small):
            box = np.array([[0, 4, 4, 9, 9]], np.float32)
            full = np.full_like(x, limit)
            assert (roicy.prroi_pool(full, box, 3, out=np.zeros_like(out[:1])) == limit).all()
    else:
        assert_same_bits(out, expected.astype(small))
    types = f"float32 or {small.name}" if is_whole(small) else f"{small.name} or float32"
    with pytest.raises(TypeError, match=f"out: dtype float64, expected {types}"):
        roicy.prroi_pool(x, boxes, 3, out=np.zeros(expected.shape))


def between(small):
    """Return float32 numbers: those of a small type, the middle of any two neighbours, and the
    numbers next to it.  Infinities, NaN, denormal and large numbers are among them.
    """
    if is_whole(small):
        low, high = limits(small)
        own = np.arange(low - 3, high + 4, dtype=np.float32)
    else:
        with np.errstate(invalid="ignore"):  # signalling NaN warns on aarch64
            own = np.arange(2**16, dtype=np.uint16).view(small).astype(np.float32)
        own = np.sort(own[np.isfinite(own)])
    middle = own[:-1] / 2 + own[1:] / 2
    beside = [np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf)]
    few = np.array([0, 1e-45, 1e-39, 6e-8, 65519.996, 65520, 3.4e38, np.inf, np.nan], np.float32)
    return np.concatenate([own, middle, *beside, few, -few])


@pairs(small=SMALL, isa=ISAS, threads=[1, 3])
def test_rounding(small, isa, threads):
    """Numbers are rounded to the nearest number of the type, or to the even one of two.  Their
    place in the array does not matter.
    """
    values = between(small)
    with np.errstate(all="ignore"):
        if is_whole(small):
            low, high = limits(small)
            expected = np.nan_to_num(np.clip(np.rint(values), low, high), nan=low).astype(small)
        else:
            expected = values.astype(small)
    for count in (*range(20), len(values) - 1):
        given = values[len(values) - count :] if count < 20 else values[:count]
        out = np.full(count + 1, 77, f"u{small.itemsize}")
        narrow(given, out[:count].view(np.uint8), ord(small.char), threads)
        wanted = expected[len(values) - count :] if count < 20 else expected[:count]
        numbers = ~np.isnan(given)
        np.testing.assert_array_equal(out[:count][numbers], wanted.view(out.dtype)[numbers])
        assert is_whole(small) or np.isnan(out[:count][~numbers].view(small)).all()
        assert out[count] == 77


def test_results_of_any_strides(small, layout, rng):
    x, boxes = make(rng, "roi_align", "blocks", small, layout)
    shape = roicy.roi_align(x, boxes, 5, layout=layout).shape
    expected = roicy.roi_align(x, boxes, 5, layout=layout, out=np.zeros(shape, small))
    spaced = np.full((*expected.shape[:3], 2 * expected.shape[3]), 77, small)
    assert roicy.roi_align(x, boxes, 5, layout=layout, out=spaced[..., ::2]).base is spaced
    assert_same_bits(spaced[..., ::2].copy(), expected)
    assert (spaced[..., 1::2] == np.array(77).astype(small)).all()


def test_large_results(small):
    """Large results, which lie in kept memory, have the input's type too."""
    x = np.full((1, 256, 9, 9), 3, small)
    out = roicy.roi_align(x, np.array([[0, 1, 1, 7, 7]] * 1500, np.float32), 7)
    assert out.nbytes > _memory.LEAST
    assert out.dtype == (np.float32 if is_whole(small) else small)
    assert (out == 3).all()


def test_results_beyond_float16_are_infinite():
    x, box = np.full((1, 1, 4, 4), 65504, np.float16), np.array([[0, 0, 0, 2, 2]], np.float32)
    with np.errstate(all="raise"):
        assert roicy.roi_align(x, box, 1, sampling_ratio=1) == 65504
        lowest = roicy.roi_pool(np.full_like(x, -np.inf), box, 1)  # the lowest float32
        assert lowest == -np.inf


def test_gradients_are_float32_or_float64(rng):
    with pytest.raises(TypeError, match="grad_output: dtype float16, expected float32 or float64"):
        roicy.roi_align_backward(
            np.ones((1, 1, 2, 2), np.float16), np.array([[0, 0, 0, 2, 2]]), (1, 1, 4, 4)
        )


@pairs(name=["roi_align", "prroi_pool", "roi_pool"], layout=LAYOUTS, small=SMALL)
def test_no_copy_of_the_map(name, layout, small):
    """NumPy allocates far less during a call than the map as float32 would take.  The scratch of
    the kernels is bounded (docs/guarantees.md).
    """
    x = to_layout(np.zeros((1, 64, 512, 512), small), layout)
    boxes = np.array([[0, 10, 10, 400, 400]] * 2, np.float32)
    operator(name)(x, boxes, 7, layout=layout)
    tracemalloc.start()
    operator(name)(x, boxes, 7, layout=layout)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20 < x.size * 4 // 50
