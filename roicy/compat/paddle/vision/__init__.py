"""``paddle.vision``, as far as it has operators of regions."""

from . import ops as ops
