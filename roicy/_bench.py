"""
The benchmark: roicy and other installed libraries take turns on the same arrays.

A time means little if a library computes something else.  So the result of each call is compared
with roicy's, and the largest difference is printed beside the time.
"""

from __future__ import annotations

import importlib.util
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

import roicy

from . import _bench_crop, _bench_masks, _timing
from ._scaling import can_run
from ._workloads import CROPS, MASKS, WORKLOADS, Workload, call, each_level

ROUNDS = 5
SECONDS = 0.25  # in each round, a call is repeated for so long


class Unsupported(Exception):
    """Raised if a library lacks an operator, or this pass of it."""


def bins(workload):
    """Return the number of bins and the scale, in the order in which operators take them."""
    return workload.output_size, workload.spatial_scale


class TorchVision:
    """torchvision on the CPU, where its kernels always run on one thread."""

    package = "torchvision"

    def __init__(self, threads):
        import torch
        import torchvision

        torch.set_num_threads(threads)
        self.torch, self.ops = torch, torchvision.ops
        self.version = torchvision.__version__

    def put(self, array):
        return self.torch.from_numpy(array)

    def done(self, results):
        return [result.numpy() for result in results]

    def pooling(self, workload, maps, boxes):
        """Return a function of no arguments that calls the operator."""
        if workload.levels == 1:
            operator = getattr(self.ops, workload.operator, None)
            if operator is None:
                raise Unsupported
            return lambda: operator(*maps, boxes, *bins(workload), **workload.parameters)
        names = [str(level) for level in range(workload.levels)]
        pooler = self.ops.MultiScaleRoIAlign(names, workload.output_size, **workload.parameters)
        features = dict(zip(names, maps, strict=True))
        of_images = [boxes[boxes[:, 0] == n, 1:] for n in range(workload.shape[0])]
        image = tuple(round(extent / workload.spatial_scale) for extent in workload.shape[2:])
        return lambda: pooler(features, of_images, [image] * len(of_images))

    def prepare(self, workload, arrays, direction):
        if direction == "backward_boxes":
            raise Unsupported
        maps = [self.put(array) for array in each_level(arrays["input"])]
        boxes, grad = self.put(arrays["boxes"]), self.put(arrays["grad_output"])
        forward = self.pooling(workload, maps, boxes)
        if direction == "forward":
            return lambda: self.done([forward()])[0]
        for level in maps:
            level.requires_grad_()
        output = forward()
        return lambda: self.done(self.torch.autograd.grad(output, maps, grad, retain_graph=True))


class TorchVisionCuda(TorchVision):
    """torchvision on the GPU; a call lasts until the GPU has finished."""

    def __init__(self, threads):
        super().__init__(threads)
        if not self.torch.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")
        self.version += " GPU"

    def put(self, array):
        return self.torch.from_numpy(array).cuda()

    def done(self, results):
        self.torch.cuda.synchronize()
        return results


class CuPy:
    """roicy on the GPU; a call lasts until the GPU has finished."""

    package = "cupy"

    def __init__(self, threads):
        import cupy

        if not cupy.cuda.is_available():
            raise ImportError("CuPy sees no GPU")
        self.cupy = cupy
        self.version = f"{cupy.__version__}, roicy on the GPU"

    def prepare(self, workload, arrays, direction):
        function = call(
            roicy,
            workload,
            arrays,
            direction,
            "NCHW",
            direction != "backward_boxes",
            1,
            self.cupy.asarray,
        )
        return lambda: (function(), self.cupy.cuda.get_current_stream().synchronize())[0]


class OnnxRuntime:
    package = "onnxruntime"

    def __init__(self, threads):
        import onnx  # it makes the model
        import onnxruntime

        self.onnx, self.runtime, self.threads = onnx, onnxruntime, threads
        self.version = onnxruntime.__version__

    def prepare(self, workload, arrays, direction):
        if workload.operator != "roi_align" or direction != "forward":
            raise Unsupported  # MaxRoiPool rounds coordinates differently
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        boxes = arrays["boxes"]
        feeds = {
            "input": arrays["input"],
            "boxes": np.ascontiguousarray(boxes[:, 1:]),
            "images": boxes[:, 0].astype(np.int64),
        }
        node = helper.make_node(
            "RoiAlign",
            list(feeds),
            ["output"],
            output_height=workload.output_size[0],
            output_width=workload.output_size[1],
            spatial_scale=workload.spatial_scale,
            sampling_ratio=max(workload.parameters["sampling_ratio"], 0),
            coordinate_transformation_mode="half_pixel"
            if workload.parameters.get("aligned")
            else "output_half_pixel",
        )
        kind = {"float32": kinds.FLOAT, "float64": kinds.DOUBLE}[str(boxes.dtype)]
        inputs = [
            helper.make_tensor_value_info(
                name, kinds.INT64 if name == "images" else kind, array.shape
            )
            for name, array in feeds.items()
        ]
        graph = helper.make_graph(
            [node], "one", inputs, [helper.make_tensor_value_info("output", kind, None)]
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=10)
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = self.runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return lambda: session.run(None, feeds)[0]


