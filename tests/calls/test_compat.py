"""The calls of other systems give the numbers of these systems.

The tests take the examples of their pages and recorded numbers; test_compat_paddle.py has Paddle.
"""

import numpy as np
import pytest
from conftest import random_boxes
from recorded import CASES, assert_agrees, load, sorted_by_image

import roicy
from roicy.compat import mmcv, mxnet, onnx, openvino, paddle, tensorflow, torchvision
from roicy.compat.paddle.vision import ops


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("mxnet")])
def test_mxnet_recorded(case):
    name, size, keywords, arrays = load(case)
    x, boxes, scale = arrays["x"], arrays["boxes"], keywords["spatial_scale"]
    if name == "roi_pool":
        given = {"pooled_size": size, "spatial_scale": scale, "name": "pool"}
        out = mxnet.ROIPooling(data=x, rois=boxes, **given)
    elif name == "roi_align":
        out = mxnet.contrib.ROIAlign(
            x, boxes, size, scale, keywords["sampling_ratio"], aligned=keywords["aligned"]
        )
    else:
        given = {"sample_ratio": keywords["sampling_ratio"], "position_sensitive": True}
        out = mxnet.ROIAlign(x, boxes, size, scale, aligned=True, **given)
    assert_agrees(out, arrays["out"], x.dtype)


def test_scales_are_float32():
    """In float64, 5 * 0.7 rounds up to 4, but 5 * float32(0.7) rounds down to 3.  Other pixels are
    pooled then.
    """
    x = np.arange(64.0).reshape(1, 1, 8, 8)
    box = np.array([[0, 5.0, 5, 5, 5]])
    assert roicy.roi_pool(x, box, 1, 0.7).item() == 36
    for out in (
        paddle.roi_pool(x, box[:, 1:], 1, 1, 0.7, [1]),
        ops.roi_pool(x, box[:, 1:], [1], 1, 0.7),
        mxnet.ROIPooling(x, box, (1, 1), 0.7),
    ):
        assert out.item() == 27
    wide = np.array([[0, 5.0, 5, 9, 9]])
    assert abs(roicy.roi_align(x, wide, 1, 0.7, 2).item() - 44.1) < 1e-12
    for out in (
        paddle.roi_align(x, wide[:, 1:], 1, 1, 0.7, 2),
        mxnet.ROIAlign(x, wide, (1, 1), 0.7, 2),
    ):
        assert abs(out.item() - 44.099999249) < 1e-9


def test_page_of_mxnet(dtype, isa):
    """The example of ROIPooling's page runs as it is printed."""
    x = np.arange(48, dtype=dtype).reshape(1, 1, 8, 6)
    y = np.array([[0, 0, 0, 4, 4]], dtype)
    np.testing.assert_array_equal(mxnet.ROIPooling(x, y, (2, 2), 1.0), [[[[14, 16], [26, 28]]]])
    np.testing.assert_array_equal(mxnet.ROIPooling(x, y, (2, 2), 0.7), [[[[7, 9], [19, 21]]]])


def test_torchvision(rng):
    for name in ("roi_pool", "roi_align", "ps_roi_align", "ps_roi_pool"):
        assert getattr(torchvision, name) is getattr(roicy, name)
    x = rng.standard_normal((2, 8, 9, 9), dtype=np.float32)
    boxes = [np.array([[1, 1, 9, 12]], np.float32), np.array([[2, 0, 14, 6]], np.float32)]
    aligned = torchvision.RoIAlign(2, 0.5, sampling_ratio=-1, aligned=True)
    for module, expected in (
        (torchvision.RoIPool((2, 2), 0.5), roicy.roi_pool(x, boxes, 2, 0.5)),
        (torchvision.PSRoIPool(2, 0.5), roicy.ps_roi_pool(x, boxes, 2, 0.5)),
        (torchvision.RoIAlign(2, 0.5, 3), roicy.roi_align(x, boxes, 2, 0.5, 3)),
        (aligned, roicy.roi_align(x, boxes, 2, 0.5, -1, True)),
        (torchvision.PSRoIAlign(2, 0.5, 3), roicy.ps_roi_align(x, boxes, 2, 0.5, 3)),
    ):
        np.testing.assert_array_equal(module(x, boxes), expected)
    assert repr(torchvision.RoIAlign(2, 0.5, 3)) == (
        "RoIAlign(output_size=2, spatial_scale=0.5, sampling_ratio=3, aligned=False)"
    )


