"""Lets each allocation of a call fail in turn, and checks what must hold afterwards.

    python tests/failing_memory.py           # those of roicy's compiled code, and NumPy's arrays
    python tests/failing_memory.py threads   # threads that cannot be started

A call ends with MemoryError, has written nothing to `out`, leaves no memory behind, and the next
call gives the right bits.  The program starts itself again under a preloaded allocator, which it
compiles from failing_memory.c; a sanitizer that is preloaded stays.  Small allocations of Python
and NumPy do not fail here: NumPy itself ends the process after some of them.  Nothing is printed on
the way.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import roicy
from roicy._machine import _memory

SOURCE = Path(__file__).with_suffix(".c")
ARRAY_BYTES = 1024  # from here on it is the memory of an array: NumPy keeps smaller ones
MARK = 77  # what `out` holds before a call
RNG = np.random.default_rng(0)


def boxes_of(count, turned=False):
    """Return boxes (count, 5 or 6) of two images of 24 x 30."""
    low = RNG.uniform(0, 15, (count, 2))
    rows = np.c_[RNG.integers(0, 2, count), low, low + RNG.uniform(1, 12, (count, 2))]
    return np.c_[rows, RNG.uniform(-2, 2, count)].astype(np.float32) if turned else rows


def calls():
    """Return functions of `out` by their names, and the `out` of each, or None if it takes none."""
    x = RNG.standard_normal((2, 20, 24, 30)).astype(np.float32)
    maps = [x, np.ascontiguousarray(x[:, :, ::2, ::2])]
    boxes, turned = boxes_of(40), boxes_of(12, turned=True)
    grad = RNG.standard_normal((40, 20, 3, 3)).astype(np.float32)
    masks = RNG.random((4, 28, 28), np.float32)
    frame = RNG.integers(0, 256, (60, 80, 3), np.uint8)
    places = np.array([[1, 2, 30, 40], [5.5, 3, 60, 50], [0, 0, 79, 59]])
    _, argmax = roicy.roi_pool(x, boxes, 3, return_argmax=True)
    many = {"num_threads": 2}
    rle = {"format": "rle"} | many
    value, at = RNG.random((2, 120, 4, 5)).astype("f2"), RNG.random((2, 90, 4, 1, 60, 2))
    sampled = (value, [(12, 10)], at, at[..., 0])
    far = RNG.random((2, 90, 20)).astype("f2")
    levels = {"spatial_scale": [1.0, 0.5], "canonical_scale": 100}
    shape = x.shape
    pooled, of_map = np.zeros(grad.shape, np.float32), np.zeros(shape, np.float32)
    crops, pasted = np.zeros((3, 3, 16, 20), np.float32), np.zeros((4, 60, 80), np.uint8)
    four, both = np.r_[places, places[:1]], np.zeros(maps[1].shape, np.float32)
    found = {
        "align": (roicy.roi_align, pooled, x, boxes, 3, many),
        "align, float16": (roicy.roi_align, pooled.astype("f2"), x.astype("f2"), boxes, 3, {}),
        "align, boxes in lists": (
            roicy.roi_align, pooled, x, [boxes[:9, 1:], boxes[9:, 1:]], 3, {}),
        "pool": (roicy.roi_pool, pooled, x, boxes, 3, {"return_argmax": True}),
        "integral": (roicy.prroi_pool, pooled, x, boxes, 3, {}),
        "maxima": (roicy.roi_align_max, pooled, x, boxes, 3, {}),
        "turned": (roicy.roi_align_rotated, pooled[:12], x, turned, 3, many),
        "pyramid": (roicy.multiscale_roi_align, pooled, maps, boxes, 3, levels),
        "gradient of the map": (roicy.roi_align_backward, of_map, grad, boxes, shape, many),
        "gradient of a pyramid": (  # whose second level has no boxes
            roicy.multiscale_roi_align_backward, [of_map, both], grad, boxes, [shape, both.shape],
            levels),
        "gradient of turned": (
            roicy.roi_align_rotated_backward, of_map, grad[:12], turned, shape, {}),
        "gradient of pixels": (roicy.roi_pool_backward, of_map, grad, argmax, boxes, shape, many),
        "gradient of maxima": (roicy.roi_align_max_backward, of_map, grad, x, boxes, {}),
        "gradient of the boxes": (roicy.roi_align_backward_boxes, None, grad, x, boxes, {}),
        "gradient of turned boxes": (
            roicy.roi_align_rotated_backward_boxes, None, grad[:12], x, turned, {}),
        "crop": (roicy.crop, crops, frame, places, (16, 20), many),
        "warp": (roicy.crop, None, frame, np.c_[places, [1, 2, 3]], 9, {"boxes_num": [3]}),
        "YUV": (roicy.crop, None, frame[:, :, 0], places, 9, {"color": "nv12"}),
        "resize": (roicy.resize, crops, frame, (16, 20), places / 8, many),
        "paste": (roicy.paste_masks, pasted, masks, four, (60, 80), {}),
        "codes": (roicy.paste_masks, None, masks, four, (60, 80), rle),
        "labels": (roicy.label_map, pasted[0], masks, (60, 80), {"via": (30, 40)} | many),
        "codes of pictures": (roicy.resize_masks, None, masks, (60, 80), rle),
        "segments": (roicy.label_segments, None, masks, (60, 80), {"codes": True}),
        "mixed masks": (
            roicy.prototype_masks, pasted[:3], masks, masks[:3, 0, :4], places, (60, 80), many),
        "attention": (
            roicy.deformable_attention, np.zeros((2, 90, 20), np.float16), *sampled, many),
        "gradients of attention": (
            roicy.deformable_attention_backward, None, far, *sampled, {}),
        "kept result": (kept_result, None, x, boxes, {}),
    }  # fmt: skip
    return {name: call_of(*given) for name, given in (found | provider(x, boxes)).items()}


def call_of(function, out, *given):
    """Return a function of `out`, and the `out`."""
    *given, options = given
    call = functools.partial(function, *given, **options)
    return lambda out: call() if out is None else call(out=out), out


def kept_result(x, boxes):
    """Make a call whose result's memory comes from a result that is gone, and goes back."""
    _memory.LEAST = 1 << 14
    try:
        return roicy.roi_align(x, boxes, 7).copy()
    finally:
        _memory.LEAST = 1 << 25


