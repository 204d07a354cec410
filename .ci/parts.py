"""Checks that wheels tell what they bring: each library in a list of parts, with its licence.

    python .ci/parts.py WHEEL OR FOLDER

auditwheel writes the list into wheels for Linux.  The tools for macOS and Windows write none, so it
is written here.
"""

import base64
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path, PurePath

VERSION = {  # commands that tell the version of the OpenMP runtime
    "darwin": ["brew", "list", "--versions", "libomp"],
    "win32": ["C:/Program Files/LLVM/bin/clang-cl", "--version"],
}


def libraries(names):
    """Return the names of bundled libraries, by their paths."""
    found = (name for name in names if re.search(r"\.(dy)?libs/[^/]+$", name))
    return {path: re.match("[a-z]+", PurePath(path).name).group() for path in found}


def list_parts(path):
    """Write the list of the parts of a wheel, and into its record."""
    with zipfile.ZipFile(path) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    said = subprocess.check_output(VERSION[sys.platform], text=True)
    version = re.search(r"\d+\.\d+(\.\d+)?", said).group()
    about = {"type": "library", "version": version, "purl": f"pkg:generic/llvm-openmp@{version}"}
    parts = [about | {"name": name} for name in set(libraries(files).values()) & {"libomp"}]
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    name = record.replace("RECORD", "sboms/roicy.cdx.json")
    head = {"bomFormat": "CycloneDX", "specVersion": "1.4", "version": 1}
    files[name] = json.dumps(head | {"components": parts}).encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
    files[record] += f"{name},sha256={digest},{len(files[name])}\n".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)


def check(path):
    """End with an error if a library of a wheel is not listed, or has no licence."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        lists = [name for name in names if ".dist-info/sboms/" in name and name.endswith("json")]
        parts = [part for name in lists for part in json.loads(wheel.read(name))["components"]]
    listed = {part["name"]: part["purl"] for part in parts}
    for name, library in libraries(names).items():
        found = [purl for part, purl in listed.items() if part.startswith(library)]
        if not found:
            sys.exit(f"{name} is in no list of parts: {lists}")
        if not any(f"licenses/{library}.txt" in other for other in names):
            sys.exit(f"{name}: the wheel has no {library}.txt, its licence")
        print(f"{name}: {found[0]}")


def main() -> None:
    given = Path(sys.argv[1])
    for wheel in sorted(given.glob("*.whl")) if given.is_dir() else [given]:
        if sys.platform in VERSION:
            list_parts(wheel)
        check(wheel)


if __name__ == "__main__":
    main()