MAPS, OF_IMAGE = {"0": np.ones((1, 2, 8, 8), np.float32)}, [np.ones((1, 4), np.float32)]


@pytest.mark.parametrize(
    ("names", "maps", "shapes", "error", "message"),
    [
        (["0"], MAPS, [], ValueError, "image_shapes: none, expected the height and width of each"),
        (["0"], MAPS, None, TypeError, r"image_shapes: None, expected a list of \(height, width\)"),
        (["0"], MAPS, [(8, 8), (8,)], ValueError,
         r"image_shapes\[1\]: \(8,\), expected \(height, w"),
        (["0"], MAPS, [8], ValueError, r"image_shapes\[0\]: 8, expected \(height, width\)"),
        (["0"], MAPS, [(8, 0)], ValueError, r"image_shapes\[0\]: 0, expected an integer from 1"),
        (["0"], MAPS, [(8.0, 8)], TypeError, r"image_shapes\[0\]: 8.0, expected an integer"),
        (["1", "2"], MAPS, [(8, 8)], ValueError,
         r"x: maps named \['0'\], expected one of featmap_names, \['1', '2'\]"),
        (["0"], {}, [(8, 8)], ValueError,
         r"x: maps named \[\], expected one of featmap_names, \['0'\]"),
        ([], MAPS, [(8, 8)], ValueError,
         r"x: maps named \['0'\], expected one of featmap_names, \[\]"),
    ],
)  # fmt: skip
def test_errors_of_multi_scale_roi_align(names, maps, shapes, error, message):
    with pytest.raises(error, match=message):
        torchvision.MultiScaleRoIAlign(names, 2, 2)(maps, OF_IMAGE, shapes)


@pytest.mark.parametrize("value", [1, 0, "yes", None])
def test_flags_are_bools(value):
    """Flags that are numbers are refused, since they may be a sampling ratio in the wrong place."""
    boxes, x = np.ones((1, 5), np.float32) * 0, np.ones((1, 4, 6, 6), np.float32)
    message = f"{value!r}, expected True or False"
    for call in (
        lambda: roicy.roi_align(x, boxes, 2, aligned=value),
        lambda: torchvision.RoIAlign(2, 1.0, 2, aligned=value)(x, boxes),
        lambda: ops.roi_align(x, boxes[:, 1:], [1], 2, aligned=value),
        lambda: mxnet.ROIAlign(x, boxes, (2, 2), 1.0, aligned=value),
        lambda: mxnet.ROIAlign(x, boxes, (2, 2), 1.0, position_sensitive=value),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_boxes_of_no_image_in_mxnet(rng):
    x = rng.standard_normal((2, 8, 9, 9), dtype=np.float32)
    boxes = np.array([[0, 1, 1, 5, 5], [-1, 1, 1, 5, 5], [1, 2, 2, 8, 8], [2, 1, 1, 5, 5.0]])
    out = mxnet.ROIPooling(x, boxes, (2, 2), 1.0)
    np.testing.assert_array_equal(out[[0, 2]], roicy.roi_pool(x, boxes[[0, 2]], 2))
    assert not out[[1, 3]].any()
    out = mxnet.ROIAlign(x, boxes[:3], (2, 2), 1.0)
    np.testing.assert_array_equal(out[[0, 2]], roicy.roi_align(x, boxes[[0, 2]], 2))
    assert not out[1].any()
    for pool in (mxnet.ROIPooling, mxnet.ROIAlign):
        assert not pool(x[:0], boxes[[1, 1]], (2, 2), 1.0).any()
    with pytest.raises(ValueError, match=r"rois\[3\]: batch index 2 is outside the data"):
        mxnet.ROIAlign(x, boxes, (2, 2), 1.0)
    with pytest.raises(ValueError, match=r"batch index nan"):
        mxnet.ROIAlign(x, np.array([[np.nan, 0, 0, 1, 1]], np.float32), (2, 2), 1.0)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "int64", "float64"])
def test_boxes_of_no_image_in_mxnet_of_other_types(kind, rng):
    kind = pytest.importorskip("ml_dtypes").bfloat16 if kind == "bfloat16" else np.dtype(kind)
    x = rng.standard_normal((101, 2, 9, 9), dtype=np.float32)
    boxes = np.array([[0, 1, 1, 5, 5], [-1, 1, 1, 5, 5], [100, 2, 2, 8, 8]], np.float32)
    for pool in (mxnet.ROIPooling, mxnet.ROIAlign):
        expected = pool(x, boxes, (2, 2), 1.0)
        np.testing.assert_array_equal(pool(x, boxes.astype(kind), (2, 2), 1.0), expected)


