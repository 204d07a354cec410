"""The other libraries that the benchmark times: each makes its call of a workload.

Each class has `package`, what is imported; `takes`, the classes of its workloads; the `name` that
is printed; and `prepare`, which returns a function without parameters, or None where the library
lacks the operator or this pass of it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import peers_of_labels
from .peers_of_images import OpenCV, Pillow, pasted_masks
from .workloads import AttentionWorkload, LabelWorkload, MaskWorkload, Workload, each_level


class TorchVision:
    """torchvision, whose kernels always run on one thread of the CPU."""

    package, takes = "torchvision", (Workload, MaskWorkload)

    def __init__(self, threads):
        import torch
        import torchvision

        torch.set_num_threads(threads)
        self.torch, self.ops = torch, torchvision.ops
        self.name = f"torchvision {torchvision.__version__}"

    def put(self, array):
        return self.torch.from_numpy(array)

    def done(self, results):
        return [result.numpy() for result in results]

    def pooling(self, workload, maps, boxes):
        """Return a function without parameters, or None where torchvision lacks the operator."""
        size, scale = workload.output_size, workload.spatial_scale
        if workload.levels == 1:
            operator = getattr(self.ops, workload.operator, None)
            if operator is None:
                return None
            return lambda: operator(*maps, boxes, size, scale, **workload.parameters)
        names = [str(level) for level in range(workload.levels)]
        pooler = self.ops.MultiScaleRoIAlign(names, size, **workload.parameters)
        features = dict(zip(names, maps, strict=True))
        of_images = [boxes[boxes[:, 0] == n, 1:] for n in range(workload.shape[0])]
        image = tuple(round(extent / scale) for extent in workload.shape[2:])
        return lambda: pooler(features, of_images, [image] * len(of_images))

    def prepare(self, workload, arrays, direction):
        if isinstance(workload, MaskWorkload):
            return pasted_masks(self.torch, workload, arrays)
        if direction == "backward_boxes":
            return None
        maps = [self.put(array) for array in each_level(arrays["input"])]
        boxes, grad = self.put(arrays["boxes"]), self.put(arrays["grad_output"])
        forward = self.pooling(workload, maps, boxes)
        if forward is None:
            return None
        if direction == "forward":
            return lambda: self.done([forward()])[0]
        for level in maps:
            level.requires_grad_()
        output = forward()
        return lambda: self.done(self.torch.autograd.grad(output, maps, grad, retain_graph=True))


class PyTorch:
    """PyTorch's grid_sample of each level, or its interpolate, as models have them."""

    package, takes = "torch", (AttentionWorkload, LabelWorkload)

    def __init__(self, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch, self.name = torch, f"torch {torch.__version__}"

    def prepare(self, workload, arrays, direction):
        if isinstance(workload, LabelWorkload):
            return peers_of_labels.of_pytorch(self.torch, workload, arrays)
        *inputs, grad = (self.torch.from_numpy(array) for array in arrays.values())
        value, places, weights = inputs
        sample, shapes = self.torch.nn.functional.grid_sample, workload.shapes

        def attend():
            levels = value.flatten(2).transpose(1, 2).split([h * w for h, w in shapes], -1)
            samples = []
            for i, (level, (height, width)) in enumerate(zip(levels, shapes, strict=True)):
                grid = (2 * places[:, :, :, i] - 1).transpose(1, 2).flatten(0, 1)
                planes = level.reshape(-1, value.shape[3], height, width)
                samples.append(sample(planes, grid, align_corners=False))
            by = weights.transpose(1, 2).flatten(0, 1).flatten(2)[:, None]
            sums = (self.torch.cat(samples, -1) * by).sum(-1)
            return sums.reshape(1, -1, sums.shape[2]).transpose(1, 2).contiguous()

        if direction == "forward":
            return lambda: attend().numpy()
        for array in inputs:
            array.requires_grad_()
        gradients, output = self.torch.autograd.grad, attend()
        return lambda: [one.numpy() for one in gradients(output, inputs, grad, retain_graph=True)]


class OnnxRuntime:
    package, takes = "onnxruntime", (Workload, LabelWorkload)

    def __init__(self, threads):
        import onnx.parser  # it makes the model
        import onnxruntime

        self.parse, self.runtime, self.threads = onnx.parser.parse_model, onnxruntime, threads
        self.name = f"onnxruntime {onnxruntime.__version__}"

    def session(self, text):
        """Return a session of a model that is given as text."""
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        model = self.parse(text).SerializeToString()
        return self.runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def prepare(self, workload, arrays, direction):
        if isinstance(workload, LabelWorkload):
            return peers_of_labels.of_onnxruntime(self.session, workload, arrays)
        if workload.operator != "roi_align" or direction != "forward":
            return None  # MaxRoiPool rounds coordinates differently
        kind = {"float32": "float", "float64": "double"}[str(arrays["boxes"].dtype)]
        (height, width), ratio = workload.output_size, workload.parameters["sampling_ratio"]
        mode = "half_pixel" if workload.parameters.get("aligned") else "output_half_pixel"
        session = self.session(f"""
            <ir_version: 10, opset_import: ["": 16]>
            one ({kind}[N, C, H, W] input, {kind}[K, 4] boxes, int64[K] images)
                => ({kind}[K, C, PH, PW] output) {{
                output = RoiAlign <
                    output_height = {height}, output_width = {width},
                    spatial_scale = {workload.spatial_scale}, sampling_ratio = {max(ratio, 0)},
                    coordinate_transformation_mode = "{mode}"
                > (input, boxes, images)
            }}
        """)
        feeds = {
            "input": arrays["input"],
            "boxes": np.ascontiguousarray(arrays["boxes"][:, 1:]),
            "images": arrays["boxes"][:, 0].astype(np.int64),
        }
        return lambda: session.run(None, feeds)[0]


class OpenVino:
    """OpenVINO's kernel for channels last, which it uses inside networks.

    The map is brought to this layout when the model is loaded, and the result keeps it.
    """

    package, takes = "openvino", Workload

    def __init__(self, threads):
        import openvino

        self.openvino, self.core = openvino, openvino.Core()
        self.options = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
        }
        self.name = f"openvino {openvino.__version__.split('-')[0]}"

    def prepare(self, workload, arrays, direction):
        from openvino import opset15 as ops

        is_align, boxes = workload.operator == "roi_align", arrays["boxes"]
        has_kernel = (is_align or workload.operator == "roi_pool") and boxes.dtype == np.float32
        if direction != "forward" or not has_kernel:
            return None
        # OpenVINO takes the layout from a convolution to what follows it.  This one multiplies a
        # constant by one, so it is computed only once, when the model is compiled.
        one = ops.constant(np.ones((workload.shape[1], 1, 1, 1, 1), np.float32))
        input = ops.constant(arrays["input"])
        input = ops.group_convolution(input, one, [1, 1], [0, 0], [0, 0], [1, 1])
        feeds, size, scale = [boxes], workload.output_size, workload.spatial_scale
        if is_align:
            feeds = [np.ascontiguousarray(boxes[:, 1:]), boxes[:, 0].astype(np.int32)]
        rows = [ops.parameter(list(feed.shape), feed.dtype) for feed in feeds]
        if is_align:
            ratio = max(workload.parameters["sampling_ratio"], 0)
            mode = "half_pixel_for_nn" if workload.parameters.get("aligned") else "asymmetric"
            node = ops.roi_align(input, *rows, *size, ratio, scale, "avg", mode)
            node = ops.transpose(node, ops.constant(np.array([0, 2, 3, 1])))
        else:
            node = ops.roi_pooling(input, *rows, size, scale, "max")
        model = self.openvino.Model([node], rows, "one")
        compiled = self.core.compile_model(model, "CPU", self.options)
        request, out = compiled.create_infer_request(), np.empty(node.shape, np.float32)
        ports = [*compiled.inputs, compiled.outputs[0]]
        for port, array in zip(ports, [*feeds, out], strict=True):
            request.set_tensor(port, self.openvino.Tensor(array, shared_memory=True))
        result = out.transpose(0, 3, 1, 2) if is_align else out

        def infer(_shared=feeds):  # this keeps the arrays alive, which the tensors do not
            request.start_async()
            request.wait()
            return result

        return infer


PEERS = (TorchVision, PyTorch, OnnxRuntime, OpenVino, OpenCV, Pillow)


def installed(threads: int) -> Iterator[Any]:
    """Yield the libraries that can be imported."""
    for peer in PEERS:
        if importlib.util.find_spec(peer.package) is None:
            continue
        try:
            yield peer(threads)
        except ImportError as error:
            print(f"{peer.package}: left out, {error}", file=sys.stderr)
