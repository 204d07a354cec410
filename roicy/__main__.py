"""
The command line.

``python -m roicy demo`` runs the operators on a photograph, ``bench`` times them beside other
libraries, ``onnx`` shows what is taken of a model, and ``info`` says what this installation is.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from . import show_config
from .bench import command


def _add_onnx(commands: Any) -> None:
    """Add the command that shows what roicy takes of a model."""
    model = commands.add_parser("onnx", help="show which nodes of a model roicy takes")
    model.add_argument("model", metavar="MODEL", help="the file of the model")
    model.add_argument(
        "--bench", action="store_true", help="run it on random inputs, and without roicy too"
    )
    shape = "extents of an input that are open, as in image=1x3x800x1088"
    model.add_argument("--shape", action="append", default=[], metavar="NAME=EXTENTS", help=shape)
    file = "an array for an input in place of random numbers from 0 to 1, such as boxes in pixels"
    model.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help=file)
    model.add_argument("--threads", type=int, default=1, help="(default: %(default)s)")
    model.add_argument("--rounds", type=int, default=3, help="turns of each (default: %(default)s)")


def main(arguments: list[str] | None = None) -> int:
    """Run a command of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m roicy", description="Region-of-interest operators on NumPy arrays."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo", help="run every operator on a photograph, print a table, write a picture"
    )
    demo.add_argument(
        "--output", default="roicy-demo.png", help="the picture to write (default: %(default)s)"
    )
    commands.add_parser("info", help="print versions, instruction set and threads")
    about = "time the operators on this machine, beside the other libraries that are installed"
    command.add_options(commands.add_parser("bench", help=about))
    _add_onnx(commands)
    options = parser.parse_args(arguments)
    if options.command == "info":
        show_config()
        return 0
    try:
        if options.command == "demo":
            from .bench.demo import run as run_demo

            run_demo(options.output)
        elif options.command == "onnx":
            from .compat.onnx._command import run as run_onnx

            given = options.shape, options.input
            run_onnx(options.model, options.bench, *given, options.threads, options.rounds)
        else:
            return command.run(options)
    except ModuleNotFoundError as error:
        if error.name not in ("matplotlib", "tqdm", "pyperf", "onnx", "onnxruntime"):
            raise
        print(
            f"{error.name} is not installed, which this command needs: pip install {error.name}",
            file=sys.stderr,
        )
        return 1
    except (OSError, ValueError) as error:
        if options.command != "onnx":
            raise
        print(f"{options.model}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
