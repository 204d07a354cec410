"""
The plan of a call accepts arguments of every form, and refuses all others.

Plain arguments are taken as they are, and others are converted first.  Both give the same bits
in the same way.
"""

import sys

import numpy as np
import pytest
from conftest import LAYOUTS, SUMS, operator, pairs, random_boxes, to_layout

import roicy
from roicy import _cpu
from roicy._arguments import MAP_TYPES, Arguments
from roicy._table import PS_ROI_POOL, ROI_ALIGN

READABLE = ", or what NumPy can read as one"


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
        assert out is None or plans[-1].takes(out) == FORMS[form]
        for one, other in zip(made, expected, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.flags.c_contiguous or one is out
            assert one.tobytes() == other.tobytes()
        # rows of these maps are not packed
        if threads == 1 and form not in ("strided", "backwards"):
            assert_same_way(plans[-1], plans[0])
    assert len(plans) == 3


def formats(boxes, images):
    """
    Return arguments with boxes in all formats and types.  They are sorted by image, in steps of a
    pixel.
    """
    counts = np.bincount(boxes[:, 0].astype(int), minlength=images)
    parts = np.split(boxes[:, 1:], counts.cumsum()[:-1])
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.float16, np.int16):
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
        out, error = outcome(roicy.roi_align, given)
        assert error is None, given
        assert out.tobytes() == expected.tobytes(), given
        assert_same_way(plans.pop(), plans[0])
        count += 1
    assert count == 79


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
        assert plans[-1].takes(out)
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
    with pytest.raises(
        MemoryError,
        match=(
            r"the result of shape \(200, 1, 1048576, 1048576\) and "
            r"dtype float32 takes 879609302220800 bytes"
        ),
    ):
        roicy.roi_align(x, boxes, 2**20, sampling_ratio=1)


def test_threads(rng, plans):
    """Several threads share a few boxes that are much work, although the result is small."""
    x = rng.standard_normal((1, 512, 200, 200)).astype(np.float32)
    boxes = np.tile(np.array([[0, 1.5, 2.5, 190, 180]], np.float32), (8, 1))
    np.testing.assert_array_equal(
        roicy.roi_align(x, boxes, 7, num_threads=2), roicy.roi_align(x, boxes, 7, num_threads=1)
    )
    assert [plan.threads for plan in plans] == [2, 1]


def outcome(function, given, **options):
    """Return the result or None, and (type, message) of the error or None."""
    maps = given.get("input", given.get("features"))
    options |= {name: value for name, value in given.items() if name not in ("input", "features")}
    try:
        return function(maps, **options), None
    except Exception as error:
        return None, (type(error), str(error))


def call(changed):
    """Return the result of an operator on the arguments that `changed` has changed."""
    x, boxes = make(np.random.default_rng(0))
    given = {"input": x, "boxes": boxes, "output_size": (3, 2), "spatial_scale": 0.5}
    given |= {
        name: value(x, boxes) if callable(value) else value for name, value in changed.items()
    }
    if given.pop("position_sensitive", False):
        return given, outcome(roicy.ps_roi_pool, given)
    options = {"sampling_ratio": 2, "aligned": True, "num_threads": 1}
    if "pyramid" not in given:
        return given, outcome(roicy.roi_align, given, **options)
    given["features"] = given.pop("input")
    options |= zip(
        ("canonical_scale", "canonical_level", "image_size"), given.pop("pyramid"), strict=True
    )
    return given, outcome(roicy.multiscale_roi_align, given, **options)


