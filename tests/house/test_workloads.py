"""The benchmarks time what they say: every workload gives its result in both layouts."""

import numpy as np
import pytest

import roicy
from roicy.bench import peers, peers_of_images
from roicy.bench.beside import difference, prepared
from roicy.bench.workloads import ATTENTION, CROPS, LABELS, MASKS, RESIZES, WORKLOADS, each_level

DIRECTIONS = ["forward", "backward", "backward_boxes"]


def small(workload):
    n, c, h, w = workload.shape
    c = c if c <= 3 else 49 if workload.operator.startswith("ps_") else 20
    return workload._replace(shape=(n, c, min(h, 50), min(w, 76)), count=5)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_layouts_agree(name, direction):
    workload = small(WORKLOADS[name])
    if direction == "backward_boxes" and workload.operator == "roi_pool":
        return
    arrays = workload.arrays()
    first = each_level(workload.call(roicy, arrays, direction)())
    last = each_level(workload.call(roicy, arrays, direction, "NHWC")())
    assert len(first) == (workload.levels if direction == "backward" else 1)
    assert max(np.abs(one).max() for one in first) > 0
    for one, other in zip(first, last, strict=True):
        other = other.transpose(0, 3, 1, 2) if other.ndim == 4 else other
        np.testing.assert_array_equal(other, one)
    if direction != "backward_boxes":
        reusing = workload.call(roicy, arrays, direction, reuse=True)
        again = each_level(reusing())
        for one, other, right in zip(each_level(reusing()), again, first, strict=True):
            assert one is other
            np.testing.assert_array_equal(one, right)


@pytest.mark.parametrize("name", WORKLOADS)
def test_boxes_lie_on_the_image(name):
    (n, _, *extent), given = WORKLOADS[name].shape, {"operator": "roi_align", "levels": 1}
    workload = WORKLOADS[name]._replace(shape=(n, 1, *extent), **given)
    boxes = workload.arrays()["boxes"]
    height, width = (extent / workload.spatial_scale for extent in workload.shape[2:])
    assert boxes.shape == (workload.count, 5)
    assert (boxes[:, 1:] >= 0).all()
    assert (boxes[:, 3] < width).all()
    assert (boxes[:, 4] < height).all()
    sides = boxes[:, 3:] - boxes[:, 1:3]
    assert sides.min() >= workload.sides[0] * 0.999 or sides.min() >= min(height, width) - 1.001
    assert sides.max() <= workload.sides[1] * 1.001