def provider(x, boxes):
    """Return a run of a session of ONNX Runtime, where it is installed."""
    try:
        import onnx.parser
        import onnxruntime
    except ImportError:
        return {}
    import roicy.onnxruntime

    text = """<ir_version: 8, opset_import: ["": 16]>
    pool (float[2, 20, 24, 30] x, float[40, 4] boxes, int64[40] images) => (float[40, 20, 3, 3] y) {
        y = RoiAlign <output_height = 3, output_width = 3> (x, boxes, images)
    }"""
    labels = """<ir_version: 8, opset_import: ["": 16]>
    labels (float[2, 20, 24, 30] x) => (int64[n, h, w] y) <int64[4] sizes = {2, 20, 60, 80}> {
        enlarged = Resize <mode = "linear"> (x, "", "", sizes)
        y = ArgMax <axis = 1, keepdims = 0> (enlarged)
    }"""
    model, other = (onnx.parser.parse_model(one).SerializeToString() for one in (text, labels))

    def options():
        made = onnxruntime.SessionOptions()
        made.intra_op_num_threads, made.log_severity_level = 1, 4
        return roicy.onnxruntime.use(made)

    session = onnxruntime.InferenceSession(model, options())
    given = {"x": x, "boxes": boxes[:, 1:].astype("f4"), "images": boxes[:, 0].astype("i8")}
    of_labels = onnxruntime.InferenceSession(other, options())

    def from_scratch():
        # Where the provider fails to say what it takes, ONNX Runtime computes by itself, with other
        # last bits.
        return onnxruntime.InferenceSession(model, options()).run(None, given)[0].round(3)

    return {
        "node of labels": (of_labels.run, None, None, {"x": x}, {}),
        "node": (session.run, None, None, given, {}),
        "session": (from_scratch, None, {}),
    }


def bits(value):
    if isinstance(value, (list, tuple)):
        return [bits(part) for part in value]
    return value.tobytes() if isinstance(value, np.ndarray) else repr(value)


def lacks_memory(error):
    """Whether an error tells that memory is lacking."""
    told = re.search(r"no room|no \d+ bytes|Unable to allocate", str(error))
    # of NumPy where the indices of an assignment, or the numbers of a function, lack memory
    text = "without (exception set|setting an exception)"
    unset = isinstance(error, SystemError) and re.search(text, str(error))
    return isinstance(error, MemoryError) or unset or ("ONNXRuntimeError" in str(error) and told)


