"""Results have the same bits for all threads, runs, strides and buffers; calls share no state."""

import threading

import numpy as np
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    SUMS,
    WAYS,
    WITH_BOX_GRADIENTS,
    assert_equal_but_for_order,
    assert_same_bits,
    copied_behind_a_line,
    from_layout,
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
from roicy import _cpu

ALL = (*SUMS, "roi_pool", "roi_align_max", "roi_align_rotated")
# Each shape is enough work for a team of threads: many blocks, fewer blocks than threads, many
# images, and a map that takes several tiles.
SHAPES = {
    "blocks": ((2, 100, 30, 40), 60, (5, 3)),
    "few": ((1, 3, 120, 160), 400, (9, 8)),
    "images": ((24, 16, 14, 14), 300, (7, 7)),
    "tiles": ((1, 20, 330, 420), 120, (4, 4)),
}


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
    out = operator(name)(copied_behind_a_line(x, 0, dtype), boxes, (3, 4), layout=layout)
    g = rng.standard_normal(out.shape).astype(dtype)
    grad_input = operator(name, "_backward")(
        copied_behind_a_line(g, 0, dtype), boxes, x.shape, layout=layout
    )
    for elements in (1, 2, 3, 4, 7, 15):
        assert_same_bits(
            operator(name)(copied_behind_a_line(x, elements, dtype), boxes, (3, 4), layout=layout),
            out,
        )
        assert_same_bits(
            operator(name, "_backward")(
                copied_behind_a_line(g, elements, dtype), boxes, x.shape, layout=layout
            ),
            grad_input,
        )


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


