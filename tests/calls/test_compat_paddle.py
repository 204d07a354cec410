"""The calls of Paddle give the numbers of Paddle.

The tests take the examples of its pages, recorded numbers, and every way to give the images.
"""

import numpy as np
import pytest
import reference
from conftest import random_boxes
from recorded import CASES, OTHERWISE, assert_agrees, load, sorted_by_image

import roicy
from roicy.compat import paddle
from roicy.compat.paddle.vision import ops


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("paddle")])
def test_recorded(case):
    """Both forms and each way to give the images agree with the numbers of the real system."""
    name, size, keywords, arrays = load(case)
    if name not in ("roi_pool", "roi_align", "prroi_pool") or "out" in OTHERWISE.get(case, ()):
        return
    x, rois, counts, order = arrays["x"], *sorted_by_image(arrays["boxes"], len(arrays["x"]))
    expected, scale = arrays["out"][order], keywords["spatial_scale"]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    height, width = size
    tensor = paddle.create_lod_tensor(rois, [counts.tolist()])
    named = {"pooled_height": height, "pooled_width": width, "spatial_scale": scale}
    of_counts = {"boxes": rois, "boxes_num": counts, "output_size": size, "spatial_scale": scale}
    if name == "prroi_pool":
        pool = paddle.prroi_pool
        outs = [
            pool(x, rois, scale, height, width, counts),
            pool(x, rois, **named, batch_roi_nums=counts),
            pool(x, tensor, x.shape[1], scale, height, width),
            pool(x, tensor, output_channels=x.shape[1], **named, name="pool"),
            pool(x, rois, scale, height, width, rois_lod=offsets),
        ]
    elif name == "roi_pool":
        pool = paddle.roi_pool
        outs = [
            pool(x, rois, height, width, scale, counts),
            pool(input=x, rois=tensor, **named, name="pool"),
            pool(x, rois, height, width, scale, rois_lod=offsets),
            pool(x, rois, counts, size, scale),
            pool(x, **of_counts),
            ops.roi_pool(x, rois, counts, size, scale),
            ops.RoIPool(size, scale)(x, rois, counts),
        ]
    else:
        pool, ratio, aligned = paddle.roi_align, keywords["sampling_ratio"], keywords["aligned"]
        outs = [
            pool(x=x, **of_counts, sampling_ratio=ratio, aligned=aligned),
            ops.roi_align(x, rois, counts, size, scale, ratio, aligned),
        ]
        if aligned:
            outs.append(ops.roi_align(x, rois, counts, size, scale, ratio))
        else:
            outs += [
                pool(x, rois, height, width, scale, ratio, counts),
                pool(x, tensor, height, width, spatial_scale=scale, sampling_ratio=ratio),
                pool(x, rois, height, width, scale, ratio, rois_lod=offsets),
            ]
    for out in outs:
        assert_agrees(out, expected, x.dtype)


class TestPages:
    """The examples of the pages run as they are printed."""

    def test_roi_pool(self, dtype, isa):
        input_data = np.array([i for i in range(1, 17)]).reshape(1, 1, 4, 4).astype(dtype)
        rois = np.array([[1.0, 1.0, 2.0, 2.0], [1.5, 1.5, 3.0, 3.0]]).astype(dtype)
        roi_data = paddle.create_lod_tensor(rois, [[2]], None)
        assert roi_data.recursive_sequence_lengths() == [[2]]
        named = {"pooled_height": 1, "pooled_width": 1, "spatial_scale": 1.0}
        counts = np.array([2]).astype("int32")
        for out in (
            paddle.roi_pool(input=input_data, rois=roi_data, **named, rois_num=counts),
            paddle.roi_pool(input_data, roi_data),
            paddle.roi_pool(input_data, np.asarray(roi_data)),  # one image
        ):
            np.testing.assert_array_equal(out, [[[[11.0]]], [[[16.0]]]])
            assert out.dtype == dtype
            assert np.array(out).shape == (2, 1, 1, 1)

    @pytest.mark.parametrize(
        ("args", "kwargs"),
        [
            ((10, 1.0, 7, 7), {}),
            ((10, 1, 7, 7), {}),
            ((10, 1.0), {"pooled_height": 7, "pooled_width": 7}),
            ((), {"output_channels": 10, "pooled_height": 7, "pooled_width": 7}),
        ],
    )
    def test_prroi_pool_with_output_channels(self, args, kwargs, rng):
        """In the documented form, 490 channels are 10 channels for each of 7 x 7 bins."""
        x = rng.standard_normal((2, 490, 28, 28), dtype=np.float32)
        rois = np.array([[1, 5, 8, 10], [4, 2, 6, 7], [12, 12, 19, 21]], np.float32)
        out = paddle.prroi_pool(x, paddle.create_lod_tensor(rois, [[1, 2]]), *args, **kwargs)
        assert out.shape == (3, 10, 7, 7)
        boxes = np.concatenate([np.array([[0], [1], [1]], np.float32), rois], axis=1)
        every = roicy.prroi_pool(x, boxes, 7).reshape(3, 10, 7, 7, 7, 7)
        np.testing.assert_array_equal(out, np.einsum("kcpqpq->kcpq", every))


