"""
Checks that a wheel tells what it brings: each library in a list of parts, with its licence.

    python .ci/parts.py WHEEL
"""

import json
import sys
import zipfile
from pathlib import PurePath


def main() -> None:
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        names = wheel.namelist()
        lists = [name for name in names if ".dist-info/sboms/" in name and name.endswith("json")]
        parts = [part for name in lists for part in json.loads(wheel.read(name))["components"]]
    listed = {part["name"]: part["purl"] for part in parts}
    for name in names:
        library = PurePath(name).name.partition("-")[0]
        if "roicy.libs/" not in name or name.endswith("/"):
            continue
        found = [purl for part, purl in listed.items() if part.startswith(library)]
        if not found:
            sys.exit(f"{name} is in no list of parts: {lists}")
        if not any(f"licenses/{library}.txt" in other for other in names):
            sys.exit(f"{name}: the wheel has no {library}.txt, its licence")
        print(f"{name}: {found[0]}")


if __name__ == "__main__":
    main()