def sweep(library, name, call, out):
    """Let each allocation of a call fail; return how many there are, and what was wrong."""
    problems, n = [], 0
    outs = out if isinstance(out, list) else [] if out is None else [out]
    for _ in range(3):  # caches of all kinds are full afterwards
        expected = bits(call(out))
    while True:
        for array in outs:
            array[...] = MARK
        before = library.failing_live()
        try:
            library.failing_arm(n)
            result = call(out)
        except Exception as error:
            count = disarmed(library)
            if not lacks_memory(error):
                problems.append(f"{name}, allocation {n}: {error!r}")
            if any((array != MARK).any() for array in outs):
                problems.append(f"{name}, allocation {n}: wrote before the error")
        else:
            count = disarmed(library)
            if bits(result) != expected:
                problems.append(f"{name}, allocation {n}: a wrong result, and no error")
            del result
        gc.collect()
        left = library.failing_live() - before
        if left and left_again(library, call, out, n):
            problems.append(f"{name}, allocation {n}: {left} blocks left")
        if bits(call(out)) != expected:
            problems.append(f"{name}, allocation {n}: the next call is wrong")
        if count <= n:
            return n, problems
        n += 1


def left_again(library, call, out, n):
    """Return how many blocks are left when an allocation fails again: caches have grown before."""
    before = library.failing_live()
    with contextlib.suppress(Exception):
        library.failing_arm(n)
        call(out)
    disarmed(library)
    gc.collect()
    return library.failing_live() - before


def disarmed(library):
    """Let no allocation fail from now on; return how many there were."""
    try:
        return library.failing_disarm()
    except MemoryError:  # of the call of this function
        return library.failing_disarm()


def without_threads(library):
    """Let fewer and fewer threads start: calls compute on those that there are."""
    x = np.ones((2, 64, 100, 100), np.float32)
    boxes = boxes_of(500)
    expected = roicy.roi_align(x, boxes, 7, num_threads=1)
    for left in (2, 1, 0, -1):
        library.failing_threads(left)
        for threads in (2, 4, 3, 8, 2):
            result = roicy.roi_align(x, boxes, 7, num_threads=threads)
            if result.tobytes() != expected.tobytes():
                sys.exit(f"{threads} threads, of which {left} start: a wrong result")
    print("threads that cannot be started: right results")


def main(what):
    library = ctypes.CDLL(os.environ["FAILING_MEMORY"])
    for name in ("arm", "disarm", "live", "threads"):
        function = getattr(library, f"failing_{name}")
        function.argtypes = [ctypes.c_long] * (name in ("arm", "threads"))
        function.restype = ctypes.c_long if name in ("disarm", "live") else None
    if what == "threads":
        return without_threads(library)
    made = calls()
    for call, out in made.values():  # all libraries are loaded afterwards
        call(out)
    folder = str(Path(roicy.__file__).parent)
    if not library.failing_watch(folder.encode(), ctypes.c_size_t(0), 1):
        sys.exit(f"no library in {folder}")
    for others in (b"numpy", b"python"):
        library.failing_watch(others, ctypes.c_size_t(ARRAY_BYTES), 0)
    gc.freeze()  # what is there already does not need to be looked through each time
    problems = []
    for name, (call, out) in made.items():
        count, found = sweep(library, name, call, out)
        problems += found
        said = f"{count:6} allocations of {name}: {len(found)} problems"
        print(said, *found, sep="\n    ", flush=True)
    if problems:
        sys.exit(f"{len(problems)} problems")


def start(what):
    """Run this file with the allocator preloaded; return the finished process."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "failing_memory.so")
        command = [os.environ.get("CC", "cc"), "-O1", "-g", "-fPIC", "-shared", "-pthread"]
        subprocess.run([*command, str(SOURCE), "-o", str(library), "-ldl"], check=True)
        environment = os.environ | {
            "FAILING_MEMORY": str(library),
            "LD_PRELOAD": f"{library} {os.environ.get('LD_PRELOAD', '')}",
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
            "PYTHONPATH": str(Path(roicy.__file__).parents[1]),
        }
        return subprocess.run(
            [sys.executable, __file__, what], env=environment, capture_output=True, text=True
        )


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else "compiled"
    if "FAILING_MEMORY" in os.environ:
        main(what)
    else:
        done = start(what)
        print(done.stdout + done.stderr, end="")
        sys.exit(done.returncode)
