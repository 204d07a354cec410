"""The host side of calls with CuPy arrays: memory, streams, alignment, and plans that are kept.

These tests run on the stand-in for CuPy (cuda_emulation/), which knows where memory is used after
it was freed.
"""

import itertools
from functools import partial

import numpy as np
import pytest
from conftest import operator, random_boxes, rotated_boxes
from cuda_emulation import standin
from cuda_emulation.fixtures import placed

import roicy

SIZE = (2, 9, 14, 17)
BINS = 3
SCALES = [1.0, 0.5]
COUNT = 130


PYRAMID = {
    "spatial_scale": SCALES, "canonical_scale": 8, "canonical_level": 1, "sampling_ratio": 2,
}  # fmt: skip


def calls(maps, boxes, grad, rotated, argmax):
    """Return functions that call each pass with these arrays, by their names."""
    x, shapes = maps[0], [level.shape for level in maps]
    found = {}
    for name, rows in (("roi_align", boxes), ("roi_align_rotated", rotated)):
        for of, shape, more in ((x, x.shape, {}), (maps, shapes, PYRAMID)):
            name = "multiscale_" + name if more else name
            found |= {
                name: partial(operator(name), of, rows, BINS, **more),
                name + " backward": partial(operator(name, "_backward"), grad, rows, shape, **more),
                name + " boxes": partial(operator(name, "_backward_boxes"), grad, of, rows, **more),
            }
    return found | {
        "ps_roi_align": partial(roicy.ps_roi_align, x, boxes, BINS),
        "ps_roi_align backward": partial(roicy.ps_roi_align_backward, grad[:, :1], boxes, x.shape),
        "roi_pool": lambda: roicy.roi_pool(x, boxes, BINS, return_argmax=True)[1],
        "roi_pool backward": partial(roicy.roi_pool_backward, grad, argmax, boxes, x.shape),
        "roi_align_max": partial(roicy.roi_align_max, x, boxes, BINS),
    }