@pytest.mark.parametrize("dtype", ["float16", "uint8"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_maps_of_small_types(layout, dtype):
    workload = small(WORKLOADS["align_c4"])
    arrays = workload.arrays(dtype)
    assert [str(array.dtype) for array in arrays.values()] == [dtype, "float32", "float32"]
    wide = arrays | {"input": arrays["input"].astype(np.float32)}
    expected = workload.call(roicy, wide, layout=layout)()
    assert np.ptp(expected) > 1
    found = workload.call(roicy, arrays, layout=layout, reuse=True)()
    np.testing.assert_array_equal(found, expected.astype(found.dtype))


def result_of(workload, arrays):
    """Return the result of a workload, which used memory and threads do not change."""
    found = workload.call(roicy, arrays, reuse=True)()
    for one, other in zip(found, workload.call(roicy, arrays, threads=2)(), strict=True):
        np.testing.assert_array_equal(one, other)
    return found


@pytest.mark.parametrize("name", CROPS)
def test_crops(name):
    """Boxes lie on the frame, so that the result has the values of a picture and no padding."""
    workload = CROPS[name]._replace(count=2)
    arrays = workload.arrays()
    got = result_of(workload, arrays)
    assert got.shape == (2, 3, *workload.size)
    assert np.ptp(got, axis=(1, 2, 3)).min() > 1
    if workload.kind == "upright":
        assert (arrays["boxes"][:, :2] >= 0).all()
        assert (arrays["boxes"][:, 2:] <= (1920, 1080)).all()


@pytest.mark.parametrize("name", ["crop_faces", "crop_faces_affine", "crop_text_corners"])
def test_crops_of_opencv(name):
    """What the benchmark times beside roicy computes the same, but for the rounding of bytes."""
    pytest.importorskip("cv2")
    calls = prepared(name, "forward", "float32", 1, [peers_of_images.OpenCV(1)])[0]
    results = [call() for call in calls.values()]
    assert len(results) == 3
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=0, atol=1.1 / 255 / 0.224)


@pytest.mark.parametrize("name", RESIZES)
def test_resizes_of_pillow(name):
    """What the benchmark times beside roicy has the same numbers."""
    pytest.importorskip("PIL")
    workload = RESIZES[name]._replace(size=(56, 84))
    arrays = workload.arrays()
    expected = peers_of_images.Pillow(1).prepare(workload, arrays, "forward")()
    np.testing.assert_array_equal(result_of(workload, arrays), expected)


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    """Each image has a mask that covers a part of it, and codes are those of the images."""
    workload = MASKS[name]._replace(count=3, image_shape=(200, 300))
    arrays = workload.arrays()
    got = result_of(workload, arrays)
    if workload.result == "rle":
        codes = roicy.paste_masks(arrays["masks"], arrays["boxes"], (200, 300), format="rle")
        assert [code.tobytes() for code in got] == [code["counts"] for code in codes]
        return
    covered = np.asarray(got).mean(axis=(1, 2))
    assert got.shape == (3, 200, 300)
    assert ((covered > 0) & (covered < 1)).all()
    assert got.dtype == (np.float32 if workload.result == "values" else bool)


def test_mixed_masks_of_pytorch():
    """What the benchmark times beside roicy has the same pixels."""
    torch = pytest.importorskip("torch")
    workload = MASKS["yolo_masks"]._replace(count=3)
    arrays = workload.arrays()
    expected = peers_of_images.mixed_masks(torch, workload, arrays)()
    assert np.count_nonzero(workload.call(roicy, arrays)() != expected) < 10
    assert 0.01 < expected.mean() < 0.5


@pytest.mark.parametrize("noise", [0.4, 3.0, None])
@pytest.mark.parametrize("name", LABELS)
def test_labels(name, noise):
    """Some classes share a picture, and masks cover a part of it."""
    count = min(LABELS[name].shape[0], 30)
    workload = LABELS[name]._replace(shape=(count, 20, 30), size=(100, 170), noise=noise)
    arrays = workload.arrays()
    assert arrays["maps"].shape == (count, 20, 30)
    assert arrays["maps"].max() <= 12
    got = result_of(workload, arrays)
    if workload.result == "rle":
        codes = roicy.resize_masks(arrays["maps"], (100, 170), format="rle")
        assert [code.tobytes() for code in got] == [code["counts"] for code in codes]
    elif workload.result == "bool":
        assert got.shape == (count, 100, 170)
        assert 0.01 < got.mean() < 0.6
    else:
        assert got.shape == (100, 170)
        assert len(np.unique(got)) > 4


@pytest.mark.parametrize("peer", ["PyTorch", "OnnxRuntime", "OpenCV"])
@pytest.mark.parametrize("name", LABELS)
def test_labels_of_others(name, peer, monkeypatch):
    """What the benchmark times beside roicy computes the same, but where values nearly tie."""
    peer = getattr(peers, peer)
    package = pytest.importorskip(peer.package)
    pytest.importorskip("onnx")
    # PyTorch's threads bound those of roicy, in later tests too
    monkeypatch.setattr(package, "set_num_threads", lambda count: None, raising=False)
    workload = LABELS[name]._replace(shape=(6, 20, 30), size=(100, 170))
    arrays = workload.arrays()
    call = peer(1).prepare(workload, arrays, "forward")
    if call is None:
        assert workload.result == "rle"
        return
    found, expected = each_level(call()), each_level(workload.call(roicy, arrays)())
    for one, right in zip(found, expected, strict=True):
        assert one.shape == right.shape
        assert np.count_nonzero(one != right) < 5


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name):
    """Nearly all points lie on their levels, and the weights of a query have a sum of about 1."""
    workload = ATTENTION[name]._replace(shapes=((12, 16), (6, 8)))
    arrays = workload.arrays()
    locations, weights = arrays["locations"], arrays["weights"]
    assert ((locations > 0) & (locations < 1)).all(axis=-1).mean() > 0.6
    assert 0.9 < weights.sum(axis=(3, 4)).mean() < 1.1
    got = result_of(workload, arrays)
    assert got.shape == (1, workload.queries or 12 * 16 + 6 * 8, 256)
    assert np.abs(got).max() > 0
    names = ("value", "locations", "weights")
    gradients = workload.call(roicy, arrays, "backward", reuse=True)()
    assert [one.shape for one in gradients] == [arrays[name].shape for name in names]


@pytest.mark.parametrize("direction", DIRECTIONS[:2])
def test_attention_beside_pytorch(direction, monkeypatch):
    monkeypatch.setattr(pytest.importorskip("torch"), "set_num_threads", lambda count: None)
    workload = ATTENTION["attention_decoder"]
    arrays = workload.arrays()
    expected = each_level(workload.call(roicy, arrays, direction)())
    found = each_level(peers.PyTorch(1).prepare(workload, arrays, direction)())
    for one, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, right, rtol=0, atol=1e-5 * np.abs(right).max())


def test_difference():
    assert difference(np.array([True]), np.array([False])) == 1
    assert difference(np.array([1, 2], np.uint8), np.array([2, 1], np.uint8)) == 1
    assert difference(np.array([1, 2], np.uint8), np.array([1, 9])) == 0.5
    assert difference(np.array([1.0, 2.0]), np.array([1.0, 4.0]), 4.0) == 0.5
    assert difference(np.zeros(2), np.zeros(3)) == np.inf
    assert difference(np.zeros(0), np.zeros(0)) == 0