@pairs(aligned=[False, True], dtype=DTYPES, isa=ISAS)
def test_many_channels_last(aligned, dtype, isa, rng):
    """Pixels that many boxes read are copied together, some channels at a time.  The bits are those
    of channels first.
    """
    lanes = 64 // np.dtype(dtype).itemsize
    (n, c, h, w), bins = (2, 37 * lanes, 50, 62), (5, 7)
    low = rng.uniform(-5, (w - 15, h - 15), (100, 2))
    boxes = np.column_stack(
        [rng.integers(0, n, 100), low, low + rng.uniform(15, 30, (100, 2))]
    ).astype(dtype)
    memory = np.empty((n + 1) * h * w * c, dtype)
    first = -(memory.ctypes.data // memory.itemsize) % lanes + (0 if aligned else 3)
    x = memory[first : first + n * h * w * c].reshape(n, h, w, c)
    x[...] = rng.standard_normal(x.shape)
    planes = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    g = rng.standard_normal((len(boxes), c, *bins)).astype(dtype)
    g_last = np.ascontiguousarray(g.transpose(0, 2, 3, 1))
    for name in ("roi_align", "prroi_pool", "roi_pool", "roi_align_max"):
        expected = operator(name)(planes, boxes, bins)
        out = operator(name)(x, boxes, bins, layout="NHWC", num_threads=3)
        assert_same_bits(out, to_layout(expected, "NHWC"))
    expected, argmax = roicy.roi_pool(planes, boxes, bins, return_argmax=True)
    out, at = roicy.roi_pool(x, boxes, bins, return_argmax=True, layout="NHWC")
    assert_same_bits(at, to_layout(argmax, "NHWC"))
    expected = roicy.roi_align_backward_boxes(g, planes, boxes)
    assert_same_bits(roicy.roi_align_backward_boxes(g_last, x, boxes, layout="NHWC"), expected)


@pairs(name=["roi_align", "prroi_pool"], dtype=DTYPES, isa=ISAS)
def test_large_maps_channels_last(name, dtype, isa, rng):
    """The maps are larger than the caches, so that the next pixels of a few boxes are
    prefetched.  The bits are those of channels first, in gradients too.
    """
    lanes = 64 // np.dtype(dtype).itemsize
    n, c, h, w = 2, 4 * lanes + 3, 200, 190
    boxes = random_boxes(rng, n, 40, (h, w), dtype)
    boxes[:30, 3:] = boxes[:30, 1:3] + rng.uniform(1, 40, (30, 2))
    # These are wide, tall, partly off the map, and off the map.
    boxes[30:34] = (
        [0, 3, 8, 40, 9],
        [1, 7, 9, 8, 70],
        [1, w - 2, h - 3, w + 9, h + 5],
        [0, w + 50, h + 50, w + 60, h + 60],
    )
    planes = rng.standard_normal((n, c, h, w)).astype(dtype)
    assert h * w * 4 * 64 > 8 << 20
    g = rng.standard_normal((n * 20, c, 5, 6)).astype(dtype)
    same_passes(name, planes, boxes, g, [("NCHW", 2), ("NHWC", 1), ("NHWC", 3)])


@pairs(name=["roi_align", "prroi_pool"], dtype=DTYPES, isa=ISAS)
def test_wide_pixels_channels_last(name, dtype, isa, rng):
    """A row of bins with all of its channels does not fit scratch, so that gradients are summed in
    several turns.  The bits are those of channels first.
    """
    lanes = 64 // np.dtype(dtype).itemsize
    (n, c, h, w), bins = (2, 260 * lanes + 3, 13, 9), (3, 17)
    boxes = random_boxes(rng, n, 5, (h, w), dtype)
    # In these boxes, each row of pixels reads the same bins as the row before, in either direction.
    boxes[:2, 1:] = [1, 2, 4, 5], [7, 6, 3, 2]
    g = rng.standard_normal((len(boxes), c, *bins)).astype(dtype)
    assert 260 * 64 * bins[1] > 256 << 10
    x = rng.standard_normal((n, c, h, w)).astype(dtype)
    same_passes(name, x, boxes, g, [("NCHW", 2), ("NHWC", 1), ("NHWC", 3)])


@pairs(
    name=["roi_align", "ps_roi_align", "prroi_pool", "roi_pool", "roi_align_max"],
    dtype=DTYPES,
    isa=ISAS,
)
def test_rows_are_shared_beside_tall_boxes(name, dtype, isa, rng):
    """Boxes share packed rows, except those with more rows than the tile holds.  Each box has the
    bits that it has alone.
    """
    c, h, w, bins = 24, 330, 260, (3, 2)
    x = rng.standard_normal((1, c, h, w)).astype(dtype)
    low = rng.uniform((0, 0), (w - 40, h - 40), (150, 2))
    boxes = np.column_stack([np.zeros(150), low, low + rng.uniform(10, 40, (150, 2))]).astype(dtype)
    boxes[::40, 2], boxes[::40, 4] = 5, h - 10
    boxes[0, [1, 3]], boxes[120, [1, 3]] = (2, 30), (w - 30, w - 2)
    boxes[40, [2, 4]] = boxes[40, [4, 2]]
    out = operator(name)(x, boxes, bins)
    for k in [*range(0, 150, 40), 1, 70, 149]:
        assert_same_bits(operator(name)(x, boxes[k : k + 1], bins), out[k : k + 1])
    if name in WITH_BOX_GRADIENTS:
        g = rng.standard_normal(out.shape).astype(dtype)
        grad = operator(name, "_backward_boxes")(g, x, boxes)
        for k in [*range(0, 150, 40), 1, 70, 149]:
            assert_same_bits(
                operator(name, "_backward_boxes")(g[k : k + 1], x, boxes[k : k + 1]),
                grad[k : k + 1],
            )


@pairs(name=["roi_align", "prroi_pool", "roi_pool", "roi_align_max"], dtype=DTYPES, isa=ISAS)
def test_large_boxes_channels_last(name, dtype, isa, rng):
    """The boxes are so large that their pixels do not fit the tile with all channels.  So some
    channels at a time are copied together.  The bits are those of channels first.
    """
    n, c, h, w = 2, 9 * 64 // np.dtype(dtype).itemsize, 130, 140
    boxes = np.array([[0, -3, -2, w, h], [1, 1, 2, w, h - 1]] * 6 + [[1, w, h, w - 5, -9]], dtype)
    planes = rng.standard_normal((n, c, h, w)).astype(dtype)
    pixels = to_layout(planes, "NHWC")
    expected = operator(name)(planes, boxes, (2, 3))
    for threads in (1, 2):
        out = operator(name)(pixels, boxes, (2, 3), layout="NHWC", num_threads=threads)
        assert_same_bits(to_layout(expected, "NHWC"), out)


@pairs(name=["roi_align", "prroi_pool"], dtype=DTYPES, isa=ISAS)
def test_rows_are_shared(name, dtype, isa, rng):
    """Boxes with gaps between them share packed rows.  Each box has the bits that it has alone."""
    count, bins, w, h = 200, (7, 5), 300, 60
    x = rng.standard_normal((2, 20, h, w)).astype(dtype)
    low = rng.uniform((-10, -10), (w - 10, h - 10), (count, 2))
    boxes = np.column_stack(
        [np.sort(rng.integers(0, 2, count)), low, low + rng.uniform(10, 30, (count, 2))]
    ).astype(dtype)
    boxes[5, 1:] += 5000  # this box is off the map
    boxes[6, [2, 4]] = boxes[6, [4, 2]]
    halves = [x.astype(np.float16)] if name == "roi_align" and dtype == np.float32 else []
    for array in (x, *halves):
        out = operator(name)(array, boxes, bins, 1.0, num_threads=2)
        for k in range(count):
            assert_same_bits(operator(name)(array, boxes[k : k + 1], bins, 1.0), out[k : k + 1])


# There are few bins, several, and more than are computed together.
@pairs(
    name=["roi_align", "prroi_pool"],
    bins=[(7, 7), (14, 9), (40, 33)],
    layout=LAYOUTS,
    dtype=DTYPES,
    isa=ISAS,
)
def test_wide_boxes(name, bins, layout, dtype, isa, rng):
    """Wide boxes are contracted along x first.  The bits are those of the transposed box on the
    transposed map, which is contracted along y first.
    """
    c = 3 * (64 // np.dtype(dtype).itemsize) + 5
    x = rng.standard_normal((2, c, 30, 260)).astype(dtype)
    low = rng.uniform((-20, -5), (60, 25), (30, 2))
    boxes = np.column_stack(
        [rng.integers(0, 2, 30), low, low + rng.uniform((120, 1), (250, 12), (30, 2))]
    ).astype(dtype)
    function = operator(name)
    expected = function(
        x.transpose(0, 1, 3, 2).copy(), boxes[:, [0, 2, 1, 4, 3]], bins[::-1]
    ).transpose(0, 1, 3, 2)
    # With NHWC, the channels of this result still lie apart.
    seen = from_layout(to_layout(x, layout), layout)
    assert_same_bits(function(seen, boxes, bins, num_threads=2), np.ascontiguousarray(expected))
    assert_same_bits(
        function(to_layout(x, layout), boxes, bins, layout=layout, num_threads=1),
        to_layout(expected, layout),
    )


@pairs(
    channels=[1, 10, 16, 21],
    extents=[(20, 30), (9, 7)],
    layout=LAYOUTS,
    dtype=DTYPES,
    isa=ISAS,
)
def test_position_sensitive(channels, extents, layout, dtype, isa, rng):
    """Each bin agrees with roi_align on the channels that it reads, but y is contracted first.  Few
    boxes have the same bits as more boxes than are computed together.
    """
    bins = (3, 4)
    x = rng.standard_normal((2, channels * 12, *extents)).astype(dtype)
    boxes = random_boxes(rng, 2, 2000, extents, dtype)
    every = roicy.roi_align(x, boxes, bins, sampling_ratio=2, aligned=True).reshape(
        len(boxes), channels, 12, 12
    )
    every = every[:, :, np.arange(12), np.arange(12)].reshape(len(boxes), channels, *bins)
    expected = roicy.ps_roi_align(x, boxes, bins, sampling_ratio=2)
    assert_equal_but_for_order(
        expected, every, roicy.ps_roi_align(np.abs(x), boxes, bins, sampling_ratio=2), extents, bins
    )
    x = to_layout(x, layout)
    for some in (slice(None), slice(3, 9)):
        for threads in (1, 3):
            out = roicy.ps_roi_align(
                x, boxes[some], bins, sampling_ratio=2, layout=layout, num_threads=threads
            )
            assert_same_bits(out, to_layout(expected[some], layout))


@pairs(channels=[5, 16, 21], bins=[(2, 2), (5, 7), (1, 16)], dtype=DTYPES, isa=ISAS)
def test_bins_of_a_pixel_together(channels, bins, dtype, isa, rng):
    """With channels last, the pixels that boxes read are transposed for several bins at once.  The
    bits are those of channels first, for each type of the map.
    """
    (h, w), groups = (40, 30), bins[0] * bins[1]
    low = rng.uniform((5, 3), (w - 12, h - 20), (600, 2))  # no box reads the pixels near the edges
    boxes = np.column_stack(
        [rng.integers(0, 2, 600), low, low + rng.uniform(4, 10, (600, 2))]
    ).astype(dtype)
    maps = {"dense": rng.integers(0, 256, (2, h, w, channels * groups)).astype(dtype)}
    maps["spaced"] = np.zeros((2, 2 * h, w, channels * groups + 5), dtype)[:, ::2, ::-1, 2:-3]
    maps["spaced"][...] = maps["dense"]
    if dtype == np.float32:
        maps["bytes"], maps["halves"] = (
            maps["dense"].astype(np.uint8),
            maps["dense"].astype(np.float16),
        )
    planes = np.ascontiguousarray(maps["dense"].transpose(0, 3, 1, 2))
    expected = roicy.ps_roi_align(planes, boxes, bins, sampling_ratio=2)
    g = rng.standard_normal(expected.shape).astype(dtype)
    of_boxes = roicy.ps_roi_align_backward_boxes(g, planes, boxes, sampling_ratio=2)
    for x in maps.values():
        out = roicy.ps_roi_align(x, boxes, bins, sampling_ratio=2, layout="NHWC", num_threads=1)
        # Results of a map of float16 are float16, too.
        assert_same_bits(out, to_layout(expected, "NHWC").astype(out.dtype))
    for x in (maps["dense"], maps["spaced"]):
        assert_same_bits(
            roicy.ps_roi_align_backward_boxes(
                to_layout(g, "NHWC"), x, boxes, sampling_ratio=2, layout="NHWC", num_threads=1
            ),
            of_boxes,
        )
    assert_same_bits(
        roicy.ps_roi_align(
            maps["spaced"], boxes, bins, sampling_ratio=2, layout="NHWC", num_threads=3
        ),
        to_layout(expected, "NHWC"),
    )
    of_input = roicy.ps_roi_align_backward(g, boxes, planes.shape, sampling_ratio=2)
    for out in (maps["dense"], maps["spaced"]):  # the maps are overwritten
        roicy.ps_roi_align_backward(
            to_layout(g, "NHWC"), boxes, out.shape, sampling_ratio=2, layout="NHWC", out=out
        )
        assert_same_bits(np.ascontiguousarray(out), to_layout(of_input, "NHWC"))


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
    h, w = (24, 30) if c > 600 else (150, 190)
    bins, options = (2, 3), taken(name, sampling_ratio=1 if c > 600 else -1)
    if name.startswith("ps_"):
        bins = (2, 2)
        c -= c % 4
    boxes = random_boxes(rng, 2, 12, (h, w), dtype)
    boxes[:4] = [[0, 0, 0, w, h], [1, 1, -5, w - 2, h + 3], [0, w, h, 0, 0], [1, 2, 3, 2.5, 3.5]]
    x = rng.standard_normal((2, c, h, w)).astype(dtype)
    g = rng.standard_normal(operator(name)(x, boxes, bins, **options).shape).astype(dtype)
    backward = operator(name, "_backward_boxes")
    expected = backward(g, x, boxes, num_threads=1, **options)
    step = 16 * bins[0] * bins[1] if name.startswith("ps_") else 16
    parts = [
        backward(
            g[:, i * 16 : i * 16 + 16], x[:, i * step : (i + 1) * step], boxes, **options
        ).astype(float)
        for i in range(-(-c // step))
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
def test_boxes_in_steps(name, layout, dtype, isa, monkeypatch, rng):
    """Many boxes are pooled in several steps, which changes no bits but of sums over boxes."""
    x, boxes, g = make(rng, name, "images", dtype)
    given = {"layout": layout, "spatial_scale": 0.5}
    at_once = passes(name, x, boxes, g, **given)
    magnitude = passes(name, x, boxes, np.abs(g), **given)[1 + (name == "roi_pool")].max()
    monkeypatch.setattr(_cpu, "MAX_BOXES", 37)
    for a, b in zip(passes(name, x, boxes, g, **given), at_once, strict=True):
        if a.shape != x.shape:
            assert_same_bits(a, b)
            continue
        # A pixel sums its boxes in another order then.  It differs by the rounding of a sum over
        # the bins of up to 300 boxes.
        np.testing.assert_allclose(a, b, rtol=0, atol=20 * np.finfo(dtype).eps * magnitude)


def test_many_python_threads(rng):
    x, boxes, g = make(rng, "roi_align", "blocks", np.float32)
    bins = g.shape[2:]
    expected = roicy.roi_align(x, boxes, bins, 0.5)
    results = [None] * 8

    def work(i):
        for _ in range(10):
            results[i] = roicy.roi_align(x, boxes, bins, 0.5, num_threads=1 + i % 3)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(results))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        assert_same_bits(result, expected)
