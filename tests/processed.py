"""Configs and pictures of image processors, and how their results are compared."""

import numpy as np

BACKENDS = ("torchvision", "pil")
RGB = {"do_convert_rgb": True}
CASES = [
    ("BeitImageProcessor", {"do_center_crop": True, "size": {"height": 256, "width": 256}}),
    ("BitImageProcessor", {"size": {"shortest_edge": 256}, "image_std": [0.229, 0.224, 0.225]}),
    ("BlipImageProcessor", {}),
    ("ChineseCLIPImageProcessor", {}),
    ("CLIPImageProcessor", {"size": 336, "crop_size": 336}),
    ("CLIPImageProcessor", {"size": [300, 201], "crop_size": {"height": 321, "width": 190}}),
    ("ConditionalDetrImageProcessor", {"size": {"shortest_edge": 90, "longest_edge": 140}}),
    ("ConvNextImageProcessor", {"size": {"shortest_edge": 224}, "crop_pct": 0.875, **RGB}),
    ("ConvNextImageProcessor", {}),
    ("DeformableDetrImageProcessor", {"size": 100, "max_size": 200, **RGB}),
    ("DeiTImageProcessor", {}),
    ("DetrImageProcessor", {"do_pad": True, "pad_size": {"height": 1400, "width": 1400}, **RGB}),
    ("DonutImageProcessor", {"size": [160, 240], "do_align_long_axis": True, **RGB}),
    ("DonutImageProcessor", {"size": {"height": 70, "width": 50}}),
    ("DPTImageProcessor", {"ensure_multiple_of": 14, "keep_aspect_ratio": True, **RGB}),
    ("DPTImageProcessor", {"do_pad": True, "size_divisor": 77}),
    ("Gemma3ImageProcessor", {}),
    ("Gemma3ImageProcessor", {
        "do_pan_and_scan": True, "pan_and_scan_min_crop_size": 16, "pan_and_scan_max_num_crops": 9,
        "pan_and_scan_min_ratio_to_activate": 1.2,
    }),
    ("GotOcr2ImageProcessor", {"crop_to_patches": True, "size": {"height": 64, "width": 64}}),
    ("GotOcr2ImageProcessor", {"image_mean": [0.485, 0.456, 0.406]}),
    ("GroundingDinoImageProcessor", {"size": {"shortest_edge": 80, "longest_edge": 133}}),
    ("Idefics3ImageProcessor", {"size": {"longest_edge": 400}, "do_image_splitting": False}),
    ("Idefics3ImageProcessor", {"size": {"longest_edge": 510}, "return_row_col_info": True}),
    ("LlavaImageProcessor", {"do_pad": True, "size": 336, "crop_size": 336}),
    ("LlavaNextImageProcessor", {"size": 112, "crop_size": 112}),
    ("LlavaOnevisionImageProcessor", {}),
    ("Mask2FormerImageProcessor", {"size": {"shortest_edge": 60, "longest_edge": 100}}),
    ("MaskFormerImageProcessor", {"max_size": 900}),
    ("MiniCPMV4_6ImageProcessor", {"scale_resolution": 56}),
    ("MiniCPMV4_6ImageProcessor", {"downsample_mode": "4x"}),
    ("OwlViTImageProcessor", {"rescale": True}),
    ("PixtralImageProcessor", {"size": {"longest_edge": 80}, "patch_size": 14}),
    ("PvtImageProcessor", {}),
    ("Qwen2VLImageProcessor", {"min_pixels": 3136, "max_pixels": 12845056}),
    ("Qwen2VLImageProcessor", {
        "size": {"shortest_edge": 65536, "longest_edge": 16777216}, "patch_size": 16,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    }),
    ("RTDetrImageProcessor", {}),
    ("SamImageProcessor", {"size": {"longest_edge": 51}, "pad_size": {"height": 60, "width": 52}}),
    ("SegformerImageProcessor", {"do_reduce_labels": True, **RGB}),
    ("SiglipImageProcessor", {"size": {"height": 384, "width": 384}, "resample": 2}),
    ("Siglip2ImageProcessor", {"max_num_patches": 64, **RGB}),
    ("SmolVLMImageProcessor", {"size": {"longest_edge": 256}}),
    ("ViTImageProcessor", {}),
    ("ViTImageProcessor", {"image_mean": 120, "image_std": 33.5, "do_rescale": False}),
    ("ViTImageProcessor", {"do_rescale": False, "do_normalize": False, **RGB}),
    ("YolosImageProcessor", {"size": {"shortest_edge": 100, "longest_edge": 133}}),
    ("LlavaNextImageProcessor", {
        "size": 40, "crop_size": {"height": 40, "width": 36}, "image_grid_pinpoints": [[56, 93]],
    }),
    ("PixtralImageProcessor", {"size": {"longest_edge": 80}, "do_center_crop": True,
                               "crop_size": {"height": 41, "width": 32}}),
    ("MiniCPMV4_6ImageProcessor", {"do_rescale": False, "do_normalize": False}),
    ("MaskFormerImageProcessor", {"size": {"shortest_edge": 40, "longest_edge": 90},
                                  "size_divisor": 0}),
    ("ConvNextImageProcessor", {"size": 60, "do_pad": True, "pad_size": 90}),
    ("DPTImageProcessor", {"size": 60, "do_center_crop": True, "crop_size": 33}),
    ("YolosImageProcessor", {"size": 60, "default_to_square": True}),
    ("LlavaImageProcessor", {"do_pad": True, "size": 32, "crop_size": 33}),
    ("SamImageProcessor", {"size": {"longest_edge": 51}, "pad_size": None}),
    ("SiglipImageProcessor", {"size": 40, "do_convert_rgb": None, "do_normalize": None}),
    ("GotOcr2ImageProcessor", {
        "size": 60, "do_resize": None, "crop_to_patches": True, "max_patches": 1,
    }),
]  # fmt: skip


