"""Checks that wheels tell what they bring: each library in a list of parts, with its licence.

    python .ci/parts.py WHEEL OR FOLDER

auditwheel writes the list.  Wheels for macOS and Windows bring nothing.
"""

import json
import re
import sys
import zipfile
from pathlib import Path, PurePath


def libraries(names):
    """Return the names of bundled libraries, by their paths."""
    found = (name for name in names if re.search(r"\.(dy)?libs/[^/]+$", name))
    return {path: re.match("[a-z]+", PurePath(path).name).group() for path in found}


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
        check(wheel)


if __name__ == "__main__":
    main()
