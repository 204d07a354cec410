"""MultiScaleRoIAlign as a subclass of torchvision's, which this file imports.

torchvision's detectors take `box_roi_pool` and the like only if they are instances of its own
class.  See ``modules.MultiScaleRoIAlign.__new__``.  The class is looked for where no assignment
reaches it: in ``torchvision.ops`` a program may have put roicy's under its name.
"""

from __future__ import annotations

import torchvision.ops.poolers
from torch import nn

from . import modules

_NAME = (torchvision.ops.poolers.__name__, "MultiScaleRoIAlign")
_Theirs = next(
    cls for cls in nn.Module.__subclasses__() if (cls.__module__, cls.__qualname__) == _NAME
)


class MultiScaleRoIAlign(modules.MultiScaleRoIAlign, _Theirs):  # type: ignore[misc, valid-type]
    __doc__ = modules.MultiScaleRoIAlign.__doc__
