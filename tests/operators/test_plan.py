"""Calls accept arguments of every form.

Plain arguments are taken as they are, and others are converted first.  Both give the same bits,
and no plan holds the memory of arguments after the call.  test_determinism.py has strides.
"""

import sys

import numpy as np
import pytest
from conftest import (
    LAYOUTS,
    SUMS,
    arrays_in,
    assert_same_bits,
    operator,
    pairs,
    random_boxes,
    to_layout,
)
from protocols import Named

import roicy


def given_back(function, **arguments):
    """Return the result of a call that gives its arrays back."""
    arrays = [*arrays_in(arguments.values())]
    before = [sys.getrefcount(array) for array in arrays]
    function(**arguments)
    assert [sys.getrefcount(array) for array in arrays] == before
    return function(**arguments)


def in_form(form, x, boxes, tmp_path):
    """Return a map, boxes, sizes of bins and a scale of 0.5, in some form."""
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


FORMS = ["plain", "out", "subclasses", "memory maps", "numbers of numpy", "float16 boxes"]


@pairs(
    name=[*SUMS, "roi_pool", "argmax"],
    form=FORMS,
    kind=["float32", "float64", "uint8"],
    layout=LAYOUTS,
)
def test_same_bits_in_any_form(name, form, kind, layout, rng, tmp_path):
    channels = 36 if name.startswith("ps_") else 37
    x = to_layout((rng.uniform(size=(3, channels, 20, 30)) * 255).astype(kind), layout)
    computed = np.float64 if kind == "float64" else np.float32
    boxes = random_boxes(rng, 3, 11, (40, 60), computed)
    boxes[:, 1:] = boxes[:, 1:].clip(-60, 120)  # where float16 has steps of 1/16
    function, options = operator("roi_pool" if name == "argmax" else name), {"layout": layout}
    if name == "argmax":
        options["return_argmax"] = True
    made = function(x, boxes, (3, 2), 0.5, num_threads=1, **options)
    expected = made if isinstance(made, tuple) else (made,)
    names = ("input", "boxes", "output_size", "spatial_scale")
    options |= zip(names, in_form(form, x, boxes, tmp_path), strict=True)
    options["input"].flags.writeable = options["boxes"].flags.writeable = False
    for threads in (1, 2):
        if form == "out":
            options["out"] = np.full_like(expected[0], 7)
        made = given_back(function, num_threads=threads, **options)
        made = made if isinstance(made, tuple) else (made,)
        assert made[0] is options.get("out", made[0])
        for one, other in zip(made, expected, strict=True):
            assert one.flags.c_contiguous
            assert_same_bits(one, other)


def formats(boxes, images):
    """Return arguments with boxes in all formats and types.  They are sorted by image, in steps of
    a pixel.
    """
    counts = np.bincount(boxes[:, 0].astype(int), minlength=images)
    parts = np.split(boxes[:, 1:], counts.cumsum()[:-1])
    for dtype in ("f4", "f8", "i4", "i8", "f2", "i2", ">f8"):
        typed, of_images = boxes.astype(dtype), [part.astype(dtype) for part in parts]
        for rows in (typed, typed[::-1].copy()[::-1], typed.view(Named)):
            yield {"boxes": rows}
        for rows in (of_images, tuple(of_images), [part.view(Named) for part in of_images]):
            yield {"boxes": rows}
        typed_counts = [counts.astype(kind) for kind in ("i8", "i4", "u1", ">i4")]
        for numbers in (*typed_counts, counts.tolist(), tuple(counts), counts.view(Named)):
            yield {"boxes": typed[:, 1:], "boxes_num": numbers}
    mixed = zip(parts, (np.float32, np.float64, np.int32, np.float16), strict=True)
    yield {"boxes": [part.astype(dtype) for part, dtype in mixed]}


@pytest.mark.parametrize("kind", ["float32", "float64", "uint8"])
def test_formats_of_boxes(kind, rng):
    """All formats of boxes give the same bits, even if an image has no boxes."""
    x = (rng.uniform(size=(4, 5, 20, 30)) * 255).astype(kind)
    boxes = np.round(random_boxes(rng, 4, 30, (40, 60), np.float64))
    boxes = boxes[boxes[:, 0].argsort(kind="stable")]
    boxes = boxes[boxes[:, 0] != 1]
    expected = roicy.roi_align(x, boxes, 3, 0.5)
    for given in formats(boxes, 4):
        out = given_back(roicy.roi_align, input=x, output_size=3, spatial_scale=0.5, **given)
        assert_same_bits(out, expected)


@pairs(levels=[1, 3, 8, 12], kind=["float32", "float64", "uint8"], layout=LAYOUTS)
def test_forms_of_levels(levels, kind, layout, rng):
    x = [
        (rng.uniform(size=(2, 19, max(160 >> i, 1), max(240 >> i, 1))) * 255).astype(kind)
        for i in range(levels)
    ]
    x = [to_layout(level, layout) for level in x]
    scales = [0.5**i for i in range(levels)]
    right = {
        "features": x,
        "boxes": random_boxes(rng, 2, 60, (160, 240), np.float32),
        "output_size": (2, 3),
        "spatial_scale": scales,
        "canonical_scale": 30,
        "canonical_level": 1,
        "layout": layout,
    }
    expected = roicy.multiscale_roi_align(**right, num_threads=1)
    out = np.empty_like(expected)
    forms = [
        {},
        {"num_threads": 2},
        {"spatial_scale": np.array(scales)},
        {"features": [level.view(Named) for level in x]},
        {"features": tuple(x), "out": out},
    ]
    if levels <= 8:  # the scale cannot be found from a map of one row
        forms.append({"spatial_scale": None, "image_size": (160, 240)})
    for changed in forms:
        found = given_back(roicy.multiscale_roi_align, **right | changed)
        assert (found is out) == ("out" in changed)
        assert_same_bits(found, expected)


def test_argmax_that_int32_cannot_count():
    x = np.broadcast_to(np.float32(1), (1, 1, 2**16, 2**16))
    with pytest.raises(
        ValueError, match=r"input: a map of 65536 x 65536 pixels, expected less than 2\*\*31"
    ):
        roicy.roi_pool(x, np.array([[0, 1, 1, 3, 3]], np.float32), 2, return_argmax=True)


def test_out_that_boxes_lie_in():
    x, boxes = np.ones((1, 1, 9, 9), np.float32), np.ones((5, 5), np.float32)
    boxes[:, 0] = 0
    out = boxes.reshape(-1)[-5:].reshape(5, 1, 1, 1)
    for given in (boxes, boxes.view(Named), [boxes[:, 1:]], [boxes[:, 1:].view(Named)]):
        with pytest.raises(ValueError, match="out: overlaps memory that the call reads"):
            roicy.roi_align(x, given, 1, out=out)
