"""Lines, functions and their parameters are short enough to be read at once."""

import ast
import itertools
import re
from pathlib import Path

import planted_faults
import pytest

import roicy

ROOT = Path(__file__).parent.parent
MAX_COLUMNS, MAX_LINES, MAX_PARAMETERS, MAX_LINES_OF_FILE = 100, 60, 8, 700
pytestmark = pytest.mark.skipif(not (ROOT / "pyx").is_dir(), reason="the sources are not here")


def files(folders, endings):
    found = itertools.chain.from_iterable((ROOT / folder).rglob("*") for folder in folders)
    return sorted(path.relative_to(ROOT) for path in found if path.suffix in endings)


FOLDERS = ("pyx", "roicy", "tests", "asv_bench", "examples", ".ci", "docs/_ext")
# The build copies pyx/plan/rules*.h into roicy/cuda, so these copies are left out.
SCRIPTS = [file for file in files([".ci"], [""]) if (ROOT / file).is_file()]
SOURCES = [
    file
    for file in files(FOLDERS, (".py", ".pyx", ".pxd", ".h", ".cu", ".c"))
    if file.parts[:2] != ("roicy", "cuda") or file.suffix != ".h"
]
COMPILED = files(("pyx", "roicy/_kernels"), (".pyx", ".pxd", ".h"))
CUDA = files(["roicy"], [".cu"])


@pytest.mark.parametrize("file", [*SOURCES, *SCRIPTS], ids=str)
def test_columns(file):
    lines = (ROOT / file).read_text().splitlines()
    assert [i for i, line in enumerate(lines, 1) if len(line) > MAX_COLUMNS] == []


def test_no_test_imports_another():
    for file in (ROOT / "tests").glob("*.py"):
        assert not re.findall(r"^ *(?:from|import) test_\w+", file.read_text(), re.MULTILINE), file


def lines_of(node):
    """Return how many lines a Python function has without its docstring."""
    docstring = node.body[0] if ast.get_docstring(node) else None
    first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
    length = node.end_lineno - first + 1
    return length - (docstring.end_lineno - docstring.lineno + 1 if docstring else 0)


@pytest.mark.parametrize("file", files(["roicy"], [".py"]), ids=str)
def test_python_functions(file):
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert lines_of(node) <= MAX_LINES, node.name
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            names = [argument.arg for argument in given if argument.arg not in ("self", "cls")]
            # Public operators have as many parameters as those of other libraries.
            public = node.name in roicy.__all__ or file.parts[1] in ("torch", "compat")
            assert public or len(names) <= MAX_PARAMETERS, node.name


def without_comments(text, cython):
    """Blank out comments and strings, and keep the lines."""
    strings = r'"""(?:.|\n)*?"""|"(?:\\.|[^"\\\n])*"' + (
        r"|'(?:\\.|[^'\\\n])*'|#.*" if cython else ""
    )
    pattern = strings if cython else strings + r"|/\*(?:.|\n)*?\*/|//.*"
    return re.sub(pattern, lambda found: "\n" * found[0].count("\n"), text)


def count_parameters(text):
    """Return how many parameters the text between brackets has."""
    while re.search(r"[\[(<{][^\[\](){}<>]*[\])>}]", text):
        text = re.sub(r"[\[(<{][^\[\](){}<>]*[\])>}]", "", text)
    names = [name.split()[-1] for name in text.split(",") if name.strip()]
    return len([name for name in names if name not in ("self", "void")])


def cython_functions(text):
    """Yield (name, parameters, lines without docstring) of each def, cdef and cpdef."""
    docstrings = {
        text.count("\n", 0, found.start()) + 1: found[0].count("\n") + 1
        for found in re.finditer(r'^ +"""(?:.|\n)*?"""', text, re.MULTILINE)
    }
    clean = without_comments(text, cython=True).split("\n")
    start = re.compile(r"^( *)(?:def|cdef|cpdef) [^=]*?(\w+)\(")
    for i, line in enumerate(clean):
        found = start.match(line)
        if not found:
            continue
        rest, stop = "\n".join(clean[i:]), i
        head = re.match(r"(?:.|\n)*?\)[^()]*?(:?) *$", rest, re.MULTILINE)
        while rest[: head.end()].count("(") != rest[: head.end()].count(")"):
            head = re.compile(r"(?:.|\n)*?\)[^()]*?(:?) *$", re.MULTILINE).match(rest, head.end())
        signature = rest[: head.end()]
        stop = i + rest[: head.end()].count("\n")
        if signature.rstrip().endswith(":"):
            body = itertools.takewhile(
                lambda line, indent=found[1]: not line.strip() or line.startswith(indent + " "),
                clean[stop + 1 :],
            )
            body = list(body)
            while body and not body[-1].strip():
                body.pop()
            stop += len(body)
        inside = signature[signature.index("(") + 1 : signature.rindex(")")]
        spent = sum(count for line, count in docstrings.items() if i < line - 1 <= stop)
        yield found[2], count_parameters(inside), stop - i + 1 - spent


