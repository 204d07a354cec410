"""Every test that computes runs on every instruction set that this machine has."""

import inspect
import itertools
import math
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from cuda_emulation.fixtures import cupy, emulated  # noqa: F401

import roicy
from roicy import _table
from roicy._machine import _dispatch, _threads
from roicy._table import CORNERS, WEIGHTED_SUM

ROWS = [row for row in vars(_table).values() if isinstance(row, _table.Operator)]
# crop_and_resize has a signature of its own
UPRIGHT = [row for row in ROWS if row.box == CORNERS and row is not _table.CROP_AND_RESIZE]
SUMS = tuple(row.name for row in UPRIGHT if row.reduction is WEIGHTED_SUM)
WITH_BOX_GRADIENTS = tuple(row.name for row in UPRIGHT if row.has_box_gradients)
DTYPES = (np.float32, np.float64)
LAYOUTS = ("NCHW", "NHWC")
ISAS = tuple(_dispatch.usable())
# Ways to make a call that change no bits: the layout, and the number of threads.  The sanitizer of
# threads runs those of "NCHW" alone.
WAYS = {
    "NCHW": (("NCHW", 1), ("NCHW", 2), ("NCHW", 16)),
    "NHWC": (("NCHW", 1), ("NHWC", 1), ("NHWC", 3), ("NHWC", 7)),
}


def pairwise(axes):
    """Return rows of one value of each axis, in which any two values of two axes meet.

    They are far fewer than the product of the axes, and nearly as strong: almost no fault needs
    three values that meet.  Where three have to, an axis has tuples.
    """
    places = [range(len(axis)) for axis in axes]
    pairs = itertools.combinations(range(len(axes)), 2)
    missing = dict.fromkeys(
        (i, a, j, b) for i, j in pairs for a in places[i] for b in places[j]
    )  # a dict, whose order is that of insertion, so that each run has the same rows
    rows = []
    while missing:
        i, a, j, b = next(iter(missing))
        row = {i: a, j: b}
        for k in range(len(axes)):
            if k not in row:
                row[k] = max(places[k], key=lambda c: _met(row, k, c, missing))
        for i, j in itertools.combinations(range(len(axes)), 2):
            missing.pop((i, row[i], j, row[j]), None)
        rows.append([axis[row[k]] for k, axis in enumerate(axes)])
    return rows


def _met(row, k, c, missing):
    """Count the missing pairs of value c of axis k with the values that a row has already."""
    pairs = ((i, a, k, c) if i < k else (k, c, i, a) for i, a in row.items())
    return sum(pair in missing for pair in pairs)


def pairs(**axes):
    """Run a test with rows in which any two values of two arguments meet."""
    rows = pairwise([tuple(axis) for axis in axes.values()])
    names = ["-".join(_words(value) for value in row) for row in rows]
    indirect = [name for name in ("isa", "cupy") if name in axes]
    return pytest.mark.parametrize(tuple(axes), rows, ids=names, indirect=indirect)


def _words(value):
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return ",".join(map(_words, value))
    return str(getattr(value, "__name__", value))


@pytest.fixture
def use_kernels():
    """Give a function that has the test go on with the kernels of an instruction set."""
    yield _dispatch.use
    _dispatch.use(_dispatch.ISA)


@pytest.fixture(params=ISAS)
def isa(request, use_kernels):
    """Run the test with the kernels of each instruction set."""
    use_kernels(request.param)
    return request.param


@pytest.fixture(params=DTYPES, ids=["float32", "float64"])
def dtype(request):
    """Run the test in both types."""
    return request.param


@pytest.fixture(params=LAYOUTS)
def layout(request):
    """Run the test in both layouts."""
    return request.param


@pytest.fixture
def seen_threads(monkeypatch):
    """Return a list that records the number of threads that each call is given."""
    seen, original = [], _threads.resolve
    monkeypatch.setattr(_threads, "resolve", lambda count: seen.append(count) or original(count))
    return seen


@pytest.fixture
def rng():
    """Give the same random numbers to each test."""
    return np.random.default_rng(20240229)


def pytest_addoption(parser):
    parser.addoption("--no-skips", action="store_true", help="a skipped test is a failure")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Fail where something was skipped that should have been there, modules included."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def to_layout(array, layout):
    """Return a contiguous array of that layout from one in NCHW."""
    return np.ascontiguousarray(array if layout == "NCHW" else array.transpose(0, 2, 3, 1))


