"""Looks for memory that is read before it is written, by valgrind's memcheck.

    python tests/uninitialised.py    # the recorded numbers, and strings of the corpus

Memcheck follows each bit that has no value, and reports where a jump, an address or the system
depends on one.  So results are written to a file, too: a result that is partly undefined is found
there, although nothing has looked at it.  Valgrind knows no AVX-512.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
EVERY = 16  # of so many strings of a target, one is taken
OPTIONS = ("--error-limit=no", "--num-callers=24", "--fair-sched=yes", "--read-var-info=no")


def give(value):
    """Give a result to the system."""
    for part in value if isinstance(value, (list, tuple)) else [value]:
        if hasattr(part, "tobytes"):
            with open(os.devnull, "wb", buffering=0) as sink:
                sink.write(part.tobytes())


def of_records():
    """Make the calls of recorded numbers."""
    import recorded

    import roicy

    for case in recorded.CASES[::EVERY]:
        name, size, options, arrays = recorded.load(case)
        x, boxes, grad = (arrays[key] for key in ("x", "boxes", "grad_out"))
        give(getattr(roicy, name)(x, boxes, size, **options))
        if name not in ("roi_pool", "ps_roi_pool"):
            give(getattr(roicy, f"{name}_backward")(grad, boxes, x.shape, **options))
            give(getattr(roicy, f"{name}_backward_boxes")(grad, x, boxes, **options))


def kept():
    """Make the calls of strings of the corpus."""
    import fuzzing
    from fuzz import judged

    made = judged.outcome

    def outcome(isa, name, arguments):
        result = made(isa, name, arguments)
        give(result)
        return result

    judged.outcome = outcome
    judged.agree = lambda *_: None  # it repeats the same paths
    for target in fuzzing.TARGETS:
        if target != "nodes":  # whose runtime is not ours
            for string in fuzzing.corpus(target)[::EVERY]:
                with contextlib.suppress(AssertionError):  # memcheck tells where it comes from
                    fuzzing.one_call(string, target)


def reports(log):
    """Return what was found that roicy or a result had a part in."""
    blocks = re.split(r"(?m)^==\d+== \n", log)
    uses = re.compile(r"ninitialised|Invalid (read|write)")
    ours = re.compile(r"roicy/_kernels|Syscall param write")
    return [block for block in blocks if uses.search(block) and ours.search(block)]


def run():
    """Run this file under valgrind; return what it found."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        command = ["valgrind", "--tool=memcheck", *OPTIONS, f"--log-file={log}", sys.executable]
        root = str(FOLDER.parent)
        environment = os.environ | {"PYTHONMALLOC": "malloc", "OMP_NUM_THREADS": "2"}
        environment["PYTHONPATH"] = os.pathsep.join([root, str(FOLDER)])
        done = subprocess.run(
            [*command, __file__, "child"], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return reports(log.read_text())


if __name__ == "__main__":
    if sys.argv[1:] == ["child"]:
        of_records()
        kept()
    else:
        found = run()
        print(*found[:10], sep="\n")
        sys.exit(f"{len(found)} reports" if found else 0)
