"""
Starts app.py in processes of uvicorn, which count together.

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
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        uvicorn.run("app:app", **vars(options), log_level="warning")


if __name__ == "__main__":
    main()
