"""Tests an installed roicy: recorded numbers, threads, processes, and the same bits everywhere.

The tests run on a copy of their folder, far from the checkout, so that Python finds what is
installed.  What they import besides roicy is in PACKAGES.

    python .ci/test_installed.py [OPTIONS OF PYTEST]
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ("pytest", "hypothesis", "threadpoolctl", "joblib")
MODULES = (
    *("operators/test_recorded.py", "operators/test_determinism.py"),
    *("machine/test_threads.py", "machine/test_processes.py"),
)


def main() -> int:
    tests = Path(__file__).resolve().parent.parent / "tests"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "tests")
        shutil.copytree(tests, copy, ignore=shutil.ignore_patterns("__pycache__"))
        Path(copy, "pytest.ini").write_text("[pytest]\n")
        options = ["-q", "-p", "no:cacheprovider", *MODULES, *sys.argv[1:]]
        return subprocess.run([sys.executable, "-m", "pytest", *options], cwd=copy).returncode


if __name__ == "__main__":
    sys.exit(main())
