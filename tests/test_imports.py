"""Files of pyx import only from the folders that pyx/README.md allows."""

import re
from pathlib import Path

import pytest

PYX = Path(__file__).parent.parent / "pyx"
FILES = [path.relative_to(PYX) for ending in ("pxd", "pyx") for path in PYX.rglob(f"*.{ending}")]
# For each folder, what it may import.  A folder stands for all of its files.
MAY_IMPORT = {
    "simd": (),
    "move": ("move", "simd", "tuning", "plan.structs"),
    "plan": ("plan", "simd", "tuning"),
    "kernels": (
        "kernels", "move", "simd", "tuning", "plan.structs", "plan.spans", "roicy._kernels.plan",
    ),
    "": (),  # tuning.pxd, machine.pyx
}  # fmt: skip
OURS = ("simd", "move", "plan", "kernels", "tuning", "roicy")
CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+cimport|cimport\s+([\w.]+))", re.MULTILINE)


@pytest.mark.skipif(not PYX.is_dir(), reason="the sources are not here")
@pytest.mark.parametrize("file", FILES, ids=str)
def test_cimports(file):
    room = file.parts[0] if len(file.parts) > 1 else ""
    modules = [one or other for one, other in CIMPORT.findall((PYX / file).read_text())]
    for module in modules:
        if module.split(".")[0] in OURS:
            allowed = MAY_IMPORT[room]
            assert module in allowed or module.split(".")[0] in allowed, module


def test_the_rooms_are_there():
    assert not PYX.is_dir() or {file.parts[0] for file in FILES if len(file.parts) > 1} == {
        room for room in MAY_IMPORT if room
    }
