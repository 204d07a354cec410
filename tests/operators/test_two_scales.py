"""A scale may be a pair for y and x, as for images that were resized unevenly."""

import numpy as np
import pytest
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    SUMS,
    WITH_BOX_GRADIENTS,
    assert_levels_alone,
    assert_same_bits,
    from_layout,
    pairs,
    passes,
    random_boxes,
    to_layout,
)

import roicy

SCALES = (0.5, 0.25)  # powers of two, so that products are exact
EQUAL = [(0.7, 0.7), [0.7, 0.7], np.array([0.7, 0.7]), (np.float64(0.7), 0.7)]
NAMES = (*SUMS, "roi_pool", "roi_align_max")


def make(rng, name, dtype):
    """Return a map, boxes on an image of 40 x 92, and a gradient of the output."""
    x = rng.standard_normal((2, 36, 20, 23)).astype(dtype)
    channels = 6 if name.startswith("ps_") else 36
    g = rng.standard_normal((40, channels, 3, 2)).astype(dtype)
    return x, random_boxes(rng, 2, 40, (40, 92), dtype), g


def scaled(boxes):
    """Return boxes in pixels of the map."""
    return boxes * np.array([1, SCALES[1], SCALES[0], SCALES[1], SCALES[0]], boxes.dtype)


@pairs(name=NAMES, layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_each_axis_has_its_scale(name, layout, dtype, isa, rng):
    given = make(rng, name, dtype)
    x, boxes, g = given
    found = passes(name, *given, layout, spatial_scale=SCALES)
    expected = passes(name, x, scaled(boxes), g, layout)
    if name in WITH_BOX_GRADIENTS:
        expected[-1] = scaled(expected[-1])
    for a, b in zip(found, expected, strict=True):
        assert_same_bits(a, b)
    other = passes(name, *given, layout, spatial_scale=SCALES[::-1])
    assert np.abs(found[0] - other[0]).max() > 0.1


@pairs(name=NAMES, scale=EQUAL, layout=LAYOUTS, dtype=DTYPES)
def test_equal_scales_are_one(name, scale, layout, dtype, rng):
    given = make(rng, name, dtype)
    pair, one = (
        passes(name, *given, layout, spatial_scale=given_scale) for given_scale in (scale, 0.7)
    )
    for a, b in zip(pair, one, strict=True):
        assert_same_bits(a, b)


def test_pyramid(dtype, layout, isa, rng):
    """The level of a pair of scales is that of their geometric mean: levels 2 and 3 here."""
    scales = [(1 / 2, 1 / 8), (1 / 4, 1 / 16)]
    sides = [(32, 40), (16, 20)]
    maps = [to_layout(rng.standard_normal((2, 9, *side)).astype(dtype), layout) for side in sides]
    boxes = random_boxes(rng, 2, 60, (64, 320), dtype, least=4)
    boxes[:, 3:] = np.maximum(boxes[:, 3:], boxes[:, 1:3] + 1)
    options = {"sampling_ratio": 2, "layout": layout}
    pyramid = {"canonical_scale": 80, "canonical_level": 3}
    g = to_layout(rng.standard_normal((60, 9, 3, 3)).astype(dtype), layout)
    areas = np.prod(boxes[:, 3:] - boxes[:, 1:3], axis=1)
    assert 10 < (areas >= 80**2).sum() < 50
    level = (areas >= 80**2).astype(int)
    out = assert_levels_alone(maps, boxes, g, scales, level, pyramid, **options)
    given = {**options, **pyramid}
    assert_same_bits(roicy.multiscale_roi_align(maps, boxes, 3, np.array(scales), **given), out)
    equal = roicy.multiscale_roi_align(maps, boxes, 3, [(1 / 4, 1 / 4), 1 / 8], **given)
    assert_same_bits(equal, roicy.multiscale_roi_align(maps, boxes, 3, [1 / 4, 1 / 8], **given))
    assert from_layout(equal, layout).shape == (60, 9, 3, 3)


X, BOXES = np.ones((1, 4, 6, 6), np.float32), np.array([[0, 1, 1e20, 5, 1e20]], np.float32)


@pytest.mark.parametrize(
    ("scale", "error", "message"),
    [
        ((1, 2, 3), ValueError, r"spatial_scale: \(1, 2, 3\), expected a number or two, \(vert"),
        ([], ValueError, r"spatial_scale: \[\], expected a number or two, \(vertical, horizontal"),
        (np.ones(3), ValueError, r"spatial_scale: \[1.0, 1.0, 1.0\], expected a number or two"),
        (np.ones((2, 2)), TypeError, r"spatial_scale: \[1.0, 1.0\], expected a number"),
        ((1, 0), ValueError, "spatial_scale: 0, expected a finite number above 0"),
        ((np.nan, 1), ValueError, "spatial_scale: nan, expected a finite number above 0"),
        ((1, "1"), TypeError, "spatial_scale: '1', expected a number"),
        ((None, 1), TypeError, "spatial_scale: None, expected a number"),
        ((1, True), TypeError, "spatial_scale: True, expected a number"),
        ((1e30, 1), ValueError, r"boxes\[0\]: .*, which times spatial_scale \(1e\+30, 1.0\) is b"),
    ],
)
def test_errors(scale, error, message):
    g = np.ones((1, 4, 2, 2), np.float32)
    for call in (
        lambda: roicy.roi_align(X, BOXES, 2, scale),
        lambda: roicy.roi_align_backward(g, BOXES, X.shape, scale),
        lambda: roicy.roi_align_backward_boxes(g, X, BOXES, scale),
        lambda: roicy.multiscale_roi_align([X], BOXES, 2, [scale]),
    ):
        with pytest.raises(error, match=message):
            call()
