"""What recipes of CONTRIBUTING.md and pyx/README.md ask for, and other tests would not miss."""

import ast
import inspect
import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import reference
from conftest import ROWS, SUMS
from problems import PARAMETERS

import roicy
from roicy._kernels import methods
from roicy._kernels.plan import Rule
from roicy._keywords import keywords_of

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "pyx").is_dir(), reason="the sources are not here")
OPERATOR = "see 'Adding an operator' in CONTRIBUTING.md"
KEYWORD = "see 'A keyword of an operator' in pyx/README.md"
RECORD = "see 'A constant' in pyx/README.md"
GIVEN = ("input", "boxes", "output_size", "spatial_scale", "boxes_num", "layout", "out")
COMMON = {*GIVEN, "num_threads", "features", "image_size"}
KEYWORDS = {
    name: [one for one in inspect.signature(getattr(roicy, name)).parameters if one not in COMMON]
    for name in [
        *(row.name for row in ROWS if row.name != "crop_and_resize"),
        "multiscale_roi_align",
    ]
    if hasattr(roicy, name)
}
# What keywords refuse, by the types of their defaults: values of wrong types, and others
WRONG = {
    bool: (("no", None, 2), ()),
    int: (("2", None, True), (2**31, -(2**40))),
    float: (("2", None, True), (np.nan,)),
}
# More of it, by their names
MORE = {
    "sampling_ratio": ((), (2.5, np.float32(0.5), np.nan, 1e30)),
    "canonical_scale": ((), (0,)),
    "canonical_level": ((2.5,), ()),
}


def test_operators_have_functions_and_parameters():
    missing = [row.name for row in ROWS if not hasattr(roicy, row.name)]
    assert not missing, f"__all__ of their files, {missing}: {OPERATOR}"
    assert {*reference.PARAMETERS} <= {*PARAMETERS}, f"names of tests/reference.py: {OPERATOR}"


@pytest.mark.parametrize("given", [{"kind": "none"}, {"kind": "sampled", "no_field": 1}])
def test_kinds_and_fields_that_are_not_listed_are_missed(given):
    with pytest.raises(ValueError, match="expected one of .* see 'Recipes' in pyx/README.md"):
        Rule(**given)


def functions_of(file):
    """Return the functions of a file that could not be imported without other packages."""
    tree = ast.parse((ROOT / file).read_text())
    return {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}


def test_tensors_have_the_operators_of_arrays():
    """Their keywords come in the same order, which is that of `torch.ops.roicy`, too."""
    functions = functions_of("roicy/torch/functions.py")
    assert not KEYWORDS.keys() - functions.keys(), f"roicy/torch/functions.py: {OPERATOR}"
    for name, of_arrays in KEYWORDS.items():
        keywords = [one for one in of_arrays if one != "return_argmax"]  # which is of arrays alone
        assert keywords == [*keywords_of(name)], f"roicy/_keywords.py, {name}: {KEYWORD}"
        given = [one.arg for one in functions[name].args.args if one.arg not in COMMON]
        assert given == keywords, f"roicy/torch/functions.py, {name}: {KEYWORD}"


def test_modules_have_the_keywords_of_functions():
    """That of pyramids has torchvision's parameters, and so no `aligned`."""
    tree = ast.parse((ROOT / "roicy/torch/modules.py").read_text())
    for one in [one for one in tree.body if isinstance(one, ast.ClassDef) and one.decorator_list]:
        (name,) = [argument.value for argument in one.decorator_list[0].args]
        methods = {method.name: method for method in one.body if hasattr(method, "args")}
        given = getattr(methods.get("__init__"), "args", None)
        names = {one.arg for one in given.args + given.kwonlyargs} if given else set()
        missing = {*keywords_of(name)} - names - ({"aligned"} if "multi" in name else set())
        assert not missing, f"roicy/torch/modules.py, {one.name}, {missing}: {KEYWORD}"


def test_gradients_have_the_keywords():
    """That of maxima of pixels reads argmax, and needs none."""
    for name in KEYWORDS.keys() - {"roi_pool"}:
        for function in (f"{name}_backward", f"{name}_backward_boxes"):
            if hasattr(roicy, function):
                given = inspect.signature(getattr(roicy, function)).parameters
                assert {*KEYWORDS[name]} <= {*given}, f"{function}: {KEYWORD}"


def test_keywords_are_compared_with_the_definition():
    for name in SUMS:
        parameters = inspect.signature(getattr(roicy, name)).parameters
        rows = PARAMETERS[name][:2]  # which run on the GPU's stand-in, too
        for keyword in KEYWORDS[name]:
            values = {row.get(keyword, parameters[keyword].default) for row in rows}
            where = f"the first two rows of {name} in PARAMETERS of tests/reference.py, {keyword}"
            assert values - {parameters[keyword].default}, f"{where}: {KEYWORD}"


def test_the_table_of_methods_is_whole():
    text = (ROOT / "pyx/README.md").read_text()
    table = text.partition("| method |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert rows == methods.names(), "pyx/README.md: see 'A method' there"


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_refuse_wrong_values(name):
    parameters = inspect.signature(getattr(roicy, name)).parameters
    x, scale = np.ones((1, 4, 6, 6), np.float32), 1.0
    if name == "multiscale_roi_align":
        x, scale = [x], [scale]
    boxes = np.eye(1, 6 if name == "roi_align_rotated" else 5, 1, np.float32)
    for keyword in KEYWORDS[name]:
        wrong = WRONG[type(parameters[keyword].default)], MORE.get(keyword, ((), ()))
        for error, *values in zip((TypeError, ValueError), *wrong, strict=True):
            for value in itertools.chain(*values):
                with pytest.raises(error, match=f"^{keyword}: "):
                    getattr(roicy, name)(x, boxes, 2, scale, **{keyword: value})


def test_records_exist_once():
    """A row of docs/records.md has an id of its own, and what names a row finds it."""
    ids = Counter(
        re.findall(r"^\| (R\d+) \|", (ROOT / "docs/records.md").read_text(), re.MULTILINE)
    )
    assert [one for one, times in ids.items() if times > 1] == [], f"ids of two rows: {RECORD}"
    for folder in ("pyx", "roicy", "docs", "asv_bench", "tests", "."):
        for file in (ROOT / folder).glob("*" if folder == "." else "**/*"):
            if file.suffix in (".pyx", ".pxd", ".h", ".c", ".cu", ".py", ".md"):
                unknown = {*re.findall(r"\bR\d{3}\b", file.read_text())} - {*ids}
                assert not unknown, f"{file.relative_to(ROOT)}, {unknown}: {RECORD}"
