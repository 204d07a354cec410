"""Axis tables have properties that are hard to see from outside."""

import numpy as np
import pytest
from conftest import DTYPES, SUMS, operator, pairs, random_boxes
from problems import PARAMETERS

from roicy import _call
from roicy._kernels.plan import Arguments, Plan
from roicy._table import INTEGRATED, UNIFORM, WEIGHTED_SUM, Operator


def rule_of(name, spatial_scale=1.0, **parameters):
    """Return the rule that an operator has by these parameters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_call, "forward", lambda _, rule, *__: rule)
        return operator(name)(None, None, 1, spatial_scale, **parameters)


RULES = {
    rule.numbers(): rule
    for name in SUMS
    for rule in (rule_of(name, **parameters) for parameters in PARAMETERS[name])
}  # each by its numbers


def make(boxes, rule, bins, extents, dtype, purpose="forward", scale=1.0, images=1, channels=1):
    """Return the plan of a call with these boxes.  Maps have a shape but no memory, since a plan
    does not look at pixels.
    """
    maps = np.broadcast_to(dtype(0), (images, channels, *extents))
    arguments = Arguments(boxes.astype(dtype), None, scale, "NCHW", 1)
    row = Operator("any", WEIGHTED_SUM)
    if purpose != "grad_input":
        return Plan(purpose, row, rule, maps, bins, arguments)
    shapes = {"input_shape": maps.shape, "dtype": maps.dtype}
    plan = Plan(purpose, row, rule, shapes, bins, arguments)
    plan.bind([maps])
    return plan


def tables_of(*arguments, **options):
    """Return the tables of the first step of a call."""
    plan = make(*arguments, **options)
    assert plan.next()
    return plan.tables()


@pairs(purpose=["forward", "grad_boxes", "grad_input"], width=[100, 300])
def test_order(purpose, width, rng):
    """Boxes are sorted by image.  In an image, boxes that follow each other are near."""
    boxes = random_boxes(rng, 5, 300, (400, width), np.float64)
    made = tables_of(boxes, INTEGRATED, (1, 1), (400, width), np.float64, purpose, 0.5, 5, 2)
    images = boxes[made.rows, 0].astype(int)
    assert made.starts.tolist() == [0, *np.cumsum(np.bincount(images, minlength=5))]
    same = np.diff(images) == 0
    assert same.sum() == 300 - 5
    steps = np.abs(np.diff(boxes[made.rows, 2]))[same]
    assert steps.mean() < 800 / 12  # at random, they would be a third of the height apart


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_tables_are_bounded(rule, dtype):
    """The tables of many boxes, which cover a large map, take 8 MiB in each step."""
    boxes = np.tile(np.array([[0, -1e9, -1e9, 1e9, 1e9]]), (20000, 1))
    made = tables_of(boxes, RULES[rule], (7, 7), (2000, 3000), dtype, "grad_boxes")
    assert 0 < made.stop < len(boxes)
    arrays = (made.windows, made.spans, made.tap_pixel, made.tap_weight, made.tap_slopes)
    assert sum(array.nbytes for array in arrays) <= 8 * 2**20


def test_tables_that_take_more_than_their_share(dtype):
    """Boxes with such large tables are taken one at a time."""
    boxes = np.tile(np.array([[0, 0, 0, 2**20, 2**20]]), (4, 1))
    plan = make(boxes, UNIFORM, (2, 2), (2**20, 2**20), dtype)
    steps = 0
    while plan.next():
        assert len(plan.tables().rows) == 1
        steps += 1
    assert steps == 4


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_bounded_taps_are_declared(rule):
    """If bins of large boxes have no more taps than bins of smaller ones, the rule has a
    sampling_ratio that says so, by which few taps are packed where windows are large.
    """
    most, ratio = [], RULES[rule].sampling_ratio
    for size in (400, 800):
        boxes = np.array([[0, 3.3, 3.3, 3.3 + size, 3.3 + size]])
        spans = tables_of(boxes, RULES[rule], (2, 2), (1000, 1000), np.float64).spans
        most.append(np.diff(spans).max())
    assert (most[0] == most[1]) == (ratio > 0)
    assert ratio <= 0 or most[1] <= 2 * ratio


@pairs(rule=RULES, boxes=["inverted", "coarse columns", "coarse rows"], dtype=DTYPES)
def test_transposed_tables_are_the_same(rule, boxes, dtype, rng):
    """Transposed tables have each tap once, and their pixels ascend.  This holds even if
    coordinates are so coarse that bins do not ascend.
    """
    low = rng.uniform(-8, 40, (30, 2))
    if boxes == "inverted":
        extents, bins, size = (29, 37), (3, 40), (-30, -1)
    elif boxes == "coarse columns":
        low[:, 0] += 2**26
        extents, bins, size = (29, 2**27), (3, 40), (100, 400)
    else:
        low[:, 1] += 2**24
        extents, bins, size = (2**24 + 1000, 37), (40, 3), (25, 100)
    corners = np.concatenate([np.zeros((30, 1)), low, low + rng.uniform(*size, (30, 2))], axis=1)
    # There are enough channels to fill lanes.  With fewer channels, numbers may be added without
    # transposed tables.
    made = tables_of(corners, RULES[rule], bins, extents, dtype, "grad_input", channels=16)
    assert made.stop == len(corners)
    found_some = False
    for k, axis in np.ndindex(len(corners), 2):
        spans = made.spans[k, : bins[0]] if axis == 0 else made.spans[k, bins[0] :]
        mine = slice(spans[0, 0], spans[0, 0] + made.counts[k, axis])
        pixels = made.pixels[mine]
        assert (np.diff(pixels) > 0).all()
        by_pixel = [
            (pixel, made.bin[j], made.bin_weight[j])
            for pixel, span in zip(pixels, made.pixel_spans[mine], strict=True)
            for j in range(*span)
        ]
        by_bin = [
            (made.tap_pixel[j], p, made.tap_weight[j])
            for p, span in enumerate(spans)
            for j in range(*span)
        ]
        assert sorted(by_pixel) == sorted(by_bin)
        found_some |= bool(by_pixel)
    assert found_some or boxes == "inverted"  # which may have no pixels


@pairs(rule=RULES, magnitude=range(18, 31, 2), dtype=DTYPES)
def test_tables_have_room_where_coordinates_are_coarse(rule, magnitude, dtype, rng):
    """If coordinates are coarse, rounding moves the ends of bins by many pixels.  But the taps of
    an axis never run into those of the next one.
    """
    low = rng.uniform(-(2**magnitude), 2**magnitude, (300, 2))
    high = low + rng.uniform(-300, 300, (300, 2)) * 2 ** rng.uniform(0, 4, (300, 1))
    corners = np.concatenate([np.zeros((300, 1)), low, high], axis=1)
    plan = make(corners, RULES[rule], (3, 50), (2**29, 2**30), dtype)
    while plan.next():
        made = plan.tables()
        ends = made.spans.ravel()
        assert (np.diff(ends) >= 0).all()
        assert ends[-1] <= len(made.tap_pixel)
