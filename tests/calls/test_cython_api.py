"""roicy.cython_api: other people's programs, in C, Cython and Numba, get the bits of Python's."""

import ctypes
import importlib.util
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import random_boxes, views

import roicy
from roicy import cython_api

ROOT = Path(__file__).parents[2]
SCALE, RATIO = 0.7, 2
Size = ctypes.c_ssize_t


class Array(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("shape", Size * 4), ("strides", Size * 4))

    def __init__(self, array):
        rest = [1] * (4 - array.ndim)
        super().__init__(
            array.ctypes.data, (Size * 4)(*array.shape, *rest), (Size * 4)(*array.strides)
        )


class Request(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("operation", ctypes.c_int), ("itemsize", ctypes.c_int),
        ("spatial_scale", ctypes.c_double), ("sampling_ratio", ctypes.c_int),
        ("aligned", ctypes.c_int), ("num_threads", ctypes.c_int),
        ("maps", Array), ("boxes", Array), ("bins", Array), ("extra", Array),
    )  # fmt: skip


def exported(name, *types):
    """Return a function of the module by its address, as Numba does."""
    capsule, of_python = cython_api.__pyx_capi__[name], ctypes.PYFUNCTYPE
    name_of = of_python(ctypes.c_char_p, ctypes.py_object)
    pointer_of = of_python(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    signature = name_of(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    address = pointer_of(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, signature)
    return ctypes.CFUNCTYPE(ctypes.c_int, *types)(address)


def by_struct(operation, maps, boxes, bins, extra, scale=SCALE, aligned=True, threads=2):
    """Compute arrays of any strides, or raise the error that the module keeps."""
    extra = boxes if extra is None else extra
    arrays = map(Array, (maps, boxes, bins, extra))
    request = Request(
        ctypes.sizeof(Request), operation, maps.itemsize, scale, RATIO, aligned, threads, *arrays
    )
    if operation == cython_api.ROI_POOL and extra is boxes:
        request.extra.data = None
    if exported("compute", ctypes.c_void_p)(ctypes.byref(request)):
        raise ValueError(cython_api.last_error())


def by_numbers(operation, maps, boxes, bins, extra, scale=SCALE):
    """Compute arrays that are C-contiguous."""
    sizes = (Size * 8)(*maps.shape, len(boxes), *bins.shape[2:], maps.itemsize)
    options = (ctypes.c_double * 4)(scale, RATIO, 1, 2)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (maps, boxes, bins)]
    extra = None if extra is None else ctypes.c_void_p(extra.ctypes.data)
    compute = exported("compute_contiguous", ctypes.c_int, *[ctypes.c_void_p] * 6)
    if compute(operation, *pointers, extra, sizes, options):
        raise ValueError(cython_api.last_error())


OPERATORS = {
    "roi_align": (SCALE, RATIO, True),
    "ps_roi_align": (SCALE, RATIO),
    "prroi_pool": (SCALE,),
    "roi_pool": (SCALE,),
}
FUNCTIONS = [
    (name, direction)
    for name in OPERATORS
    for direction in ("", "_backward", "_backward_boxes")
    if hasattr(roicy, name + direction)
]


def strided(array, spread):
    """Return an array of the same numbers with gaps, or as it is."""
    return next(views(array)) if spread else array


def case(name, direction, dtype, rng, spread=False):
    """Return maps, boxes, bins, extra of a call, and what should be written to the last of them
    or, before that, to those that are named.
    """
    maps = rng.standard_normal((2, 12, 20, 30)).astype(dtype)
    boxes = random_boxes(rng, 2, 9, (30, 44), dtype)
    channels = 2 if name.startswith("ps") else 12
    bins = rng.standard_normal((9, channels, 2, 3)).astype(dtype)
    function, given, extra = getattr(roicy, name + direction), OPERATORS[name], None
    if name == "roi_pool":
        pooled, argmax = roicy.roi_pool(maps, boxes, (2, 3), SCALE, return_argmax=True)
        extra = strided(argmax, spread)
    if direction == "_backward_boxes":
        extra, right = np.full_like(boxes, 7), {3: function(bins, maps, boxes, *given)}
    elif name == "roi_pool" and direction:
        right = {0: function(bins, argmax, boxes, maps.shape)}
    elif direction:
        right = {0: function(bins, boxes, maps.shape, *given)}
    elif name == "roi_pool":
        right, extra = {2: pooled, 3: argmax}, strided(np.full_like(argmax, 7), spread)
    else:
        right = {2: function(maps, boxes, (2, 3), *given)}
    arrays = [strided(maps, spread), boxes, strided(bins, spread), extra]
    for i in right:
        arrays[i][...] = 7
    return arrays, right


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "direction"), FUNCTIONS)
def test_bits(name, direction, dtype, rng):
    operation = getattr(cython_api, (name + direction).upper())
    for compute, spread in ((by_struct, False), (by_struct, True), (by_numbers, False)):
        arrays, right = case(name, direction, dtype, rng, spread)
        compute(operation, *arrays)
        for i, expected in right.items():
            np.testing.assert_array_equal(arrays[i], expected)


