"""Region-of-interest operators of object detection on NumPy arrays, on every core of a CPU."""

__version__ = "0.1.0"  # its only place, and before the imports, which read it

# isort: off
from ._machine._config import show_config
from ._machine._threads import get_num_threads, set_num_threads
from .integrals import (
    prroi_pool, prroi_pool_backward, prroi_pool_backward_boxes, ps_prroi_pool,
    ps_prroi_pool_backward, ps_prroi_pool_backward_boxes,
)  # fmt: skip
from .multiscale import (
    multiscale_roi_align, multiscale_roi_align_backward, multiscale_roi_align_backward_boxes,
    multiscale_roi_align_rotated, multiscale_roi_align_rotated_backward,
    multiscale_roi_align_rotated_backward_boxes,
)  # fmt: skip
from .normalised import crop_and_resize, crop_and_resize_backward, crop_and_resize_backward_boxes
from .operators import (
    ps_roi_align, ps_roi_align_backward, ps_roi_align_backward_boxes, ps_roi_pool,
    ps_roi_pool_backward, roi_align, roi_align_backward, roi_align_backward_boxes, roi_align_max,
    roi_align_max_backward, roi_align_rotated, roi_align_rotated_backward,
    roi_align_rotated_backward_boxes, roi_pool, roi_pool_backward,
)  # fmt: skip

TYPE_CHECKING = False  # as of typing, which takes time to import
if TYPE_CHECKING:
    from ._machine._threadpoolctl import ThreadpoolController as ThreadpoolController
    from .attention import deformable_attention, deformable_attention_backward
    from .cropping import crop, crop_lines
    from .cropping.resizing import resize
    from .labels import label_map, label_segments, resize_masks
    from .masks import paste_masks
    from .processors import ImageProcessor
    from .prototypes import prototype_masks
    from .segments import mask_segments, paint_masks

__all__ = [
    "ImageProcessor", "__version__", "crop", "crop_and_resize", "crop_and_resize_backward",
    "crop_and_resize_backward_boxes", "crop_lines", "deformable_attention",
    "deformable_attention_backward", "get_num_threads", "label_map", "label_segments",
    "mask_segments", "multiscale_roi_align",
    "multiscale_roi_align_backward", "multiscale_roi_align_backward_boxes",
    "multiscale_roi_align_rotated", "multiscale_roi_align_rotated_backward",
    "multiscale_roi_align_rotated_backward_boxes", "paint_masks", "paste_masks",
    "prototype_masks",
    "prroi_pool", "prroi_pool_backward", "prroi_pool_backward_boxes", "ps_prroi_pool",
    "ps_prroi_pool_backward",
    "ps_prroi_pool_backward_boxes", "ps_roi_align", "ps_roi_align_backward",
    "ps_roi_align_backward_boxes", "ps_roi_pool", "ps_roi_pool_backward", "resize",
    "resize_masks",
    "roi_align", "roi_align_backward", "roi_align_backward_boxes", "roi_align_max",
    "roi_align_max_backward",
    "roi_align_rotated", "roi_align_rotated_backward", "roi_align_rotated_backward_boxes",
    "roi_pool", "roi_pool_backward", "set_num_threads", "show_config",
]  # fmt: skip

# What is imported where somebody asks for it: all but the operators on feature maps.
_LATER = {
    name: module
    for module, names in {
        "_machine._threadpoolctl": ("ThreadpoolController",),
        "attention": ("deformable_attention", "deformable_attention_backward"),
        "cropping": ("crop", "crop_lines"),
        "cropping.resizing": ("resize",),
        "labels": ("label_map", "label_segments", "resize_masks"),
        "masks": ("paste_masks",),
        "processors": ("ImageProcessor",),
        "prototypes": ("prototype_masks",),
        "segments": ("mask_segments", "paint_masks"),
    }.items()
    for name in names
}

if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _LATER and name not in _LATER.values():  # these modules are attributes, too
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        found = importlib.import_module(f"{__name__}.{_LATER.get(name, name)}")
        if name in _LATER:
            found = globals()[name] = getattr(found, name)
        return found

    def __dir__():
        return sorted({*globals(), *_LATER})
