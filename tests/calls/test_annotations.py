"""Annotations evaluate at run time, and suit programs that check calls by them."""

import dataclasses
import doctest
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
import typing

import numpy as np
import pytest
from conftest import python

import roicy
from roicy import attention, masks, prototypes
from roicy._checks import _arguments, _types
from roicy.cropping import arguments, filters, resizing

MODULES = ["roicy", "roicy.torch"]
MODULES += [name for _, name, _ in pkgutil.walk_packages(roicy.__path__, "roicy.")]
# beside modules that are not public: what needs CuPy, onnx or onnxruntime, and the command line
LEFT_OUT = ("roicy._", "roicy.bench", "roicy.cuda", "roicy.onnxruntime", "roicy.compat.onnx.")
HAS_TORCH = importlib.util.find_spec("torch") is not None


def public(is_one):
    """Return the functions or classes of all modules by their names, each of them once."""
    found, seen = {}, set()
    for module in MODULES:
        if module.startswith(LEFT_OUT) or (module.startswith("roicy.torch") and not HAS_TORCH):
            continue
        module = importlib.import_module(module)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if is_one(value) and value not in seen:
                seen.add(value)
                found[f"{module.__name__}.{name}"] = value
    return found


FUNCTIONS = public(inspect.isfunction)
METHODS = {
    f"{name}.{method.__name__}": method
    for name, cls in public(inspect.isclass).items()
    for method in vars(cls).values()
    if inspect.isfunction(method) and method.__name__ in ("__init__", "__call__", "forward")
}
NOTHING = {"roicy.masks.Code", "roicy.compat.paddle.LoDTensor"}  # classes that are not called


def test_all_are_found():
    """Modules of all kinds are looked into."""
    assert {"roicy.crop_lines", "roicy.compat.mxnet.ROIAlign", "roicy.compat.onnx.RoiAlign"} <= {
        *FUNCTIONS
    }
    assert "roicy.compat.torchvision.RoIAlign.__init__" in METHODS
    assert not HAS_TORCH or "roicy.torch.RoIAlign.forward" in METHODS


@pytest.mark.parametrize("name", [*FUNCTIONS, *METHODS])
def test_they_evaluate(name):
    function = (FUNCTIONS | METHODS)[name]
    hints = typing.get_type_hints(function)
    named = set(inspect.signature(function).parameters) - {"self"}
    assert named <= set(hints)
    # of TorchScript's BroadcastingList2[int], which functions take no None for
    assert type(None) not in [hints[one] for one in named]
    for overload in getattr(typing, "get_overloads", lambda _: ())(function):
        assert named == set(typing.get_type_hints(overload)) - {"return"}


def words_of(hint):
    """Return the words that a type has."""
    if typing.get_origin(hint) is typing.Literal:
        return {*typing.get_args(hint)}
    return set().union(*map(words_of, typing.get_args(hint)))


# What functions check, by the type of the argument.
WORDS = {
    "Alpha": resizing.ALPHAS, "Antialias": {*arguments.RULES} - {False, True},
    "Arithmetic": resizing.ARITHMETICS, "Border": arguments.BORDERS, "Channels": arguments.CHANNELS,
    "Color": arguments.COLORS, "Filter": filters.FILTERS, "Fit": arguments.FITS,
    "Form": masks.FORMATS, "Layout": _arguments.LAYOUTS, "Matrix": arguments.MATRICES,
    "Method": _arguments.METHODS, "Methods": _arguments.METHODS, "Overview": resizing.OVERVIEWS,
    "Padding": attention.PADDINGS, "PrototypeFit": prototypes.FITS,
    "PrototypeRule": prototypes.RULES, "Range": arguments.RANGES, "ResizeFit": resizing.FITS,
    "Rule": masks.RULES,
}  # fmt: skip


def test_words():
    """Types have the words that functions take."""
    found = {name: words_of(hint) for name, hint in vars(_types).items() if name[0] != "_"}
    assert {name: words for name, words in found.items() if words} == {
        name: {*words} for name, words in WORDS.items()
    }


@pytest.mark.parametrize("name", public(dataclasses.is_dataclass))
def test_fields_evaluate(name):
    cls = public(dataclasses.is_dataclass)[name]
    assert {field.name for field in dataclasses.fields(cls)} <= set(typing.get_type_hints(cls))


def by_beartype(function):
    return pytest.importorskip("beartype").beartype(function)


def by_pydantic(function):
    return pytest.importorskip("pydantic").validate_call(function)


def by_pydantic_with_any_class(function):
    validate = pytest.importorskip("pydantic").validate_call
    return validate(config={"arbitrary_types_allowed": True})(function)