@pytest.mark.parametrize("scale", [1.0, 0.0625, 0.7, 1e30])
def test_psroi_pool(scale, dtype, isa, rng):
    """R-FCN's pooling rounds corners before it scales them."""
    x = rng.standard_normal((2, 24, 20, 23)).astype(dtype)
    size = (20 / scale, 23 / scale) if scale < 2 else (20, 23)
    boxes = random_boxes(rng, 2, 40, size, dtype)
    boxes[:4, 1:] = [[0.5, 2.5, 4.5, 7.5], [3, 3, 3, 3], [-9, -9, -1, -2], [4, 4, 2, 1]]
    boxes[4:6, 1:] = [[-1, -1, 3, 3], [-3, -2, 1, 5]]
    given = {"spatial_scale": float(np.float32(scale))}
    expected = reference.forward("psroi_pool", x, boxes, (3, 2), **given)
    assert expected.any()
    rois, counts, order = sorted_by_image(boxes, 2)
    for out in (
        ops.psroi_pool(x, rois, counts, (3, 2), scale),
        ops.PSRoIPool((3, 2), scale)(x, rois, counts),
        paddle.psroi_pool(x, rois, 4, scale, 3, 2, rois_num=counts),
        paddle.psroi_pool(x, paddle.create_lod_tensor(rois, [counts.tolist()]), 4, scale, 3, 2),
        paddle.psroi_pool(x, boxes=rois, boxes_num=counts, output_size=(3, 2), spatial_scale=scale),
    ):
        # the mean is over up to 20 x 23 pixels
        np.testing.assert_allclose(out, expected[order], rtol=0, atol=50 * np.finfo(dtype).eps * 4)
        assert out.dtype == dtype


def test_psroi_pool_by_hand():
    """2 x 2 bins lie over pixels 1 to 3: each bin covers one and a half rows, and reads two."""
    x = np.arange(4 * 25, dtype=np.float64).reshape(1, 4, 5, 5)
    out = ops.psroi_pool(x, np.array([[0.6, 0.6, 3.4, 3.4]]), [1], 2)
    plane = x[0, 0]
    corners = [plane[1:3, 1:3], plane[1:3, 2:4], plane[2:4, 1:3], plane[2:4, 2:4]]
    means = [25 * i + corner.mean() for i, corner in enumerate(corners)]
    np.testing.assert_allclose(out.ravel(), means)


def test_distribute_fpn_proposals(dtype):
    """The numbers are those of Paddle 3.3, boxes just below the size of a level included."""
    sides = [448, 447.99997, 111.99999, 50, 9999, -3, 224]
    rois = np.array([[0, 0, side, side] for side in sides], dtype)
    levels, restore, counts = ops.distribute_fpn_proposals(rois, 2, 5, 4, 224, rois_num=[3, 4])
    places = restore.ravel()
    np.testing.assert_array_equal(np.concatenate(levels)[places], rois)
    of_box = np.repeat(range(2, 6), [len(level) for level in levels])[places]
    single = dtype == np.float32  # in which 4 - 1e-7 is rounded to 4
    assert of_box.tolist() == [5, 5 if single else 4, 3 if single else 2, 2, 5, 2, 4]
    assert np.sum(counts, axis=0).tolist() == [3, 4]
    of_image = np.arange(7) >= 3
    for level, count in zip(range(2, 6), counts, strict=True):
        np.testing.assert_array_equal(count, np.bincount(of_image[of_box == level], minlength=2))
    assert ops.distribute_fpn_proposals(rois[:0], 2, 5, 4, 224)[2] is None
    grown = ops.distribute_fpn_proposals(rois[:1] - 1, 2, 5, 4, 449, pixel_offset=True)[0]
    assert [len(level) for level in grown] == [0, 0, 1, 0]


def test_levels_of_proposals_in_every_type():
    boxes = [[0, 0, 0, 0], [0, 0, 100, 100]]
    given = (2, 5, 4, 224)
    expected, _, _ = ops.distribute_fpn_proposals(np.array(boxes, np.float64), *given)
    for dtype in (np.float32, np.float16, np.int8, np.uint8, np.int32, np.int64):
        found, _, _ = ops.distribute_fpn_proposals(np.array(boxes, dtype), *given)
        assert [len(level) for level in found] == [len(level) for level in expected]
    with pytest.raises(ValueError, match="refer_scale: 0, expected a finite number above 0"):
        ops.distribute_fpn_proposals(np.array(boxes, np.float32), 2, 5, 4, 0)