def with_number(x, boxes, row, column, value):
    boxes[row, column] = value
    return boxes


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
    given, (result, error) = call(changed)
    assert error is None
    plan = plans[-1]
    maps = given.get("input", given.get("features"))
    plain_maps = (
        tuple(contiguous(level) for level in maps) if isinstance(maps, tuple) else contiguous(maps)
    )
    plain = {"input": plain_maps, "boxes": plain_boxes(given, plan.dtype), "boxes_num": None}
    plain |= {"output_size": (plan.ph, plan.pw), "out": None}
    scale = given["spatial_scale"]
    if isinstance(scale, (list, tuple, np.ndarray)):
        plain["spatial_scale"] = [
            float(level) if np.ndim(level) == 0 else tuple(map(float, level)) for level in scale
        ]
    elif scale is not None:
        plain["spatial_scale"] = float(scale)
    _, (expected, error) = call(changed | plain)
    assert error is None
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
WRONG = [
    ({"input": None}, TypeError, f"input: builtins.NoneType, expected a numpy.ndarray{READABLE}"),
    (
        {"input": lambda x, _: x.tolist()},
        TypeError,
        f"input: builtins.list, expected a numpy.ndarray{READABLE}",
    ),
    (
        {"input": lambda x, _: x.astype(">f4")},
        TypeError,
        f"input: dtype float32 in foreign byte order, expected {MAP_TYPES}",
    ),
    ({"input": lambda x, _: x.astype(np.longdouble)}, TypeError, "input: dtype "),
    (
        {"input": lambda x, _: x.astype(np.int32)},
        TypeError,
        f"input: dtype int32, expected {MAP_TYPES}",
    ),
    (
        {"input": lambda x, _: x.astype(bool)},
        TypeError,
        f"input: dtype bool, expected {MAP_TYPES}; pass its view(numpy.uint8)",
    ),
    (
        {"input": lambda x, _: np.zeros(x.shape, "datetime64[s]")},
        TypeError,
        f"input: dtype datetime64[s], expected {MAP_TYPES}",
    ),
    (
        {"input": lambda x, _: x.astype(object)},
        TypeError,
        f"input: dtype object, expected {MAP_TYPES}",
    ),
    (
        {"input": lambda x, _: x.astype([("x", np.float32)])},
        TypeError,
        f"input: dtype void32, expected {MAP_TYPES}",
    ),
    ({"input": lambda x, _: x[0]}, ValueError, "input: shape (37, 20, 30), expected (N, C, H, W)"),
    (
        {"input": lambda x, _: x[:0]},
        ValueError,
        "boxes[0]: batch index 2 is outside the input's 0 images",
    ),
    (
        {
            "input": lambda x, _: np.lib.stride_tricks.as_strided(
                x.reshape(-1).view(np.uint8)[2:-2].view(np.float32), (1, 1, 4, 4)
            )
        },
        ValueError,
        "input: its elements do not lie at multiples of their size in memory; pass a copy",
    ),
    (
        {"input": lambda x, _: np.lib.stride_tricks.as_strided(x, (1, 1, 4, 4), (0, 0, 6, 4))},
        ValueError,
        "input: its elements do not lie at multiples of their size in memory; pass a copy",
    ),
    (
        {"input": lambda x, _: np.broadcast_to(x[:1, :1, :1, :1], (1, 1, 2**20 + 1, 1))},
        ValueError,
        "boxes[0]: batch index 2 is outside the input's 1 images",
    ),
    ({"boxes": None}, TypeError, f"boxes: builtins.NoneType, expected a numpy.ndarray{READABLE}"),
    (
        {"boxes": lambda _, boxes: [boxes[:, 1:]]},
        ValueError,
        "boxes: a list of 1 arrays, expected one for each of the input's 3 images",
    ),
    (
        {"boxes": lambda _, boxes: [boxes[:, 1:]] * 4},
        ValueError,
        "boxes: a list of 4 arrays, expected one for each of the input's 3 images",
    ),
    (
        {"boxes": lambda _, boxes: [boxes[:, 1:], boxes, boxes[:, 1:]]},
        ValueError,
        "boxes[1]: shape (11, 5), expected (K, 4) with rows [x1, y1, x2, y2]",
    ),
    (
        {"boxes": lambda _, boxes: [boxes[:, 1:], boxes[:, 1:], None]},
        TypeError,
        f"boxes[2]: builtins.NoneType, expected a numpy.ndarray{READABLE}",
    ),
    (
        {
            "boxes": lambda _, boxes: [
                boxes[:, 1:],
                boxes[:, 1:],
                with_number(None, boxes[:, 1:].copy(), 4, 2, np.nan),
            ]
        },
        ValueError,
        "boxes[2]: row 4: x2 is nan, expected a finite coordinate",
    ),
    (
        {"boxes": lambda _, boxes: [boxes[:, 1:]] * 3, "boxes_num": [11] * 3},
        ValueError,
        "boxes_num: expected None, since boxes is a list with the boxes of each image",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:]},
        ValueError,
        (
            "boxes: shape (11, 4), expected (K, 5) with rows [batch_index, x1, y1, x2, "
            "y2]; boxes of 4 columns need boxes_num"
        ),
    ),
    (
        {"boxes": lambda _, boxes: boxes[0]},
        ValueError,
        "boxes: shape (5,), expected (K, 5) with rows [batch_index, x1, y1, x2, y2]",
    ),
    (
        {"boxes": lambda _, boxes: with_number(None, boxes.astype(np.float64), 2, 3, 1e39)},
        ValueError,
        "boxes[2]: (24.9375, 20, 1e+39, 27.0625), which times spatial_scale 0.5 is beyond float32",
    ),
    (
        {"boxes": lambda _, boxes: with_number(None, boxes.astype(np.float64), 2, 0, 1 + 1e-12)},
        ValueError,
        "boxes[2]: batch index 1.000000000001, expected a whole number",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 3, 4]},
        ValueError,
        "boxes_num: counts that sum to 10, expected the 11 rows of boxes",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 3, 6]},
        ValueError,
        "boxes_num: counts that sum to 12, expected the 11 rows of boxes",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [12, -1, 0]},
        ValueError,
        "boxes_num[1]: -1, expected a count of 0 or more",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 8]},
        ValueError,
        "boxes_num: shape (2,), expected (3,), a count for each image of the input",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 4, 4, 0]},
        ValueError,
        "boxes_num: shape (4,), expected (3,), a count for each image of the input",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 4, True]},
        ValueError,
        "boxes_num: counts that sum to 8, expected the 11 rows of boxes",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 4, 4.0]},
        TypeError,
        "boxes_num: dtype float64, expected integers",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 8 - 2**70, 2**70]},
        TypeError,
        "boxes_num: dtype object, expected integers",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": np.array([3.0, 4, 4])},
        TypeError,
        "boxes_num: dtype float64, expected integers",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": np.array([[3, 4, 4]])},
        ValueError,
        "boxes_num: shape (1, 3), expected (3,), a count for each image of the input",
    ),
    (
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": np.array(11)},
        ValueError,
        "boxes_num: shape (), expected (3,), a count for each image of the input",
    ),
    (
        {"boxes": lambda _, boxes: boxes, "boxes_num": [3, 4, 4]},
        ValueError,
        "boxes: shape (11, 5), expected (K, 4) with rows [x1, y1, x2, y2]",
    ),
    (
        {"boxes": lambda x, boxes: with_number(x, boxes, 3, 0, -1)},
        ValueError,
        "boxes[3]: batch index -1 is outside the input's 3 images",
    ),
    (
        {"boxes": lambda x, boxes: with_number(x, boxes, 3, 0, 3)},
        ValueError,
        "boxes[3]: batch index 3 is outside the input's 3 images",
    ),
    (
        {"boxes": lambda x, boxes: with_number(x, boxes, 3, 0, 0.5)},
        ValueError,
        "boxes[3]: batch index 0.5, expected a whole number",
    ),
    (
        {"boxes": lambda x, boxes: with_number(x, boxes, 3, 0, np.nan)},
        ValueError,
        "boxes[3]: batch index nan, expected a whole number",
    ),
    (
        {"boxes": lambda x, boxes: with_number(x, boxes, 10, 4, np.nan)},
        ValueError,
        "boxes[10]: y2 is nan, expected a finite coordinate",
    ),
    (
        {"boxes": lambda x, boxes: with_number(x, boxes, 10, 1, -np.inf)},
        ValueError,
        "boxes[10]: x1 is -inf, expected a finite coordinate",
    ),
    ({"spatial_scale": 0.0}, ValueError, "spatial_scale: 0.0, expected a finite number above 0"),
    ({"spatial_scale": -1.0}, ValueError, "spatial_scale: -1.0, expected a finite number above 0"),
    (
        {"spatial_scale": float("nan")},
        ValueError,
        "spatial_scale: nan, expected a finite number above 0",
    ),
    (
        {"spatial_scale": float("inf")},
        ValueError,
        "spatial_scale: inf, expected a finite number above 0",
    ),
    (
        {"spatial_scale": 1e38},
        ValueError,
        "boxes[0]: (29.875, 19.75, 28.3125, 17.3125), which times spatial_scale 1e+38",
    ),
    ({"spatial_scale": "1"}, TypeError, "spatial_scale: '1', expected a number"),
    ({"output_size": 0}, ValueError, "output_size: 0, expected an integer from 1 to 16777216"),
    ({"output_size": -1}, ValueError, "output_size: -1, expected an integer from 1 to 16777216"),
    (
        {"output_size": 10**30},
        ValueError,
        "output_size: 1000000000000000000000000000000, expected an integer from 1 to 16777216",
    ),
    ({"output_size": True}, TypeError, "output_size: True, expected an integer"),
    ({"output_size": 2.0}, TypeError, "output_size: 2.0, expected an integer"),
    ({"output_size": None}, TypeError, "output_size: None, expected an integer"),
    (
        {"output_size": (3, 2, 1)},
        ValueError,
        "output_size: (3, 2, 1), expected an integer or two, (height, width)",
    ),
    ({"output_size": (3, 0)}, ValueError, "output_size: 0, expected an integer from 1 to 16777216"),
    ({"layout": "nchw"}, ValueError, "layout: 'nchw', expected 'NCHW' or 'NHWC'"),
    ({"layout": None}, ValueError, "layout: None, expected 'NCHW' or 'NHWC'"),
    ({"layout": np.zeros(2)}, ValueError, "layout: array"),
    (
        {"position_sensitive": True},
        ValueError,
        "input: 37 channels, expected a multiple of the 3 x 2 bins of output_size",
    ),
    (
        {"out": lambda x, _: np.empty((11, 37, 2, 3), np.float32)},
        ValueError,
        "out: shape (11, 37, 2, 3), expected (11, 37, 3, 2)",
    ),
    (
        {"out": lambda x, _: np.empty((11, 37, 3, 2), np.float64)},
        TypeError,
        "out: dtype float64, expected float32",
    ),
    (
        {"out": lambda x, _: np.empty((11, 37, 6), np.float32)},
        ValueError,
        "out: shape (11, 37, 6), expected (11, 37, 3, 2)",
    ),
    (
        {"out": lambda x, _: np.empty((11, 37, 3, 2), np.float32).tolist()},
        TypeError,
        "out: builtins.list, expected a numpy.ndarray",
    ),
    (
        {"out": lambda x, _: np.broadcast_to(np.float32(0), (11, 37, 3, 2))},
        ValueError,
        "out: read-only, expected an array that can be written to",
    ),
    (
        {"out": lambda x, _: x.reshape(-1)[: 11 * 37 * 6].reshape(11, 37, 3, 2)},
        ValueError,
        "out: overlaps memory that the call reads",
    ),
    (
        {
            "input": lambda x, _: x[::-1],
            "out": lambda x, _: x.reshape(-1)[-11 * 37 * 6 :].reshape(11, 37, 3, 2),
        },
        ValueError,
        "out: overlaps memory that the call reads",
    ),
]


