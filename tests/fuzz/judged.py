"""Makes a call on every instruction set and in every other way, and checks what must hold."""

from __future__ import annotations

import contextlib
import inspect
import warnings

import numpy as np
from protocols import Named, WithArray

import roicy
from roicy._machine import _dispatch

from . import agreement

# Arguments that are read as arrays, whatever gives them to NumPy.
READ = (
    "input", "features", "masks", "prototypes", "coefficients", "boxes", "boxes_num", "grad_output",
    "argmax", "value", "locations", "weights",
)  # fmt: skip
EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
ISAS = tuple(_dispatch.usable())


@contextlib.contextmanager
def using(isa):
    """Compute by the kernels of an instruction set."""
    _dispatch.use(isa)
    try:
        yield
    finally:
        _dispatch.use(ISAS[0])


def outcome(isa, name, arguments):
    """Return what a call with the kernels of an instruction set returns or raises."""
    try:
        with using(isa), np.errstate(all="raise"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"(boxes(\[\d+\])?|mean|mean, std|scale): ")
            result = getattr(roicy, name)(**arguments)
    except (TypeError, ValueError, MemoryError) as error:
        return error
    return copied(result)


def copied(result):
    """Return copies of arrays, since a call with the same `out` writes to it again."""
    if isinstance(result, (list, tuple)):
        return type(result)(copied(part) for part in result)
    return result.copy() if isinstance(result, np.ndarray) else result


def not_plain(value):
    """Return an equal array of another class, or a list in which arrays have that class."""
    if type(value) in (list, tuple):
        return type(value)(not_plain(part) for part in value)
    return value.view(Named) if type(value) is np.ndarray else value


def converted(name, arguments):
    """Return the outcome of the call when Python has to convert every array."""
    given = {key: value if key == "out" else not_plain(value) for key, value in arguments.items()}
    result = outcome(ISAS[0], name, given)
    if isinstance(result, Exception):  # the message may name the class
        text = str(result).replace(f"{Named.__module__}.Named", "numpy.ndarray")
        return type(result)(text.replace("Named(", "array("))
    return result


def friendlier(arguments, images):
    """Return arguments that mean the same in forms that need to be converted."""
    given = dict(arguments)
    for key in READ:
        value = given.get(key)
        if key == "boxes" and type(value) is np.ndarray and len(value):
            given[key] = value.tolist()
        elif isinstance(value, list) and any(isinstance(part, np.ndarray) for part in value):
            rows = key == "boxes"
            given[key] = [np.asarray(one).tolist() if rows else WithArray(one) for one in value]
        elif isinstance(value, np.ndarray):
            given[key] = WithArray(value)
    if images == 1 and given.get("boxes_num") is not None:
        del given["boxes_num"]
    if "sampling_ratio" in given:
        given["sampling_ratio"] = float(given["sampling_ratio"])
    return given


def bits(result):
    """Return shapes, dtypes and bytes of a result, or the text of an error."""
    if isinstance(result, (tuple, list)):
        return [bits(part) for part in result]
    if isinstance(result, (Exception, dict)):
        return repr(result)
    return result.shape, result.dtype, result.tobytes()


def largest(array):
    return float(np.abs(array.astype(np.float64)).max(initial=0))


def judged(name, arguments, buffer, check, images=None):
    """Make a call on all instruction sets, check what must hold, and return how it ended.

    `check` looks at the results.  `images` is the number of images, where arguments may also be
    given in forms that Python has to convert.
    """
    before = {key: _bytes_of(value) for key, value in arguments.items() if key != "out"}
    ends = [outcome(isa, name, arguments) for isa in ISAS]
    ended = "value"
    if isinstance(ends[0], Exception):
        ended = type(ends[0]).__name__
        # An error begins with the argument that is wrong, or with what could not be made.
        named = *inspect.signature(getattr(roicy, name)).parameters, "the result of shape"
        lacks_memory = name.startswith("roi_align_max") and ended == "MemoryError"
        message = f"an error that names no argument: {ends[0]!r}"
        assert str(ends[0]).startswith(named) or lacks_memory, message
        assert all(repr(end) == repr(ends[0]) for end in ends)
    else:
        check(ends)
        agree(name, arguments, ends)
    assert bits(converted(name, arguments)) == bits(ends[0])
    if ended == "value" and images is not None:
        assert bits(outcome(ISAS[0], name, friendlier(arguments, images))) == bits(ends[0])
    if buffer is not None:
        buffer.check(ended == "value")
    for key, value in before.items():
        if arguments[key] is not arguments.get("out"):
            assert _bytes_of(arguments[key]) == value, f"{key} was written to"
    return f"{name}: {ended}"


def _bytes_of(value):
    """Return the numbers of arrays that a call may only read."""
    if isinstance(value, (list, tuple)):
        return [_bytes_of(part) for part in value]
    return value.tobytes() if isinstance(value, np.ndarray) and value.dtype != object else None


def agree(name, arguments, ends):
    """Check that each instruction set gives its bits on other threads, and so on."""
    for isa, end in zip(ISAS, ends, strict=True):
        for what, call, expected, taken in agreement.variants(name, arguments, end):
            found = outcome(isa, name, call)
            context = f"{name} on {isa}, {what}: other bits than before"
            assert not isinstance(found, Exception), f"{context}: {found!r}"
            assert bits(taken(found)) == bits(expected), context
