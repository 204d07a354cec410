"""
The short way of calls of few boxes: it gives what the Python front end gives, takes what it
should, and leaves the rest alone.
"""

import sys

import numpy as np
import pytest
from conftest import SUMS, operator, random_boxes, to_layout

import roicy
from roicy import _arguments
from roicy._kernels import front, geometry

RULE = geometry.sampled(2, True, False)


def make(rng, dtype=np.float32, layout="NCHW", channels=37, count=11):
    x = rng.standard_normal((3, channels, 20, 30)).astype(dtype)
    return to_layout(x, layout), random_boxes(rng, 3, count, (40, 60), dtype)


def strided(array, backwards):
    """Return an equal array whose elements lie apart, and the last axis backwards if asked to."""
    wide = np.repeat(np.repeat(array, 2, axis=-1), 3, axis=0)
    return (wide[..., ::-1].copy()[..., ::-1] if backwards else wide)[::3, ..., ::2]


@pytest.fixture
def plans(monkeypatch):
    """Keep what the short way makes of each call."""
    made, plan = [], front.plan
    monkeypatch.setattr(front, "plan", lambda *arguments: made.append(plan(*arguments)) or made[-1])
    return made


@pytest.mark.parametrize("form", ["contiguous", "strided", "backwards", "out"])
@pytest.mark.parametrize("name", [*SUMS, "roi_pool", "argmax"])
@pytest.mark.parametrize("kind", ["float32", "float64", "uint8"])
def test_same_bits_as_the_python_front(name, form, kind, layout, isa, rng, plans, monkeypatch):
    bins = (3, 2)
    x, boxes = make(
        rng,
        np.float64 if kind == "float64" else np.float32,
        layout,
        36 if name.startswith("ps_") else 37,
    )
    if kind == "uint8":
        x = (x * 40 + 100).clip(0, 255).astype(np.uint8)
    if form in ("strided", "backwards"):
        x, boxes = strided(x, form == "backwards"), strided(boxes, form == "backwards")
    x.flags.writeable = boxes.flags.writeable = False
    function, options = (
        (roicy.roi_pool, {"return_argmax": True}) if name == "argmax" else (operator(name), {})
    )

    def results(threads):
        out = np.full_like(expected[0], 7) if form == "out" else None
        made = function(x, boxes, bins, 0.5, layout=layout, num_threads=threads, out=out, **options)
        made = made if isinstance(made, tuple) else (made,)
        assert out is None or made[0] is out
        return made

    made = function(x, boxes, bins, 0.5, layout=layout, **options)
    expected = made if isinstance(made, tuple) else (made,)
    short = [results(threads) for threads in (1, 2)]
    assert len(plans) == 3
    assert None not in plans
    monkeypatch.setattr(front, "plan", lambda *_: None)
    for some in (*short, results(1)):
        for one, other in zip(some, expected, strict=True):
            assert (one.dtype, one.shape, one.flags.c_contiguous) == (
                other.dtype,
                other.shape,
                True,
            )
            assert one.tobytes() == other.tobytes()


def formats(boxes, images):
    """
    Boxes sorted by image, in all formats and types that the short way takes, as arguments; in
    steps of a pixel.
    """
    counts = np.bincount(boxes[:, 0].astype(int), minlength=images)
    parts = np.split(boxes[:, 1:], counts.cumsum()[:-1])
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        typed = boxes.astype(dtype)
        yield {"boxes": typed}
        yield {"boxes": typed[::-1].copy()[::-1]}
        yield {"boxes": [part.astype(dtype) for part in parts]}
        yield {"boxes": tuple(part.astype(dtype) for part in parts)}
        for numbers in (counts, counts.astype(np.int32), counts.astype(np.uint8), counts.tolist()):
            yield {"boxes": typed[:, 1:], "boxes_num": numbers}


@pytest.mark.parametrize("kind", ["float32", "float64", "uint8"])
def test_formats_of_boxes(kind, rng, plans, monkeypatch):
    """One of the images has no boxes."""
    x = (rng.uniform(size=(4, 5, 20, 30)) * 255).astype(kind)
    boxes = np.round(random_boxes(rng, 4, 30, (40, 60), np.float64))
    boxes = boxes[boxes[:, 0].argsort(kind="stable")]
    boxes = boxes[boxes[:, 0] != 1]
    monkeypatch.setattr(front, "plan", lambda *_: None)
    expected = roicy.roi_align(x, boxes, 3, 0.5)
    monkeypatch.undo()
    count = 0
    for given in formats(boxes, 4):
        plan = plan_of(
            **{"input": x, "output_size": 3, "rule": geometry.sampled(-1, False, True), **given}
        )
        assert plan, given
        assert (
            roicy.roi_align(x, output_size=3, spatial_scale=0.5, **given).tobytes()
            == expected.tobytes()
        )
        count += 1
    assert count == 32


