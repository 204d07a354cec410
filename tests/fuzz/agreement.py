"""What must agree with the result of a call of the fuzzer, in bits: the same call on another number
of threads, in the other layout, and of one box, one image or one query alone.
"""

from __future__ import annotations

import numpy as np

# Arguments that have an entry, or a row, for each box.
OF_BOXES = ("grad_output", "argmax", "masks", "coefficients", "box_indices")
MAPS = ("input", "image", "features", "grad_output", "argmax")
SHAPES = ("input_shape", "input_shapes", "image_shape")
# Arguments of deformable_attention that have a part for each image, and for each query.
OF_IMAGES, OF_QUERIES = ("value", "locations", "weights", "grad_output"), ("locations", "weights")


def turned(value, axes):
    """Return maps, results or shapes with axes in another order; others as they are."""
    if isinstance(value, np.ndarray) and value.ndim == 4:
        return value.transpose(axes)
    if isinstance(value, (list, tuple)) and len(value) and not np.isscalar(value[0]):
        return type(value)(turned(part, axes) for part in value)
    is_shape = isinstance(value, tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)
    if is_shape and len(value) == 4:
        return tuple(value[axis] for axis in axes)
    return value


def of_crops(result, axes):
    """Return crops with axes in another order, and the widths of lines as they are."""
    return (turned(result[0], axes), *result[1:]) if type(result) is tuple else turned(result, axes)


def fresh(out):
    """Return an array, or a list of them, to write to instead of `out`."""
    if isinstance(out, list):
        return [fresh(part) for part in out]
    return np.full(out.shape, 99, out.dtype)


def in_other_layout(arguments):
    """Return the call in the other layout, and a function that takes its result back."""
    last = arguments["layout"] == "NHWC"
    axes, back = ((0, 3, 1, 2), (0, 2, 3, 1)) if last else ((0, 2, 3, 1), (0, 3, 1, 2))
    given = {k: turned(v, axes) if k in MAPS + SHAPES else v for k, v in arguments.items()}
    if "out" in given:
        given["out"] = turned(fresh(given["out"]), axes)
    return given | {"layout": "NCHW" if last else "NHWC"}, lambda result: turned(result, back)


def of_one_box(arguments, k):
    """Return the call with box k alone; None where it is in a list of numbers."""
    given, boxes = dict(arguments), arguments["boxes"]
    if isinstance(boxes, np.ndarray):
        given["boxes"] = boxes[k : k + 1]
        if given.get("boxes_num") is not None:
            image = np.searchsorted(np.cumsum(given["boxes_num"]), k, side="right")
            given["boxes_num"] = [int(i == image) for i in range(len(given["boxes_num"]))]
    elif boxes and all(isinstance(part, np.ndarray) and part.ndim == 2 for part in boxes):
        starts = np.cumsum([0] + [len(part) for part in boxes])
        given["boxes"] = [
            part[max(k - start, 0) : max(k - start + 1, 0)]
            for part, start in zip(boxes, starts[:-1], strict=True)
        ]
    else:
        return None
    for key in OF_BOXES:
        if isinstance(given.get(key), np.ndarray):
            given[key] = given[key][k : k + 1]
    if "out" in given:
        given["out"] = fresh(given["out"])[k : k + 1]
    return given


