"""A scale may be a pair for y and x, as for images that were resized unevenly."""

import numpy as np
import pytest
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    SUMS,
    WITH_BOX_GRADIENTS,
    assert_same_bits,
    from_layout,
    operator,
    pairs,
    random_boxes,
    to_layout,
)

import roicy

SCALES = (0.5, 0.25)  # powers of two, so that products are exact
EQUAL = [(0.7, 0.7), [0.7, 0.7], np.array([0.7, 0.7]), (np.float64(0.7), 0.7)]
NAMES = (*SUMS, "roi_pool", "roi_align_max")


def make(rng, name, dtype, layout, images=2):
    """Return a map in that layout, and boxes on an image of 40 x 92."""
    x = rng.standard_normal((images, 36, 20, 23)).astype(dtype)
    return to_layout(x, layout), random_boxes(rng, images, 40, (40, 92), dtype)


def scaled(boxes):
    """Return boxes in pixels of the map."""
    return boxes * np.array([1, SCALES[1], SCALES[0], SCALES[1], SCALES[0]], boxes.dtype)


@pairs(name=NAMES, layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_each_axis_has_its_scale(name, layout, dtype, isa, rng):
    x, boxes = make(rng, name, dtype, layout)
    options = {"layout": layout}
    pool = operator(name)
    out = pool(x, boxes, (3, 2), SCALES, **options)
    assert_same_bits(out, pool(x, scaled(boxes), (3, 2), **options))
    assert np.abs(out - pool(x, boxes, (3, 2), SCALES[::-1], **options)).max() > 0.1
    if name not in SUMS:
        return
    g = rng.standard_normal(out.shape).astype(dtype)
    backward = operator(name, "_backward")
    assert_same_bits(
        backward(g, boxes, x.shape, SCALES, **options),
        backward(g, scaled(boxes), x.shape, **options),
    )
    if name in WITH_BOX_GRADIENTS:
        backward = operator(name, "_backward_boxes")
        grad = backward(g, x, boxes, SCALES, **options)
        assert_same_bits(grad, scaled(backward(g, x, scaled(boxes), **options)))


@pairs(name=NAMES, scale=EQUAL, layout=LAYOUTS, dtype=DTYPES)
def test_equal_scales_are_one(name, scale, layout, dtype, rng):
    x, boxes = make(rng, name, dtype, layout)
    options = {"layout": layout}
    out = operator(name)(x, boxes, 3, 0.7, **options)
    assert_same_bits(operator(name)(x, boxes, 3, scale, **options), out)
    if name not in SUMS:
        return
    g = rng.standard_normal(out.shape).astype(dtype)
    for suffix in ("_backward", "_backward_boxes"):
        if suffix == "_backward_boxes" and name not in WITH_BOX_GRADIENTS:
            continue
        given = (g, boxes, x.shape) if suffix == "_backward" else (g, x, boxes)
        backward = operator(name, suffix)
        assert_same_bits(backward(*given, scale, **options), backward(*given, 0.7, **options))


def test_pyramid(dtype, layout, isa, rng):
    """The level of a pair of scales is that of their geometric mean: levels 2 and 3 here."""
    scales = [(1 / 2, 1 / 8), (1 / 4, 1 / 16)]
    sides = [(32, 40), (16, 20)]
    maps = [to_layout(rng.standard_normal((2, 9, *side)).astype(dtype), layout) for side in sides]
    boxes = random_boxes(rng, 2, 60, (64, 320), dtype)
    boxes[:, 3:] = np.maximum(boxes[:, 3:], boxes[:, 1:3] + 1)
    options = {"sampling_ratio": 2, "layout": layout}
    given = {**options, "canonical_scale": 80, "canonical_level": 3}
    out = roicy.multiscale_roi_align(maps, boxes, 3, scales, **given)
    g = rng.standard_normal(out.shape).astype(dtype)
    shapes = [level.shape for level in maps]
    grads = roicy.multiscale_roi_align_backward(g, boxes, shapes, np.array(scales), **given)
    grad_boxes = roicy.multiscale_roi_align_backward_boxes(g, maps, boxes, scales, **given)
    areas = np.prod(boxes[:, 3:] - boxes[:, 1:3], axis=1)
    assert 10 < (areas >= 80**2).sum() < 50
    for i, scale in enumerate(scales):
        mine = (areas >= 80**2) == i
        assert_same_bits(out[mine], roicy.roi_align(maps[i], boxes[mine], 3, scale, **options))
        assert_same_bits(
            grads[i],
            roicy.roi_align_backward(g[mine], boxes[mine], shapes[i], scale, **options),
        )
        assert_same_bits(
            grad_boxes[mine],
            roicy.roi_align_backward_boxes(g[mine], maps[i], boxes[mine], scale, **options),
        )
    equal = roicy.multiscale_roi_align(maps, boxes, 3, [(1 / 4, 1 / 4), 1 / 8], **given)
    assert_same_bits(equal, roicy.multiscale_roi_align(maps, boxes, 3, [1 / 4, 1 / 8], **given))
    assert from_layout(equal, layout).shape == (60, 9, 3, 3)


X, BOXES = np.ones((1, 4, 6, 6), np.float32), np.array([[0, 1, 1e20, 5, 1e20]], np.float32)


@pytest.mark.parametrize(
    ("scale", "error", "message"),
    [
        ((1, 2, 3), ValueError, r"spatial_scale: \(1, 2, 3\), expected a number or two, \(vert"),
        ([], ValueError, r"spatial_scale: \[\], expected a number or two, \(vertical, horizontal"),
        (np.ones(3), ValueError, "spatial_scale: array.*, expected a number or two"),
        (np.ones((2, 2)), TypeError, r"spatial_scale: array\(\[\[1"),
        ((1, 0), ValueError, "spatial_scale: 0, expected a finite number above 0"),
        ((np.nan, 1), ValueError, "spatial_scale: nan, expected a finite number above 0"),
        ((1, "1"), TypeError, "spatial_scale: '1', expected a number"),
        ((None, 1), TypeError, "spatial_scale: None, expected a number"),
        ((1, True), TypeError, "spatial_scale: True, expected a number"),
        (
            (1e30, 1),
            ValueError,
            r"boxes\[0\]: .*, which times spatial_scale \(1e\+30, 1.0\) is beyond",
        ),
    ],
)
def test_errors(scale, error, message):
    for call in (
        lambda: roicy.roi_align(X, BOXES, 2, scale),
        lambda: roicy.roi_align_backward(np.ones((1, 4, 2, 2), np.float32), BOXES, X.shape, scale),
        lambda: roicy.roi_align_backward_boxes(np.ones((1, 4, 2, 2), np.float32), X, BOXES, scale),
        lambda: roicy.multiscale_roi_align([X], BOXES, 2, [scale]),
    ):
        with pytest.raises(error, match=message):
            call()
