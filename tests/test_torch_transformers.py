"""Processors of transformers have their own results within patch_transformers, of less work."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from roicy import _dispatch

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")

from roicy.torch import _enlarged, _models  # noqa: E402

interpolate = torch.nn.functional.interpolate
# PyTorch's kernels have fused multiply-adds where the processor has them.
FUSED = _dispatch.ISA != "baseline"
SEMANTIC, INSTANCE, PANOPTIC, MASKS = _models.POST_PROCESSING
SIZES = [(150, 203), (97, 120)]


def smooth(shape, seed=0, scale=6.0):
    """Return maps (..., h, w) that are smooth, with some noise."""
    made = torch.Generator().manual_seed(seed)
    coarse = torch.randn((int(np.prod(shape[:-2])), 1, 5, 6), generator=made)
    maps = interpolate(coarse, shape[-2:], mode="bicubic").reshape(shape)
    return scale * maps + torch.randn(shape, generator=made)


def maps_of_classes():
    return SimpleNamespace(logits=smooth((2, 19, 24, 31)), semantic_seg=smooth((2, 1, 24, 31)))


def queries():
    """Outputs of 30 queries; some have a class with a large score."""
    made = torch.Generator().manual_seed(1)
    masks, classes = smooth((2, 30, 25, 33), 1, 3.0), torch.randn((2, 30, 9), generator=made)
    classes[:, ::3, 1:4] += 6
    classes[:, 1::3, -1] += 6
    return SimpleNamespace(
        logits=classes, pred_masks=masks, class_queries_logits=classes, masks_queries_logits=masks,
        patch_offsets=[], pred_logits=classes[..., 0], presence_logits=None,
        pred_boxes=torch.rand((2, 30, 4), generator=made),
    )  # fmt: skip


FAMILIES = {  # modules of transformers.models, methods, outputs, and arguments beside the sizes
    "maps": (
        "beit chmv2 dpt mobilenet_v2 mobilevit sapiens2 sam3 segformer tipsv2_dpt",
        SEMANTIC, maps_of_classes, {},
    ),
    "queries": (
        "conditional_detr detr eomt maskformer mask2former oneformer videomt",
        SEMANTIC, queries, {},
    ),
    "instances": ("maskformer mask2former", INSTANCE, queries, {"threshold": 0.3}),
    "binary": (
        "maskformer mask2former rf_detr", INSTANCE, queries,
        {"threshold": 0.3, "return_binary_maps": True},
    ),
    "other instances": ("conditional_detr detr eomt rf_detr sam3 videomt", INSTANCE, queries, {}),
    "panoptic": (
        "conditional_detr detr eomt maskformer mask2former oneformer videomt", PANOPTIC, queries,
        {"threshold": 0.3, "overlap_mask_area_threshold": 0.2},
    ),
}  # fmt: skip


def processors(folder):
    """Return processors of a module of transformers that is there."""
    pytest.importorskip("transformers")
    found = []
    for kind in ("image_processing", "image_processing_pil", "video_processing"):
        try:
            module = importlib.import_module(f"transformers.models.{folder}.{kind}_{folder}")
        except ModuleNotFoundError:
            continue
        for own in vars(module).values():
            if isinstance(own, type) and own.__module__ == module.__name__:
                if any(name in vars(own) for name in _models.POST_PROCESSING):
                    # OneFormer's would read a file from a hub.
                    found.append(own.__new__(own) if folder == "oneformer" else own())
    if not found:
        pytest.skip(f"this version of transformers has no {folder}")
    return found


def assert_same(found, expected):
    """Check values and types."""
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert torch.equal(found, expected)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif hasattr(expected, "keys"):
        assert list(found) == list(expected)
        for name in expected:
            assert_same(found[name], expected[name])
    else:
        assert found == expected


@pytest.fixture
def enlarged(monkeypatch):
    """Sizes of what PyTorch enlarged after all."""
    sizes = []
    original = _enlarged._Call.enlarge

    def enlarge(call):
        if call.real is None:
            sizes.append(call.size)
        return original(call)

    monkeypatch.setattr(_enlarged._Call, "enlarge", enlarge)
    return sizes


CASES = [(name, folder) for name, row in FAMILIES.items() for folder in row[0].split()]
# What is enlarged for sums over pixels, or by other functions: see docs/pytorch.md.
ENLARGED = {
    ("queries", "eomt"), ("queries", "mask2former"), ("instances", "mask2former"),
    ("binary", "mask2former"), ("other instances", "eomt"), ("other instances", "videomt"),
    ("panoptic", "eomt"), ("panoptic", "videomt"), ("panoptic", "mask2former"),
}  # fmt: skip


@pytest.mark.parametrize(("family", "folder"), CASES)
def test_processors(family, folder, enlarged):
    _, method, outputs, given = FAMILIES[family]
    for processor in processors(folder):
        if not hasattr(type(processor), method):
            continue
        call = getattr(processor, method)
        expected = call(outputs(), target_sizes=SIZES, **given)
        with rt.patch_transformers():
            assert_same(call(outputs(), target_sizes=SIZES, **given), expected)
            if FUSED and (family, folder) not in ENLARGED:
                assert enlarged == []
            with torch.inference_mode():
                assert_same(call(outputs(), target_sizes=SIZES, **given), expected)
        if method == INSTANCE or method == PANOPTIC:
            assert any(one.get("segments_info", one.get("scores")) is not None for one in expected)