def of_one_image(arguments, i, count):
    """Return the call of a gradient of `count` maps with image i and its boxes alone, or None."""
    given, boxes = dict(arguments), arguments["boxes"]
    if isinstance(boxes, list):
        are_rows = all(isinstance(part, np.ndarray) and part.ndim == 2 for part in boxes)
        if not are_rows or len(boxes) != count:
            return None
        numbers = np.repeat(np.arange(len(boxes)), [len(part) for part in boxes])
        given["boxes"] = [boxes[i]]
    elif given.get("boxes_num") is not None:
        numbers = np.repeat(np.arange(len(given["boxes_num"])), given["boxes_num"])
        given |= {"boxes": boxes[numbers == i], "boxes_num": [int((numbers == i).sum())]}
    elif "box_indices" in given:
        numbers = given["box_indices"]
        given |= {"boxes": boxes[numbers == i], "box_indices": numbers[numbers == i] * 0}
    else:
        numbers, first = boxes[:, 0], boxes[:, :1]
        given["boxes"] = np.concatenate([first * 0, boxes[:, 1:]], 1)[numbers == i]
    for key in ("grad_output", "argmax"):
        if key in given:
            given[key] = given[key][numbers == i]
    if "input" in given:
        given["input"] = given["input"][i : i + 1]
    for key in SHAPES:
        if key in given:
            given[key] = of_one(given[key])
    given.pop("out", None)
    return given


def of_one(shape):
    """Return the shape of a map, or the shapes of maps, with one image."""
    if len(shape) and np.ndim(shape[0]):
        return [of_one(part) for part in shape]
    return (1, *shape[1:])


def gathered(result):
    """Return gradients of boxes as one array, if they are a list for each image."""
    is_list = isinstance(result, list) and result and isinstance(result[0], np.ndarray)
    return np.concatenate(result) if is_list else result


def of_attention(arguments, result):
    """Return rows as `variants` does: an image alone, and of results a query alone."""

    def row_of(what, keys, at):
        given = arguments | {key: arguments[key][at] for key in keys if key in arguments}
        if "out" in given:
            given["out"] = fresh(given["out"])[at]
        parts = tuple(part[at] for part in result) if type(result) is tuple else result[at]
        return f"{what} alone", given, parts, lambda end: end

    i, q = (extent * 2 // 3 for extent in arguments["locations"].shape[:2])
    found = [row_of(f"image {i}", OF_IMAGES, np.s_[i : i + 1])]
    if "grad_output" not in arguments:
        found.append(row_of(f"query {q}", OF_QUERIES, np.s_[:, q : q + 1]))
    return found


def variants(name, arguments, result):
    """Return rows: what varies, a call, what it must give, and what takes this from its end."""
    given = dict(arguments)
    if "out" in given:
        given["out"] = fresh(given["out"])
    found = [(f"{n} threads", given | {"num_threads": n}, result, lambda end: end) for n in (1, 2)]
    if "maps" in arguments or "pillow" in arguments or name == "resize_masks":
        return found
    if "locations" in arguments:
        return found + of_attention(arguments, result)
    if "layout" in arguments:
        call, back = in_other_layout(arguments)
        found.append(("the other layout", call, result, back))
    elif arguments.get("channels") in ("first", "last") and "frames" in arguments:
        first = arguments["channels"] == "first"
        axes = (0, 3, 1, 2) if first else (0, 2, 3, 1)
        call = given | {"channels": "last" if first else "first"}
        if "out" in call:
            call["out"] = turned(call["out"], (0, 2, 3, 1) if first else (0, 3, 1, 2))
        found.append(("the other order of channels", call, result, lambda end: of_crops(end, axes)))
    if name.endswith("_backward"):
        is_list = isinstance(result, list)
        count = len(result[0] if is_list else result)
        i = count // 2
        call = of_one_image(arguments, i, count) if count else None
        if call is not None:
            alone = [one[i : i + 1] for one in result] if is_list else result[i : i + 1]
            found.append((f"image {i} alone", call, alone, lambda end: end))
    else:
        whole = gathered(result)
        count = len(whole[0] if isinstance(whole, tuple) else whole)
        k = count * 2 // 3  # neither the first nor the last of several
        # Without a width, lines are padded to the widest one.
        padded = name == "crop_lines" and arguments["width"] is None
        call = of_one_box(arguments, k) if count and not padded else None
        if call is not None:
            one = slice(k, k + 1)
            alone = tuple(part[one] for part in whole) if type(whole) is tuple else whole[one]
            found.append((f"box {k} alone", call, alone, gathered))
    return found
