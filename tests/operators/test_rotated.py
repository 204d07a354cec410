"""roi_align_rotated and its gradients: definition, other systems, differences, bits and edges."""

import functools
from pathlib import Path

import numpy as np
import pytest
import reference
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    assert_agrees_with_differences,
    assert_levels_alone,
    assert_same_bits,
    from_layout,
    pairs,
    passes,
    rotated_boxes,
    same_passes,
    to_layout,
)
from problems import assert_within
from turned import SHAPES, make

import roicy
from roicy.compat import detectron2, mmcv, mxnet, onnx, openvino

RECORDED = np.load(Path(__file__).parents[1] / "data" / "rotated.npz")

PARAMETERS = [
    {"sampling_ratio": 2, "spatial_scale": 0.5},
    {"spatial_scale": 0.25, "clockwise": True},
    {"sampling_ratio": 1, "aligned": False},
]


def long_boxes(count, side):
    """Return boxes across a map that are long, narrow and askew."""
    boxes = np.tile([0, side / 2, side / 2, 1.3 * side, 6, np.pi / 4], (count, 1))
    boxes[:, 1] += np.arange(count)
    return boxes.astype(np.float32)


@functools.cache
def wanted(shape, case, dtype):
    """Return arrays of a call, and what is expected of the output and of the gradient of the input:
    each with the result of absolute values, and the most terms of a sum.
    """
    parameters, rng = PARAMETERS[case], np.random.default_rng(20240229)
    x, boxes, bins = make(rng, shape, parameters.get("spatial_scale", 1.0), dtype)
    grad = rng.standard_normal((len(boxes), x.shape[1], *bins)).astype(dtype)
    taps = max(
        len(pixels)
        for box in boxes
        for *_, pixels in reference.rotated_taps(box, bins, x.shape[2:], dtype, **parameters)
    )
    of_output = [
        reference.roi_align_rotated(given, boxes, bins, dtype, **parameters)
        for given in (x, np.abs(x))
    ]
    of_input = [
        reference.roi_align_rotated_backward(given, boxes, x.shape, **parameters)
        for given in (grad, np.abs(grad))
    ]
    bounds = (*of_output, taps), (*of_input, len(boxes) * bins[0] * bins[1])
    return (x, boxes, grad), bounds


