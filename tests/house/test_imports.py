"""Files of pyx import and include only what pyx/README.md allows, and nothing goes in circles."""

import ast
import graphlib
import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYX = ROOT / "pyx"
pytestmark = pytest.mark.skipif(not PYX.is_dir(), reason="the sources are not here")
ENDINGS = ("pxd", "pyx", "h")
FILES = [path.relative_to(PYX) for ending in ENDINGS for path in PYX.rglob(f"*.{ending}")]
# For each folder, what it may import.  A folder stands for all of its files.
MAY_IMPORT = {
    "simd": ("simd",),
    "table": ("table", "simd", "images", "attention", "labels", "isa"),
    "plan": ("plan", "simd", "errors", "arrays", "threads", "tuning"),
    "passes": ("passes", "plan", "simd", "tuning"),
    "methods": ("methods", "passes", "plan", "simd", "tuning"),
    "call": (
        "call", "plan", "simd", "errors", "forms", "limits", "arrays", "threads", "tuning",
        "roicy._kernels.isa", "roicy._kernels.methods",
        "roicy._checks._arguments", "roicy._checks._boxes", "roicy._checks._levels",
        "roicy._checks._names",
        "roicy._machine._threads",
    ),
    "images": (
        "images", "simd", "errors", "forms", "arrays", "threads", "tuning", "roicy._kernels.isa",
    ),
    "attention": ("attention", "simd", "errors", "threads", "roicy._kernels.isa"),
    "labels": ("labels", "images", "simd", "errors", "threads", "tuning", "roicy._kernels.isa"),
    "provider": (
        "provider", "call", "plan", "images.places", "attention.structs", "labels.structs", "simd",
        "errors", "limits", "arrays", "threads", "roicy._kernels.attention", "roicy._kernels.isa",
        "roicy._kernels.labels", "roicy._kernels.paste", "roicy._kernels.plan",
        "roicy", "roicy._machine._threads", "roicy.compat.onnx._specs", "roicy.compat.onnx._ops",
        "roicy.onnxruntime._claims",
    ),
    "interface": (
        "interface", "call", "plan", "simd", "errors", "limits", "arrays", "threads",
        "roicy.cython_api", "roicy._kernels.machine", "roicy._kernels.plan",
    ),
    # the files beside the folders
    "": (
        "simd", "errors", "isa", "limits", "machine", "pool", "system", "threads", "timed",
        "tuning",
        "roicy._kernels.machine",
    ),
}  # fmt: skip
TABLES = (Path("pyx/isa.h"), Path("pyx/simd/table.h"))
WITHOUT_TABLES = ("roicy._kernels.machine", "roicy._kernels.cython_views_of_roicy")
OURS = (*filter(None, MAY_IMPORT), *{file.stem for file in FILES if len(file.parts) == 1}, "roicy")
# How a call goes down through Python and Cython, below the fronts, which import `_call`: no module
# imports one of a floor above its own.  A package stands for its modules.
FLOORS = (
    ("_call",),
    ("_cpu", "cuda.backend"),
    ("_table",),
    ("_kernels.plan",),
    ("_kernels.methods",),
    ("_machine",),
    ("_checks",),
    ("_kernels.machine",),
)
PACKAGES = {"provider": "onnxruntime.", "interface": ""}  # of modules that others load
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "roicy").rglob("*.py")
} | {
    f"roicy.{PACKAGES.get(path.parent.name, '_kernels.')}{path.stem}": path
    for path in PYX.rglob("*.pyx")
}
# Imports of Cython and Python in Cython, and headers in quotation marks, which Cython's `extern`
# names as well
IMPORT = re.compile(
    r"^\s*(?:from\s+([\w.]+)\s+c?import\s+(\([^)]*\)|.*)|c?import\s+([\w.]+))", re.MULTILINE
)
INCLUDE = re.compile(r'^\s*(?:#\s*include|cdef extern from) "([\w./]+)"', re.MULTILINE)


def submodules(module, names):
    """Return what an import of names from a module imports: modules of it, or else itself."""
    return {inner if (inner := f"{module}.{name}") in MODULES else module for name in names}


def cython_imports(text):
    """Return the modules that the text of a Cython file imports, in either language."""
    found = []
    for module, names, whole in IMPORT.findall(text):
        found += submodules(module, re.findall(r"\w+", names)) if module else [whole]
    return found


def python_imports(name):
    """Return the modules that a Python module imports when it is loaded or called."""
    path = MODULES[name]
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    tree, found = ast.parse(path.read_text()), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            found |= submodules(module, [alias.name for alias in node.names])
    return found


def imported_by_files(path):
    """Return the modules that a Cython file imports, and the files of pyx that it imports."""
    waiting, found = [path], []
    for file in waiting:
        imports = cython_imports(file.read_text())
        found += imports
        files = [(PYX / module.replace(".", "/")).with_suffix(".pxd") for module in imports]
        waiting += [other for other in files if other.is_file() and other not in waiting]
    return found


def imported(name):
    """Return the modules of roicy that a module imports, in either language."""
    path = MODULES[name]
    found = imported_by_files(path) if path.suffix == ".pyx" else python_imports(name)
    return MODULES.keys() & set(found) - {name}


