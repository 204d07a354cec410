"""Lists that change during a call, integers that are shorter on other systems, and wrong types of
arrays, of which kernels read no memory.
"""

import numpy as np
import pytest

import roicy
from roicy._kernels import labels
from roicy.labels import Axes, Axis, Maps, Rule


class Growing:
    """An array that appends to a list, or empties it, when it is read, as another thread may."""

    def __init__(self, array, changed, more):
        self.array, self.changed, self.more = array, changed, more

    def __array__(self, *_, **__):
        if self.more:
            self.changed.extend([self.array] * 40)
        else:
            self.changed.clear()
        return self.array


def grown(array, more, count=2):
    """Return a list of arrays that changes when its first one is read."""
    changed = []
    changed += [Growing(array, changed, more), *[array] * (count - 1)]
    return changed


@pytest.mark.parametrize("more", [True, False])
def test_lists_that_change_meanwhile(more, rng):
    """A list is what it was when the call began: what kernels have room for was counted then."""
    map_, box = rng.random((1, 2, 9, 9)), np.array([[0, 1, 4, 5], [2, 2, 8, 9.0]])
    frame = rng.integers(0, 256, (9, 8, 3), "u1")
    two, scales = np.concatenate([map_, map_]), [1.0, 0.5]
    given = {"spatial_scale": scales}
    calls = [
        (lambda maps: roicy.multiscale_roi_align(maps, box, 2, **given), map_),
        (lambda boxes: roicy.roi_align(two, boxes, 2), box),
        (lambda boxes: roicy.multiscale_roi_align([two, two], boxes, 2, **given), box),
        (lambda grads: roicy.roi_align_backward_boxes(np.ones((4, 2, 2, 2)), two, grads), box),
        (lambda frames: roicy.crop(frames, [box, box], 4), frame),
        (lambda boxes: roicy.crop([frame, frame], boxes, 4), box),
        (lambda frames: roicy.resize(frames, 4), frame),
        (lambda boxes: roicy.resize([frame, frame], 4, boxes), box),
    ]
    for call, array in calls:
        expected, got = call([array, array]), call(grown(array, more))
        for one, other in zip(expected, got, strict=True):
            np.testing.assert_array_equal(one, other)


class Turning(float):
    """A number that appends to a list when it is read."""

    changed: list

    def __float__(self):
        self.changed.extend([1.0] * 40)
        return 0.5


def test_scales_that_change_meanwhile(rng):
    map_, scales = rng.random((1, 2, 9, 9)), [1.0]
    scales.append(Turning(0.5))
    scales[1].changed = scales
    boxes = [[0, 0, 0, 4, 4]]
    got = roicy.multiscale_roi_align([map_, map_], boxes, 2, spatial_scale=scales)
    expected = roicy.multiscale_roi_align([map_, map_], boxes, 2, spatial_scale=[1.0, 0.5])
    np.testing.assert_array_equal(got, expected)


class ShortIntegers:
    """NumPy with integers of 32 bits by default, as on Windows before NumPy 2."""

    def __getattr__(self, name):
        return getattr(np, name)

    def arange(self, *given, **options):
        made = np.arange(*given, **options)
        return made if options or made.dtype != np.int64 else made.astype(np.int32)

    def array(self, *given, **options):
        made = np.array(*given, **options)
        return made if options or made.dtype != np.int64 else made.astype(np.int32)


def test_default_integers_of_32_bits(monkeypatch, rng):
    maps, frame = rng.standard_normal((3, 5, 6)), rng.integers(0, 256, (40, 50, 3), "u1")
    prototypes, box = rng.standard_normal((4, 9, 9)), [[3, 4, 20, 19.5]]
    calls = [
        lambda: roicy.label_map(maps, (30, 40)),
        lambda: roicy.label_segments(maps, (30, 40), labels=[7, 2, 300])[0],
        lambda: roicy.resize_masks(maps, (30, 40)),
        lambda: roicy.resize(frame, 28),
        lambda: roicy.resize(frame, 28, patch=7, merge=2, repeat=2),
        lambda: roicy.resize(frame, 28, tiles=(2, 3), overview="first", border="crop"),
        lambda: roicy.crop(frame, box, (8, 9), fit="letterbox"),
        lambda: roicy.crop(frame, box, (8, 9), fit="letterbox_top_left"),
        lambda: roicy.prototype_masks(prototypes, np.ones((1, 4)), box, (40, 40)),
        lambda: roicy.paste_masks(prototypes[:1], box, (40, 40)),
    ]
    expected = [call() for call in calls]
    modules = ("labels", "masks", "prototypes", "cropping.arguments", "cropping.matrices",
               "cropping.resizing", "_checks._boxes")  # fmt: skip
    for module in modules:
        monkeypatch.setattr(f"roicy.{module}.np", ShortIntegers())
    for call, one in zip(calls, expected, strict=True):
        np.testing.assert_array_equal(call(), one)


def test_kernels_look_at_types():
    """What has another type than a kernel reads is an error, and no memory is read as such."""
    maps, out, ends = np.zeros((1, 2, 3, 3), np.float32), np.zeros((1, 3, 3), np.uint8), (0.0, 3.0)
    axes, ones = Axes(Axis(*ends, 3, 0), Axis(*ends, 3, 0)), np.ones(2, np.float32)
    right = {"names": np.arange(3, dtype=np.int64), "weights": ones, "maps": maps}
    wrong = {"names": np.int32, "weights": np.float64, "maps": np.float64}
    for name, dtype in wrong.items():
        given = right | {name: right[name].astype(dtype)}
        rule = Rule(given["names"], given["weights"], False, 0.0, None)
        with pytest.raises(TypeError, match="an array of .*, expected"):
            labels.compute(Maps(given["maps"], "f", 1.0, 0.0), axes, rule, (out, None), None, 1)
