"""``python -m roicy demo`` runs the operators on a photograph; ``python -m roicy info`` says what this installation is."""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run a command of the command line."""
    parser = argparse.ArgumentParser(prog="python -m roicy", description="Region-of-interest operators on NumPy arrays.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="run every operator on a photograph, print a table, write a picture")
    demo.add_argument("--output", default="roicy-demo.png", help="the picture to write (default: %(default)s)")
    commands.add_parser("info", help="print versions, instruction set and threads")
    options = parser.parse_args(arguments)
    if options.command == "info":
        from . import show_config

        show_config()
        return 0
    try:
        from ._demo import run
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        print("The demo draws with matplotlib, which is not installed: pip install 'roicy[demo]'", file=sys.stderr)
        return 1
    run(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
