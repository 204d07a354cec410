"""Starts app.py in processes of uvicorn, which count together.

MODEL=maskrcnn.onnx python serve.py --workers 2 --port 8000
"""

from __future__ import annotations

import argparse
import os
import tempfile

import uvicorn
from detector import from_environment


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    from_environment()  # a model that cannot be served is said once, before there are workers
    # Large blocks go back to the system at once, and all threads share the small ones, so that a
    # worker has the same memory after each request.  (glibc reads this when a worker starts.)
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(1 << 18))
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        uvicorn.run("app:app", **vars(options), log_level="warning")


if __name__ == "__main__":
    main()
