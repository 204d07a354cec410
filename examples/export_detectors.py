"""Exports detectors with random weights to ONNX, for trying roicy.onnxruntime.

    python examples/export_detectors.py maskrcnn --size 800 1088 --opset 16 --folder models
    python -m roicy onnx models/maskrcnn.onnx --bench --shape image=3x800x1088

It needs torch, torchvision and onnx, and for --dynamo onnxscript.  The detectors of torchvision
are those of torchvision.models.detection; "small_maskrcnn" is one of few channels and boxes.  Two
more have operators that ONNX lacks, so they are exported as nodes of the domain "roicy": "rfcn"
takes position-sensitive scores of boxes as R-FCN does, and "iounet" refines boxes by the precise
pooling of IoU-Net.
"""

from __future__ import annotations

import argparse
import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.ops import FrozenBatchNorm2d, MultiScaleRoIAlign, boxes, nms

import roicy.torch

TORCHVISION = {
    "fasterrcnn": "fasterrcnn_resnet50_fpn",
    "maskrcnn": "maskrcnn_resnet50_fpn",
    "keypointrcnn": "keypointrcnn_resnet50_fpn",
    "fasterrcnn_mobilenet": "fasterrcnn_mobilenet_v3_large_fpn",
    "fasterrcnn_mobilenet_320": "fasterrcnn_mobilenet_v3_large_320_fpn",
}
OTHERS = ("small_maskrcnn", "rfcn", "iounet")


def _features(channels: int) -> nn.Sequential:
    """Return a small backbone of stride 8."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, channels, 3, stride=2, padding=1), nn.ReLU(),
    )  # fmt: skip


class RFCN(nn.Module):
    """Scores of boxes from position-sensitive maps, after Dai et al., "R-FCN", 2016.

    Each bin of a box reads maps of its own, and a class has the mean of its bins.
    """

    def __init__(self, classes: int = 5, bins: int = 7):
        super().__init__()
        self.bins = bins
        self.features = _features(64)
        self.maps = nn.Conv2d(64, classes * bins * bins, 1)

    def forward(self, image: Tensor, boxes: Tensor) -> Tensor:
        maps = self.maps(self.features(image))
        pooled = roicy.torch.ps_roi_align(maps, boxes, self.bins, 1 / 8, 2)
        return pooled.mean(dim=(2, 3)).softmax(dim=1)


class IoUNet(nn.Module):
    """Boxes moved by what is pooled from them, and their scores, after Jiang et al., "Acquisition
    of Localization Confidence for Accurate Object Detection", 2018.
    """

    def __init__(self, bins: int = 7):
        super().__init__()
        self.bins = bins
        self.features = _features(64)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * bins * bins, 128), nn.ReLU())
        self.move, self.score = nn.Linear(128, 4), nn.Linear(128, 1)

    def forward(self, image: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        maps = self.features(image)
        for _ in range(2):
            hidden = self.head(roicy.torch.prroi_pool(maps, boxes, self.bins, 1 / 8))
            boxes = torch.cat([boxes[:, :1], boxes[:, 1:] + self.move(hidden)], dim=1)
        hidden = self.head(roicy.torch.prroi_pool(maps, boxes, self.bins, 1 / 8))
        return boxes[:, 1:], self.score(hidden).sigmoid()[:, 0]


def build(name: str, height: int, width: int, least_score: float = 0.0) -> nn.Module:
    """Return a detector with random weights, the same in each run."""
    torch.manual_seed(0)
    if name == "rfcn":
        return RFCN().eval()
    if name == "iounet":
        return IoUNet().eval()
    from torchvision.models import detection
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    sizes = {
        "min_size": min(height, width),
        "max_size": max(height, width),
        "box_score_thresh": least_score,
    }
    if name == "small_maskrcnn":
        backbone = resnet_fpn_backbone(
            backbone_name="resnet18", weights=None, trainable_layers=5, returned_layers=[2, 3, 4]
        )
        anchors = detection.anchor_utils.AnchorGenerator(
            ((16,), (32,), (64,), (128,)), ((0.5, 1.0, 2.0),) * 4
        )
        few = {"rpn_post_nms_top_n_test": 60, "box_detections_per_img": 12}
        model = detection.MaskRCNN(
            backbone, 5, rpn_anchor_generator=anchors,
            box_roi_pool=_pooler(7), mask_roi_pool=_pooler(14), **few, **sizes,
        )  # fmt: skip
    else:
        model = getattr(detection, TORCHVISION[name])(weights=None, weights_backbone=None, **sizes)
    model.eval()
    _spread(model, height, width)
    return model


def _spread(model: Any, height: int, width: int) -> None:
    """Scale weights, so that scores differ, as those of a detector that has learnt something.

    Else the order of results would be a matter of rounding.
    """

    def rescale(layer: Any, _: Any, output: Tensor) -> Tensor:
        scale = output.std().clamp(min=1e-6)
        layer.weight.data /= scale
        layer.bias.data /= scale
        return output / scale

    kinds = (nn.BatchNorm2d, FrozenBatchNorm2d)
    hooks = [
        layer.register_forward_hook(rescale)
        for layer in model.backbone.modules()
        if isinstance(layer, kinds)
    ]
    with torch.no_grad():
        model.backbone(torch.randn(1, 3, height, width))
        for hook in hooks:
            hook.remove()
        model.rpn.head.cls_logits.weight.mul_(20)
        model.roi_heads.box_predictor.cls_score.weight.mul_(20)


def _pooler(size: int) -> Any:
    return MultiScaleRoIAlign(["0", "1", "2"], size, 2)


def inputs_of(name: str, height: int, width: int, count: int = 20) -> tuple[Any, ...]:
    """Return random inputs of a detector: an image, and boxes where it takes any."""
    torch.manual_seed(1)
    if name not in ("rfcn", "iounet"):
        return (torch.rand(3, height, width),)
    low = torch.rand(count, 2) * torch.tensor([width * 0.6, height * 0.6])
    boxes = torch.cat([torch.zeros(count, 1), low, low + 8 + torch.rand(count, 2) * 60], dim=1)
    return torch.rand(1, 3, height, width), boxes


def detect(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> dict[str, Tensor]:
    """Return what PyTorch computes, by the names of the model's outputs."""
    with torch.no_grad():
        if name == "rfcn":
            return {"scores": model(*inputs)}
        if name == "iounet":
            return dict(zip(("boxes", "scores"), model(*inputs), strict=True))
        return dict(model(list(inputs))[0])


