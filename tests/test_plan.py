"""The plan of a call accepts arguments of every form.

Plain arguments are taken as they are, and others are converted first.  Both give the same bits
in the same way.
"""

import sys

import numpy as np
import pytest
from conftest import LAYOUTS, SUMS, arrays_in, operator, pairs, random_boxes, to_layout

import roicy
from roicy import _cpu
from roicy._kernels.plan import Arguments
from roicy._table import PS_ROI_POOL, ROI_ALIGN, UNIFORM, sampled


class Named(np.ndarray):
    """A subclass of arrays."""


def make(rng, dtype=np.float32, layout="NCHW", channels=37, count=11):
    x = rng.standard_normal((3, channels, 20, 30)).astype(dtype)
    return to_layout(x, layout), random_boxes(rng, 3, count, (40, 60), dtype)


def strided(array, backwards):
    """Return an equal array whose elements lie apart, with the last axis backwards if asked to."""
    wide = np.repeat(np.repeat(array, 2, axis=-1), 3, axis=0)
    return (wide[..., ::-1].copy()[..., ::-1] if backwards else wide)[::3, ..., ::2]


@pytest.fixture
def plans(monkeypatch):
    """Keep the plan of each forward pass."""
    made, plan = [], _cpu.plan_with_maps
    monkeypatch.setattr(
        _cpu, "plan_with_maps", lambda *arguments: made.append(plan(*arguments)) or made[-1]
    )
    return made


