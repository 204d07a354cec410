"""A few calls that are worth following from commit to commit: `asv run --bench '^quick'`."""

from . import times

SOME = ["align_fpn_p2", "align_tiny", "pool_vgg", "rotated_aerial"]


class Forward(times.Forward):
    params = [[*SOME, "crop_people", "paste_masks", "attention_encoder"], times.LAYOUTS, [1]]


class Backward(times.Backward):
    params = [["align_fpn_p2", "align_tiny", "attention_encoder"], times.LAYOUTS, [1]]


class Threads(times.Forward):
    """On two threads, which a lock around them would not let work at the same time."""

    params = [["align_fpn_p2", "paste_masks"], times.LAYOUTS, [2]]