def test_rounded_indices_are_refused():
    """Where they may be those of other images; the row is named whatever is dropped before."""
    x = np.ones((2050, 4, 3, 3), np.float32)
    boxes = np.array([[-1, 0, 0, 2, 2], [7, 0, 0, 2, 2], [2048, 0, 0, 2, 2]], np.float16)
    message = r"(boxes|rois)\[%d\]: batch index 2048 in float16, which is exact to 2048 only"
    for pool in (mxnet.ROIPooling, mxnet.ROIAlign):
        with pytest.raises(ValueError, match=message % 2):
            pool(x, boxes, (2, 2), 1.0)
        exact = pool(x[:2049], boxes.astype(np.float32), (2, 2), 1.0)
        np.testing.assert_array_equal(pool(x[:2049], boxes, (2, 2), 1.0), exact)
    with pytest.raises(ValueError, match=message % 1):
        torchvision.RoIAlign(2, 1.0, 2)(x, boxes[1:])
    # the images are given by counts, or are integers
    counts = np.ones(2050, np.int64)
    ops.roi_align(x, np.tile(boxes[:1, 1:], (2050, 1)), counts, 2)
    onnx.RoiAlign(x, boxes[:1, 1:], np.array([2049]))


def test_position_sensitive_without_alignment_in_mxnet(rng):
    """The operator has the bins of roi_align and the channels of ps_roi_align."""
    x = rng.standard_normal((1, 8, 9, 9), dtype=np.float32)
    boxes = np.array([[0, 1, 1, 5, 6], [0, 2, 2, 2.5, 2.5]], np.float32)
    out = mxnet.ROIAlign(x, boxes, (2, 2), 1.0, 2, position_sensitive=True)
    every = roicy.roi_align(x, boxes, 2, 1.0, 2)
    every = every.reshape(2, 2, 2, 2, 2, 2)
    np.testing.assert_array_equal(out, np.einsum("kcpqpq->kcpq", every))


def test_gradients_that_only_these_systems_have(rng):
    """<forward(x), g> equals <x, backward(g)>; boxes of no image add nothing."""
    x = rng.standard_normal((2, 8, 9, 11))
    boxes = random_boxes(rng, 2, 12, (18, 22), np.float64)
    rois, counts, _ = sorted_by_image(boxes, 2)
    boxes[3, 0] = -1
    for aligned in (False, True):
        given = (boxes, (2, 2), 0.5, 2, True, aligned)
        out = mxnet.ROIAlign(x, *given)
        grad = rng.standard_normal(out.shape)
        back = mxnet.ROIAlign_backward(grad, boxes, x.shape, *given[2:])
        np.testing.assert_allclose(np.vdot(out, grad), np.vdot(x, back), rtol=1e-12)
    plain = mxnet.ROIAlign_backward(grad, boxes, (2, 2, 9, 11), 0.5, 2)
    g, others = np.delete(grad, 3, 0), np.delete(boxes, 3, 0)
    expected = roicy.roi_align_backward(g, others, (2, 2, 9, 11), 0.5, 2)
    np.testing.assert_array_equal(plain, expected)
    assert not mxnet.ROIAlign_backward(grad[3:4], boxes[3:4], (2, 2, 9, 11), 0.5).any()
    out = ops.psroi_pool(x, rois, counts, 2, 0.5)
    grad = rng.standard_normal(out.shape)
    back = ops.psroi_pool_backward(grad, rois, counts, x.shape, 0.5)
    np.testing.assert_allclose(np.vdot(out, grad), np.vdot(x, back), rtol=1e-12)


def test_old_names_of_mmcv():
    with pytest.warns(DeprecationWarning) as warned:
        pool = mmcv.RoIAlignRotated(out_size=2, spatial_scale=0.5, sample_num=3)
    assert [str(warning.message) for warning in warned] == [
        "out_size: deprecated, use output_size", "sample_num: deprecated, use sampling_ratio",
    ]  # fmt: skip
    assert repr(pool) == repr(mmcv.RoIAlignRotated(2, 0.5, 3))
    with pytest.raises(TypeError, match="sample_num: given together with sampling_ratio"):
        mmcv.RoIAlignRotated(2, 0.5, sampling_ratio=2, sample_num=3)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_wide_integers_in_tensorflow(kind, rng):
    image = rng.integers(-(2**30), 2**30, (2, 5, 6, 3)).astype(kind)
    boxes, given = rng.uniform(0, 1, (4, 4)), ([0, 1, 1, 0], (3, 2))
    expected = tensorflow.crop_and_resize(image.astype(np.float32), boxes, *given)
    out = tensorflow.crop_and_resize(image, boxes, *given)
    np.testing.assert_array_equal(out, expected)
    assert out.dtype == np.float32


