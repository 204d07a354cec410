"""No page beyond an array is touched, nor one that no box reads."""

import math
import mmap

import numpy as np
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    SUMS,
    WITH_BOX_GRADIENTS,
    operator,
    pairs,
    taken,
    to_layout,
)
from fences import fence, fenced, needs_fences

import roicy

ALL = (*SUMS, "roi_pool", "roi_align_max")


def check_call(function, given, at_end, **options):
    """Check that a call gives the same if its arrays, and its result, are beside such pages.

    Return the result and what was given, in such places.
    """
    expected = function(*given, **options)
    given = [fenced(one, at_end) if isinstance(one, np.ndarray) else one for one in given]
    out = fenced(np.full_like(expected, np.nan), at_end)
    np.testing.assert_array_equal(function(*given, out=out, **options), expected)
    return out, given


@needs_fences
@pairs(name=ALL, at_end=[False, True], layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_nothing_beyond_arrays_is_touched(name, at_end, layout, dtype, isa, rng):
    """Maps and windows are narrower or wider than a vector; channel blocks are whole or partial."""
    pool, backward, bins = operator(name), operator(name, "_backward"), (2, 3)
    for width in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 33):
        for channels in (3, 16, 20):
            of_input = channels * (6 if name.startswith("ps_") else 1)
            x = to_layout(rng.standard_normal((1, of_input, 3, width)).astype(dtype), layout)
            boxes = np.array(
                [[0, -1, -1, width, 3], [0, width / 2, 1, width - 1, 2], [0, 0, 0, 2, 2]], dtype
            )
            out, (x, boxes, _) = check_call(pool, (x, boxes, bins), at_end, layout=layout)
            grad = fenced(rng.standard_normal(out.shape).astype(dtype), at_end)
            read = (x, boxes) if name == "roi_align_max" else (boxes, x.shape)
            if name == "roi_pool":
                read = (pool(x, boxes, bins, layout=layout, return_argmax=True)[1], *read)
            check_call(backward, (grad, *read), at_end, layout=layout)
            if name in WITH_BOX_GRADIENTS:
                operator(name, "_backward_boxes")(grad, x, boxes, layout=layout)


@needs_fences
@pairs(name=ALL, count=[1, 3, 60], layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_rows_that_no_box_reads_are_left_alone(name, count, layout, dtype, isa, rng):
    """Rows far from all boxes are not touched, since a map may be a file that is read on demand."""
    height, width = 48, mmap.PAGESIZE // np.dtype(dtype).itemsize // 4
    channels = 20 * (6 if name.startswith("ps_") else 1)
    shape = (channels, height, width) if layout == "NCHW" else (height, width, channels)
    memory = mmap.mmap(-1, math.prod(shape) * np.dtype(dtype).itemsize)
    x = np.frombuffer(memory, dtype).reshape(shape)
    x[...] = rng.standard_normal(shape)
    low = rng.uniform((-4, 18), (width, 24), (count, 2))
    boxes = np.column_stack([np.zeros(count), low, low + rng.uniform(2, 5, (count, 2))])
    boxes, options = boxes.astype(dtype), {"layout": layout} | taken(name, sampling_ratio=2)
    expected = operator(name)(x[None].copy(), boxes, (2, 3), **options)
    for rows in (slice(0, 16), slice(32, 48)):
        for part in x[:, rows] if layout == "NCHW" else [x[rows]]:
            fence(part)
    for threads in (1, 3):
        found = operator(name)(x[None], boxes, (2, 3), num_threads=threads, **options)
        np.testing.assert_array_equal(found, expected)
    if name in WITH_BOX_GRADIENTS:
        operator(name, "_backward_boxes")(expected, x[None], boxes, **options)
    if name == "roi_align_max":
        roicy.roi_align_max_backward(expected, x[None], boxes, **options)


@needs_fences
@pairs(
    at_end=[False, True],
    planar=[False, True],
    form=[{}, {"channels": "last"}, {"patch": 4, "repeat": 2}],
    size=[(4, 36), (40, 12), (12, 4), (72, 72)],
    dtype=["uint8", "float32"],
    isa=ISAS,
)
def test_nothing_beyond_pictures_is_touched(at_end, planar, form, size, dtype, isa, rng):
    """Pictures are narrower or wider than a vector, and have fewer or more rows than a block."""
    for height, width in ((1, 1), (5, 3), (3, 16), (70, 17), (129, 65), (300, 4), (64, 200)):
        for channels in (1, 3, 4):
            frame = rng.integers(0, 256, (height, width, channels), np.uint8)
            expected = roicy.resize(frame, size, dtype=dtype, **form)
            if planar:
                given = fenced(np.ascontiguousarray(frame.transpose(2, 0, 1)), at_end)
                given = given.transpose(1, 2, 0)
            else:
                given = fenced(frame, at_end)
            out = fenced(np.zeros_like(expected), at_end)
            roicy.resize(given, size, dtype=dtype, out=out, num_threads=2, **form)
            np.testing.assert_array_equal(out, expected)