@pytest.mark.parametrize("changed", PLAIN)
def test_what_is_plain(changed, plans):
    plan, out = check_accepted(changed, plans)
    assert out is None or plan.takes(out)


@pytest.mark.parametrize("changed", NOT_PLAIN)
def test_what_is_converted(changed, plans):
    plan, out = check_accepted(changed, plans)
    assert out is None or not plan.takes(out)


@pytest.mark.parametrize(("changed", "error", "message"), WRONG)
def test_what_is_refused(changed, error, message):
    _, (_, found) = call(changed)
    assert found is not None
    assert found[0] is error
    assert found[1].startswith(message)


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
WRONG_LEVELS = [
    (
        {"input": ()},
        TypeError,
        "features: builtins.tuple, expected a list of arrays, one for each level",
    ),
    (
        {"input": lambda x, _: (x, x[:, :5])},
        ValueError,
        "features[1]: 3 images of 5 channels, expected 3 of 37, as features[0] has",
    ),
    (
        {"input": lambda x, _: (x, x[:2])},
        ValueError,
        "features[1]: 2 images of 37 channels, expected 3 of 37, as features[0] has",
    ),
    (
        {"input": lambda x, _: (x, x.astype(np.float64))},
        TypeError,
        "features[1]: dtype float64, expected float32, as features[0] has",
    ),
    (
        {"input": lambda x, _: (x, x[0])},
        ValueError,
        "features[1]: shape (37, 20, 30), expected (N, C, H, W)",
    ),
    (
        {"input": lambda x, _: (x, None)},
        TypeError,
        f"features[1]: builtins.NoneType, expected a numpy.ndarray{READABLE}",
    ),
    (
        {"spatial_scale": 0.5},
        ValueError,
        "spatial_scale: 0.5, expected a scale for each of the 2 levels",
    ),
    (
        {"spatial_scale": [0.5]},
        ValueError,
        "spatial_scale: [0.5], expected a scale for each of the 2 levels",
    ),
    (
        {"spatial_scale": [0.5, 0.25, 0.125]},
        ValueError,
        "spatial_scale: [0.5, 0.25, 0.125], expected a scale for each of the 2 levels",
    ),
    (
        {"spatial_scale": [0.25, 0.5]},
        ValueError,
        (
            "spatial_scale: [0.25, 0.5]; expected levels from fine to coarse, no scale "
            "above the one before"
        ),
    ),
    (
        {"spatial_scale": [0.5, (0.25, 0.75)]},
        ValueError,
        (
            "spatial_scale: [0.5, (0.25, 0.75)]; expected levels from fine to coarse, no scale "
            "above the one before"
        ),
    ),
    (
        {"spatial_scale": [0.5, 0.0]},
        ValueError,
        "spatial_scale: 0.0, expected a finite number above 0",
    ),
    (
        {"spatial_scale": None},
        ValueError,
        "image_size: None, expected (height, width), or else spatial_scale",
    ),
    ({"pyramid": (0, 4, None)}, ValueError, "canonical_scale: 0, expected a finite number above 0"),
    (
        {"pyramid": (-1.0, 4, None)},
        ValueError,
        "canonical_scale: -1.0, expected a finite number above 0",
    ),
    (
        {"pyramid": (np.inf, 4, None)},
        ValueError,
        "canonical_scale: inf, expected a finite number above 0",
    ),
    ({"pyramid": (10**400, 4, None)}, ValueError, "canonical_scale: 10"),
    ({"pyramid": ("224", 4, None)}, TypeError, "canonical_scale: '224', expected a number"),
    ({"pyramid": (True, 4, None)}, TypeError, "canonical_scale: True, expected a number"),
    ({"pyramid": (224, 4.0, None)}, TypeError, "canonical_level: 4.0, expected an integer"),
    (
        {"pyramid": (224, 1001, None)},
        ValueError,
        "canonical_level: 1001, expected an integer from -1000 to 1000",
    ),
    (
        {"pyramid": (224, 10**30, None)},
        ValueError,
        "canonical_level: 1000000000000000000000000000000, expected an integer from -1000 to 1000",
    ),
    (
        {"pyramid": (224, 4, (40, 60))},
        ValueError,
        "image_size: expected None, since spatial_scale is given",
    ),
    (
        BY_SIZE | {"pyramid": (224, 4, 40)},
        ValueError,
        "image_size: 40, expected (height, width), or else spatial_scale",
    ),
    (
        BY_SIZE | {"pyramid": (224, 4, (40, 60, 3))},
        ValueError,
        "image_size: (40, 60, 3), expected (height, width), or else spatial_scale",
    ),
    (
        BY_SIZE | {"pyramid": (224, 4, (0, 60))},
        ValueError,
        "image_size: 0, expected an integer from 1 to 4611686018427387904",
    ),
    (
        BY_SIZE | {"pyramid": (224, 4, (40, 0))},
        ValueError,
        "image_size: 0, expected an integer from 1 to 4611686018427387904",
    ),
    (
        BY_SIZE | {"pyramid": (224, 4, (40.0, 60))},
        TypeError,
        "image_size: 40.0, expected an integer",
    ),
    (
        BY_SIZE | {"input": lambda x, _: (np.ascontiguousarray(x[..., :10, :15]), x)},
        ValueError,
        (
            "spatial_scale: [0.25, 0.5], as follows from image_size; expected levels from "
            "fine to coarse, no scale above the one before"
        ),
    ),
    (
        {"out": lambda x, _: x.reshape(-1)[: 11 * 37 * 6].reshape(11, 37, 3, 2)},
        ValueError,
        "out: overlaps memory that the call reads",
    ),
]


