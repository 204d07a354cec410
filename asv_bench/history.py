"""
Instruction counts of commits that have landed, for the page of the documentation.

    python asv_bench/history.py count                # thirty commits, an hour at most
    python asv_bench/history.py show                 # a table, with the steps that were found
    python asv_bench/history.py asv                  # result files, which `asv publish` draws

`count` builds a commit in a temporary folder and counts a few calls of it as gate.py does.  It
writes history.json after each commit, and does not count again what is there.  So it may be ended
at any time, and goes on later.  Commits whose build or calls fail are kept with the reason.

Commits are the first parents of a revision, if they change what a call runs.  Twenty of them are
spread evenly over the history.  The others are put where counts changed most between two counted
commits, so that a step belongs to one commit.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

import gate  # noqa: E402

FILE = FOLDER / "history.json"
# Calls that the first version had already, of all passes and both layouts.
CALLS = [
    "align_fpn_p2 forward NCHW",
    "align_fpn_p2 forward NHWC",
    "align_fpn_p2 backward NCHW",
    "align_c4 backward_boxes NCHW",
    "pool_vgg forward NCHW",
    "prroi_iounet forward NHWC",
    "ps_align_rfcn forward NCHW",
    "align_tiny forward NCHW",  # the front end
]
SOURCES = ["pyx", "setup.py", "roicy/*.py", ":!roicy/torch", ":!roicy/cuda", ":!roicy/compat"]
# One set of kernels is compiled, to save time, but for the processors for which the gate counts.
BUILD = {"ROICY_BUILD_ISA": "baseline", "ROICY_BUILD_FLAGS": "-march=x86-64-v3"}
BUILD_SECONDS = 900
EVENLY = 20  # commits that are spread over the history, before steps are looked at
STEP = 0.05  # a smaller change is no reason to look at commits in between


def git(*arguments):
    """Return what git prints."""
    ended = subprocess.run(["git", *arguments], cwd=FOLDER, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {ended.stderr.strip()}")
    return ended.stdout.strip()


def landed(revision):
    """Return the commits that may be counted, the oldest first."""
    root = git("rev-parse", "--show-toplevel")
    listed = git("-C", root, "rev-list", "--first-parent", "--reverse", revision, "--", *SOURCES)
    return listed.splitlines()


def read():
    """Return what has been counted."""
    if not FILE.exists():
        return {"versions": {}, "commits": {}}
    return json.loads(FILE.read_text())


def write(history, commits):
    """Write what has been counted, in the order of the history, a line for each commit."""
    order = {commit: i for i, commit in enumerate(commits)}
    known = sorted(history["commits"], key=lambda commit: order.get(commit, -1))
    lines = [f'  "{commit}": {json.dumps(history["commits"][commit])}' for commit in known]
    text = f'{{\n "versions": {json.dumps(history["versions"])},\n "commits": {{\n'
    temporary = FILE.with_suffix(".new")
    temporary.write_text(text + ",\n".join(lines) + "\n }\n}\n")
    os.replace(temporary, FILE)


def change(before, after):
    """Return by how much the counts of two commits differ, as the largest logarithm of a ratio."""
    pairs = [(before[name][0], after[name][0]) for name in before if name in after]
    return max((abs(math.log(new / old)) for old, new in pairs), default=0.0)


def choose(commits, known, evenly=EVENLY):
    """
    Return the commit to count next, or None.

    `commits` are in order, and `known` maps those that were tried to their counts, or to None if
    they failed.
    """
    last = len(commits) - 1
    grid = sorted({round(i * last / (evenly - 1)) for i in range(evenly)})
    tried = [i for i, commit in enumerate(commits) if commit in known]
    left = [i for i in grid if commits[i] not in known]
    if left:  # the one that is farthest from all others, so that few commits are spread evenly too
        return commits[max(left, key=lambda i: min((abs(i - j) for j in tried), default=i))]
    counted = [i for i in tried if known[commits[i]]]
    best, chosen = STEP, None
    for first, second in itertools.pairwise(counted):
        between = [i for i in range(first + 1, second) if commits[i] not in known]
        size = change(known[commits[first]], known[commits[second]])
        if between and size > best:
            best, chosen = size, commits[between[len(between) // 2]]
    return chosen


def build(commit, folder):
    """Compile a commit in a folder; RuntimeError with the end of what was printed."""
    archive = subprocess.Popen(
        ["git", "-C", git("rev-parse", "--show-toplevel"), "archive", commit],
        stdout=subprocess.PIPE,
    )
    subprocess.run(["tar", "-x", "-C", folder], stdin=archive.stdout, check=True)
    if archive.wait():
        raise RuntimeError(f"git archive {commit} failed")
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | BUILD,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the build took more than {BUILD_SECONDS} s") from None
    if ended.returncode:
        raise RuntimeError("the build failed: " + (ended.stdout + ended.stderr)[-500:])


def count(commit, folder):
    """Return the versions, and (instructions, bytes moved) of each call of a commit."""
    build(commit, folder)
    pattern = "^(" + "|".join(CALLS) + ")$"
    versions, counts = gate.count(pattern, "baseline", folder)
    return versions, {
        name: [found["instructions"], found["bytes moved"]] for name, found in counts.items()
    }


def about(commit):
    """Return when a commit was made, in seconds since 1970, and the first line of its message."""
    date, subject = git("show", "-s", "--format=%ct%n%s", commit).splitlines()
    return {"date": int(date), "subject": subject}


def count_all(revision, most, minutes):
    """Count commits until there are enough, or no time is left."""
    from tqdm import tqdm

    commits, history = landed(revision), read()
    end = time.monotonic() + 60 * minutes

    def known():
        return {commit: found.get("counts") for commit, found in history["commits"].items()}

    def counted():
        return [commit for commit in commits if known().get(commit)]

    with tqdm(total=most, initial=len(counted()), unit="commit") as progress:
        while len(counted()) < most and time.monotonic() < end:
            commit = choose(commits, known())
            if commit is None:
                break
            found = about(commit)
            progress.set_postfix_str(commit[:10])
            with tempfile.TemporaryDirectory(prefix=f"roicy-{commit[:10]}-") as folder:
                try:
                    versions, counts = count(commit, folder)
                except RuntimeError as error:
                    found["missing"] = str(error)
                else:
                    if history["versions"] not in ({}, versions):
                        raise SystemExit(
                            f"{FILE}: counted with {history['versions']}, and this machine has "
                            f"{versions}; delete the file to count all commits anew"
                        )
                    history["versions"] = versions
                    found["counts"] = counts
                    progress.update()
            history["commits"][commit] = found
            write(history, commits)
    print(f"{len(counted())} commits counted, {len(history['commits']) - len(counted())} missing")


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    counting = commands.add_parser("count", help="build and count commits")
    counting.add_argument("--revision", default="HEAD", help="(default: %(default)s)")
    counting.add_argument("--commits", type=int, default=30, help="(default: %(default)s)")
    counting.add_argument("--minutes", type=float, default=60, help="(default: %(default)s)")
    options = parser.parse_args()
    count_all(options.revision, options.commits, options.minutes)


if __name__ == "__main__":
    main()