X, ROIS = np.ones((2, 3, 6, 6), np.float32), np.ones((2, 4), np.float32)
ROIS5, GRAD = np.eye(2, 5, dtype=np.float32), np.ones((2, 3, 2, 2), np.float32)
IMAGE = np.ones((2, 6, 6, 3), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paddle.roi_pool(X, ROIS),
         "rois_num: None, expected the number of boxes of each image"),
        (lambda: paddle.roi_pool(X, ROIS, rois_num=[1, 2]),
         "rois_num: counts that sum to 3, expected the 2 rows"),
        (lambda: paddle.roi_align(X, ROIS, rois_num=[1, 1], rois_lod=[0, 1, 2]),
         "rois_num: expected None, since rois_lod says"),
        (lambda: paddle.roi_align(X, ROIS, rois_lod=[1, 2, 3]),
         r"rois_lod: \[1, 2, 3\], expected offsets \[0,"),
        (lambda: paddle.roi_align(X, ROIS, rois_lod=[0, 2]),
         r"rois_num: shape \(1,\), expected \(2,\)"),
        (lambda: paddle.prroi_pool(X, ROIS), "batch_roi_nums: None, expected"),
        (lambda: paddle.prroi_pool(X, ROIS, 4, 1.0, 2, 2, batch_roi_nums=[1, 1]),
         "output_channels: 4, expected the input's 3 channels$"),
        (lambda: paddle.prroi_pool(np.ones((1, 8, 6, 6)), ROIS, 4, 1.0, 2, 2),
         "output_channels: 4, expected the input's 8 channels, or 2, which times 2 x 2 bins"),
        (lambda: paddle.create_lod_tensor(ROIS, [[1, 2]]),
         "recursive_seq_lens: counts that sum to 3, expected the 2 rows"),
        (lambda: paddle.create_lod_tensor(ROIS, [[2], [2]]),
         "recursive_seq_lens: 2 levels, expected 1"),
        (lambda: ops.roi_pool(X, ROIS, [1, 1], 1, 1e-60), "spatial_scale: "),
        (lambda: paddle.psroi_pool(X, ROIS, 2, 1.0, 1, 1, rois_num=[1, 1]),
         "output_channels: 2, expected the input's 3 channels divided by 1 x 1 bins"),
        (lambda: ops.psroi_pool(X, ROIS, [1, 1], 2),
         "x: 3 channels, expected a multiple of the 2 x 2 bins of output_size"),
        (lambda: paddle.roi_pool(X, ROIS, 0, 1, 1.0, [1, 1]),
         "pooled_height: 0, expected an integer from 1"),
        (lambda: paddle.roi_align(X, ROIS, 1, -2, 1.0, -1, [1, 1]),
         "pooled_width: -2, expected an integer from 1"),
        (lambda: mxnet.ROIPooling(X, np.ones((1, 5)), (0, 1), 1.0),
         "pooled_size: 0, expected an integer from 1"),
        (lambda: mxnet.ROIAlign(X, np.ones((1, 5)), (1, 2, 3), 1.0),
         r"pooled_size: \(1, 2, 3\), expected an integer or two, \(height, width\)"),
        (lambda: onnx.MaxRoiPool(X, np.ones((1, 5)), pooled_shape=(2, 0)),
         "pooled_shape: 0, expected an integer from 1"),
        (lambda: onnx.RoiAlign(X[0], ROIS, [0, 1]),
         r"^X: shape \(3, 6, 6\), expected \(N, C, H, W\)"),
        (lambda: onnx.CropAndResize(X, ROIS, [0, 2], (2, 2)),
         r"^batch_indices\[1\]: 2 is outside the X's 2 images"),
        (lambda: tensorflow.crop_and_resize(IMAGE, 1e38 * ROIS, [0, 1], (2, 2)),
         r"^boxes\[0\]: \(9.*, which times \(side - 1\) = 5 is beyond float32"),
        (lambda: openvino.roi_align(X, ROIS, [0, 5], 2, 2, 0, 1.0, "avg"),
         r"^batch_indices\[1\]: 5 is outside the data's 2 images$"),
        (lambda: openvino.roi_align(X, ROIS5, [0, 1], 2, 2, 0, 1.0, "avg"),
         r"^rois: shape \(2, 5\), expected \(K, 4\) .* pass rois\[:, :4\]"),
        (lambda: openvino.roi_pooling(X, [[5, 0, 0, 1, 1]], (2, 2), 1.0, "bilinear"),
         r"^coords\[0\]: batch index 5 is outside the input's 2 images$"),
        (lambda: mxnet.RROIAlign(X, ROIS5, (2, 2), 1.0),
         r"^rois: shape \(2, 5\), expected \(K, 6\) with .* h, angle\]$"),
        (lambda: mxnet.ROIAlign(X, ROIS5, (2, 2), 1.0, position_sensitive=True),
         "^data: 3 channels, expected a multiple of the 2 x 2 bins of pooled_size$"),
        (lambda: mxnet.ROIAlign_backward(GRAD, ROIS5, X.shape, 1.0, position_sensitive=True),
         "^data_shape: 3 channels, expected a multiple of the 2 x 2 bins of grad_output$"),
        (lambda: mxnet.ROIAlign(X, [[-1, 0, 0, 1, 1], [0, np.nan, 0, 1, 1]], (2, 2), 1.0),
         r"^rois\[1\]: x1 is nan"),
        (lambda: onnx.CropAndResize(X, ROIS5, [0, 1], (2, 2)),
         r"^rois: shape \(2, 5\), expected \(K, 4\) with rows \[y1, x1, y2, x2\]"),
        (lambda: ops.psroi_pool_backward(GRAD, ROIS, [1, 1], X.shape),
         "^x_shape: 3 channels, expected a multiple of the 2 x 2 bins of grad_output$"),
        (lambda: ops.distribute_fpn_proposals(ROIS, 2, 5, 4, 224, rois_num=[1, 2]),
         "^rois_num: counts that sum to 3, expected the 2 rows of fpn_rois$"),
        (lambda: paddle.roi_pool(X, [ROIS, ROIS], rois_num=[2, 2]),
         "^rois_num: expected None, since rois is a list with the boxes of each image$"),
        (lambda: openvino.roi_align(X, ROIS, [0, 1], 2, 2, 0, 1.0, "avg", "output_half_pixel"),
         "^aligned_mode: 'output_half_pixel', expected"),
        (lambda: openvino.psroi_pooling(X, np.ones((1, 5)), 2, 3, 1.0, 2, 2, "bilinear"),
         "^input: 3 channels, expected 2 for each of the 4 parts"),
        (lambda: ops.distribute_fpn_proposals(np.nan * ROIS, 2, 5, 4, 224),
         r"^fpn_rois\[0\]: \[nan, .*, expected a box of finite size"),
    ],
)  # fmt: skip
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_warnings():
    """Warnings say the names of a call's own arguments, and point at the line of the call."""
    x, rows = np.ones((2, 1, 9, 9), np.float32), [[0, 4, 4, 3, 2, 30.0]]
    with pytest.warns(UserWarning, match="^rois: an angle of 30, which is more") as warned:
        mmcv.roi_align_rotated(x, rows, 2, 1.0)
    assert warned[0].filename == __file__
    scored = np.array([[0, 3, 4, 8, 0.5]], np.float32)
    with pytest.warns(UserWarning, match=r"^rois: a score seems .* pass rois\[:, :4\]"):
        mxnet.contrib.ROIAlign(x, scored, 2, 1.0)
    with pytest.warns(UserWarning, match=r"^rois: a score seems .* pass rois\[:, :4\]"):
        onnx.MaxRoiPool(x, scored, pooled_shape=(2, 2))


def test_masked_images_of_whole_numbers_keep_their_error():
    image = np.ma.masked_array(np.ones((1, 3, 3, 1), np.int32), mask=True)
    with pytest.raises(TypeError, match="image: a masked array"):
        tensorflow.crop_and_resize(image, [[0, 0, 1, 1]], [0], (2, 2))


def test_position_sensitive_sums_of_small_types_do_not_overflow():
    maps = np.full((1, 4, 8, 8), 40000, np.float16)
    box = np.array([[0, 1, 1, 5, 5]], np.float16)
    out = openvino.psroi_pooling(maps, box, 1, 1, 0.125, 2, 2, "bilinear")
    assert out.dtype == np.float16
    assert (out == 40000).all()


def test_clockwise_mode_is_named():
    with pytest.raises(TypeError, match="^clockwise_mode: 1, expected True or False"):
        openvino.roi_align_rotated(X, ROIS5, [0, 1], 2, 2, 0, 1.0, 1)