def export(name: str, model: nn.Module, inputs: tuple[Any, ...], path: Path, opset: int) -> None:
    """Export a detector that takes any number of boxes, and images of any size."""
    outputs = list(detect(name, model, inputs))
    has_boxes = len(inputs) == 2
    extents = {2: "height", 3: "width"} if has_boxes else {1: "height", 2: "width"}
    free = {"image": extents} | ({"boxes_in": {0: "count"}} if has_boxes else {})
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, inputs if has_boxes else (list(inputs),), str(path), opset_version=opset,
            dynamo=False, input_names=list(free), output_names=outputs, dynamic_axes=free,
        )  # fmt: skip


@contextlib.contextmanager
def exportable() -> Iterator[None]:
    """Have torchvision's batched_nms not look at how many boxes there are.

    torch.export cannot follow that branch, and so no detector of torchvision as it is.
    """

    def batched_nms(rows: Tensor, scores: Tensor, groups: Tensor, threshold: float) -> Tensor:
        shift = groups.to(rows) * (rows.max() + 1)
        return nms(rows + shift[:, None], scores, threshold)

    given = boxes.batched_nms
    boxes.batched_nms = batched_nms
    try:
        yield
    finally:
        boxes.batched_nms = given


def export_dynamo(
    name: str, model: nn.Module, inputs: tuple[Any, ...], path: Path, opset: int
) -> None:
    """Export a detector by torch.export, for images of one size; those with masks cannot be."""
    outputs = list(detect(name, model, inputs))
    with warnings.catch_warnings(), torch.no_grad(), exportable():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (list(inputs),), str(path), opset_version=opset, dynamo=True, verbose=False,
            input_names=["image"], output_names=outputs, external_data=False,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Export detectors with random weights to ONNX.")
    parser.add_argument("names", nargs="+", choices=[*TORCHVISION, *OTHERS])
    size = {"nargs": 2, "type": int, "default": [224, 288], "metavar": ("HEIGHT", "WIDTH")}
    parser.add_argument("--size", **size)
    parser.add_argument("--opset", type=int, default=16)
    help = "of a detection; by default 0, so that even small models detect something"
    parser.add_argument("--least-score", type=float, default=0.0, help=help)
    parser.add_argument("--folder", type=Path, default=Path())
    help = "by torch.export: Faster R-CNN alone, for images of this size alone"
    parser.add_argument("--dynamo", action="store_true", help=help)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        path = options.folder / f"{name}.onnx"
        model = build(name, *options.size, options.least_score)
        by = export_dynamo if options.dynamo else export
        by(name, model, inputs_of(name, *options.size), path, options.opset)
        print(path)


if __name__ == "__main__":
    main()