def c_functions(text):
    """Yield (name, parameters, lines) of each C function that has a body."""
    clean = without_comments(text, cython=False)
    clean = re.sub(
        r"^ *#(?:.*\\\n)*.*", lambda found: "\n" * found[0].count("\n"), clean, flags=re.M
    )
    start = re.compile(r"^\w[^;{}()=]*?(?:NAME\((\w+)\)|(\w+))\(([^;{}]*)\)\s*\{", re.MULTILINE)
    for found in start.finditer(clean):
        lines = clean.count("\n", found.start(), closing(clean, found.end() - 1)) + 1
        yield found[1] or found[2], count_parameters(found[3]), lines


def closing(text, start):
    """Return where the bracket at `start` is closed."""
    pairs = {"(": ")", "{": "}"}
    opened, closed, depth = text[start], pairs[text[start]], 0
    for i in range(start, len(text)):
        depth += (text[i] == opened) - (text[i] == closed)
        if depth == 0:
            return i
    raise ValueError(f"{opened} at {start} is not closed")


def cuda_functions(text):
    """Yield (name, parameters, lines) of each function and method that has a body."""
    clean = without_comments(text, cython=False)
    clean = re.sub(r"^ *#.*", "", clean, flags=re.MULTILINE)
    for found in re.finditer(r"\b__(?:device|global)__", clean):
        at = found.end()
        bounds = re.compile(r"\s+void\s+__launch_bounds__(?=\()").match(clean, at)
        if bounds:
            at = closing(clean, bounds.end()) + 1
        head = re.compile(r"[^;{}()=]*?(\w+)(?=\()").match(clean, at)
        if not head:
            continue
        end = closing(clean, head.end())
        body = re.compile(r"[^;{}]*").match(clean, end).end()
        if clean[body] == "{":
            lines = clean.count("\n", found.start(), closing(clean, body)) + 1
            yield head[1], count_parameters(clean[head.end() + 1 : end]), lines


def functions_of(file):
    text = (ROOT / file).read_text()
    readers = {".h": c_functions, ".cu": cuda_functions}
    return list(readers.get(file.suffix, cython_functions)(text))


@pytest.mark.parametrize("file", [*COMPILED, *CUDA], ids=str)
def test_compiled_functions(file):
    wrong = [
        (name, parameters, lines)
        for name, parameters, lines in functions_of(file)
        if parameters > MAX_PARAMETERS or lines > MAX_LINES
    ]
    assert wrong == []


@pytest.mark.parametrize("file", SOURCES, ids=str)
def test_length_of_files(file):
    assert len((ROOT / file).read_text().splitlines()) <= MAX_LINES_OF_FILE


def test_functions_are_found():
    """The readers of Cython, C and CUDA find the functions, with their sizes."""
    found = {
        (file.name, name): sizes
        for file in (*COMPILED, *CUDA)
        for name, *sizes in functions_of(file)
    }
    assert len(found) > 300
    assert found["boxes.pxd", "add_rows"][0] == 6
    assert found["rules.h", "make_axis"][0] == 7
    assert found["walk.pxd", "next_part"][1] > 15
    assert found["grad_tiles.cu", "backward_tiles"][0] == 4
    assert found["planes.cu", "along_x"][0] == 5
    assert found["grad_planes.cu", "PartOfPlane"][0] == 4


@pytest.mark.parametrize("file", files(["pyx"], [".pyx"]), ids=str)
def test_attributes(file):
    """What is read of `self` is named elsewhere: Cython takes a misspelt name for Python's."""
    declared = ROOT / "roicy" / "_kernels" / file.with_suffix(".pxd").name
    text = (ROOT / file).read_text() + (declared.read_text() if declared.exists() else "")
    named = set(re.findall(r"(?<!\bself\.)\b\w+", text))
    assert set(re.findall(r"\bself\.(\w+)", text)) <= named


def test_planted_faults():
    """Each name of a planted fault is at one place of the sources, and no other name is."""
    text = "".join((ROOT / file).read_text() for file in SOURCES if file.parts[0] == "pyx")
    names = re.findall(r'\bPLANTED\("([^"]+)"\)', text)
    assert sorted(names) == sorted([*planted_faults.HARNESSES, *planted_faults.KERNELS])


def test_sources_are_found():
    """The check of columns reads each kind of source."""
    assert {file.suffix for file in SOURCES} == {".py", ".pyx", ".pxd", ".h", ".cu", ".c"}