class OpenVino:
    """
    OpenVINO's kernel for channels last, which it uses inside networks.

    The map is brought to this layout when the model is loaded, and the result keeps it.
    """

    package = "openvino"

    def __init__(self, threads):
        import openvino

        self.openvino = openvino
        self.core = openvino.Core()
        self.options = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
        }
        self.version = openvino.__version__.split("-")[0]

    def prepare(self, workload, arrays, direction):
        from openvino import opset15 as ops

        if (
            direction != "forward"
            or workload.operator not in ("roi_align", "roi_align_rotated", "roi_pool")
            or arrays["input"].dtype != np.float32
        ):
            raise Unsupported
        boxes = arrays["boxes"]
        # OpenVINO takes the layout from a convolution to what follows it.  This one multiplies a
        # constant by one, so it is computed only once, when the model is compiled.
        one = np.ones((workload.shape[1], 1, 1, 1, 1), np.float32)
        input = ops.group_convolution(
            ops.constant(arrays["input"]), ops.constant(one), [1, 1], [0, 0], [0, 0], [1, 1]
        )
        (height, width), scale = bins(workload)
        if workload.operator == "roi_align":
            feeds = [np.ascontiguousarray(boxes[:, 1:]), boxes[:, 0].astype(np.int32)]
            rows = [ops.parameter(list(feed.shape), feed.dtype) for feed in feeds]
            mode = "half_pixel_for_nn" if workload.parameters.get("aligned") else "asymmetric"
            node = ops.roi_align(
                input,
                *rows,
                height,
                width,
                max(workload.parameters["sampling_ratio"], 0),
                scale,
                "avg",
                mode,
            )
            node = ops.transpose(node, ops.constant(np.array([0, 2, 3, 1])))
        elif workload.operator == "roi_align_rotated":  # it has no kernel for channels last
            feeds = [np.ascontiguousarray(boxes[:, 1:]), boxes[:, 0].astype(np.int32)]
            rows = [ops.parameter(list(feed.shape), feed.dtype) for feed in feeds]
            ratio = max(workload.parameters["sampling_ratio"], 0)
            input = ops.constant(arrays["input"])
            node = ops.roi_align_rotated(input, *rows, height, width, ratio, scale, False)
        else:
            feeds = [boxes]
            rows = [ops.parameter(list(boxes.shape), np.float32)]
            node = ops.roi_pooling(input, *rows, [height, width], scale, "max")
        compiled = self.core.compile_model(
            self.openvino.Model([node], rows, "one"), "CPU", self.options
        )
        request = compiled.create_infer_request()
        tensors = [self.openvino.Tensor(feed, shared_memory=True) for feed in feeds]
        out = np.empty(tuple(compiled.outputs[0].shape), np.float32)
        tensors.append(self.openvino.Tensor(out, shared_memory=True))
        for port, tensor in zip([*compiled.inputs, compiled.outputs[0]], tensors, strict=True):
            request.set_tensor(port, tensor)
        result = out.transpose(0, 3, 1, 2) if workload.operator == "roi_align" else out

        def infer(_shared=feeds):  # this keeps the arrays alive, which the tensors do not
            request.start_async()
            request.wait()
            return result

        return infer


class Paddle:
    package = "paddle"

    def __init__(self, threads):
        import paddle

        paddle.set_device("cpu")
        self.paddle = paddle
        self.version = paddle.__version__

    def prepare(self, workload, arrays, direction):
        if workload.operator not in ("roi_align", "roi_pool") or direction != "forward":
            raise Unsupported
        operator = getattr(self.paddle.vision.ops, workload.operator)
        counts = np.bincount(arrays["boxes"][:, 0].astype(int), minlength=workload.shape[0]).astype(
            np.int32
        )
        input, boxes, counts = (
            self.paddle.to_tensor(array)
            for array in (arrays["input"], arrays["boxes"][:, 1:].copy(), counts)
        )
        parameters = (
            {"aligned": False} | workload.parameters if workload.operator == "roi_align" else {}
        )
        return lambda: operator(input, boxes, counts, *bins(workload), **parameters).numpy()


