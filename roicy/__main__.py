"""The command line.

``roicy demo``, or ``python -m roicy demo``, runs the operators on a photograph, ``bench`` times
them beside other libraries, ``onnx`` shows what is taken of a model, and ``info`` says what this
installation is.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any

from . import __version__, show_config
from ._machine import _config
from .bench import command


def _add_onnx(commands: Any) -> None:
    """Add the command that shows what roicy takes of a model."""
    text = "Show which nodes of an ONNX model roicy takes."
    model = commands.add_parser("onnx", help=text, description=text)
    model.add_argument("model", metavar="MODEL", help="The file of the model.")
    text = "Say what is left to ONNX Runtime too, and why."
    model.add_argument("--explain", action="store_true", help=text)
    text = "Run the model on random inputs too, with roicy and without it, and print the times."
    model.add_argument("--bench", action="store_true", help=text)
    text = "The extents of an input that the model leaves open, as in image=1x3x800x1088."
    model.add_argument("--shape", action="append", default=[], metavar="NAME=EXTENTS", help=text)
    text = "An array for an input, such as boxes in pixels.  Others get random numbers from 0 to 1."
    model.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help=text)
    text = "Use so many threads.  The default is %(default)s."
    model.add_argument("--threads", type=int, default=1, metavar="N", help=text)
    text = "Give both so many turns.  The default is %(default)s."
    model.add_argument("--rounds", type=int, default=3, metavar="N", help=text)


def _parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    program = "roicy" if Path(sys.argv[0]).stem == "roicy" else "python -m roicy"
    text = "Region-of-interest operators on NumPy arrays."
    parser = argparse.ArgumentParser(prog=program, description=text)
    parser.add_argument(
        "--version", action="version", version=f"roicy {__version__}", help="Print the version."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    text = "Run operators on a photograph, print a table and draw a picture."
    demo = commands.add_parser("demo", help=text, description=text)
    text = "Write the picture to this file.  The default is %(default)s."
    demo.add_argument("--output", default="roicy-demo.png", metavar="FILE", help=text)
    text = "Print the versions, the instruction set and the number of threads."
    info = commands.add_parser("info", help=text, description=text)
    text = "Print them as JSON."
    info.add_argument("--json", action="store_true", help=text)
    text = "Time the operators beside the other libraries that are installed."
    command.add_options(commands.add_parser("bench", help=text, description=text))
    _add_onnx(commands)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run a command of the command line."""
    if arguments is None and hasattr(signal, "SIGPIPE"):
        # As other programs do, end without a word when the reader of the output goes away.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.command is None:
            parser.print_help()
        elif options.command == "info":
            print(json.dumps(_config.facts(), indent=1)) if options.json else show_config()
        elif options.command == "demo":
            command.check_file("--output", options.output, is_picture=True)
            from .bench.demo import run as run_demo

            run_demo(options.output)
        elif options.command == "onnx":
            from .compat.onnx._command import run as run_onnx

            run_onnx(options)
        else:
            return command.run(options)
    except ModuleNotFoundError as error:
        if error.name not in ("matplotlib", "pyperf", "onnx", "onnxruntime"):
            raise
        print(
            f"{error.name} is not installed, which this command needs: pip install {error.name}",
            file=sys.stderr,
        )
        return 1
    except (OSError, ValueError) as error:
        named = str(error).startswith("--") or options.command != "onnx"
        print(error if named else f"{options.model}: {error}", file=sys.stderr)
        return 2 if options.command == "demo" else 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