def from_layout(array, layout):
    """Return the view in NCHW of an array of that layout."""
    return array if layout == "NCHW" else array.transpose(0, 3, 1, 2)


def passes(name, x, boxes, grad, layout="NCHW", num_threads=None, boxes_num=None, **parameters):
    """Compute all passes of an operator in a layout, from maps and gradients in NCHW.

    Return the output, argmax of roi_pool, the gradient of the input, all in NCHW, and that of the
    boxes if there is one.
    """
    call = {"layout": layout, "num_threads": num_threads, "boxes_num": boxes_num}
    x, grad = to_layout(x, layout), to_layout(grad, layout)
    pool, backward = operator(name), operator(name, "_backward")
    bins = from_layout(grad, layout).shape[2:]
    if name == "roi_pool":
        found = [*pool(x, boxes, bins, return_argmax=True, **parameters, **call)]
        found.append(backward(grad, found[1], boxes, x.shape, **call))
    else:
        read = (x, boxes) if name == "roi_align_max" else (boxes, x.shape)
        call |= parameters
        found = [pool(x, boxes, bins, **call), backward(grad, *read, **call)]
    found = [np.ascontiguousarray(from_layout(array, layout)) for array in found]
    if name in (*WITH_BOX_GRADIENTS, "roi_align_rotated"):
        found.append(operator(name, "_backward_boxes")(grad, x, boxes, **call))
    return found


def same_passes(name, x, boxes, grad, ways, **parameters):
    """Compute all passes in each way, check that they have the same bits, and return them."""
    first, *others = (passes(name, x, boxes, grad, *way, **parameters) for way in ways)
    for other in others:
        for a, b in zip(first, other, strict=True):
            assert_same_bits(a, b)
    return first


def assert_levels_alone(
    maps, boxes, grad, scales, levels, pyramid=None, name="roi_align", **options
):
    """Check that all passes of a pyramid give the bits of each level alone, with the boxes whose
    level it is.  `pyramid` are options of the pyramid alone.  Return the output.
    """
    options["layout"] = layout = options.get("layout", "NCHW")
    both, bins = (pyramid or {}) | options, from_layout(grad, layout).shape[2:]
    multi, shapes = "multiscale_" + name, [level.shape for level in maps]
    out = operator(multi)(maps, boxes, bins, scales, **both)
    grads = operator(multi, "_backward")(grad, boxes, shapes, scales, **both)
    of_boxes = operator(multi, "_backward_boxes")(grad, maps, boxes, scales, **both)
    assert len(grads) == len(maps)
    for i, (level, scale) in enumerate(zip(maps, scales, strict=True)):
        mine = levels == i
        rows, g = boxes[mine], grad[mine]
        assert_same_bits(out[mine], operator(name)(level, rows, bins, scale, **options))
        alone = operator(name, "_backward")(g, rows, level.shape, scale, **options)
        assert_same_bits(grads[i], alone)
        alone = operator(name, "_backward_boxes")(g, level, rows, scale, **options)
        assert_same_bits(of_boxes[mine], alone)
    return out


def views(array):
    """Yield equal arrays that lie in memory in other ways."""
    n, c, h, w = array.shape
    spaced = np.zeros((2 * n, c + 3, 3 * h, 2 * w), array.dtype)[::2, 2:-1, ::3, ::-2]
    spaced[...] = array
    yield spaced
    yield np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    yield np.asfortranarray(array)
    locked = array.copy()
    locked.flags.writeable = False
    yield locked


def lying_apart(shape, dtype):
    """Return an array of NaN whose rows and columns have gaps between them."""
    n, c, h, w = shape
    return np.full((n, c, h + 1, 2 * w), np.nan, dtype)[:, :, 1:, ::2]