PEERS = (TorchVision, OnnxRuntime, OpenVino, Paddle, CuPy, TorchVisionCuda)


def installed(threads: int) -> Iterator[Any]:
    """Yield the libraries that can be imported."""
    for peer in PEERS:
        if importlib.util.find_spec(peer.package) is None:
            continue
        try:
            yield peer(threads)
        except ImportError as error:
            print(f"{peer.package}: left out, {error}", file=sys.stderr)


def own(
    workload: Workload, arrays: dict[str, np.ndarray], direction: str, threads: int
) -> dict[str, Callable[[], Any]]:
    """Return calls of roicy, by names that say what makes one faster than another."""
    calls = {"roicy": call(roicy, workload, arrays, direction, "NCHW", False, threads)}
    if direction == "backward_boxes":
        calls["roicy NHWC"] = call(roicy, workload, arrays, direction, "NHWC", False, threads)
    else:
        calls["roicy out="] = call(roicy, workload, arrays, direction, "NCHW", True, threads)
        last = call(roicy, workload, arrays, direction, "NHWC", True, threads)
        calls["roicy NHWC out="] = lambda: [
            result.transpose(0, 3, 1, 2) for result in each_level(last())
        ]
    return calls


def on_host(result: Any) -> np.ndarray:
    """Return a result of any library as a NumPy array."""
    if hasattr(result, "cpu"):  # PyTorch's
        result = result.detach().cpu().numpy()
    return result.get() if hasattr(result, "get") else result  # CuPy's


def best_of(function: Callable[[], Any], seconds: float) -> float:
    """
    Return the least time of at least one call, and of as many as fit into `seconds`.

    A first call is not timed.
    """
    best, end = float("inf"), time.perf_counter() + seconds
    function()
    while True:
        start = time.perf_counter()
        function()
        now = time.perf_counter()
        best = min(best, now - start)
        if now >= end:
            return best


def copy_rate() -> float:
    """Return the bytes that one thread reads and writes in a second when it copies memory."""
    source = np.ones(16 << 20)
    target = np.zeros_like(source)
    return 2 * source.nbytes / best_of(lambda: np.copyto(target, source), 0.5)


def prepared(
    name: str, direction: str, dtype: str, threads: int, peers: list[Any]
) -> tuple[dict[str, Callable[[], Any]], int]:
    """Return the calls of all libraries on one workload, and how many bytes they have to read."""
    if name in CROPS:
        return _bench_crop.calls(name, threads)
    if name in MASKS:
        return _bench_masks.calls(name, threads)
    workload = WORKLOADS[name]
    arrays = workload.arrays(dtype)
    calls = own(workload, arrays, direction, threads)
    for peer in peers:
        try:
            calls[f"{peer.package} {peer.version}"] = peer.prepare(workload, arrays, direction)
        except Unsupported:
            continue
    read = arrays["grad_output"] if direction == "backward" else arrays["input"]
    return calls, sum(array.nbytes for array in each_level(read))


def measure(
    name: str,
    direction: str,
    dtype: str,
    threads: int,
    peers: list[Any],
    rounds: int,
    progress: Any,
) -> dict[str, Any]:
    """Return the times and differences of all libraries on one workload; they take turns."""
    calls, read = prepared(name, direction, dtype, threads, peers)
    expected = each_level(calls["roicy"]())
    scale = max(*(float(np.abs(result).max()) for result in expected), np.finfo(dtype).tiny)
    differences = {}
    for key, function in calls.items():
        pairs = zip(each_level(function()), expected, strict=True)
        differences[key] = (
            max(difference(on_host(result), other) for result, other in pairs) / scale
        )
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for key, function in calls.items():
            progress.set_postfix_str(f"{name} {direction} {key}")
            seconds[key] = min(seconds[key], best_of(function, SECONDS))
        progress.update()
    moved = read + sum(array.nbytes for array in expected)
    return {
        "workload": name,
        "direction": direction,
        "dtype": dtype,
        "threads": threads,
        "seconds": seconds,
        "differences": differences,
        "bytes": moved,
    }