def assert_same_way(one, other):
    """Check that the last step of two plans has the same tables and tasks."""
    assert one.tasks_made() == other.tasks_made()
    for level in range(one.levels):
        a, b = one.tables(level), other.tables(level)
        for name in ("first", "stop", "starts", "rows", "windows", "spans"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
        for start, stop in [] if a.tap_pixel is None else a.spans.reshape(-1, 2):
            mine = slice(start, stop)
            np.testing.assert_array_equal(a.tap_pixel[mine], b.tap_pixel[mine])
            np.testing.assert_array_equal(a.tap_weight[mine], b.tap_weight[mine])


def in_form(form, x, boxes, tmp_path):
    """Return a map, boxes, sizes of bins and a scale of 0.5, in some form."""
    if form in ("strided", "backwards"):
        return strided(x, form == "backwards"), strided(boxes, form == "backwards"), (3, 2), 0.5
    if form == "subclasses":
        return x.view(Named), boxes.view(Named), (3, 2), 0.5
    if form == "numbers of numpy":
        return x, boxes, np.array([3, 2], np.int16), np.float32(0.5)
    if form == "float16 boxes":  # these boxes are in steps of 1/16 pixel already
        return x, boxes.astype(np.float16), [np.uint8(3), 2], 0.5
    if form == "memory maps":
        mapped = []
        for name, array in (("x", x), ("boxes", boxes)):
            np.save(tmp_path / name, array)
            mapped.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
        return *mapped, (3, 2), 0.5
    return x, boxes, (3, 2), 0.5


FORMS = {
    "contiguous": True,  # For each form, whether such arguments are plain.
    "strided": True,
    "backwards": True,
    "out": True,
    "subclasses": False,
    "memory maps": False,
    "numbers of numpy": False,
    "float16 boxes": False,
    "out of any strides": False,
}


@pairs(
    name=[*SUMS, "roi_pool", "argmax"],
    form=FORMS,
    kind=["float32", "float64", "uint8"],
    layout=LAYOUTS,
)
def test_same_bits_in_any_form(name, form, kind, layout, rng, plans, tmp_path):
    x, boxes = make(
        rng,
        np.float64 if kind == "float64" else np.float32,
        layout,
        36 if name.startswith("ps_") else 37,
    )
    boxes[:, 1:] = boxes[:, 1:].clip(-60, 120)  # where float16 has steps of 1/16
    if kind == "uint8":
        x = (x * 40 + 100).clip(0, 255).astype(np.uint8)
    function, options = (
        (roicy.roi_pool, {"return_argmax": True}) if name == "argmax" else (operator(name), {})
    )
    made = function(x, boxes, (3, 2), 0.5, layout=layout, num_threads=1, **options)
    expected = made if isinstance(made, tuple) else (made,)
    x, boxes, bins, scale = in_form(form, x, boxes, tmp_path)
    x.flags.writeable = boxes.flags.writeable = False
    for threads in (1, 2):
        out = None
        if form == "out":
            out = np.full_like(expected[0], 7)
        elif form == "out of any strides":
            out = strided(np.full_like(expected[0], 7), backwards=True)
        made = function(
            x, boxes, bins, scale, layout=layout, num_threads=threads, out=out, **options
        )
        made = made if isinstance(made, tuple) else (made,)
        assert out is None or made[0] is out
        assert out is None or plans[-1].accepts_out(out) == FORMS[form]
        for one, other in zip(made, expected, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.flags.c_contiguous or one is out
            assert one.tobytes() == other.tobytes()
        # rows of these maps are not packed
        if threads == 1 and form not in ("strided", "backwards"):
            assert_same_way(plans[-1], plans[0])
    assert len(plans) == 3


def formats(boxes, images):
    """Return arguments with boxes in all formats and types.  They are sorted by image, in steps of
    a pixel.
    """
    counts = np.bincount(boxes[:, 0].astype(int), minlength=images)
    parts = np.split(boxes[:, 1:], counts.cumsum()[:-1])
    for dtype in ("f4", "f8", "i4", "i8", "f2", "i2", ">f8"):
        typed = boxes.astype(dtype)
        yield {"boxes": typed}
        yield {"boxes": typed[::-1].copy()[::-1]}
        yield {"boxes": typed.view(Named)}
        yield {"boxes": [part.astype(dtype) for part in parts]}
        yield {"boxes": tuple(part.astype(dtype) for part in parts)}
        yield {"boxes": [part.astype(dtype).view(Named) for part in parts]}
        for numbers in (
            counts,
            counts.astype(np.int32),
            counts.astype(np.uint8),
            counts.astype(">i4"),
            counts.tolist(),
            tuple(counts),
            counts.view(Named),
        ):
            yield {"boxes": typed[:, 1:], "boxes_num": numbers}
    mixed = zip(parts, (np.float32, np.float64, np.int32, np.float16), strict=True)
    yield {"boxes": [part.astype(dtype) for part, dtype in mixed]}


@pytest.mark.parametrize("kind", ["float32", "float64", "uint8"])
def test_formats_of_boxes(kind, rng, plans):
    """All formats of boxes give the same bits, even if an image has no boxes."""
    x = (rng.uniform(size=(4, 5, 20, 30)) * 255).astype(kind)
    boxes = np.round(random_boxes(rng, 4, 30, (40, 60), np.float64))
    boxes = boxes[boxes[:, 0].argsort(kind="stable")]
    boxes = boxes[boxes[:, 0] != 1]
    expected = roicy.roi_align(x, boxes, 3, 0.5)
    count = 0
    for given in formats(boxes, 4):
        given |= {"input": x, "output_size": 3, "spatial_scale": 0.5}
        out = roicy.roi_align(**given)
        assert out.tobytes() == expected.tobytes(), given
        assert_same_way(plans.pop(), plans[0])
        count += 1
    assert count == 92


@pairs(levels=[1, 3, 8, 12], kind=["float32", "float64", "uint8"], layout=LAYOUTS)
def test_levels(levels, kind, layout, rng, plans):
    x = [
        to_layout(
            (rng.uniform(size=(2, 19, max(160 >> i, 1), max(240 >> i, 1))) * 255).astype(kind),
            layout,
        )
        for i in range(levels)
    ]
    boxes = random_boxes(rng, 2, 60, (160, 240), np.float32)
    scales = [0.5**i for i in range(levels)]
    options = {"layout": layout, "aligned": True, "canonical_scale": 30, "canonical_level": 1}
    expected = roicy.multiscale_roi_align(x, boxes, (2, 3), scales, num_threads=1, **options)
    forms = [{"spatial_scale": scales}, {"spatial_scale": np.array(scales)}]
    if levels <= 8:  # the scale cannot be found from a map of one row
        forms.append({"image_size": (160, 240)})
    for given in forms:
        for threads in (1, 2):
            for maps in (x, [level.view(Named) for level in x]):
                out = roicy.multiscale_roi_align(
                    maps, boxes, (2, 3), num_threads=threads, **given, **options
                )
                assert (out.dtype, out.shape) == (expected.dtype, expected.shape)
                assert out.tobytes() == expected.tobytes()
                if threads == 1:
                    assert_same_way(plans[-1], plans[0])
        out = np.empty_like(expected)
        same = roicy.multiscale_roi_align(tuple(x), boxes, (2, 3), out=out, **given, **options)
        assert same is out
        assert plans[-1].accepts_out(out)
        assert out.tobytes() == expected.tobytes()


def test_large_results(rng):
    """Large results begin on cache lines."""
    x, boxes = (
        rng.standard_normal((1, 1, 20, 30)).astype(np.float32),
        random_boxes(rng, 1, 200, (20, 30), np.float32),
    )
    for argmax in (False, True):
        out = roicy.roi_pool(x, boxes, 40, return_argmax=argmax)
        for array in out if argmax else [out]:
            assert array.__array_interface__["data"][0] % 64 == 0


def test_threads(rng, plans):
    """Several threads share a few boxes that are much work, although the result is small."""
    x = rng.standard_normal((1, 512, 200, 200)).astype(np.float32)
    boxes = np.tile(np.array([[0, 1.5, 2.5, 190, 180]], np.float32), (8, 1))
    np.testing.assert_array_equal(
        roicy.roi_align(x, boxes, 7, num_threads=2), roicy.roi_align(x, boxes, 7, num_threads=1)
    )
    assert [plan.threads for plan in plans] == [2, 1]


def call(changed):
    """Return arguments that `changed` has changed, and the result of an operator on them."""
    x, boxes = make(np.random.default_rng(0))
    given = {"input": x, "boxes": boxes, "output_size": (3, 2), "spatial_scale": 0.5}
    given |= {
        name: value(x, boxes) if callable(value) else value for name, value in changed.items()
    }
    options = {"sampling_ratio": 2, "aligned": True, "num_threads": 1}
    if "pyramid" not in given:
        return given, roicy.roi_align(**given, **options)
    names = ("canonical_scale", "canonical_level", "image_size")
    options |= zip(names, given.pop("pyramid"), strict=True)
    given["features"] = given.pop("input")
    return given, roicy.multiscale_roi_align(**given, **options)


def contiguous(array, dtype=None):
    return np.array(array, dtype or array.dtype, order="C", copy=True, subok=False)


def plain_boxes(given, dtype):
    """Return boxes as an array of rows with the image of each."""
    boxes, counts = given["boxes"], given.get("boxes_num")
    if isinstance(boxes, list):
        boxes, counts = np.concatenate(boxes), [len(part) for part in boxes]
    if counts is not None:
        boxes = np.insert(boxes, 0, np.repeat(np.arange(len(counts)), counts), axis=1)
    return contiguous(boxes, dtype)


def check_accepted(changed, plans):
    """Check that the result is that of the same arguments in plain form, without `out`."""
    given, result = call(changed)
    plan = plans[-1]
    maps = given.get("input", given.get("features"))
    plain_maps = (
        tuple(contiguous(level) for level in maps) if isinstance(maps, tuple) else contiguous(maps)
    )
    plain = {"input": plain_maps, "boxes": plain_boxes(given, plan.dtype), "boxes_num": None}
    bins = result.shape[1:3] if given.get("layout") == "NHWC" else result.shape[2:]
    plain |= {"output_size": bins, "out": None}
    scale = given["spatial_scale"]
    if isinstance(scale, (list, tuple, np.ndarray)):
        plain["spatial_scale"] = [
            float(level) if np.ndim(level) == 0 else tuple(map(float, level)) for level in scale
        ]
    elif scale is not None:
        plain["spatial_scale"] = float(scale)
    _, expected = call(changed | plain)
    assert result.shape == expected.shape
    assert result.astype(expected.dtype).tobytes() == expected.tobytes() or (
        result.dtype == np.uint8 and abs(result - expected).max() <= 0.5
    )
    assert_same_way(plan, plans[-1])
    if given.get("out") is not None:
        assert result is given["out"]
    return plan, given.get("out")


PLAIN = [
    {},
    {"output_size": 1},
    {"layout": "NHWC"},
    {"out": lambda x, _: np.empty((11, 37, 3, 2), np.float32)},
    {"spatial_scale": 1e-30},
    {"input": lambda x, _: x.astype(np.uint8)},
    {"input": lambda x, _: x.astype(np.float64)},
    {"output_size": 200},
    {
        "input": lambda x, _: x.astype(np.uint8),
        "out": lambda x, _: np.empty((11, 37, 3, 2), np.float32),
    },
    {
        "input": lambda x, _: x[:, 1:, 3:],
        "out": lambda x, _: np.empty((11, 36, 3, 2), np.float32),
    },
]
NOT_PLAIN = [
    {"input": lambda x, _: x.view(Named)},
    {"input": lambda x, _: x.astype(np.float16)},
    {
        "input": lambda x, _: x.astype(np.uint8),
        "out": lambda x, _: np.empty((11, 37, 3, 2), np.uint8),
    },
    {"input": lambda x, _: x[:, :0]},
    {"input": lambda x, _: x[..., :0]},
    {"boxes": lambda _, boxes: [boxes[:0, 1:]] * 3},
    {"boxes": lambda _, boxes: [np.tile(boxes[:, 1:], (8, 1))] * 3},
    {"boxes": lambda _, boxes: boxes[:0]},
    {"boxes": lambda _, boxes: boxes.astype(np.float16)},
    {"boxes": lambda _, boxes: boxes.astype(np.uint32)},
    {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": (3, 4, 4)},
    {"boxes": lambda _, boxes: np.tile(boxes, (24, 1))},
    {"spatial_scale": 1},
    {"spatial_scale": np.float64(1)},
    {"output_size": [3, 2]},
    {"output_size": (3, np.int64(2))},
    {"out": lambda x, _: np.empty((11, 37, 3, 4), np.float32)[..., ::2]},
    {"out": lambda x, _: np.empty((11, 37, 2, 3), np.float32).transpose(0, 1, 3, 2)},
]


@pytest.mark.parametrize("changed", PLAIN)
def test_what_is_plain(changed, plans):
    plan, out = check_accepted(changed, plans)
    assert out is None or plan.accepts_out(out)


@pytest.mark.parametrize("changed", NOT_PLAIN)
def test_what_is_converted(changed, plans):
    plan, out = check_accepted(changed, plans)
    assert out is None or not plan.accepts_out(out)


PYRAMID = {
    "input": lambda x, _: (x, np.ascontiguousarray(x[..., :10, :15])),
    "spatial_scale": [0.5, 0.25],
    "pyramid": (224, 4, None),
}
BY_SIZE = {"spatial_scale": None, "pyramid": (224, 4, (40, 60))}
PLAIN_LEVELS = [
    {},
    {"spatial_scale": (0.5, 0.25)},
    {"spatial_scale": [0.5, 0.5]},
    {"pyramid": (224.5, -1000, None)},
    BY_SIZE,
    BY_SIZE | {"pyramid": (224, 4, [40, 1])},
]
NOT_PLAIN_LEVELS = [
    {"spatial_scale": [0.5, (0.25, 0.5)]},
    {"spatial_scale": np.array([[0.5, 0.5], [0.25, 0.2]])},
    BY_SIZE | {"input": lambda x, _: (x, x)},
    {"input": lambda x, _: (x,) * 9, "spatial_scale": [0.5**i for i in range(9)]},
    {"spatial_scale": [1, 0.5]},
    {"spatial_scale": np.array([0.5, 0.25])},
]


@pytest.mark.parametrize("changed", [*PLAIN_LEVELS, *NOT_PLAIN_LEVELS])
def test_what_is_accepted_of_a_pyramid(changed, plans):
    check_accepted(PYRAMID | changed, plans)


@pytest.mark.parametrize(
    "changed", [*PLAIN, *NOT_PLAIN, *(PYRAMID | one for one in PLAIN_LEVELS + NOT_PLAIN_LEVELS)]
)
def test_arrays_are_given_back(changed):
    """After a call, no plan holds the memory of the arguments."""
    x, boxes = make(np.random.default_rng(0))
    changed = {
        name: value(x, boxes) if callable(value) else value for name, value in changed.items()
    }
    arrays = [*arrays_in(changed.values())]
    before = [sys.getrefcount(array) for array in arrays]
    call(changed)
    assert [sys.getrefcount(array) for array in arrays] == before


def test_tables_that_take_more_than_their_share():
    """Boxes with such large tables are taken one at a time."""
    x = np.broadcast_to(np.float32(1), (1, 4, 2**20, 2**20))
    boxes = np.tile(np.array([[0, 0, 0, 2**20, 2**20]], np.float32), (4, 1))
    for count in (1, 4):
        arguments = Arguments(boxes[:count], None, 1.0, "NCHW", 1)
        plan = _cpu.plan_with_maps(PS_ROI_POOL, UNIFORM, x, 2, arguments)
        steps = 0
        while plan.next():
            assert len(plan.tables().rows) == 1
            steps += 1
        assert steps == count


def test_argmax_that_int32_cannot_count():
    x = np.broadcast_to(np.float32(1), (1, 1, 2**16, 2**16))
    with pytest.raises(
        ValueError, match=r"input: a map of 65536 x 65536 pixels, expected less than 2\*\*31"
    ):
        roicy.roi_pool(x, np.array([[0, 1, 1, 3, 3]], np.float32), 2, return_argmax=True)


def test_out_that_boxes_lie_in():
    x, boxes = (
        np.ones((1, 1, 9, 9), np.float32),
        np.tile(np.array([[0, 1, 1, 5, 5]], np.float32), (5, 1)),
    )
    out = boxes.reshape(-1)[-5:].reshape(5, 1, 1, 1)

    def takes(boxes, out):
        arguments = Arguments(boxes, None, 1.0, "NCHW", 1)
        return _cpu.plan_with_maps(ROI_ALIGN, sampled(0, True), x, 1, arguments).accepts_out(out)

    assert not takes(boxes, out)
    assert takes(boxes[:-1], out[:-1].copy())
    for given in (boxes, boxes.view(Named), [boxes[:, 1:]], [boxes[:, 1:].view(Named)]):
        with pytest.raises(ValueError, match="out: overlaps memory that the call reads"):
            roicy.roi_align(x, given, 1, out=out)