def case(rng):
    """Return maps of two levels, boxes, a gradient of the output, rotated boxes and argmax."""
    n, c, h, w = SIZE
    maps = [rng.standard_normal((n, c, h // i, w // i)).astype(np.float32) for i in (1, 2)]
    boxes, rotated = (
        some(rng, n, COUNT, (h, w), np.float32) for some in (random_boxes, rotated_boxes)
    )
    grad = rng.standard_normal((COUNT, c, BINS, BINS)).astype(np.float32)
    argmax = roicy.roi_pool(maps[0], boxes, BINS, return_argmax=True)[1]
    return [maps, boxes, grad, rotated, argmax]


NAMES = list(calls([np.zeros((1, 1, 1, 1))], None, np.zeros((1, 1, 1, 1)), None, None))


def each(result):
    return result if isinstance(result, list) else [result]


def is_close(actual, expected):
    """Whether results agree with those of the CPU."""
    pairs = zip(each(actual), each(expected), strict=True)
    return all(np.allclose(mine.host, theirs, rtol=0, atol=1e-3) for mine, theirs in pairs)


# The launches of a call.  Partial sums of gradients of boxes are added up by a kernel of their own.
LAUNCHES = {
    "roi_align": 2, "roi_align backward": 2, "roi_align boxes": 3, "ps_roi_align": 2,
    "ps_roi_align backward": 2, "roi_pool": 2, "roi_pool backward": 1, "roi_align_max": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_launches_and_allocations(name, emulated, rng):
    """A call launches few kernels, one piece of scratch memory serves them, and CuPy adds none."""
    arrays = case(rng)
    call = calls(*placed(arrays, emulated.asarray))[name]
    for _ in range(2):  # with a new plan, and with one that was kept
        for found in (standin.launches, standin.operations, standin.allocations):
            found.clear()
        results = each(call())
        single = name.replace("multiscale_", "").replace("_rotated", "")
        assert len(standin.launches) == LAUNCHES[single], standin.launches
        assert standin.operations == []
        # roi_pool makes two results, and the calls without tables need no scratch memory
        extra = {"roi_pool": 2, "roi_pool backward": 0, "roi_align_max": 0}.get(name, 1)
        assert len(standin.allocations) == len(results) + extra


@pytest.mark.parametrize("name", NAMES)
def test_streams(name, emulated, monkeypatch, rng):
    """Calls on several streams at once, whose scratch memory is free when they return."""
    first, second = case(rng), case(rng)
    given = [placed(arrays, emulated.asarray) for arrays in (first, second)]
    expected = [calls(*arrays)[name]() for arrays in (first, second)]
    monkeypatch.setattr(standin, "deferred", True)
    for turn in range(3):
        streams = [standin.Stream(), standin.Stream(), standin.Stream.null]
        results = []
        for stream, arrays in zip(streams[:2], given, strict=True):
            with stream:
                results.append(calls(*arrays)[name]())
        standin.synchronize(*streams[turn:], *streams[:turn])
        assert is_close(results[0], expected[0])
        assert is_close(results[1], expected[1])


def test_memory_of_another_stream_shows(emulated, monkeypatch, rng):
    """If scratch memory did not belong to the stream of the kernels, test_streams would fail."""
    arrays = case(rng)
    call = calls(*placed(arrays, emulated.asarray))["roi_align"]
    expected = calls(*arrays)["roi_align"]()
    monkeypatch.setattr(standin, "deferred", True)
    alloc = standin.cuda.alloc

    def elsewhere(count):
        with standin.Stream.null:
            return alloc(count)

    monkeypatch.setattr(standin.cuda, "alloc", elsewhere)
    with standin.Stream() as stream:
        result = call()
    standin.synchronize(stream, standin.Stream.null)
    assert not is_close(result, expected)


@pytest.mark.parametrize("name", NAMES)
def test_capture(name, emulated, rng):
    """A graph repeats a call with what its arrays hold by then."""
    first, second = case(rng), case(rng)
    given = placed(first, emulated.asarray)
    call = calls(*given)[name]
    call()  # compiles the kernels
    with standin.Stream() as stream:
        stream.begin_capture()
        results = call()
        repeat = stream.end_capture()
    for mine, theirs in zip((*given[0], *given[1:]), (*second[0], *second[1:]), strict=True):
        mine.host[...] = theirs
    repeat()
    assert is_close(results, calls(*second)[name]())


def shifted(array):
    """Return a copy that does not begin at a multiple of the size of its elements."""
    bytes = np.zeros(array.nbytes + 2, np.uint8)
    moved = bytes[2:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return standin.ndarray(moved)


def torn(array):
    """Return a copy whose elements lie a size and a half from each other."""
    bytes = np.zeros(array.nbytes * 3 // 2 + array.itemsize, np.uint8)
    strides = [stride * 3 // 2 for stride in array.strides]
    moved = np.ndarray(array.shape, array.dtype, bytes, 0, strides)
    moved[...] = array
    return standin.ndarray(moved)


@pytest.mark.parametrize("spoil", [shifted, torn])
def test_elements_between_elements(spoil, emulated, rng):
    """Arrays whose elements do not lie at multiples of their size are refused by their names."""
    arrays = case(rng)
    on_device = placed(arrays, emulated.asarray)
    maps, boxes, grad, *_ = on_device
    right = calls(*on_device)
    out = np.zeros(arrays[2].shape, np.float32)
    for call in (right[name] for name in NAMES):
        call()  # so that there are plans of calls with equal shapes
    (fine, coarse), *others = placed(arrays, spoil)
    rows, gradient, turned, places = others
    wrong = [
        ("input", "roi_align", {"maps": [fine]}),
        (r"features\[1\]", "multiscale_roi_align", {"maps": [maps[0], coarse]}),
        ("boxes", "roi_align backward", {"boxes": rows}),
        ("boxes", "roi_align_rotated", {"rotated": turned}),
        ("grad_output", "roi_align backward", {"grad": gradient}),
        ("grad_output", "roi_align boxes", {"grad": gradient}),
        ("argmax", "roi_pool backward", {"argmax": places}),
    ]
    given = dict(zip(("maps", "boxes", "grad", "rotated", "argmax"), on_device, strict=True))
    wrong = [(argument, calls(**given | changed)[name]) for argument, name, changed in wrong]
    backward = roicy.roi_align_backward
    wrong += [
        ("out", lambda: roicy.roi_align(maps[0], boxes, BINS, out=spoil(out))),
        ("out", lambda: backward(grad, boxes, maps[0].shape, out=fine)),
    ]
    launches = len(standin.launches)
    for name, call in wrong:
        message = f"^{name}: its elements do not lie at multiples of their size"
        with pytest.raises(ValueError, match=message):
            call()
    assert len(standin.launches) == launches


def test_subnormal_numbers(emulated, monkeypatch, rng):
    """They count as 0 in float32, and nothing else changes where kernels are compiled so."""
    arrays = case(rng)
    given = placed(arrays, emulated.asarray)
    plain = {name: each(call()) for name, call in calls(*given).items()}
    monkeypatch.setattr(standin, "flushing", True)
    for name, call in calls(*given).items():
        for mine, theirs in zip(each(call()), plain[name], strict=True):
            np.testing.assert_allclose(mine.host, theirs.host, rtol=0, atol=2.0**-126 * 400)
    x = emulated.asarray(np.full((1, 1, 6, 6), 1e-40, np.float32))
    boxes = emulated.asarray(np.array([[0, 1, 1, 5, 5], [1e-40, 1, 1, 5, 5]], np.float32))
    assert not roicy.roi_align(x, boxes, 2).get().any()
    x = emulated.asarray(np.ones((1, 1, 6, 6), np.float32))
    pooled = roicy.roi_align(x, boxes, 2).get()
    np.testing.assert_array_equal(pooled[1], pooled[0])  # of image 0


def test_plans_do_not_mix(emulated, rng):
    """Each call gets the result of its own arguments, however many calls there were before."""
    (x, y), boxes, *_ = case(rng)
    maps = [x, y, np.ascontiguousarray(x[:, :, ::-1]), x.astype(np.float64), x[:, :, :, ::2]]
    rows = [boxes, boxes[:9], boxes.astype(np.float64), boxes[:, [0, 2, 1, 4, 3]]]
    given = list(itertools.product(maps, rows, [{}], [2]))
    options = [
        {"aligned": True}, {"sampling_ratio": 1}, {"sampling_ratio": 2}, {"sampling_ratio": 2.0},
        {"spatial_scale": 0.5}, {"spatial_scale": (0.5, 1)},
    ]  # fmt: skip
    given += itertools.product(maps[:1], rows[:1], options, [2, (2, 3)])
    for input, boxes, keywords, size in given * 2:
        expected = roicy.roi_align(input, boxes.astype(input.dtype), size, **keywords)
        on_device = emulated.ndarray(input), emulated.ndarray(boxes)
        assert is_close(roicy.roi_align(*on_device, size, **keywords), expected)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"aligned": 1}, TypeError),
        ({"sampling_ratio": True}, TypeError),
        ({"sampling_ratio": 2.5}, ValueError),
        ({"spatial_scale": True}, TypeError),
        ({"layout": ["NCHW"]}, ValueError),
        ({"output_size": 1.0}, TypeError),
        ({"output_size": (True, 1)}, TypeError),
        ({"boxes_num": [1]}, ValueError),
        ({"out": np.zeros(3)}, TypeError),
    ],
    ids=str,
)
def test_errors_after_right_calls(options, error, emulated, rng):
    """A value of a wrong type that equals a right one is still an error."""
    (x, _), boxes, *_ = case(rng)
    given = emulated.asarray(x), emulated.asarray(boxes)
    rights = [{"spatial_scale": 1}, {"spatial_scale": 1.0}, {"output_size": (1, 1)}, {}]
    for right in ({"aligned": True}, {"sampling_ratio": 1}, *rights):
        roicy.roi_align(*given, **{"output_size": 1} | right)
    with pytest.raises(error):
        roicy.roi_align(*given, **{"output_size": 1} | options)


def test_pyramids_of_many_levels(emulated, rng):
    """As many levels as a GPU takes, one of them without pixels; more are an error."""
    count = 8
    sides = [max(300 >> i, 2) for i in range(count)]
    maps = [rng.standard_normal((1, 2, side, 3)).astype(np.float32) for side in sides]
    maps[3] = maps[3][:, :, :0]
    scales = [2.0**-i for i in range(count)]
    side = np.exp2(rng.uniform(0, count + 1, (40, 2)))
    boxes = np.concatenate([np.zeros((40, 3)), side], axis=1).astype(np.float32)
    options = {"canonical_scale": 1, "canonical_level": 0, "sampling_ratio": 1}
    more = [emulated.asarray(level) for level in (*maps, maps[-1])]
    with pytest.raises(ValueError, match="features: 9 levels, expected at most 8 on a GPU"):
        roicy.multiscale_roi_align(more, emulated.asarray(boxes), 2, [*scales, scales[-1]])
    expected = roicy.multiscale_roi_align(maps, boxes, 2, scales, **options)
    grad = rng.standard_normal(expected.shape).astype(np.float32)
    shapes = [level.shape for level in maps]
    for function, *given in (
        (roicy.multiscale_roi_align, maps, boxes, 2),
        (roicy.multiscale_roi_align_backward, grad, boxes, shapes),
        (roicy.multiscale_roi_align_backward_boxes, grad, maps, boxes),
    ):
        found = function(*placed(given, emulated.asarray), scales, **options)
        assert is_close(found, function(*given, scales, **options))
