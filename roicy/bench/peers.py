"""
The other libraries that the benchmark times: each makes its call of a workload.

Each class has `package`, the name of what is imported, a `version`, and `prepare`, which returns a
function without parameters or raises Unsupported.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import roicy

from .workloads import each_level


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
        function = workload.call(roicy, arrays, direction, reuse=True, put=self.cupy.asarray)
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
