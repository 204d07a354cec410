"""Makes calls of operators from strings of bytes, and checks what must hold afterwards.

The bytes of a string decide the arguments of its call, which may be valid or hostile.

    python tests/fuzzing.py --minutes 480
        makes calls of random bytes, of all targets in turn, on all processors
    python tests/fuzzing.py --calls 1000000 --processes 4 --targets crop masks
        makes so many calls
    python tests/fuzzing.py --coverage FOLDER --targets crop
        has libFuzzer look for bytes that reach new code; needs `pip install atheris`
    python tests/fuzzing.py --replay crop:HEX ...
        makes the calls of these strings

Whatever the bytes are, a call returns the defined value, or it raises an error that names an
argument and has written nothing.  Each instruction set gives the same bits on one thread and on
two, in both layouts, and for a box, an image or a query alone.  Between instruction sets there is a
bound.  The sanitizers see whether a call reads or writes where it must not (README.md).  Writes
beside `out` are seen here too.

A target is a function in TARGETS, which makes a call from bytes; fuzz/ has a file for each kind.
fuzz_corpus.py chooses the corpus.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import itertools
import math
import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path

from fuzz.attention import attention_call
from fuzz.crops import crop_call, whole_call
from fuzz.masks import paste_call, prototype_call
from fuzz.nodes import node_call
from fuzz.operators import operator_call
from fuzz.pictures import label_call, resize_call
from fuzz.strings import Bytes

CORPUS = Path(__file__).parent / "corpus"  # a file for each target, a string a line
LENGTH = 160  # bytes of a random call
SLOWEST = 60  # seconds that a call may take on a busy machine, with 1000 threads
# Strings of one target stay with it; a new target is a line here and a function above.
TARGETS = {
    "operators": operator_call,
    "rotated": operator_call,
    "pyramids": operator_call,
    "crop": crop_call,
    "whole": whole_call,
    "masks": paste_call,
    "prototypes": prototype_call,
    "attention": attention_call,
    "nodes": node_call,
    "labels": label_call,
    "resize": resize_call,
}


def one_call(bytes_: bytes, target: str = "operators") -> str:
    """Make the call of a target, and return how it ended."""
    return TARGETS[target](Bytes(bytes_, target))


def _too_slow(*_):
    raise AssertionError(f"a call took more than {SLOWEST} seconds")


def watched(bytes_: bytes, target: str = "operators") -> str:
    """Make a call, and print its bytes if it fails."""
    if hasattr(signal, "alarm"):
        signal.alarm(SLOWEST)
    try:
        return one_call(bytes_, target)
    except BaseException:
        print(f"failed: {target}:{bytes_.hex()}", file=sys.stderr)
        raise
    finally:
        if hasattr(signal, "alarm"):
            signal.alarm(0)


def fail_when_slow() -> None:
    """Let a watched call that takes too long raise an error; otherwise it would end the process."""
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _too_slow)


def random_calls(seed: int, count: int, targets=tuple(TARGETS)) -> dict[str, int]:
    """Make calls of random bytes on every instruction set, and count how they ended."""
    fail_when_slow()
    generator = random.Random(seed)
    ends: dict[str, int] = {}
    for i in range(count):
        end = watched(generator.randbytes(LENGTH), targets[i % len(targets)])
        ends[end] = ends.get(end, 0) + 1
    return ends


def corpus(target: str) -> list[bytes]:
    """Return the strings of a target; each reached code that no other string reached."""
    file = CORPUS / f"{target}.txt"
    return [bytes.fromhex(line) for line in file.read_text().split()] if file.exists() else []


def _run_random(options) -> None:
    """Make random calls in several processes, until there are enough or the time is up."""
    chunk = 500
    stop = time.monotonic() + 60 * options.minutes if options.minutes else math.inf
    calls = options.calls or sys.maxsize
    print(f"seeds from {options.seed} on", file=sys.stderr)
    jobs = (
        (options.seed + i, min(chunk, calls - i * chunk), options.targets)
        for i in range(-(-calls // chunk))
    )
    ends: dict[str, int] = {}
    with concurrent.futures.ProcessPoolExecutor(
        options.processes, multiprocessing.get_context("spawn")
    ) as pool:
        running = {pool.submit(random_calls, *job) for job in itertools.islice(jobs, 16)}
        while running:
            done, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for part in done:
                for end, count in part.result().items():
                    ends[end] = ends.get(end, 0) + count
            if time.monotonic() < stop:
                running |= {
                    pool.submit(random_calls, *job) for job, _ in zip(jobs, done, strict=False)
                }
            else:
                running = {job for job in running if not job.cancel()}
            print(f"\r{sum(ends.values())} calls", end="", file=sys.stderr)
    print(file=sys.stderr)
    for end, count in sorted(ends.items()):
        print(f"{count:10} {end}")


def _run_coverage(folder: Path, target: str, arguments: list[str]) -> None:
    import atheris

    folder.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(corpus(target)):
        (folder / f"kept-{i}").write_bytes(data)
    # To merge, libFuzzer starts itself by a shell.
    again = f"{sys.executable} {sys.argv[0]} --targets {target} --coverage {folder}"
    atheris.Setup(
        [again, f"-max_len={LENGTH}", f"-timeout={SLOWEST}", str(folder), *arguments],
        functools.partial(watched, target=target),
    )
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--minutes", type=float, help="make random calls for so long")
    parser.add_argument("--calls", type=int, help="random calls to make")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, help="of the first 500 calls; the next have the next")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=tuple(TARGETS))
    parser.add_argument(
        "--coverage",
        type=Path,
        metavar="FOLDER",
        help="fuzz by coverage, from the corpus and FOLDER, to which what is found is added",
    )
    parser.add_argument(
        "--replay", nargs="+", metavar="TARGET:HEX", help="make the calls of these strings"
    )
    options, rest = parser.parse_known_args()
    if options.seed is None:  # other calls in each night, the same where their number is given
        options.seed = random.randrange(2**40) if options.minutes else 0
    for string in options.replay or ():
        target, _, digits = string.rpartition(":")
        print(one_call(bytes.fromhex(digits), target or "operators"))
    if options.calls or options.minutes:
        _run_random(options)
    if options.coverage:
        _run_coverage(options.coverage, options.targets[0], rest)


if __name__ == "__main__":
    main()
