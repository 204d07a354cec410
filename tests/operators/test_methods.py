"""Whatever method a plan is told to take, if it fits, the numbers are those of the definition."""

import contextlib

import numpy as np
import pytest
import reference
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    WITH_BOX_GRADIENTS,
    assert_same_bits,
    from_layout,
    operator,
    pairs,
    passes,
    rotated_boxes,
    to_layout,
)
from problems import PARAMETERS, assert_within, cases, definition, make

import roicy
from roicy import _cpu
from roicy._kernels import methods

METHODS = methods.names()
NOTHING, WHOLE, TAPS = range(3)  # ways, as in pyx/plan/structs.pxd
MAXIMA = [(name, given) for name in ("roi_pool", "roi_align_max") for given in PARAMETERS[name]]


@contextlib.contextmanager
def forced(method):
    """Have all plans take one method."""
    methods.force(method)
    try:
        yield
    finally:
        methods.force(None)


def computed(method, call):
    """Return the result of a call by a method, or None if it does not fit."""
    try:
        with forced(method):
            return call()
    except ValueError as error:
        assert str(error).startswith(f"method '{method}' is unfit: ")
        return None


def calls_of(name, x, boxes, grad, layout, threads, parameters):
    """Return each pass of an operator as a call without arguments, with results in NCHW."""
    options = {"layout": layout, "num_threads": threads}
    x, grad = to_layout(x, layout), to_layout(grad, layout)
    bins, given = from_layout(grad, layout).shape[2:], options | parameters
    pool, backward, read = operator(name), operator(name, "_backward"), (boxes, x.shape)
    of_backward = given
    if name == "roi_align_max":
        read = (x, boxes)
    elif name == "roi_pool":
        read = (pool(x, boxes, bins, return_argmax=True, **given)[1], *read)
        of_backward = options
    found = {
        "forward": lambda: from_layout(pool(x, boxes, bins, **given), layout),
        "backward": lambda: from_layout(backward(grad, *read, **of_backward), layout),
    }
    if name in (*WITH_BOX_GRADIENTS, "roi_align_rotated"):
        of_boxes = operator(name, "_backward_boxes")
        found["backward_boxes"] = lambda: of_boxes(grad, x, boxes, **given)
    return found


def few_channels(grad):
    """Whether bin rows promise the bits of lanes, which then sum along y first."""
    lanes = 64 // grad.itemsize
    return 2 * grad.shape[1] * -(-grad.shape[2] // lanes) <= grad.shape[2]


def assert_all_methods(name, x, boxes, grad, parameters, wanted=None):
    """Check each pass by each method that fits, in both layouts; return the methods that fit."""
    fitting = set()
    plain = passes(name, x, boxes, grad, **parameters)
    if name == "roi_pool":
        del plain[1]  # argmax
    plain = dict(zip(("forward", "backward", "backward_boxes"), plain, strict=False))
    for layout, threads in zip(LAYOUTS, (3, 1), strict=True):
        calls = calls_of(name, x, boxes, grad, layout, threads, parameters)
        for method in METHODS:
            for which, call in calls.items():
                found = computed(method, call)
                if found is None:
                    continue
                fitting.add((method, which))
                if method != "bin_rows" or few_channels(grad):
                    assert_same_bits(np.ascontiguousarray(found), plain[which])
                if wanted and which in wanted:
                    assert_within(found, *wanted[which], x.dtype.type)
    return fitting


def test_cases_read_pixels(monkeypatch, rng):
    """Each case has boxes that read pixels, and in some cases few rows and columns are read."""
    plans, forward, ways = [], _cpu.forward, set()
    monkeypatch.setattr(_cpu, "forward", lambda plan, *a: (plans.append(plan), forward(plan, *a)))
    for name, *case, parameters in cases():
        x, boxes, grad = make(rng, name, *case, parameters, np.float32)
        operator(name)(x, boxes, grad.shape[2:], **parameters)
        found = set(plans[-1].tables().ways)
        given = grad.shape[2:], x.shape[2:], np.float32
        of_boxes = [reference.axes(name, box, *given, **parameters) for box in boxes]
        reads = any(all(any(axis) for axis in axes) for axes in of_boxes)
        assert bool(found - {NOTHING}) == reads, (name, *case)
        ways |= found
    assert {WHOLE, TAPS} <= ways


@pairs(case=cases(), dtype=DTYPES, isa=ISAS)
def test_sums(case, dtype, isa, rng):
    name, _, _, parameters = case
    x, boxes, grad = make(rng, *case, dtype)
    wanted = definition((*case[:2], dtype), name, x, boxes, grad, parameters)
    wanted = dict(zip(("forward", "backward"), wanted, strict=True))
    fitting = assert_all_methods(name, x, boxes, grad, parameters, wanted)
    expected = {"channels_per_bin"} if name.startswith("ps_") else {"planes", "pixels"}
    if not name.startswith("ps_") and grad.shape[1] * grad.itemsize <= 64:
        expected.add("bin_rows")
    assert expected | {"numbers"} <= {method for method, _ in fitting}


@pairs(case=MAXIMA, shape=["blocks", "row", "parts"], dtype=DTYPES, isa=ISAS)
def test_maxima(case, shape, dtype, isa, rng):
    name, parameters = case
    x, boxes, grad = make(rng, name, shape, "random", parameters, dtype)
    fitting = assert_all_methods(name, x, boxes, grad, parameters)
    assert {(a, b) for a in ("planes", "pixels") for b in ("forward", "backward")} <= fitting


@pairs(channels=[3, 16, 40], dtype=DTYPES, isa=ISAS)
def test_turned_boxes(channels, dtype, isa, rng):
    boxes = rotated_boxes(rng, 2, 30, (40, 50), dtype)
    x, grad = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((2, channels, 40, 50), (30, channels, 3, 5))
    )
    fitting = assert_all_methods("roi_align_rotated", x, boxes, grad, {"sampling_ratio": 2})
    assert "sparse" in {method for method, _ in fitting}


@pytest.mark.parametrize("small", ["uint8", "float16"])
def test_small_types(small, rng):
    """Numbers of small types are widened, by methods that can."""
    x = rng.uniform(0, 9, (1, 32, 30, 40)).astype(small)
    boxes = np.array([[0, 1, 2, 20, 29], [0, 5, 5, 8, 9]], np.float32)
    for layout in LAYOUTS:
        given = to_layout(x, layout)

        def call(given=given, layout=layout):
            return roicy.roi_align(given, boxes, 7, sampling_ratio=2, layout=layout)

        expected = call()
        found = {method: computed(method, call) for method in METHODS}
        found = {method: result for method, result in found.items() if result is not None}
        assert "planes" in found
        assert ("pixels" in found) == (layout == "NHWC")
        for method, result in found.items():
            if method != "bin_rows":
                assert_same_bits(result, expected)


def test_an_unknown_method_is_an_error():
    with pytest.raises(ValueError, match="method 'lanes': expected one of sparse, numbers, "):
        methods.force("lanes")
