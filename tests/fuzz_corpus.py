"""Chooses the corpus anew: few strings that reach all code that the given ones reach.

    export ROICY_BUILD_FLAGS="-O1 -fsanitize-coverage=inline-8bit-counters"
    CC=clang ROICY_BUILD_ISA=baseline python setup.py build_ext --inplace --force
    python tests/fuzz_corpus.py --random 1500 [--targets crop --found FOLDER]

The candidates of a target are its corpus, random strings and the files of a folder.  What a string
reaches is the edges between blocks of compiled code, the lines of the Python in front of it, and
how the call ends.  First, strings that reach something new are kept.  Then the string that reaches
the most of what is still missing is chosen, until nothing is missing.  It is cut short where this
changes nothing.  Other instruction sets take the same ways through the code, so one is enough.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
LENGTHS = (8, 16, 24, 32, 40, 60, 80, 120)


class Reached:
    """What calls reach, as numbers: edges, and behind them lines and ends, as they come."""

    def __init__(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "edges.so")
            command = [os.environ.get("CC", "cc"), "-O1", "-fPIC", "-shared"]
            subprocess.run([*command, FOLDER / "fuzz/edges.c", "-o", path], check=True)
            self.library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        self.library.edges_count.restype = ctypes.c_long
        import fuzzing

        self.fuzzing, self.names, self.lines = fuzzing, {}, set()
        for target in fuzzing.TARGETS:  # loads all libraries, whose edges are counted from now on
            fuzzing.one_call(b"", target)
        self.counts = np.zeros(self.library.edges_count(), np.uint8)
        if not self.counts.size:
            sys.exit("the libraries of roicy count no edges: how they are built is said above")
        import roicy

        self.front = str(Path(roicy.__file__).parent)

    def trace(self, frame, *_):
        return self.line if frame.f_code.co_filename.startswith(self.front) else None

    def line(self, frame, event, _):
        self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self.line

    def by(self, string, target):
        """Return the set of what a string reaches."""
        self.lines.clear()
        self.take()
        sys.settrace(self.trace)
        try:
            end = self.fuzzing.one_call(string, target)
        finally:
            sys.settrace(None)
        edges = np.flatnonzero(self.take())
        others = (self.names.setdefault(name, len(self.names)) for name in [end, *self.lines])
        return {*edges.tolist(), *(self.counts.size + number for number in others)}

    def take(self):
        self.library.edges_take(self.counts.ctypes.data_as(ctypes.c_void_p))
        return self.counts


def chosen(reached, target, candidates):
    """Return few of the candidates, cut short, that reach all that they reach."""
    kept, seen = [], set()
    for string in candidates:
        found = reached.by(string, target)
        if found - seen:
            kept.append((string, found))
            seen |= found
    strings, missing = [], set(seen)
    while missing:
        best, found = max(kept, key=lambda one: len(one[1] & missing))
        new = found & missing
        shorter = (best[:n] for n in LENGTHS if n < len(best))
        short = (one for one in shorter if new <= reached.by(one, target))
        strings.append(next(short, best))
        missing -= found
    return strings, seen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int, default=0, help="random strings of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, help="folder of strings that libFuzzer found")
    parser.add_argument("--targets", nargs="+")
    options = parser.parse_args()
    reached = Reached()
    fuzzing, edges = reached.fuzzing, reached.counts.size
    for target in options.targets or fuzzing.TARGETS:
        generator = random.Random(f"{options.seed} {target}")
        old = fuzzing.corpus(target)
        new = [generator.randbytes(fuzzing.LENGTH) for _ in range(options.random)]
        new += [file.read_bytes() for file in options.found.iterdir()] if options.found else []
        for _ in range(2):  # caches are full the second time
            before = set().union(*(reached.by(string, target) for string in old))
        strings, seen = chosen(reached, target, [*old, *new])
        lines = sorted(f"{string.hex()}\n" for string in strings if string)
        (fuzzing.CORPUS / f"{target}.txt").write_text("".join(lines))
        for name, found, count in (("before", before, len(old)), ("after", seen, len(strings))):
            of_edges = sum(number < edges for number in found)
            print(f"{target:10} {name:6} {count} strings, {of_edges} edges,", end=" ")
            print(f"{len(found) - of_edges} lines and ends", flush=True)


if __name__ == "__main__":
    main()
