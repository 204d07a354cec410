"""The operators on PyTorch's CPU tensors: memory is shared, not copied, and gradients flow to the
input and to the boxes.

They are registered with ``torch.library`` as ``torch.ops.roicy.*``, so that autograd,
``torch.compile``, ``torch.export`` and TorchScript know them.  The names and parameters are
those of ``torchvision.ops``, and :func:`patch_torchvision` has torchvision's models run on
them.

Unlike in torchvision, boxes that require a gradient get one (not of `roi_pool` and
`ps_roi_pool`, which have none). Wrong values are errors of roicy, wrong shapes of boxes
AssertionErrors, as there.
"""

import sys

import torch

# PyTorch registers operators once in a process.  So an import after that, in a process that has
# lost these modules from sys.modules, finds the modules that registered them.
_registered = vars(torch.ops.roicy).setdefault("_modules_of_roicy", {})
sys.modules.update(_registered)

# isort: off
from ._attention import deformable_attention
from ._masks import label_map, label_segments, paste_masks, resize_masks
from ._models import patch_mmcv, patch_transformers
from ._patches import install, uninstall
from ._torchvision import patch_torchvision
from . import functions, modules
from .functions import *
from .modules import *

__all__ = [
    "deformable_attention", "install", "label_map", "label_segments", "paste_masks", "patch_mmcv",
    "patch_torchvision", "patch_transformers", "resize_masks", "uninstall",
]  # fmt: skip
__all__ += functions.__all__
__all__ += modules.__all__

_registered.update(
    (name, sys.modules[name]) for name in [*sys.modules] if name.startswith(f"{__name__}.")
)