def random_boxes(rng, images, count, extent, dtype, least=0.3):
    """Return boxes of all sizes from `least` on, in steps of 1/16 pixel.  Some lie partly off the
    map, and the second is inverted, as are others, but never all.
    """
    height, width = extent
    low = rng.uniform(-0.2, 1.0, (count, 2)) * (width, height)
    size = np.exp(rng.uniform(np.log(least), np.log(1.2 * max(height, width)), (count, 2)))
    size[1 :: max(count // 3, 2)] *= -0.5
    boxes = np.concatenate([rng.integers(0, images, (count, 1)), low, low + size], axis=1)
    boxes[:, 1:] = np.round(boxes[:, 1:] * 16) / 16
    return boxes.astype(dtype)


def rotated_boxes(rng, images, count, extent, dtype):
    """Return boxes of all sizes and angles, some partly off the map, upright or inverted."""
    height, width = extent
    boxes = np.empty((count, 6))
    boxes[:, 0] = rng.integers(0, images, count)
    boxes[:, 1:3] = rng.uniform(-0.1, 1.1, (count, 2)) * (width, height)
    boxes[:, 3:5] = np.exp(rng.uniform(np.log(0.4), np.log(1.2 * max(extent)), (count, 2)))
    boxes[:, 5] = rng.uniform(-4, 4, count)
    boxes[::5, 5] = 0
    boxes[3::7, 3:5] *= -0.5
    return boxes.astype(dtype)


def behind_a_line(shape, past, dtype):
    """Return memory that is full of NaN, and an array in it.  The array begins so many elements
    behind the start of a cache line.
    """
    memory = np.full(math.prod(shape) + 128, np.nan, dtype)
    first = -memory.ctypes.data % 64 // memory.itemsize + past
    return memory, memory[first : first + math.prod(shape)].reshape(shape)


def copied_behind_a_line(array, past, dtype):
    """Return a copy that begins so many elements behind the start of a cache line."""
    _, copy = behind_a_line(array.shape, past, dtype)
    copy[...] = array
    return copy


def assert_same_bits(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def assert_equal_but_for_order(one, other, size, extents, bins):
    """Check two results for boxes of `random_boxes`.  One was contracted along y first, and the
    other along x first.  They differ by at most twice the bound of docs/guarantees.md.  `size` is
    the result of absolute values.
    """
    pixels = sum(1.2 * max(extents) / count + 3 for count in bins)
    assert (np.abs(one - other) <= 2 * (pixels + 4) * np.finfo(one.dtype).eps / 2 * size).all()


def two_scales(parameters):
    """Return the scales of y and x from the parameters of an operator."""
    scale = parameters.get("spatial_scale", 1.0)
    return scale if isinstance(scale, tuple) else (scale, scale)


def operator(name, suffix=""):
    """Return a public function."""
    return getattr(roicy, name + suffix)


def taken(name, **parameters):
    """Return those parameters that an operator takes."""
    known = inspect.signature(operator(name)).parameters
    return {key: value for key, value in parameters.items() if key in known}


def python(code, folder=None, **environment):
    keep = {
        name: value
        for name, value in os.environ.items()
        if name not in ("ROICY_ISA", "OMP_NUM_THREADS")
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**keep, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def differences(function, boxes, h):
    grad = np.zeros_like(boxes)
    for k in range(len(boxes)):
        for i in range(1, boxes.shape[1]):
            values = []
            for sign in (1, -1):
                moved = boxes.copy()
                moved[k, i] += sign * h
                values.append(function(moved))
            grad[k, i] = (values[0] - values[1]) / (2 * h)
    return grad


def assert_agrees_with_differences(grad, function, boxes, widths, tolerance):
    """Compare gradients of boxes with differences of two widths, relative to the largest gradient.

    If a kink is within reach, the two differences disagree.  Such a coordinate is left out.
    """
    coarse, fine = (differences(function, boxes, h)[:, -grad.shape[1] :] for h in widths)
    scale = np.abs(grad).max()
    smooth = np.abs(coarse - fine) < tolerance * scale
    assert smooth.mean() > 0.9
    np.testing.assert_allclose(grad[smooth], fine[smooth], rtol=0, atol=tolerance * scale)


def arrays_in(values):
    """Yield the arrays of some arguments, and of lists among them."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from arrays_in(value)
        elif isinstance(value, np.ndarray):
            yield value


def assert_arrays_are_given_back(function, right, errors):
    """Check that no plan holds the memory of arguments after an error."""
    for changed, error, _ in errors:
        arrays = [*arrays_in((right | changed).values())]
        before = [sys.getrefcount(array) for array in arrays]
        with pytest.raises(error):
            function(**right | changed)
        assert [sys.getrefcount(array) for array in arrays] == before, changed


def assert_refused(function, right, changed, message, error=(TypeError, ValueError)):
    """Check that a call raises an error that says `message`, a pattern, where some of its right
    arguments change, and that it has not written to `out`.
    """
    arguments = right | changed
    out = arguments.get("out")
    before = None if out is None else out.copy()
    with np.errstate(all="raise"), pytest.raises(error, match=message):
        function(**arguments)
    if out is not None:
        np.testing.assert_array_equal(out, before)


def fuses(isa):
    """Return whether an instruction set rounds a product and a sum once."""
    return isa != "baseline" or platform.machine() in ("aarch64", "arm64")