@pytest.mark.parametrize("check", [by_beartype, by_pydantic, by_pydantic_with_any_class])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_that_are_checked(monkeypatch, name, check):
    """The examples of a docstring give the same where a program checks the calls."""
    module, _, attribute = name.rpartition(".")
    if module == "roicy.torch" and check is by_pydantic:
        pytest.skip("pydantic knows no tensors")
    function, calls = FUNCTIONS[name], []
    checked = check(function)

    @functools.wraps(function)
    def counted(*args, **keywords):
        calls.append(attribute)
        return checked(*args, **keywords)

    monkeypatch.setattr(importlib.import_module(module), attribute, counted)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for examples in doctest.DocTestFinder(recurse=False).find(function, name, globs={}):
        runner.run(examples)
    assert runner.failures == 0
    if name in CALLS:
        counted(*CALLS[name])
    assert calls


MAPS, ROWS = np.ones((1, 4, 8, 8), np.float32), np.array([[0, 1, 1, 5, 5]])
GRADIENT, TURNED = np.ones((1, 4, 2, 2), np.float32), np.array([[0, 4, 4, 3, 3, 0.5]])
# of functions whose docstrings have no example, or call them by another name
CALLS = {
    "roicy.multiscale_roi_align_rotated_backward": (GRADIENT, TURNED, [MAPS.shape], [1.0]),
    "roicy.multiscale_roi_align_rotated_backward_boxes": (GRADIENT, [MAPS], [TURNED[:, 1:]], [1.0]),
    "roicy.compat.mmcv.roi_align_rotated": (MAPS, TURNED, 2, 1.0),
    "roicy.compat.mxnet.ROIAlign": (MAPS, ROWS, (2, 2), 1.0, 2),
    "roicy.compat.mxnet.RROIAlign": (MAPS, TURNED, (2, 2), 1),
    "roicy.compat.paddle.create_lod_tensor": (ROWS[:, 1:], [[1]]),
    "roicy.compat.paddle.prroi_pool": (MAPS, ROWS[:, 1:], 1.0, 2, np.int64(2)),
    "roicy.compat.paddle.vision.ops.roi_align": (MAPS, ROWS[:, 1:], [1], 2),
    "roicy.compat.paddle.vision.ops.roi_pool": (MAPS, ROWS[:, 1:], [1], 2),
    "roicy.compat.tensorflow.crop_and_resize": (MAPS, ROWS[:, 1:], [0], (2, 2)),
    "roicy.torch.patch_mmcv": (),
    "roicy.torch.patch_torchvision": (),
    "roicy.torch.patch_transformers": (),
}

# What is taken in place of the usual, and what is not.
TAKEN = [
    {"input": memoryview(MAPS), "boxes": ROWS.tolist(), "output_size": np.int64(2)},
    {"input": MAPS.astype(np.uint8), "boxes": [ROWS[:, 1:]], "output_size": [2, np.int64(3)]},
    {"boxes": [[[1, 1, 5, 5.5]]], "output_size": np.array([2, 2]), "spatial_scale": [1, 0.5]},
    {"boxes": ROWS[:, 1:], "boxes_num": [1], "spatial_scale": np.float32(1), "num_threads": 1},
    {"input": MAPS.astype(np.int8), "out": np.zeros((1, 4, 2, 2), np.int8), "layout": "NCHW"},
    {"sampling_ratio": 2.0, "aligned": True},
]
WRONG = [
    {"input": "map"}, {"input": [1]}, {"boxes": 3}, {"output_size": "7"}, {"layout": "CHW"},
    {"num_threads": "2"}, {"boxes_num": 1}, {"spatial_scale": "1"}, {"out": [1]},
]  # fmt: skip


@pytest.mark.parametrize("check", [by_beartype, by_pydantic, by_pydantic_with_any_class])
def test_what_is_taken(check):
    usual = {"input": MAPS, "boxes": ROWS, "output_size": 2}
    checked = check(roicy.roi_align)
    for given in TAKEN:
        given = usual | given
        np.testing.assert_array_equal(checked(**given), roicy.roi_align(**given))
    for given in WRONG:
        with pytest.raises(Exception, match=next(iter(given))) as caught:
            checked(**usual | given)
        assert caught.type.__module__.startswith(("beartype", "pydantic"))


def test_imports_pay_nothing():
    """`import roicy` imports neither the types, nor ONNX, nor what times and compares."""
    code = "import sys, numpy; before = {*sys.modules}; import roicy; "
    found = python(code + "print(*{*sys.modules} - before)")
    for name in found.stdout.split():
        assert not re.search(r"_typ|typing|onnx|roicy\.bench", name)
    assert (found.returncode, found.stderr) == (0, "")
    assert "roicy.operators" in found.stdout.split()
