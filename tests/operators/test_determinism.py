"""Results have the same bits for all threads, layouts, strides and steps, and for boxes alone."""

import numpy as np
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    SUMS,
    WAYS,
    WITH_BOX_GRADIENTS,
    assert_same_bits,
    copied_behind_a_line,
    lying_apart,
    operator,
    pairs,
    passes,
    random_boxes,
    rotated_boxes,
    same_passes,
    taken,
    to_layout,
    views,
)

import roicy
from roicy._kernels import plan

ALL = (*SUMS, "roi_pool", "roi_align_max", "roi_align_rotated")
# Each shape is enough work for a team of threads: many blocks, fewer blocks than threads, many
# images, and a map that takes several tiles.
SHAPES = {
    "blocks": ((2, 100, 30, 40), 60, (5, 3)),
    "few": ((1, 3, 120, 160), 400, (9, 8)),
    "images": ((24, 16, 14, 14), 300, (7, 7)),
    "tiles": ((1, 20, 330, 420), 120, (4, 4)),
}


def in_images(rng, images, low, high, dtype):
    """Return boxes of random images."""
    return np.column_stack([rng.integers(0, images, len(low)), low, high]).astype(dtype)


def make(rng, name, shape, dtype):
    """Return a map, boxes, and a gradient of the output."""
    (n, c, h, w), count, bins = SHAPES[shape]
    channels = max(c // 16, 1) if name.startswith("ps_") else c
    of_input = channels * bins[0] * bins[1] if name.startswith("ps_") else c
    make_boxes = rotated_boxes if "rotated" in name else random_boxes
    if "rotated" in name:  # which takes much time
        count //= 5
    return (
        rng.standard_normal((n, of_input, h, w)).astype(dtype),
        make_boxes(rng, n, count, (2 * h, 2 * w), dtype),
        rng.standard_normal((count, channels, *bins)).astype(dtype),
    )


@pairs(name=ALL, shape=SHAPES, layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_threads_and_layouts(name, shape, layout, dtype, isa, rng):
    same_passes(name, *make(rng, name, shape, dtype), WAYS[layout], spatial_scale=0.5)


@pairs(name=SUMS, extents=[(20, 24), (130, 130)], layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_wherever_arrays_begin(name, extents, layout, dtype, isa, rng):
    """Arrays may begin at any element of a cache line, so that vectors cross lines.  The large map
    is beyond the caches, so that its next rows are prefetched.
    """
    x = to_layout(rng.standard_normal((1, 144, *extents)).astype(dtype), layout)
    boxes = random_boxes(rng, 1, 20, extents, dtype)

    def begun(function, array, elements, *given):
        placed = copied_behind_a_line(array, elements, dtype)
        return function(placed, boxes, *given, layout=layout)

    pool, backward = operator(name), operator(name, "_backward")
    out = begun(pool, x, 0, (3, 4))
    g = rng.standard_normal(out.shape).astype(dtype)
    of_input = begun(backward, g, 0, x.shape)
    for elements in (1, 2, 3, 4, 7, 15):
        assert_same_bits(begun(pool, x, elements, (3, 4)), out)
        assert_same_bits(begun(backward, g, elements, x.shape), of_input)


@pairs(name=ALL, dtype=DTYPES, isa=ISAS)
def test_strides(name, dtype, isa, rng):
    """Views are read and written in place."""
    x, boxes, g = make(rng, name, "blocks", dtype)
    pool, backward, bins = operator(name), operator(name, "_backward"), g.shape[2:]
    found = passes(name, x, boxes, g, spatial_scale=0.5)
    expected, *argmax, of_input = found if name == "roi_pool" else found[:2]
    for view in views(x):
        assert_same_bits(pool(view, boxes, bins, 0.5), expected)
        out = lying_apart(expected.shape, dtype)
        assert pool(view, boxes, bins, 0.5, out=out) is out
        assert_same_bits(np.ascontiguousarray(out), expected)
    one = np.broadcast_to(x[:1], x.shape)
    assert_same_bits(pool(one, boxes, bins, 0.5), pool(one.copy(), boxes, bins, 0.5))
    spread = np.zeros((2 * len(boxes), 11), dtype)[1::2, ::-2][:, : boxes.shape[1]]
    spread[...] = boxes
    spread.flags.writeable = False
    assert_same_bits(pool(x, spread, bins, 0.5), expected)
    last = np.full((len(x), *x.shape[2:], x.shape[1]), np.nan, dtype).transpose(0, 3, 1, 2)
    scale, shape = {} if argmax else {"spatial_scale": 0.5}, [x.shape]
    if name == "roi_align_max":
        argmax, shape = [x], []  # instead of an argmax, the map is read
    for given in zip(views(g), *map(views, argmax), strict=True):
        given = (*given, boxes, *shape)
        assert_same_bits(backward(*given, **scale), of_input)
        for out in (lying_apart(x.shape, dtype), last):
            assert backward(*given, **scale, out=out) is out
            assert_same_bits(np.ascontiguousarray(out), of_input)


CHANNELS_LAST = [
    "many channels", "large map", "wide pixels", "wide boxes", "wide boxes of many bins",
    "large boxes",
]  # fmt: skip


def channels_last(rng, case, dtype):
    """Return a map, boxes, and a gradient of the output."""
    lanes = 64 // np.dtype(dtype).itemsize
    if case == "many channels":  # pixels that many boxes read are copied together
        shape, bins = (2, 37 * lanes, 50, 62), (5, 7)
        low = rng.uniform(-5, (47, 35), (100, 2))
        boxes = in_images(rng, 2, low, low + rng.uniform(15, 30, (100, 2)), dtype)
    elif case == "large map":  # beyond the caches, so that the next pixels are prefetched
        shape, bins = (2, 4 * lanes + 3, 200, 190), (5, 6)
        boxes = random_boxes(rng, 2, 40, shape[2:], dtype)
        boxes[:30, 3:] = boxes[:30, 1:3] + rng.uniform(1, 40, (30, 2))
        # These are wide, tall, partly off the map, and off the map.
        boxes[30:34, 1:] = (3, 8, 40, 9), (7, 9, 8, 70), (188, 197, 199, 205), (240, 250, 250, 260)
    elif case == "wide pixels":  # a row of bins does not fit scratch, and is summed in turns
        shape, bins = (2, 260 * lanes + 3, 13, 9), (3, 17)
        boxes = random_boxes(rng, 2, 5, shape[2:], dtype)
        # In these boxes, each row of pixels reads the bins of the row before, in either direction.
        boxes[:2, 1:] = (1, 2, 4, 5), (7, 6, 3, 2)
    elif case.startswith("wide boxes"):  # they are contracted along x first
        shape, bins = (2, 3 * lanes + 5, 30, 260), (14, 9) if case == "wide boxes" else (40, 33)
        low = rng.uniform((-20, -5), (60, 25), (20, 2))
        boxes = in_images(rng, 2, low, low + rng.uniform((120, 1), (250, 12), (20, 2)), dtype)
    else:  # boxes of which some channels at a time fit the tile
        shape, bins = (2, 9 * lanes, 130, 140), (2, 3)
        rows = [[0, -3, -2, 140, 130], [1, 1, 2, 140, 129]] * 6 + [[1, 140, 130, 135, -9]]
        boxes = np.array(rows, dtype)
    g = rng.standard_normal((len(boxes), shape[1], *bins)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype), boxes, g


@pairs(
    name=["roi_align", "prroi_pool", "roi_pool", "roi_align_max"],
    case=CHANNELS_LAST,
    dtype=DTYPES,
    isa=ISAS,
)
def test_channels_last(name, case, dtype, isa, rng):
    """Pixels are copied, prefetched or divided as their sizes ask for.  The bits are those of
    channels first.
    """
    given, ways = channels_last(rng, case, dtype), [("NCHW", 2), ("NHWC", 1), ("NHWC", 3)]
    # Maxima look at each sample by itself, which takes much time.
    parameters = {"sampling_ratio": 2} if name == "roi_align_max" else {}
    same_passes(name, *given, ways, **parameters)


def beside_others(rng, case):
    """Return the shape of a map, and boxes that are read together."""
    if case == "apart":  # boxes with gaps between them share packed rows
        low = rng.uniform(-10, (50, 290), (200, 2))
        boxes = in_images(rng, 2, low, low + rng.uniform(10, 30, (200, 2)), np.float32)
        boxes[5, 1:] += 5000  # this box is off the map
        boxes[6, [2, 4]] = boxes[6, [4, 2]]
        return (2, 24, 300, 60), boxes
    if case == "tall":  # some of them have more rows than the tile holds
        low = rng.uniform(0, (220, 290), (150, 2))
        boxes = in_images(rng, 1, low, low + rng.uniform(10, 40, (150, 2)), np.float32)
        boxes[::40, 2], boxes[::40, 4] = 5, 320
        boxes[0, [1, 3]], boxes[120, [1, 3]] = (2, 30), (230, 258)
        boxes[40, [2, 4]] = boxes[40, [4, 2]]
        return (1, 24, 330, 260), boxes
    return (2, 24, 20, 30), random_boxes(rng, 2, 2000, (20, 30), np.float32)


@pairs(
    name=["roi_align", "ps_roi_align", "prroi_pool", "roi_pool", "roi_align_max"],
    case=["apart", "tall", "more than are computed together"],
    kind=["float32", "float64", "float16"],
    isa=ISAS,
)
def test_boxes_have_the_bits_that_they_have_alone(name, case, kind, isa, rng):
    shape, boxes = beside_others(rng, case)
    x, boxes = rng.standard_normal(shape).astype(kind), boxes.astype(np.promote_types(kind, "f4"))
    out = operator(name)(x, boxes, (3, 2), num_threads=2)
    g = rng.standard_normal(out.shape).astype(boxes.dtype)
    with_gradient = name in WITH_BOX_GRADIENTS
    grad = operator(name, "_backward_boxes")(g, x, boxes) if with_gradient else None
    for k in (*range(0, 150, 10), 5, 6, 149):
        one = slice(k, k + 1)
        assert_same_bits(operator(name)(x, boxes[one], (3, 2)), out[one])
        if with_gradient:
            alone = operator(name, "_backward_boxes")(g[one], x, boxes[one])
            assert_same_bits(alone, grad[one])


@pairs(channels=[5, 16, 21], bins=[(2, 2), (5, 7), (1, 16)], dtype=DTYPES, isa=ISAS)
def test_bins_of_a_pixel_together(channels, bins, dtype, isa, rng):
    """With channels last, the pixels that boxes read are transposed for several bins at once.  The
    bits are those of channels first, for each type of the map.
    """
    (h, w), groups = (40, 30), bins[0] * bins[1]
    low = rng.uniform((5, 3), (w - 12, h - 20), (600, 2))  # no box reads the pixels near the edges
    boxes = in_images(rng, 2, low, low + rng.uniform(4, 10, (600, 2)), dtype)
    maps = {"dense": rng.integers(0, 256, (2, h, w, channels * groups)).astype(dtype)}
    maps["spaced"] = np.zeros((2, 2 * h, w, channels * groups + 5), dtype)[:, ::2, ::-1, 2:-3]
    maps["spaced"][...] = maps["dense"]
    if dtype == np.float32:
        maps |= {kind: maps["dense"].astype(kind) for kind in ("uint8", "float16")}
    planes = np.ascontiguousarray(maps["dense"].transpose(0, 3, 1, 2))
    expected = roicy.ps_roi_align(planes, boxes, bins, sampling_ratio=2)
    g = rng.standard_normal(expected.shape).astype(dtype)
    of_boxes = roicy.ps_roi_align_backward_boxes(g, planes, boxes, sampling_ratio=2)
    of_input = roicy.ps_roi_align_backward(g, boxes, planes.shape, sampling_ratio=2)
    g, options = to_layout(g, "NHWC"), {"sampling_ratio": 2, "layout": "NHWC"}
    for kind, x in maps.items():
        for threads in (1, 3):
            out = roicy.ps_roi_align(x, boxes, bins, num_threads=threads, **options)
            # Results of a map of float16 are float16, too.
            assert_same_bits(out, to_layout(expected, "NHWC").astype(out.dtype))
        if kind in ("dense", "spaced"):
            found = roicy.ps_roi_align_backward_boxes(g, x, boxes, num_threads=1, **options)
            assert_same_bits(found, of_boxes)
            roicy.ps_roi_align_backward(g, boxes, x.shape, out=x, **options)  # it is overwritten
            assert_same_bits(np.ascontiguousarray(x), to_layout(of_input, "NHWC"))


# There are whole groups of eight blocks that are summed together, smaller groups, and channels that
# fill no block.  Several groups are computed at once or one after the other.
@pairs(
    name=WITH_BOX_GRADIENTS,
    channels=[(0, 5), (8, 0), (20, 3), (75, 0)],
    dtype=DTYPES,
    isa=ISAS,
)
def test_gradients_of_boxes(name, channels, dtype, isa, rng):
    """Gradients of boxes have the same bits whatever is packed or copied.  Windows of many
    thousands of pixels are divided into cells.
    """
    c = channels[0] * (64 // np.dtype(dtype).itemsize) + channels[1]
    h, w = (24, 30) if channels[0] == 75 else (130, 140)
    bins, options = (2, 3), taken(name, sampling_ratio=1 if channels[0] == 75 else -1)
    if name.startswith("ps_"):
        bins = (2, 2)
        c -= c % 4
    boxes = random_boxes(rng, 2, 12, (h, w), dtype)
    boxes[:4] = [[0, 0, 0, w, h], [1, 1, -5, w - 2, h + 3], [0, w, h, 0, 0], [1, 2, 3, 2.5, 3.5]]
    x = rng.standard_normal((2, c, h, w)).astype(dtype)
    g = rng.standard_normal(operator(name)(x, boxes, bins, **options).shape).astype(dtype)
    backward = operator(name, "_backward_boxes")
    expected = backward(g, x, boxes, num_threads=1, **options)
    read = c // g.shape[1]  # channels of the map for one of the gradient
    parts = [
        backward(g[:, i : i + 16], x[:, i * read : (i + 16) * read], boxes, **options).astype(float)
        for i in range(0, g.shape[1], 16)
    ]
    # If the sum of some channels were missing, the difference would be far larger.
    eps = 2**7 * np.finfo(dtype).eps * max(np.abs(part).max() for part in parts)
    np.testing.assert_allclose(expected, sum(parts), rtol=0, atol=len(parts) * eps)
    spaced = np.zeros((2, c + 3, h, 2 * w), dtype)[:, 3:, ::-1, ::2]
    spaced[...] = x
    pixels, bin_by_bin = (
        np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for array in (x, g)
    )
    for map in (x, spaced, pixels):
        for grad in (g, bin_by_bin):
            assert_same_bits(backward(grad, map, boxes, num_threads=3, **options), expected)
    many = np.concatenate([boxes, np.tile(boxes[4:], (9, 1))])
    g = np.concatenate([g, np.tile(g[4:], (9, 1, 1, 1))])
    # Boxes that share packed rows, or pixels that are copied together, have the bits that they have
    # alone.
    for map in (x, pixels):
        assert_same_bits(backward(g, map, many, **options)[: len(boxes)], expected)


@pairs(name=ALL, layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_boxes_in_steps(name, layout, dtype, isa, request, rng):
    """Many boxes are pooled in several steps, which changes no bits but of sums over boxes."""
    x, boxes, g = make(rng, name, "images", dtype)
    given = {"layout": layout, "spatial_scale": 0.5}
    at_once = passes(name, x, boxes, g, **given)
    magnitude = passes(name, x, boxes, np.abs(g), **given)[1 + (name == "roi_pool")].max()
    request.addfinalizer(plan.bound_steps)
    plan.bound_steps(37)
    for a, b in zip(passes(name, x, boxes, g, **given), at_once, strict=True):
        if a.shape != x.shape:
            assert_same_bits(a, b)
            continue
        # A pixel sums its boxes in another order then.  It differs by the rounding of a sum over
        # the bins of up to 300 boxes.
        np.testing.assert_allclose(a, b, rtol=0, atol=20 * np.finfo(dtype).eps * magnitude)
