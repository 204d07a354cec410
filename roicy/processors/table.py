"""The classes of transformers that are known: a row of facts for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import batches, plans

CLIP = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
HALF = [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]
IMAGENET = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
LANCZOS, BILINEAR, BICUBIC = 1, 2, 3  # Pillow's numbers
EDGE = {"shortest_edge": 224}
GRIDS = [[384 * down, 384 * across] for down in range(1, 7) for across in range(1, 7)]
RGB = {"do_convert_rgb": True}

# Keys of configs that change no number of pixel_values
IDLE = {
    "_max_size", "_valid_processor_keys", "annotation_format", "aspect_ratio_setting", "auto_map",
    "backend", "chunk_length", "data_format", "dither", "do_convert_annotations",
    "do_reduce_labels", "feature_extractor_type", "feature_size", "fft_length", "fft_overdrive",
    "format", "frame_length", "hop_length", "id2label", "ignore_index", "image_feature_size",
    "image_processor_type", "image_seq_length", "image_token", "input_scale_factor", "label2id",
    "mask_pad_size", "mask_size", "max_frequency", "mel_floor", "min_frequency",
    "model_input_names", "n_fft", "n_samples", "nb_max_frames", "num_channels", "num_image_tokens",
    "num_labels", "num_text", "pad_and_return_pixel_mask", "padding_side", "padding_value",
    "preemphasis", "preemphasis_htk_flavor", "processor_class", "reduce_labels",
    "return_attention_mask", "sampling_rate", "size_divisibility", "size_divisor",
    "transformers_version", "use_fast", "use_image_id", "video_processor_type", "video_sampling",
}  # fmt: skip
COMMON = {
    "do_convert_rgb": None, "do_resize": True, "default_to_square": True, "crop_size": None,
    "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "do_pad": None,
    "pad_size": None, "do_center_crop": None,
}  # fmt: skip


class Row(NamedTuple):
    """What a class has of its own."""

    plan: Callable[..., plans.Plan]  # of a picture
    batch: Callable[..., batches.Batch]  # of plans
    mask: str  # what says which pixels or patches are no padding
    renamed: dict[str, str]  # keys of older versions
    defaults: dict[str, Any]  # of all keys that it knows


def _square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


def _row(
    plan: Callable[..., plans.Plan], numbers: tuple[list[float], list[float]], resample: int,
    size: Any, batch: Callable[..., batches.Batch] = batches.stack, mask: str = "", **others: Any,
) -> Row:  # fmt: skip
    """Return a row; others: `renamed`, and keys of its class with their defaults."""
    renamed = others.pop("renamed", {})
    keys = {"image_mean": numbers[0], "image_std": numbers[1], "resample": resample, "size": size}
    return Row(plan, batch, mask, renamed, COMMON | keys | others)


def _clip(plan: Callable[..., plans.Plan] = plans.plain, **others: Any) -> Row:
    given = {"default_to_square": False, "crop_size": _square(224), "do_center_crop": True, **RGB}
    return _row(plan, CLIP, BICUBIC, EDGE, **(given | others))


def _detector(**others: Any) -> Row:
    size = others.pop("size", {"shortest_edge": 800, "longest_edge": 1333})
    given = {"default_to_square": False, "do_pad": True} | others
    return _row(plans.detector, IMAGENET, BILINEAR, size, mask="pixel_mask", **given)


DETR = {"max_size": 1333, "renamed": {"pad_and_return_pixel_mask": "do_pad"}}
OF_DETR = ("Detr", "ConditionalDetr", "DeformableDetr", "GroundingDino", "Yolos")
IDEFICS3 = _row(
    plans.idefics3, HALF, LANCZOS, {"longest_edge": 1456}, batches.rows, "pixel_attention_mask",
    max_image_size={"longest_edge": 364}, do_image_splitting=True, do_pad=True,
    return_row_col_info=False, **RGB,
)  # fmt: skip
ROWS: dict[str, Row] = {
    "Beit": _row(plans.plain, HALF, BICUBIC, _square(224), crop_size=_square(224)),
    "Bit": _clip(),
    "Blip": _row(plans.plain, CLIP, BICUBIC, _square(384), **RGB),
    "ChineseCLIP": _clip(),
    "CLIP": _clip(use_square_size=False),
    "ConvNext": _row(
        plans.convnext, HALF, BICUBIC, {"shortest_edge": 384}, default_to_square=False,
        crop_pct=224 / 256,
    ),
    "DeiT": _row(
        plans.plain, HALF, BICUBIC, _square(256), crop_size=_square(224), do_center_crop=True
    ),
    "Donut": _row(
        plans.donut, HALF, BILINEAR, {"height": 2560, "width": 1920}, do_thumbnail=True,
        do_align_long_axis=False, do_pad=True,
    ),
    "DPT": _row(
        plans.dpt, HALF, BICUBIC, _square(384), do_pad=False, ensure_multiple_of=1,
        keep_aspect_ratio=False, size_divisor=None,
    ),
    "Gemma3": _row(
        plans.gemma3, HALF, BILINEAR, _square(224), batches.joined, do_pan_and_scan=None,
        pan_and_scan_min_crop_size=None, pan_and_scan_max_num_crops=None,
        pan_and_scan_min_ratio_to_activate=None, **RGB,
    ),
    "GotOcr2": _row(
        plans.got_ocr2, CLIP, BICUBIC, _square(384), batches.joined, crop_to_patches=False,
        min_patches=1, max_patches=12, **RGB,
    ),
    "Idefics3": IDEFICS3,
    "Llava": _clip(plans.llava, do_pad=False),
    "LlavaNext": _clip(
        plans.llava_next, batch=batches.rows, do_pad=True,
        image_grid_pinpoints=[[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
    ),
    "LlavaOnevision": _row(
        plans.llava_next, CLIP, BICUBIC, _square(384), batches.rows, default_to_square=False,
        do_pad=True, image_grid_pinpoints=GRIDS, **RGB,
    ),
    "Mask2Former": _detector(max_size=None, size_divisor=32),
    "MaskFormer": _detector(max_size=None, size_divisor=32),
    "MiniCPMV4_6": _row(
        plans.minicpm, HALF, BICUBIC, None, batches.columns, max_slice_nums=9, patch_size=14,
        scale_resolution=448, slice_mode=True, downsample_mode="16x", **RGB,
    ),
    "OwlViT": _row(
        plans.plain, CLIP, BICUBIC, _square(768), crop_size=_square(768), do_center_crop=False,
        renamed={"rescale": "do_rescale"}, **RGB,
    ),
    "Pixtral": _row(
        plans.pixtral, CLIP, BICUBIC, {"longest_edge": 1024}, patch_size=_square(16), do_pad=True,
        **RGB,
    ),
    "Pvt": _row(plans.plain, IMAGENET, BICUBIC, _square(224)),
    "Qwen2VL": _row(
        plans.qwen2_vl, CLIP, BICUBIC, {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280},
        batches.joined, default_to_square=False, min_pixels=None, max_pixels=None, patch_size=14,
        temporal_patch_size=2, merge_size=2, **RGB,
    ),
    "RTDetr": _detector(size=_square(640), do_normalize=False, do_pad=False),
    "Sam": _row(
        plans.sam, IMAGENET, BILINEAR, {"longest_edge": 1024}, do_pad=True, pad_size=_square(1024),
        **RGB,
    ),
    "Segformer": _row(plans.plain, IMAGENET, BILINEAR, _square(512)),
    "Siglip": _row(plans.plain, HALF, BICUBIC, _square(224), default_to_square=False, **RGB),
    "Siglip2": _row(
        plans.siglip2, HALF, BILINEAR, None, batches.rows, "pixel_attention_mask", patch_size=16,
        max_num_patches=256,
    ),
    "SmolVLM": IDEFICS3,
    "ViT": _row(plans.plain, HALF, BILINEAR, _square(224)),
    **{name: _detector(**DETR) for name in OF_DETR},
}  # fmt: skip
ROWS = {name + "ImageProcessor": row for name, row in ROWS.items()}
UNCROPPED = {  # what does not read do_center_crop
    ("DPTImageProcessor", "pil"), ("SegformerImageProcessor", "pil"),
    ("SegformerImageProcessor", "torchvision"),
}  # fmt: skip
FLOATS = {  # what makes float32 of bytes that are neither scaled nor normalised
    ("Idefics3ImageProcessor", "torchvision"), ("MiniCPMV4_6ImageProcessor", "torchvision"),
    ("Qwen2VLImageProcessor", "pil"), ("SmolVLMImageProcessor", "torchvision"),
}  # fmt: skip
# Classes whose numbers cannot be made, and why
REFUSED = {
    "DINOv3ViTImageProcessor": "resizes floats, whose last bits depend on the build of PyTorch"
}