@pytest.mark.parametrize("kind", ["float32", "float64", "uint8"])
@pytest.mark.parametrize("levels", [1, 3, 8])
def test_levels(levels, kind, layout, isa, rng, plans, monkeypatch):
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

    def results():
        for given in ({"spatial_scale": scales}, {"image_size": (160, 240)}):
            for threads in (1, 2):
                yield roicy.multiscale_roi_align(
                    x, boxes, (2, 3), num_threads=threads, **given, **options
                )
            out = np.empty_like(expected)
            yield roicy.multiscale_roi_align(tuple(x), boxes, (2, 3), out=out, **given, **options)

    expected = roicy.multiscale_roi_align(x, boxes, (2, 3), scales, **options)
    short = list(results())
    assert len(plans) == 7
    assert None not in plans
    monkeypatch.setattr(front, "plan", lambda *_: None)
    for one, other in zip(short, results(), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes() == expected.tobytes()


def test_large_results(rng, plans):
    """They have the memory that the Python front end gives them: on cache lines."""
    x, boxes = (
        rng.standard_normal((1, 1, 20, 30)).astype(np.float32),
        random_boxes(rng, 1, 200, (20, 30), np.float32),
    )
    for argmax in (False, True):
        out = roicy.roi_pool(x, boxes, 40, return_argmax=argmax)
        assert plans.pop() is not None
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


def test_threads(rng):
    """A few boxes that are much work: the result is small, but several threads share it."""
    x = rng.standard_normal((1, 512, 200, 200)).astype(np.float32)
    boxes = np.tile(np.array([[0, 1.5, 2.5, 190, 180]], np.float32), (8, 1))
    plan = front.plan((x,), boxes, None, 7, 1.0, "NCHW", None, RULE, False, 2, _arguments.new)
    assert plan[-1] == 2
    np.testing.assert_array_equal(
        roicy.roi_align(x, boxes, 7, num_threads=2), roicy.roi_align(x, boxes, 7, num_threads=1)
    )


def plan_of(**changed):
    x, boxes = make(np.random.default_rng(0))
    given = {
        "input": x,
        "boxes": boxes,
        "boxes_num": None,
        "output_size": (3, 2),
        "spatial_scale": 0.5,
        "layout": "NCHW",
        "out": None,
        "rule": RULE,
    }
    given |= {"position_sensitive": False, "threads": 1, "new": _arguments.new}
    given |= {
        name: value(x, boxes) if callable(value) else value for name, value in changed.items()
    }
    maps = given.pop("input")
    arrays = [
        array
        for name in ("boxes", "out")
        for array in (given[name] if isinstance(given[name], list) else [given[name]])
    ]
    arrays = [
        array
        for array in (*arrays, *(maps if isinstance(maps, tuple) else [maps]))
        if array is not None
    ]
    before = [sys.getrefcount(array) for array in arrays]
    plan = front.plan(maps if isinstance(maps, tuple) else (maps,), *given.values())
    found = plan is not None
    del plan
    assert [sys.getrefcount(array) for array in arrays] == before  # all buffers are given back
    return found


def with_number(x, boxes, row, column, value):
    boxes[row, column] = value
    return boxes


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"output_size": 1},
        {"layout": "NHWC"},
        {"out": lambda x, _: np.empty((11, 37, 3, 2), np.float32)},
        {"spatial_scale": 1e-30},
        {"input": lambda x, _: x.astype(np.uint8)},
        {"input": lambda x, _: x.astype(np.float64)},
        {"output_size": 1000},
        {
            "input": lambda x, _: x.astype(np.uint8),
            "out": lambda x, _: np.empty((11, 37, 3, 2), np.float32),
        },
        {
            "input": lambda x, _: x[:, 1:, 3:],
            "out": lambda x, _: np.empty((11, 36, 3, 2), np.float32),
        },
    ],
)
def test_what_is_plain(changed):
    assert plan_of(**changed)


class Named(np.ndarray):
    pass