def refusal(call, *arguments, **named):
    with pytest.raises(ValueError) as caught:
        call(*arguments, **named)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors(dtype, rng):
    """What is wrong is said as Python's functions say it, and nothing is written."""
    (maps, boxes, out, _), _ = case("roi_align", "", dtype, rng)

    def same(maps, boxes, out, scale=SCALE, threads=2):
        said = refusal(roicy.roi_align, maps, boxes, (2, 3), scale, out=out, num_threads=threads)
        compute = cython_api.ROI_ALIGN, maps, boxes, out, None, scale
        assert refusal(by_struct, *compute, threads=threads) == said

    large = np.finfo(dtype).max / 2
    numbers = [(0, -1), (0, 2), (0, 0.5), (0, np.nan), (3, np.nan), (1, np.inf), (4, large)]
    for row, (column, number) in itertools.product((0, 8), numbers):
        wrong = boxes.copy()
        wrong[row, column] = number
        same(maps, wrong, out, 1000.5 if number == large else SCALE)
    for scale in (0.0, -1.5, np.nan, np.inf):
        same(maps, boxes, out, scale)
    for threads in (0, 1025):
        same(maps, boxes, out, threads=threads)
    for wrong in (out[:8], out[:, :5]):
        same(maps, boxes, wrong)
    same(maps, boxes, np.lib.stride_tricks.as_strided(out, out.shape, (0, *out.strides[1:])))
    same(out, boxes[:, [0] * 5] * 0, out)
    same(maps, boxes, maps.reshape(-1)[: out.size].reshape(out.shape))
    said = refusal(by_struct, cython_api.ROI_ALIGN, maps, boxes[:, :4], out, None)
    assert "shape (9, 4), expected (K, 5)" in said
    assert (out == 7).all()


def test_errors_of_gradients(rng):
    (grad_maps, boxes, bins, argmax), _ = case("roi_pool", "_backward", np.float32, rng)
    align, pool = cython_api.ROI_ALIGN_BACKWARD, cython_api.ROI_POOL_BACKWARD
    for index in (600, -2):
        wrong = argmax.copy()
        wrong[4, 3, 1, 1] = index
        said = refusal(roicy.roi_pool_backward, bins, wrong, boxes, grad_maps.shape)
        assert refusal(by_struct, pool, grad_maps, boxes, bins, wrong) == said
    said = refusal(roicy.roi_align_backward, bins[:3], boxes, grad_maps.shape)
    assert refusal(by_struct, align, grad_maps, boxes, bins[:3], None) == said
    for said, *given in (
        ("11 channels, expected a multiple of the 2 x 3 bins of grad_output",
         cython_api.PS_ROI_ALIGN_BACKWARD, grad_maps[:, :11], boxes, bins, None),
        ("grad_boxes: shape (9, 4), expected (9, 5)",
         cython_api.ROI_ALIGN_BACKWARD_BOXES, bins, boxes, bins, boxes[:, :4].copy()),
        ("operation: 11", 11, grad_maps, boxes, bins, None),
    ):  # fmt: skip
        assert said in refusal(by_struct, *given)
    assert (grad_maps == 7).all()


def test_nothing_to_do():
    """Arrays without elements are no error, and what is left is cleared."""
    maps, boxes = np.full((2, 12, 20, 30), 7.0), np.empty((0, 5))
    by_struct(cython_api.ROI_ALIGN_BACKWARD, maps, boxes, np.empty((0, 12, 2, 3)), None)
    assert (maps == 0).all()
    boxes, out = np.zeros((1, 5)), np.full((1, 12, 2, 3), 7.0)
    by_struct(cython_api.PRROI_POOL, maps[:, :, :0], boxes, out, None)
    assert (out == 0).all()
    grad_boxes = np.full((1, 5), 7.0)
    by_struct(cython_api.ROI_ALIGN_BACKWARD_BOXES, maps[:, :0], boxes, out[:, :0], grad_boxes)
    assert (grad_boxes == 0).all()


# --- Programs


def program():
    """Return the text of a module of Cython that has each function, for float and double."""
    signatures = re.findall(
        r"^cdef inline int (\w+)\(\n(.*?)\) except -1 nogil:",
        (ROOT / "roicy/cython_api.pxd").read_text(), re.DOTALL | re.MULTILINE,
    )  # fmt: skip
    lines = ["from libc.stdint cimport int32_t", "from roicy cimport cython_api"]
    for name, parameters in signatures:
        parameters = re.sub(r"\breal\b", "cython_api.real", parameters)
        names = re.findall(r"(\w+)(?:=[^,]*)?(?:,|$)", parameters.replace("[:, :, :, :]", ""))
        lines += [f"def {name}({parameters}):", "    with nogil:"]
        lines += [f"        cython_api.{name}({', '.join(names)})"]
    return "\n".join(lines) + "\n"


