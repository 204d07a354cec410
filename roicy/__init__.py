"""Region-of-interest operators of object detection on NumPy arrays, on every core of a CPU."""

__version__ = "0.1.0"  # its only place, and before the imports, which read it

# isort: off
from ._machine._config import show_config
from ._machine._threads import get_num_threads, set_num_threads
from .integrals import *
from .multiscale import *
from .normalised import *
from .operators import *

TYPE_CHECKING = False  # as of typing, which takes time to import
if TYPE_CHECKING:
    # the imports above have made them attributes of this package
    from . import integrals, multiscale, normalised, operators
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
    "ImageProcessor", "__version__", "crop", "crop_lines", "deformable_attention",
    "deformable_attention_backward", "get_num_threads", "label_map", "label_segments",
    "mask_segments", "paint_masks", "paste_masks", "prototype_masks", "resize", "resize_masks",
    "set_num_threads", "show_config",
]  # fmt: skip
__all__ += integrals.__all__
__all__ += multiscale.__all__
__all__ += normalised.__all__
__all__ += operators.__all__

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