@pytest.mark.parametrize(
    "changed",
    [
        {"input": None},
        {"input": lambda x, _: x.tolist()},
        {"input": lambda x, _: x.view(Named)},
        {"input": lambda x, _: x.astype(">f4")},
        {"input": lambda x, _: x.astype(np.float16)},
        {"input": lambda x, _: x.astype(np.longdouble)},
        {"input": lambda x, _: x.astype(np.int8)},
        {"input": lambda x, _: x.astype(bool)},
        {
            "input": lambda x, _: x.astype(np.uint8),
            "out": lambda x, _: np.empty((11, 37, 3, 2), np.uint8),
        },
        {"input": lambda x, _: np.zeros(x.shape, "datetime64[s]")},
        {"input": lambda x, _: x.astype(object)},
        {"input": lambda x, _: x.astype([("x", np.float32)])},
        {"input": lambda x, _: x[0]},
        {"input": lambda x, _: x[:0]},
        {"input": lambda x, _: x[:, :0]},
        {"input": lambda x, _: x[..., :0]},
        {
            "input": lambda x, _: np.lib.stride_tricks.as_strided(
                x.reshape(-1).view(np.uint8)[2:-2].view(np.float32), (1, 1, 4, 4)
            )
        },
        {"input": lambda x, _: np.lib.stride_tricks.as_strided(x, (1, 1, 4, 4), (0, 0, 6, 4))},
        {"input": lambda x, _: np.broadcast_to(x[:1, :1, :1, :1], (1, 1, 2**20 + 1, 1))},
        {"boxes": None},
        {"boxes": lambda _, boxes: [boxes[:, 1:]]},
        {"boxes": lambda _, boxes: [boxes[:, 1:]] * 4},
        {"boxes": lambda _, boxes: [boxes[:, 1:], boxes, boxes[:, 1:]]},
        {"boxes": lambda _, boxes: [boxes[:, 1:], boxes[:, 1:], None]},
        {"boxes": lambda _, boxes: [boxes[:0, 1:]] * 3},
        {"boxes": lambda _, boxes: [np.tile(boxes[:, 1:], (8, 1))] * 3},
        {
            "boxes": lambda _, boxes: [
                boxes[:, 1:],
                boxes[:, 1:],
                with_number(None, boxes[:, 1:].copy(), 4, 2, np.nan),
            ]
        },
        {"boxes": lambda _, boxes: [boxes[:, 1:]] * 3, "boxes_num": [11] * 3},
        {"boxes": lambda _, boxes: boxes[:, 1:]},
        {"boxes": lambda _, boxes: boxes[:0]},
        {"boxes": lambda _, boxes: boxes[0]},
        {"boxes": lambda _, boxes: boxes.astype(np.float16)},
        {"boxes": lambda _, boxes: boxes.astype(np.uint32)},
        {"boxes": lambda _, boxes: boxes.astype(">f4")},
        {"boxes": lambda _, boxes: with_number(None, boxes.astype(np.float64), 2, 3, 1e39)},
        {"boxes": lambda _, boxes: with_number(None, boxes.astype(np.float64), 2, 0, 1 + 1e-12)},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 3, 4]},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 3, 6]},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [12, -1, 0]},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 8]},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 4, 4, 0]},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 4, True]},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 4, 4.0]},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": [3, 8 - 2**70, 2**70]},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": (3, 4, 4)},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": np.array([3.0, 4, 4])},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": np.array([[3, 4, 4]])},
        {"boxes": lambda _, boxes: boxes[:, 1:], "boxes_num": np.array(11)},
        {"boxes": lambda _, boxes: boxes, "boxes_num": [3, 4, 4]},
        {"boxes": lambda _, boxes: np.tile(boxes, (24, 1))},
        {"boxes": lambda x, boxes: with_number(x, boxes, 3, 0, -1)},
        {"boxes": lambda x, boxes: with_number(x, boxes, 3, 0, 3)},
        {"boxes": lambda x, boxes: with_number(x, boxes, 3, 0, 0.5)},
        {"boxes": lambda x, boxes: with_number(x, boxes, 3, 0, np.nan)},
        {"boxes": lambda x, boxes: with_number(x, boxes, 10, 4, np.nan)},
        {"boxes": lambda x, boxes: with_number(x, boxes, 10, 1, -np.inf)},
        {"spatial_scale": 1},
        {"spatial_scale": 0.0},
        {"spatial_scale": -1.0},
        {"spatial_scale": float("nan")},
        {"spatial_scale": float("inf")},
        {"spatial_scale": 1e38},
        {"spatial_scale": np.float64(1)},
        {"spatial_scale": "1"},
        {"output_size": 0},
        {"output_size": -1},
        {"output_size": 10**30},
        {"output_size": True},
        {"output_size": 2.0},
        {"output_size": None},
        {"output_size": [3, 2]},
        {"output_size": (3, 2, 1)},
        {"output_size": (3, 0)},
        {"output_size": (3, np.int64(2))},
        {"layout": "nchw"},
        {"layout": None},
        {"layout": np.zeros(2)},
        {"position_sensitive": True},
        {"out": lambda x, _: np.empty((11, 37, 2, 3), np.float32)},
        {"out": lambda x, _: np.empty((11, 37, 3, 2), np.float64)},
        {"out": lambda x, _: np.empty((11, 37, 6), np.float32)},
        {"out": lambda x, _: np.empty((11, 37, 3, 4), np.float32)[..., ::2]},
        {"out": lambda x, _: np.empty((11, 37, 2, 3), np.float32).transpose(0, 1, 3, 2)},
        {"out": lambda x, _: np.empty((11, 37, 3, 2), np.float32).tolist()},
        {"out": lambda x, _: np.broadcast_to(np.float32(0), (11, 37, 3, 2))},
        {"out": lambda x, _: x.reshape(-1)[: 11 * 37 * 6].reshape(11, 37, 3, 2)},
        {
            "input": lambda x, _: x[::-1],
            "out": lambda x, _: x.reshape(-1)[-11 * 37 * 6 :].reshape(11, 37, 3, 2),
        },
    ],
)
def test_what_is_left_to_the_python_front(changed):
    assert not plan_of(**changed)


