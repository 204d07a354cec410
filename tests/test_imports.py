"""Files of pyx import and include only what pyx/README.md allows."""

import re
import runpy
from pathlib import Path

import pytest

PYX = Path(__file__).parent.parent / "pyx"
ENDINGS = ("pxd", "pyx", "h")
FILES = [path.relative_to(PYX) for ending in ENDINGS for path in PYX.rglob(f"*.{ending}")]
# For each folder, what it may import.  A folder stands for all of its files.
MAY_IMPORT = {
    "simd": ("simd", "images"),  # images are summed and sampled for each instruction set, too
    "move": ("move", "simd", "tuning", "plan.structs"),
    "plan": ("plan", "simd", "tuning", "roicy._kernels.isa", "roicy._kernels.machine"),
    "kernels": (
        "kernels", "move", "simd", "threads", "tuning", "images.structs",
        "plan.arrays", "plan.choose", "plan.structs", "plan.spans",
        "roicy._kernels.isa", "roicy._kernels.machine", "roicy._kernels.plan",
    ),
    "images": ("images", "simd", "threads", "tuning", "roicy._kernels.isa"),
    "onnxruntime": ("onnxruntime",),
    # isa.pyx, machine.pyx, threads.pxd, tuning.pxd
    "": ("simd", "tuning", "roicy._kernels.machine"),
}  # fmt: skip
WITHOUT_TABLE = ("roicy._kernels.machine", "roicy.onnxruntime.provider")
OURS = (*filter(None, MAY_IMPORT), "threads", "tuning", "roicy")
# Cython's imports, and headers in quotation marks, which Cython's `extern` names as well
CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+cimport|cimport\s+([\w.]+))", re.MULTILINE)
INCLUDE = re.compile(r'^\s*(?:#\s*include|cdef extern from) "([\w./]+)"', re.MULTILINE)


def imports_of(file):
    """Return what a file imports, as modules; a header stands for the module of that name."""
    text = (PYX / file).read_text()
    modules = [one or other for one, other in CIMPORT.findall(text)]
    for header in INCLUDE.findall(text):
        beside = file.parent / header
        found = beside if (PYX / beside).is_file() else Path(header)
        assert (PYX / found).is_file(), f"{header} is neither in this folder nor in pyx"
        modules.append(".".join(found.with_suffix("").parts))
    return modules


@pytest.mark.skipif(not PYX.is_dir(), reason="the sources are not here")
@pytest.mark.parametrize("file", FILES, ids=str)
def test_imports(file):
    room = file.parts[0] if len(file.parts) > 1 else ""
    for module in imports_of(file):
        if module.split(".")[0] in OURS:
            allowed = MAY_IMPORT[room]
            assert module in allowed or module.split(".")[0] in allowed, module


@pytest.mark.skipif(not PYX.is_dir(), reason="the sources are not here")
def test_imports_are_found():
    """Both kinds of them are read."""
    assert "simd.structs" in imports_of(Path("images/paste.pyx"))
    assert "simd.vector" in imports_of(Path("simd/simd.h"))
    assert "images.axis" in imports_of(Path("images/rows.h"))
    assert "threads" in imports_of(Path("images/crop.pyx"))


@pytest.mark.skipif(not PYX.is_dir(), reason="the sources are not here")
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
        assert (Path("pyx/simd/table.h") in found) == (module.name not in WITHOUT_TABLE)
    table = setup["with_included"]([Path("pyx/simd/avx2.c")])
    headers = ("images/warp.h", "images/rows.inc.h", "simd/convert.h", "simd/contract.inc.h")
    assert {str(Path("pyx", header)) for header in headers} <= set(table)


def test_the_rooms_are_there():
    assert not PYX.is_dir() or {file.parts[0] for file in FILES if len(file.parts) > 1} == {
        room for room in MAY_IMPORT if room
    }