def imports_of(file):
    """Return what a file imports, as modules; a header stands for the module of that name."""
    text = (PYX / file).read_text()
    modules = cython_imports(text)
    for header in INCLUDE.findall(text):
        beside = file.parent / header
        found = beside if (PYX / beside).is_file() else Path(header)
        assert (PYX / found).is_file(), f"{header} is neither in this folder nor in pyx"
        modules.append(".".join(found.with_suffix("").parts))
    return modules


@pytest.mark.parametrize("file", FILES, ids=str)
def test_imports(file):
    room = file.parts[0] if len(file.parts) > 1 else ""
    for module in imports_of(file):
        if module.split(".")[0] in OURS:
            allowed = MAY_IMPORT[room]
            assert module in allowed or module.split(".")[0] in allowed, module


def test_no_circles():
    """Imports go in one direction, whether modules are compiled or not."""
    fronts = {path.stem for path in (ROOT / "roicy").glob("[a-z]*.py")}
    fronts = {name for name in fronts if "roicy._call" in imported(f"roicy.{name}")}
    assert {"operators", "integrals", "multiscale", "normalised"} <= fronts
    waiting, graph = [f"roicy.{name}" for name in fronts], {}
    while waiting:
        name = waiting.pop()
        if name not in graph:
            graph[name] = imported(name)
            waiting += graph[name]
    below = {}
    for name in graphlib.TopologicalSorter(graph).static_order():  # a circle is an error
        below[name] = graph[name].union(*(below[other] for other in graph[name]))
    above = set()
    for floor in ((*fronts,), *FLOORS):
        packages = tuple(f"roicy.{name}." for name in floor)
        modules = {name for name in graph if f"{name}.".startswith(packages)}
        assert not [(name, below[name] & above) for name in modules if below[name] & above]
        above |= modules


def test_imports_are_found():
    """All kinds of them are read."""
    assert "roicy._checks._arguments" in imports_of(Path("call/plan.pyx"))
    assert {"roicy._checks._levels", "roicy._machine._threads"} <= imported("roicy._kernels.plan")
    assert {"roicy._kernels.plan", "roicy._table"} <= imported("roicy._cpu")
    assert "roicy.cuda.backend" in imported("roicy._call")  # a function imports it
    assert "simd.structs" in imports_of(Path("images/paste.pyx"))
    assert "simd.vector" in imports_of(Path("simd/simd.h"))
    assert "images.axis" in imports_of(Path("images/yuv.h"))
    assert "threads" in imports_of(Path("images/crop.pyx"))


def test_headers_are_dependencies(monkeypatch):
    """An edit of a header rebuilds what includes it."""
    build = pytest.importorskip("Cython.Build.Dependencies")
    compiler = pytest.importorskip("Cython.Compiler.Main")
    monkeypatch.setattr(pytest.importorskip("setuptools"), "setup", lambda **_: None)
    monkeypatch.chdir(PYX.parent)
    setup = runpy.run_path("setup.py")
    options = compiler.CompilationOptions(include_path=["pyx", "."])
    context = compiler.Context.from_options(options)
    extensions = setup["extensions"]()
    made, _ = build.create_extension_list(extensions, ctx=context, quiet=True)
    for module in made:
        found = {Path(path) for path in setup["with_included"](module.depends)}
        assert found.isdisjoint(TABLES) == (module.name in WITHOUT_TABLES)
    of_plan = setup["with_included"](setup["declarations"]("pyx/call/plan.pyx"))
    assert str(Path("pyx/plan/rules_rotated.h")) in of_plan
    table = setup["with_included"]([Path("pyx/table/avx2.c")])
    headers = ("images/warp.h", "simd/rows.inc.h", "simd/convert.h", "simd/contract.inc.h")
    assert {str(Path("pyx", header)) for header in headers} <= set(table)


def room_of(module):
    """Return the folder of a module of pyx, "" for what lies beside them, or None."""
    path = MODULES.get(module, Path())
    if PYX in path.parents:
        return "" if path.parent == PYX else path.parent.name
    first = module.split(".")[0]
    return first if first in MAY_IMPORT else "" if first in OURS and first != "roicy" else None


def test_rooms_go_in_no_circle():
    graph = {room: set() for room in MAY_IMPORT}
    for file in FILES:
        room = file.parts[0] if len(file.parts) > 1 else ""
        graph[room] |= {room_of(module) for module in imports_of(file)} - {room, None}
    order = list(graphlib.TopologicalSorter(graph).static_order())  # a circle is an error
    assert order[0] == "simd"
    assert graph["images"] == {"simd", ""}
    assert graph["methods"] == {"passes", "plan", "simd", ""}
    assert {"", *(file.parts[0] for file in FILES if len(file.parts) > 1)} == set(MAY_IMPORT)


def test_wheels_have_all_packages():
    """Each folder of Python's files has an entry in pyproject.toml, or a wheel lacks it."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {path.parent.relative_to(ROOT) for path in (ROOT / "roicy").rglob("__init__.py")}
    assert {".".join(folder.parts) for folder in found} == set(named)
