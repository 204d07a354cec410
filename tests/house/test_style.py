"""Files, functions and their parameters are short enough to be read at once.

Linters see to columns, and to what else they know.
"""

import ast
import re
from pathlib import Path

import planted_faults
import pytest

import roicy

ROOT = Path(__file__).parents[2]
MAX_LINES, MAX_PARAMETERS, MAX_LINES_OF_FILE = 60, 8, 700
pytestmark = pytest.mark.skipif(not (ROOT / "pyx").is_dir(), reason="the sources are not here")


def files(folders, endings):
    """Return files, without the rules*.h that the build copies from pyx into roicy/cuda."""
    found = [path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*")]
    of_the_build = ("roicy", "cuda", "kernels"), ".h"
    return sorted(
        file
        for file in found
        if file.suffix in endings and (file.parts[:3], file.suffix) != of_the_build
    )


FOLDERS = ("pyx", "roicy", "tests", "asv_bench", "examples", ".ci", "docs/_ext")
SOURCES = files(FOLDERS, (".py", ".pyx", ".pxd", ".h", ".cu", ".c"))
COMPILED = files(("pyx", "roicy"), (".pyx", ".pxd", ".h", ".cu"))


def test_named_files_exist():
    for file in COMPILED:
        for name in re.findall(r"\bpyx/\w+/\w+\.\w+", (ROOT / file).read_text()):
            assert (ROOT / name).exists(), f"{file}: {name}"


def test_no_test_imports_another():
    assert not list((ROOT / "tests").glob("test_*.py")), "a test lies in a folder: tests/README.md"
    for file in (ROOT / "tests").rglob("*.py"):
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


# Formatters lay out all languages so that a function ends with its last line that is indented more
# than its first one, or with the bracket below that.
IN_BRACKETS = r"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"
OF_CYTHON = re.compile(
    rf"^( *)(?:def|cdef|cpdef) [^=(\n]*?(\w+){IN_BRACKETS}[^()\n]*(?:\n+\1 .*)*", re.MULTILINE
)
OF_C = re.compile(
    r"^( *)(?=\w)(?=[^;{}()]*\b(?:static|RULE_FN|__device__|__global__)\b)[^;{}()=]*?"
    rf"(?:NAME\()?(\w+)\)?{IN_BRACKETS}[^;{{}}]*\{{(?:.*\}}$|(?:\n.*)*?\n\1\}})",
    re.MULTILINE,
)


def functions_of(file):
    """Yield (name, parameters, lines without docstring) of each function of a compiled file."""
    text = (ROOT / file).read_text()
    if file.suffix in (".pyx", ".pxd"):
        text = re.sub(r'^ +"""(?:.|\n)*?"""\n', "", text, flags=re.MULTILINE)
        text = re.sub(r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#.*""", "", text)
    else:
        unread = r"//.*|^ *#.*|__launch_bounds__\(.*\)$"
        text = re.sub(unread, "", text, flags=re.MULTILINE)
    for found in (OF_CYTHON if file.suffix in (".pyx", ".pxd") else OF_C).finditer(text):
        yield found[2], count_parameters(found[3]), found[0].count("\n") + 1


def count_parameters(text):
    """Return how many parameters the text between brackets has."""
    while re.search(r"[\[(<{][^\[\](){}<>]*[\])>}]", text):
        text = re.sub(r"[\[(<{][^\[\](){}<>]*[\])>}]", "", text)
    names = [name.split()[-1] for name in text.split(",") if name.strip()]
    return len([name for name in names if name not in ("self", "void")])


@pytest.mark.parametrize("file", COMPILED, ids=str)
def test_compiled_functions(file):
    wrong = [
        (name, parameters, lines)
        for name, parameters, lines in functions_of(file)
        if parameters > MAX_PARAMETERS or lines > MAX_LINES
    ]
    assert wrong == []


def test_functions_are_found():
    """The readers of Cython, C and CUDA find the functions, with their sizes."""
    found = {(file.name, name): sizes for file in COMPILED for name, *sizes in functions_of(file)}
    assert len(found) > 300
    assert found["boxes.pxd", "add_rows"][0] == 4
    assert found["rules.h", "make_axis"][0] == 7
    assert found["walk.pxd", "next_part"][1] > 15
    assert found["grad_tiles.cu", "backward_tiles"][0] == 4
    assert found["planes.cu", "along_x"][0] == 5
    assert found["grad_planes.cu", "PartOfPlane"][0] == 4


def test_length_of_files():
    lengths = {str(file): (ROOT / file).read_text().count("\n") for file in SOURCES}
    assert not {file: length for file, length in lengths.items() if length > MAX_LINES_OF_FILE}


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
