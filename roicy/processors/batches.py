"""How pictures become `pixel_values`: stacked, joined, or in rows of their own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .plans import Plan, Settings

NOT_PADDED = (  # in a batch
    "BeitImageProcessor", "ConvNextImageProcessor", "DonutImageProcessor", "DPTImageProcessor",
    "LlavaImageProcessor", "SegformerImageProcessor",
)  # fmt: skip


class Batch(NamedTuple):
    """What a call returns."""

    shape: Any  # of pixel_values, or a list of those of arrays of different sizes
    zeros: bool  # whether some numbers are padding
    facts: dict[str, Any]  # what belongs to them
    parts: Callable[[Any], list[np.ndarray]]  # return the part of each picture


def _facts(plans: list[Plan]) -> dict[str, Any]:
    return {key: np.array([plan.facts[key] for plan in plans]) for key in plans[0].facts}


def _alike(plans: list[Plan], first: int, stop: int | None = None) -> tuple[int, ...]:
    """Return what shapes have in common."""
    shapes = {plan.shape[first:stop] for plan in plans}
    if len(shapes) > 1:
        raise ValueError(f"pictures: shapes {sorted(shapes)}, expected one of all in a batch")
    return shapes.pop()


def _pieces(plans: list[Plan], axis: int, values: np.ndarray) -> list[np.ndarray]:
    """Return the parts of pictures that follow each other along an axis, before what is padding."""
    ends = np.cumsum([plan.shape[axis] for plan in plans])
    return np.split(values, ends, axis=axis)[:-1]


def stack(plans: list[Plan], lengths: list[int], c: Settings, mask: str) -> Batch:
    """Pictures, (N, C, h, w), padded at the bottom and at the right if the class pads."""
    facts, shapes = _facts(plans), [plan.shape for plan in plans]
    size = max(shape[1] for shape in shapes), max(shape[2] for shape in shapes)
    padded = c.name not in NOT_PADDED and (c.do_pad or hasattr(c, "size_divisor"))
    if padded and c.pad_size and c.name != "PixtralImageProcessor":
        size, least = (c.pad_size["height"], c.pad_size["width"]), size
        if size[0] < least[0] or size[1] < least[1]:
            raise ValueError(f"pad_size: {c.pad_size!r}, expected at least {least}")
    if padded and mask:
        facts[mask] = np.zeros((len(plans), *size), np.int64)
        for row, shape in zip(facts[mask], shapes, strict=True):
            row[: shape[1], : shape[2]] = 1
    if not padded and len(set(shapes)) > 1:
        return Batch(shapes, any(plan.at != (0, 0) for plan in plans), facts, list)
    shape = (len(plans), *_alike(plans, 0, 1), *size)
    return Batch(shape, any(plan.calls[0].size != size for plan in plans), facts, list)


def joined(plans: list[Plan], lengths: list[int], c: Settings, mask: str) -> Batch:
    """Patches or tiles of all pictures, one after the other."""
    shape = sum(plan.shape[0] for plan in plans), *_alike(plans, 1)
    return Batch(shape, False, _facts(plans), lambda values: _pieces(plans, 0, values))


def rows(plans: list[Plan], lengths: list[int], c: Settings, mask: str) -> Batch:
    """Patches or tiles, (N, most of them, ...): of each picture, or of each sample of Idefics3."""
    of_samples = mask == "pixel_attention_mask" and hasattr(c, "max_image_size")
    each, alone = iter(plans), [1] * len(plans)
    groups = [list(islice(each, length)) for length in (lengths if of_samples else alone)]
    counts = [sum(plan.shape[0] for plan in group) for group in groups]
    most, inner = getattr(c, "max_num_patches", max(counts)), _alike(plans, 1)
    if max(counts) > most:
        raise ValueError(f"max_num_patches: {most}, expected at least {max(counts)}")
    facts = {} if of_samples else _facts(plans)
    there = np.arange(most) < np.array(counts)[:, None]
    if of_samples and c.return_row_col_info:
        for key in ("rows", "cols"):
            facts[key] = [[plan.facts[key] for plan in group] for group in groups]
    if of_samples and c.do_pad:
        size = (*there.shape, *inner[1:])
        facts[mask] = np.broadcast_to(there[..., None, None], size).astype(np.int64)
    elif mask and not of_samples:
        facts[mask] = there.astype(np.int32)
    if c.name == "LlavaOnevisionImageProcessor":
        facts["batch_num_images"] = np.array(lengths)

    def parts(values: Any) -> list[np.ndarray]:
        pairs = zip(groups, values, strict=True)
        return [part for group, one in pairs for part in _pieces(group, 0, one)]

    if c.do_pad or len(set(counts)) == 1 or (mask and not of_samples):
        return Batch((len(groups), most, *inner), not there.all(), facts, parts)
    return Batch([(count, *inner) for count in counts], False, facts, parts)


def columns(plans: list[Plan], lengths: list[int], c: Settings, mask: str) -> Batch:
    """Patches side by side, (1, C, patch, columns), of MiniCPM-V."""
    shape = (1, *_alike(plans, 0, 2), sum(plan.shape[2] for plan in plans))
    facts = {key: [plan.facts[key] for plan in plans] for key in plans[0].facts}
    facts["target_sizes"] = np.array([one for some in facts["target_sizes"] for one in some], "i4")
    return Batch(shape, False, facts, lambda values: _pieces(plans, 2, values[0]))