def difference(result: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference of two results; infinity if their shapes differ."""
    if result.shape != expected.shape:
        return float("inf")
    dtype = np.result_type(expected, np.float32)
    return float(np.abs(np.subtract(result, expected, dtype=dtype)).max(initial=0))


def table(results: list[dict[str, Any]], rate: float) -> str:
    """Return the results as text: each call has a row, and its time is compared with roicy's."""
    lines = [
        f"{'workload':<19} {'pass':<14} {'threads':>7}"
        f"  {'call':<22} {'ms':>9} {'of roicy':>9} {'of a copy':>9}  difference"
    ]
    for result in results:
        reference = result["seconds"]["roicy"]
        for key, seconds in result["seconds"].items():
            lines.append(
                f"{result['workload']:<19} {result['direction']:<14} "
                f"{result['threads']:>7}  {key:<22} {seconds * 1e3:>9.3f} "
                f"{seconds / reference:>8.2f}x {seconds / (result['bytes'] / rate):>8.1f}x  "
                f"{result['differences'][key]:.1e}"
            )
    lines.append("")
    lines.append(
        "of a copy: the time over that of copying as many bytes as are "
        "read and written at the least, on one thread"
    )
    lines.append("difference: the largest, over the largest value of the result")
    return "\n".join(lines)


COLOURS = ("#2e86ab", "#5aa9a2", "#f2a65a", "#6c757d", "#8d6a9f")


def _labels(results: list[dict[str, Any]], first: str) -> tuple[str, list[str]]:
    """Return what all calls have in common, and what tells each of them from the others."""
    kinds = [
        f"{result['direction']}, {result['threads']} thread{'s' * (result['threads'] > 1)}, "
        for result in results
    ]
    shared = kinds[0] if len(set(kinds)) == 1 else ""
    return shared, [
        f"{result['workload']}\n{'' if shared else kind}{result['seconds'][first] * 1e3:.3g} ms"
        for result, kind in zip(results, kinds, strict=True)
    ]


def plot(results: list[dict[str, Any]], path: str, title: str) -> None:
    """Draw how many times as long as roicy the others take, roicy's own variants left out."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    # On a phone, a picture of this width shows 12 points as 9 pixels.
    plt.rcParams["font.size"] = 12
    names = list(dict.fromkeys(key for result in results for key in result["seconds"]))
    others = [name for name in names if not name.startswith("roicy")] or names[1:]
    height = 0.8 / max(len(others), 1)
    figure, axes = plt.subplots(figsize=(5.2, 1.5 + 0.62 * len(results)))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    for at, name in enumerate(others):
        rows = [row for row, result in enumerate(results) if name in result["seconds"]]
        ratios = [results[row]["seconds"][name] / results[row]["seconds"][names[0]] for row in rows]
        bars = axes.barh(
            [row - 0.4 + (at + 0.5) * height for row in rows],
            [ratio - 1 for ratio in ratios],
            height * 0.9,
            left=1,
            color=COLOURS[at % len(COLOURS)],
            label=name,
        )
        labels = [f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:.0f}" for ratio in ratios]
        axes.bar_label(bars, labels, padding=3)
    axes.axvline(1, color="#1b1f24", linewidth=1)
    shared, labels = _labels(results, names[0])
    axes.set_yticks(range(len(results)), labels)
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel(f"times as long as {names[0]} takes\n(longer bars are slower libraries)")
    title = textwrap.fill(shared + title, 44)
    axes.set_title(title, fontsize=11, loc="left", color="#57606a")
    if others:
        figure.legend(loc="upper left", bbox_to_anchor=(0, 0), ncols=2, frameon=False)
    figure.savefig(path, dpi=140, bbox_inches="tight")
    plt.close(figure)


def run(
    workloads: list[str],
    directions: list[str],
    dtype: str,
    threads: list[int],
    rounds: int,
    plot_path: str | None,
) -> dict[str, Any]:
    """Measure, print the table, draw it where that was asked for, and return the results."""
    title, rate = _timing.title(), copy_rate()
    work = [
        (count, name, direction)
        for count in threads
        for direction in directions
        for name in workloads
        if can_run(name, direction)
    ]
    results = []
    with tqdm(total=len(work) * rounds, disable=None, leave=False) as progress:
        peers: list[Any] = []
        for at, (count, name, direction) in enumerate(work):
            if at == 0 or count != work[at - 1][0]:
                peers = list(installed(count))
            results.append(measure(name, direction, dtype, count, peers, rounds, progress))
    print(
        f"{title}; one thread copies {rate / 1e9:.0f} GB/s, "
        f"read and written; {dtype}\n\n{table(results, rate)}"
    )
    if plot_path:
        plot(results, plot_path, title)
    return {"title": title, "copy_rate": rate, "results": results}