@pytest.mark.parametrize("changed", [*PLAIN_LEVELS, *NOT_PLAIN_LEVELS])
def test_what_is_accepted_of_a_pyramid(changed, plans):
    check_accepted(PYRAMID | changed, plans)


@pytest.mark.parametrize(("changed", "error", "message"), WRONG_LEVELS)
def test_what_is_refused_of_a_pyramid(changed, error, message):
    _, (_, found) = call(PYRAMID | changed)
    assert found is not None
    assert found[0] is error
    assert found[1].startswith(message)


def arrays_in(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from arrays_in(value)
        elif isinstance(value, np.ndarray):
            yield value


REFUSED = [changed for changed, _, _ in WRONG]
REFUSED_LEVELS = [changed for changed, _, _ in WRONG_LEVELS]


@pytest.mark.parametrize(
    "changed",
    [
        *(PLAIN + NOT_PLAIN + REFUSED),
        *(PYRAMID | changed for changed in PLAIN_LEVELS + NOT_PLAIN_LEVELS + REFUSED_LEVELS),
    ],
)
def test_arrays_are_given_back(changed):
    """After a call, no plan holds the memory of the arguments, even if there was an error."""
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
        given = Arguments(boxes[:count], None, 1.0, "NCHW", 1)
        plan = _cpu.plan_with_maps(PS_ROI_POOL, (), x, 2, given)
        steps = 0
        while plan.next():
            assert len(plan.rows()) == 1
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
        given = Arguments(boxes, None, 1.0, "NCHW", 1)
        return _cpu.plan_with_maps(ROI_ALIGN, (0, True), x, 1, given).takes(out)

    assert not takes(boxes, out)
    assert takes(boxes[:-1], out[:-1].copy())
    for given in (boxes, boxes.view(Named), [boxes[:, 1:]], [boxes[:, 1:].view(Named)]):
        with pytest.raises(ValueError, match="out: overlaps memory that the call reads"):
            roicy.roi_align(x, given, 1, out=out)
