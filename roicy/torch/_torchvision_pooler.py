"""
MultiScaleRoIAlign as a subclass of torchvision's, which this file imports.

torchvision's detectors take `box_roi_pool` and the like only if they are instances of its own
class.  See ``modules.MultiScaleRoIAlign.__new__``.
"""

from __future__ import annotations

import torchvision.ops

from . import modules


class MultiScaleRoIAlign(modules.MultiScaleRoIAlign, torchvision.ops.MultiScaleRoIAlign):
    __doc__ = modules.MultiScaleRoIAlign.__doc__