def built(folder, name):
    """Return a module that Cython builds in a folder with a setup.py."""
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    spec = importlib.util.spec_from_file_location(name, next(Path(folder).glob(f"{name}.*.*")))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_views(tmp_path, rng):
    """Each function takes views of float and double, contiguous or not."""
    example = (ROOT / "examples/cython/setup.py").read_text()
    (tmp_path / "setup.py").write_text(example.replace("scores", "views"))
    (tmp_path / "views.pyx").write_text(program())
    module = built(tmp_path, "views")
    for (name, direction), dtype, spread in itertools.product(
        FUNCTIONS, (np.float32, np.float64), (False, True)
    ):
        (maps, boxes, bins, extra), right = case(name, direction, dtype, rng, spread)
        call, given = getattr(module, name + direction), OPERATORS[name]
        if name == "roi_pool" and not direction:
            module.roi_pool(maps, boxes, bins, SCALE)
            np.testing.assert_array_equal(bins, right[2])
            module.roi_pool_with_argmax(maps, boxes, bins, extra, SCALE, 2)
        elif name == "roi_pool":
            call(bins, extra, boxes, maps)
        elif direction == "_backward_boxes":
            call(bins, maps, boxes, extra, *given, 2)
        else:
            call(*((bins, boxes, maps) if direction else (maps, boxes, bins)), *given, 2)
        for i, expected in right.items():
            np.testing.assert_array_equal((maps, boxes, bins, extra)[i], expected)
    empty = np.empty((0, 12, 2, 3), np.float32)
    module.roi_align(maps.astype(np.float32), np.empty((0, 5), np.float32), empty)
    with pytest.raises(ValueError, match=r"boxes: shape \(9, 4\)"):
        module.roi_align(maps, boxes[:, :4].copy(), bins)


@pytest.mark.slow
def test_example(tmp_path, rng):
    for file in ("setup.py", "scores.pyx"):
        (tmp_path / file).write_text((ROOT / "examples/cython" / file).read_text())
    maps = rng.standard_normal((2, 8, 30, 40)).astype(np.float32)
    boxes = random_boxes(rng, 2, 50, (120, 160), np.float32)
    means = roicy.roi_align(maps, boxes, 7, 0.25, aligned=True).mean((1, 2, 3), np.float64)
    scores = built(tmp_path, "scores")
    np.testing.assert_allclose(scores.scores(maps, boxes, 0.25), means, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="batch index [23] is outside the input's 2 images"):
        scores.scores(maps, boxes + np.array([2, 0, 0, 0, 0], np.float32), 0.25)


@pytest.mark.slow
def test_numba(rng):
    """The lines of the page run."""
    pytest.importorskip("numba")
    text = (ROOT / "docs/cython.md").read_text()
    names = {}
    exec(re.search(r"```python\n# fragment: needs numba\n(.*?)```", text, re.DOTALL)[1], names)
    maps = rng.standard_normal((2, 8, 30, 40)).astype(np.float32)
    boxes = random_boxes(rng, 2, 50, (120, 160), np.float32)
    out = np.empty((50, 8, 7, 7), np.float32)
    assert names["pooled"](maps, boxes, out) == 0
    np.testing.assert_array_equal(out, roicy.roi_align(maps, boxes, 7, 0.25, 2, True))
    boxes[3, 0] = 2
    assert names["pooled"](maps, boxes, out) == -1
    assert "boxes[3]: batch index 2" in cython_api.last_error()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, 2.5, 2.0**31])
def test_options_that_are_no_integers(value, rng):
    (maps, boxes, bins, _), _ = case("roi_align", "", np.float32, rng)
    compute = exported("compute_contiguous", ctypes.c_int, *[ctypes.c_void_p] * 6)
    sizes = (Size * 8)(*maps.shape, len(boxes), *bins.shape[2:], maps.itemsize)
    arrays = [ctypes.c_void_p(array.ctypes.data) for array in (maps, boxes, bins)]
    before = bins.copy()
    for place, name in ((1, "sampling_ratio"), (3, "num_threads")):
        options = (ctypes.c_double * 4)(SCALE, RATIO, 1, 2)
        options[place] = value
        assert compute(cython_api.ROI_ALIGN, *arrays, None, sizes, options) == -1
        expected = rf"{name}: {re.escape(repr(float(value)))}, expected a whole number"
        assert re.match(expected, cython_api.last_error())
    np.testing.assert_array_equal(bins, before)