@pairs(shape=SHAPES, case=range(len(PARAMETERS)), layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_definition(shape, case, layout, dtype, isa):
    given, bounds = wanted(shape, case, dtype)
    ways = [(layout, 1), (layout, 3)]
    found = same_passes("roi_align_rotated", *given, ways, **PARAMETERS[case])
    for result, bound in zip(found, bounds, strict=False):
        assert_within(result, *bound, dtype)


@pairs(parameters=[{"sampling_ratio": 2}, {"clockwise": True}], layout=LAYOUTS, isa=ISAS)
def test_boxes_by_differences(parameters, layout, isa, rng):
    x = to_layout(rng.standard_normal((2, 36, 13, 15)), layout)
    boxes = rotated_boxes(rng, 2, 30, (13, 15), np.float64)
    boxes[:, 3:5] = rng.uniform(1.5, 12, (30, 2))
    boxes[::5, 5] = 0.1
    options = {"aligned": False, "spatial_scale": 0.8, "layout": layout, **parameters}
    g = rng.standard_normal(roicy.roi_align_rotated(x, boxes, (3, 2), **options).shape)

    def total(moved):
        return np.vdot(roicy.roi_align_rotated(x, moved, (3, 2), **options), g)

    grad = roicy.roi_align_rotated_backward_boxes(g, x, boxes, **options)
    assert_agrees_with_differences(grad, total, boxes, (1e-5, 1e-6), 1e-6)


def test_boxes_in_float32(layout, isa, rng):
    """Positions are off by eps * 20, and so the gradient by that part of absolute values."""
    x = rng.standard_normal((1, 36, 13, 15)).astype(np.float32)
    boxes = rotated_boxes(rng, 1, 12, (13, 15), np.float32)
    boxes[:, 3:5] = rng.uniform(1.5, 12, (12, 2))
    g = rng.standard_normal((12, 36, 3, 2)).astype(np.float32)
    g, x = to_layout(g, layout), to_layout(x, layout)
    single, double = (
        roicy.roi_align_rotated_backward_boxes(
            g.astype(dtype), x.astype(dtype), boxes, sampling_ratio=2, layout=layout
        )
        for dtype in (np.float32, np.float64)
    )
    size = np.abs(g).sum(axis=(1, 2, 3)).max() * np.abs(x).max()
    assert np.abs(single - double).max() <= 20 * 12 * np.finfo(np.float32).eps * size


def test_compat_errors():
    x, boxes = RECORDED["x"], RECORDED["boxes"]
    with pytest.raises(ValueError, match=r"rois: shape \(24, 6\), expected \(K, 5\)"):
        openvino.roi_align_rotated(x, boxes, [0] * 24, 2, 2, 0, 1.0, False)
    with pytest.raises(ValueError, match="batch_indices: shape"):
        openvino.roi_align_rotated(x, boxes[:, 1:], [0], 2, 2, 0, 1.0, False)
    with pytest.raises(ValueError, match="aligned: 2, expected an integer from 0 to 1"):
        onnx.MMCVRoIAlignRotated(x, boxes, output_height=2, output_width=2, aligned=2)
    with pytest.raises(ValueError, match=r"rois: shape \(24, 5\), expected \(K, 6\)"):
        detectron2.roi_align_rotated(x, boxes[:, 1:], (2, 2), 1.0, 0)


def test_pyramid(layout, isa, rng):
    """Each box has the bits of its level, which its area decides."""
    maps = [rng.standard_normal((2, 17, side, side + 3)) for side in (32, 16)]
    boxes = rotated_boxes(rng, 2, 20, (64, 70), np.float64)
    scales, options = [0.5, 0.25], {"sampling_ratio": 2, "layout": layout}
    maps = [to_layout(level, layout) for level in maps]
    pyramid = {"canonical_scale": 20, "canonical_level": 2}
    area = np.maximum(boxes[:, 3], 0) * np.maximum(boxes[:, 4], 0)
    level = (np.sqrt(area) >= 20 * (1 - 1e-6)).astype(int)
    assert 0 < level.sum() < 20
    grad = to_layout(rng.standard_normal((20, 17, 3, 3)), layout)
    assert_levels_alone(maps, boxes, grad, scales, level, pyramid, "roi_align_rotated", **options)
    with pytest.raises(ValueError, match="spatial_scale: .* expected one number"):
        roicy.multiscale_roi_align_rotated(maps, boxes, 3, [(0.5, 0.4), 0.25], **options)


@pytest.mark.parametrize("clockwise", [False, True])
@pytest.mark.parametrize("ratio", [0, 2, 3])
def test_openvino_recorded(ratio, clockwise, isa):
    """OpenVINO 2026.4 computes in float32; positions are off by 1e-7 times a size of 25."""
    x, boxes = RECORDED["x"], RECORDED["boxes"]
    images = boxes[:, 0].astype(np.int32)
    out = openvino.roi_align_rotated(x, boxes[:, 1:], images, 3, 4, ratio, 0.5, clockwise)
    np.testing.assert_allclose(out, RECORDED[f"out_{ratio}_{int(clockwise)}"], rtol=0, atol=1e-5)
    # the calls of other systems differ only in how they are written
    assert_same_bits(mmcv.roi_align_rotated(x, boxes, (3, 4), 0.5, ratio, True, clockwise), out)
    module = mmcv.RoIAlignRotated((3, 4), 0.5, ratio, clockwise=clockwise)
    assert_same_bits(module(x, boxes), out)
    assert repr(module).endswith(f"aligned=True, clockwise={clockwise})")
    attributes = {"output_height": 3, "output_width": 4, "spatial_scale": 0.5}
    assert_same_bits(
        onnx.MMCVRoIAlignRotated(
            x, boxes, sampling_ratio=ratio, clockwise=int(clockwise), **attributes
        ),
        out,
    )
    if not clockwise:
        degrees = boxes.astype(np.float64)
        degrees[:, 5] = np.rad2deg(degrees[:, 5])
        theirs = detectron2.roi_align_rotated(x, degrees, (3, 4), 0.5, ratio)
        np.testing.assert_allclose(theirs, out, rtol=0, atol=1e-6)
        module = detectron2.ROIAlignRotated((3, 4), 0.5, ratio)
        assert_same_bits(module(x, degrees), theirs)
        assert repr(module) == (
            f"ROIAlignRotated(output_size=(3, 4), spatial_scale=0.5, sampling_ratio={ratio})"
        )


@pytest.mark.parametrize("ratio", [-1, 2])
def test_mxnet_recorded(ratio, isa):
    """MXNet 1.9.1 has angles in degrees, no half pixel, and sizes of at least 1."""
    out = mxnet.contrib.RROIAlign(RECORDED["x"], RECORDED["mx_boxes"], (3, 4), 0.5, ratio)
    np.testing.assert_allclose(out, RECORDED[f"mx_out_{ratio}"], rtol=0, atol=1e-5)


@pairs(bins=[(1, 9), (1, 1)], isa=ISAS)
def test_windows_beyond_a_tile(bins, isa, rng):
    """Bins are loaded by themselves, and those that are too large in stretches of taps."""
    x = rng.standard_normal((1, 17, 450, 450)).astype(np.float32)
    boxes = long_boxes(2, 450)
    boxes[1, 3:5] = 300, 310
    grad = rng.standard_normal((2, 17, *bins)).astype(np.float32)
    ways = (("NCHW", 1), ("NCHW", 2), ("NHWC", 2))
    out, grad_input, _ = same_passes("roi_align_rotated", x, boxes, grad, ways)
    ones = roicy.roi_align_rotated(np.ones_like(x), boxes[1:], bins)
    np.testing.assert_allclose(ones, 1, rtol=1e-4)
    pooled, spread = (np.vdot(*map(np.float64, pair)) for pair in ((out, grad), (x, grad_input)))
    np.testing.assert_allclose(pooled, spread, atol=1e-3)


@pairs(small=[np.float16, np.uint8], layout=LAYOUTS, isa=ISAS)
def test_small_types(small, layout, isa, rng):
    for boxes, sides, bins in (
        (rotated_boxes(rng, 2, 9, (12, 14), np.float32), (12, 14), (2, 3)),
        (long_boxes(4, 120), (120, 130), (1, 20)),
    ):
        x = to_layout(rng.integers(0, 200, (2, 33, *sides)).astype(small), layout)
        out = roicy.roi_align_rotated(x, boxes, bins, layout=layout)
        wide = roicy.roi_align_rotated(x.astype(np.float32), boxes, bins, layout=layout)
        assert_same_bits(out, wide.astype(out.dtype))
        assert out.dtype == (np.float32 if small is np.uint8 else small)


class TestEdges:
    x = np.random.default_rng(5).standard_normal((2, 3, 9, 8)).astype(np.float32)

    def pooled(self, box, ratio=-1, aligned=True, x=None):
        boxes = np.array([[0, *box]], np.float32)
        return roicy.roi_align_rotated(self.x if x is None else x, boxes, 2, 1.0, ratio, aligned)[0]

    def test_sizes(self, isa):
        assert not self.pooled((4, 4, 0, 5, 1)).any()
        assert not self.pooled((4, 4, -3, 5, 1)).any()
        assert self.pooled((4, 4, 0, 5, 1), 2).any()
        assert self.pooled((4, 4, 0, 5, 1), -1, False).any()
        # bins of an inverted box run backwards
        backwards = self.pooled((4, 4, -3, 5, 1), 2)
        np.testing.assert_allclose(
            backwards[:, :, ::-1], self.pooled((4, 4, 3, 5, 1), 2), atol=1e-6
        )

    @pairs(size=[1e4, 1e9, 1e30], angle=[0.0, 0.7, 1e30], dtype=DTYPES, isa=ISAS)
    def test_huge(self, size, angle, dtype, isa):
        """The largest bins have 4096 x 4096 samples, of which few are on the map."""
        ones = np.ones((1, 1, 30, 40), dtype)
        for numbers in ((20, 15, size, size), (20, 15, size, 3), (size, -size, 5, size)):
            boxes = np.array([[0, *numbers, angle]], dtype)
            g = np.ones((1, 1, 3, 3), dtype)
            out, grad, of_boxes = passes("roi_align_rotated", ones, boxes, g)
            assert 0 <= out.min() <= out.max() <= 1 + 1e-6
            assert np.isfinite(grad).all()
            assert np.isfinite(of_boxes).all()
        square = np.array([[0, 20, 15, 2000, 2000, 0.0]], dtype)
        out = roicy.roi_align_rotated(ones, square, 1)
        # The share of the map in the box; 32 x 42 samples count, those between -1 and 30.
        np.testing.assert_allclose(out, 32 * 42 / 2000**2, rtol=0.08)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("column", range(1, 6))
    def test_not_finite(self, column, value):
        boxes = np.ones((3, 6), np.float32)
        boxes[1, column] = value
        name = ("cx", "cy", "w", "h", "angle")[column - 1]
        with pytest.raises(ValueError, match=rf"boxes\[1\]: {name} is -?(nan|inf), expected a"):
            roicy.roi_align_rotated(self.x, boxes, 2)
        with pytest.raises(ValueError, match=rf"boxes\[0\]: row 1: {name} is"):
            roicy.roi_align_rotated(self.x, [boxes[:, 1:], boxes[:, 1:]], 2)

    def test_errors(self):
        boxes = np.ones((3, 6), np.float32)
        cases = [
            ((self.x, boxes[:, :5], 2), {}, r"boxes: shape \(3, 5\), expected \(K, 6\) with rows "
             r"\[batch_index, cx, cy, w, h, angle\]; boxes of 5 columns need boxes_num"),
            ((self.x, [boxes, boxes], 2), {}, r"boxes\[0\]: shape .* with rows \[cx, cy, w, h"),
            ((self.x, boxes + 1, 2), {}, "batch index 2 is outside the input's 2 images"),
            ((self.x, boxes * 0.5, 2), {}, r"batch index 0.5, expected a whole number"),
            ((self.x, boxes, 2, (0.5, 0.25)), {}, "spatial_scale: .* expected one number"),
            ((self.x, boxes, 2, 1.0, 1025), {}, "sampling_ratio: 1025, expected an integer"),
        ]  # fmt: skip
        for given, options, message in cases:
            with pytest.raises(ValueError, match=message):
                roicy.roi_align_rotated(*given, **options)
        with pytest.raises(TypeError, match="clockwise: 1, expected True or False"):
            roicy.roi_align_rotated(self.x, boxes, 2, clockwise=1)
        boxes[1, 3] = 3e38
        beyond = r"boxes\[1\]: \(1, 1, 3.0*\d*e\+38, 1, 1\), which times spatial_scale"
        with pytest.raises(ValueError, match=beyond):
            roicy.roi_align_rotated(self.x, boxes, 2, 2.0)

    def test_rounded_index(self):
        boxes = np.zeros((1, 6), np.float16)
        boxes[0, 0] = 2048
        many = np.broadcast_to(np.float16(0), (5000, 1, 2, 2))
        with pytest.raises(ValueError, match="batch index 2048 in float16, which is exact to 2048"):
            roicy.roi_align_rotated(many, boxes, 1)

    def test_nothing(self, dtype, layout):
        x, grad, boxes = (np.ones(shape, dtype) for shape in ((2, 3, 4, 5), (0, 3, 2, 2), (0, 6)))
        out, of_input, of_boxes = passes("roi_align_rotated", x, boxes, grad, layout)
        assert_same_bits(out, grad)
        assert_same_bits(of_input, np.zeros_like(x))
        assert_same_bits(of_boxes, boxes)
        assert roicy.roi_align_rotated(x[:, :0], np.ones((3, 6)), 2).shape == (3, 0, 2, 2)

    def test_nan_spreads_to_bins_that_read_it(self, layout, isa):
        x = np.zeros((1, 2, 20, 20))
        x[0, 1, 8, 9] = np.nan
        boxes = np.array([[0, 10, 10, 12, 12, 0.4], [0, 15, 15, 4, 4, 0.4], [0, -90, -90, 9, 9, 0]])
        out = roicy.roi_align_rotated(to_layout(x, layout), boxes, 3, layout=layout)
        out = from_layout(out, layout)
        found = {
            (k, p, q)
            for k, box in enumerate(boxes)
            for p, q, pixels in reference.rotated_taps(box, (3, 3), (20, 20), np.float64)
            if (8, 9) in pixels
        }
        assert found
        assert {tuple(place) for place in np.argwhere(np.isnan(out[:, 1]))} == found
        assert not np.isnan(out[:, 0]).any()