PYRAMID = {
    "input": lambda x, _: (x, np.ascontiguousarray(x[..., :10, :15])),
    "spatial_scale": [0.5, 0.25],
    "pyramid": (224, 4, None),
}
BY_SIZE = {"spatial_scale": None, "pyramid": (224, 4, (40, 60))}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"spatial_scale": (0.5, 0.25)},
        {"pyramid": (224.5, -1000, None)},
        BY_SIZE,
        BY_SIZE | {"pyramid": (224, 4, [40, 1])},
    ],
)
def test_what_is_plain_of_a_pyramid(changed):
    assert plan_of(**PYRAMID | changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"input": ()},
        {"input": lambda x, _: (x,) * 9, "spatial_scale": [0.5**i for i in range(9)]},
        {"input": lambda x, _: (x, x[:, :5])},
        {"input": lambda x, _: (x, x[:2])},
        {"input": lambda x, _: (x, x.astype(np.float64))},
        {"input": lambda x, _: (x, x[0])},
        {"input": lambda x, _: (x, None)},
        {"spatial_scale": 0.5},
        {"spatial_scale": [0.5]},
        {"spatial_scale": [0.5, 0.25, 0.125]},
        {"spatial_scale": [0.25, 0.5]},
        {"spatial_scale": [0.5, 0.5]},
        {"spatial_scale": [0.5, 0.0]},
        {"spatial_scale": [1, 0.5]},
        {"spatial_scale": np.array([0.5, 0.25])},
        {"spatial_scale": None},
        {"pyramid": (0, 4, None)},
        {"pyramid": (-1.0, 4, None)},
        {"pyramid": (np.inf, 4, None)},
        {"pyramid": (10**400, 4, None)},
        {"pyramid": ("224", 4, None)},
        {"pyramid": (True, 4, None)},
        {"pyramid": (224, 4.0, None)},
        {"pyramid": (224, 1001, None)},
        {"pyramid": (224, 10**30, None)},
        {"pyramid": (224, 4, (40, 60))},
        BY_SIZE | {"pyramid": (224, 4, 40)},
        BY_SIZE | {"pyramid": (224, 4, (40, 60, 3))},
        BY_SIZE | {"pyramid": (224, 4, (0, 60))},
        BY_SIZE | {"pyramid": (224, 4, (40, 0))},
        BY_SIZE | {"pyramid": (224, 4, (40.0, 60))},
        BY_SIZE | {"input": lambda x, _: (x, x)},
        {"out": lambda x, _: x.reshape(-1)[: 11 * 37 * 6].reshape(11, 37, 3, 2)},
    ],
)
def test_what_is_left_of_a_pyramid(changed):
    assert not plan_of(**PYRAMID | changed)


def test_tables_that_take_more_than_their_share():
    """Such boxes are taken a few at a time, by the Python front end."""
    x = np.broadcast_to(np.float32(1), (1, 1, 2**20, 2**20))
    boxes = np.tile(np.array([[0, 0, 0, 2**20, 2**20]], np.float32), (4, 1))
    assert plan_of(
        input=x, boxes=boxes[:1], output_size=2, spatial_scale=1.0, rule=geometry.UNIFORM_RULE
    )
    assert not plan_of(
        input=x, boxes=boxes, output_size=2, spatial_scale=1.0, rule=geometry.UNIFORM_RULE
    )


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
    assert not plan_of(input=x, boxes=boxes, output_size=1, spatial_scale=1.0, out=out)
    assert plan_of(input=x, boxes=boxes[:-1], output_size=1, spatial_scale=1.0, out=out[:-1].copy())
    with pytest.raises(ValueError, match="out: overlaps memory that the call reads"):
        roicy.roi_align(x, boxes, 1, out=out)
