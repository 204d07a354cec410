"""The site has a page for each public function, and lists only pages that exist."""

import ast
import importlib.util
import inspect
import re
import shlex
from pathlib import Path

import pytest

import roicy
from roicy.__main__ import _parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def names_listed(page):
    """Return the names that the tables of a page of the reference list, by module."""
    found = {}
    for module, table in re.findall(
        r"\.\. (?:current)?module:: (\S+)\n(.*?)```", (DOCS / page).read_text(), re.DOTALL
    ):
        found.setdefault(module, []).extend(re.findall(r"^   ([A-Za-z_.]+)$", table, re.MULTILINE))
    return found


def public_names(module):
    """Return ``__all__`` of a module, which need not be importable here."""
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    names = set()
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "__all__":
            names.update(ast.literal_eval(statement.value))
        elif isinstance(statement, ast.AugAssign):  # of the lists of its modules
            names |= public_names(f"{module}.{statement.value.value.id}")
    assert names, f"{module} has no __all__"
    return names


def test_functions_and_tensors():
    """Each public name of roicy and of roicy.torch is in the reference once."""
    names = names_listed("api.md")["roicy"]
    expected = {*roicy.__all__, *roicy._LATER} - {"__version__"}
    assert not expected ^ {*names}, "docs/api.md: see 'Adding an operator' in CONTRIBUTING.md"
    assert len(names) == len(expected)
    names = names_listed("api_torch.md")["roicy.torch"]
    expected = public_names("roicy.torch")
    assert not expected ^ {*names}, "docs/api_torch.md: see 'Adding an operator'"
    assert len(names) == len(expected)


SYSTEMS = sorted(
    path.stem for path in (ROOT / "roicy/compat").iterdir() if not path.name.startswith("_")
)


@pytest.mark.parametrize("system", SYSTEMS)
def test_other_systems(system):
    """The calls of other systems are in the reference; torchvision's functions are roicy's own."""
    module = f"roicy.compat.{system}"
    names = names_listed("api_compat.md")[module]
    expected = public_names(module) - {"contrib", "image"}  # namespaces
    if system == "torchvision":
        expected -= set(roicy.__all__)
    if system == "paddle":
        expected |= {f"vision.ops.{name}" for name in public_names(f"{module}.vision.ops")}
    assert sorted(names) == sorted(expected)


def test_parameters():
    """The docstring of a function describes each of its parameters, by the name that it has."""
    for name in roicy.__all__:
        found = re.search(
            r"Parameters\n-+\n(.*?)\n\nReturns", inspect.getdoc(getattr(roicy, name)) or "", re.S
        )
        if found is not None:
            described = re.findall(r"^([a-z_, 0-9]+) :", found[1], re.MULTILINE)
            described = [one for names in described for one in names.split(", ")]
            assert described == list(inspect.signature(getattr(roicy, name)).parameters), name


def test_nothing_is_hidden():
    """No line of a page begins with a percent sign, by which MyST takes it for a comment."""
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("*/README.md")]
    for page in pages:
        assert not re.findall("^%.*", page.read_text(), re.MULTILINE), page.name


def test_formulas():
    """Formulas of the reference are of functions that exist."""
    specification = importlib.util.spec_from_file_location("formulas", DOCS / "_ext/formulas.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert set(module.FORMULAS) <= set(roicy.__all__)


PAGES = [
    *(page for page in DOCS.rglob("*.md") if not {"auto_examples", "generated"} & {*page.parts}),
    *ROOT.glob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
    *(ROOT / name / "README.md" for name in ("asv_bench", "pyx", "tests")),
]
BLOCK = re.compile(r"^( *)```(\S*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
# what blocks may need that is not there; all else has to be there
MISSING = ("dask", "onnx", "onnxruntime", "openvino", "torch", "torchvision")


def blocks_of(page, *languages):
    """Return the blocks of a page in some languages, and the lines where they begin."""
    text = page.read_text()
    found = [one for one in BLOCK.finditer(text) if one[2] in languages]
    return [(text.count("\n", 0, one.start()) + 2, one[3]) for one in found]


def plain_blocks(page):
    """Return the blocks of Python that doctest does not run."""
    return [one for one in blocks_of(page, "python") if ">>>" not in one[1]]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if plain_blocks(page)], ids=lambda page: page.stem
)
def test_blocks_run(page, monkeypatch):
    """What readers paste runs, block after block, but for fragments, which say why they do not.

    Pages with examples for doctest run by it, as ``--doctest-glob`` of pyproject.toml says.
    """
    monkeypatch.chdir(ROOT)
    names = {"__name__": "__main__"}
    for line, block in plain_blocks(page):
        code = compile("\n" * (line - 1) + block, str(page), "exec")
        if re.match(r"# fragment: \S", block):
            continue
        try:
            exec(code, names)
        except ModuleNotFoundError as error:
            if error.name.split(".")[0] not in MISSING:
                raise
            pytest.skip(f"{error.name} is not here")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_known(page):
    """The command line takes what pages say that one should type."""
    text = "\n".join(block for _, block in blocks_of(page, "sh", "", "yaml"))
    text += "\n".join(re.findall(r"^    (python -m roicy .*)", page.read_text(), re.MULTILINE))
    text = text.replace("\\\n", " ").replace("${{ github.event.pull_request.base.sha }}", "SHA")
    for found in re.finditer(r"python -m roicy ([^|>&\n]*)", text):
        words = shlex.split(found[1], comments=True)
        _parser().parse_args(words)


def test_blocks_of_python_are_marked():
    """A block without a language is output or a drawing, and highlighted as such."""
    for page in PAGES:
        for line, block in blocks_of(page, ""):
            assert not re.match(r"(import|from) \w+|>>> ", block), f"{page.name}:{line}"


def test_walks_are_true():
    """Each function of the trees in pyx/README.md is defined in the file beside it."""
    trees = "".join((ROOT / "pyx/README.md").read_text().split("```")[1::2])
    steps = re.findall(r"^ *(\S+(?:, \S+)*) +(\S+\.(?:pyx|pxd|py|h))\b", trees, re.MULTILINE)
    assert len(steps) > 45
    folders = [ROOT / folder for folder in (".", "pyx", "roicy", "roicy/compat")]
    for names, file in steps:
        text = next(path for folder in folders if (path := folder / file).is_file()).read_text()
        for name in names.split(", "):
            function = name.partition("(")[0].rpartition(".")[2]
            defined = rf"^ *(c?def|class|static|RULE_FN)\b.*\b{function}\b|^ *{function}: "
            assert re.search(defined, text, re.MULTILINE), f"pyx/README.md: {name}, {file}"