def noise(height, width, channels=3):
    """Return soft shapes with noise, of which a part has only the lowest and highest byte."""
    rng = np.random.default_rng(height * 10007 + width * 101 + channels)
    frame = rng.integers(0, 256, (height, width, channels), np.uint8)
    ramp = np.arange(width)[None, :, None] * 255 // max(width - 1, 1)
    frame = (frame // 3 + ramp * 2 // 3).astype(np.uint8)
    frame[: height // 3] = (frame[: height // 3] > 127) * np.uint8(255)
    return frame


def image_of(array, mode=None):
    """Return a picture of Pillow."""
    from PIL import Image

    return Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array, mode)


def pictures(large=True):
    """Yield the names and pictures of forty: all sizes and modes; large: whether those are, too."""
    sizes = [
        (1, 1), (2, 3), (7, 5), (28, 28), (31, 97), (100, 40), (224, 224), (225, 223), (336, 336),
        (384, 384), (333, 500), (480, 640), (641, 479), (512, 1999), (1500, 300), (64, 640),
        (800, 1333), (1080, 1920), (1024, 768), (77, 1200), (3000, 4000),
    ]  # fmt: skip
    for size in sizes if large else [size for size in sizes if max(size) < 1000]:
        yield f"RGB {size}", image_of(noise(*size))
    for size in [(90, 120), (301, 200), (640, 480), (1, 50), (70, 900)]:
        yield f"L {size}", image_of(noise(*size, 1))
    for size in [(90, 120), (301, 200), (640, 480)]:
        yield f"RGBA {size}", image_of(noise(*size, 4))
    yield "LA", image_of(noise(80, 130, 2), "LA")
    palette = image_of(noise(140, 110)).convert("P")
    yield "P", palette
    clear = palette.copy()
    clear.info["transparency"] = 3
    yield "P, transparent", clear
    yield "1", image_of(noise(60, 70, 1)).convert("1")
    yield "CMYK", image_of(noise(60, 70)).convert("CMYK")
    yield "I;16", image_of(noise(120, 90, 1).astype(np.uint16) * np.uint16(257))
    turned = image_of(noise(200, 150))
    turned.getexif()[0x0112] = 6
    yield "EXIF", turned
    yield "array (H, W, 3)", noise(150, 160)
    yield "array (3, H, W)", np.ascontiguousarray(np.moveaxis(noise(150, 160), 2, 0))
    yield "array (H, W, 4)", noise(150, 160, 4)
    yield "array (H, W, 1)", noise(150, 160, 1)


def differing(theirs, ours):
    """Return how many numbers of two results differ; -1 if something lacks."""
    if hasattr(theirs, "keys"):
        if set(theirs.keys()) != set(ours):
            return -1
        each = [differing(theirs[key], ours[key]) for key in ours]
        return -1 if -1 in each else sum(each)
    if isinstance(theirs, (list, tuple)) and len({np.shape(one) for one in theirs}) > 1:
        each = [differing(*pair) for pair in zip(theirs, ours, strict=True)]
        return -1 if -1 in each else sum(each)
    if isinstance(theirs, (list, tuple)):
        theirs = [np.asarray(one) for one in theirs]
    theirs, ours = np.asarray(theirs), np.asarray(ours)
    return -1 if theirs.shape != ours.shape else np.count_nonzero(theirs != ours)
