"""
Instruction counts of commits that have landed, for the page of the documentation.

    python asv_bench/history.py count     # thirty commits, an hour at most
    python asv_bench/history.py steps     # marks the commits at which counts changed

`count` builds a commit in a temporary folder and counts a few calls of it, by counter.py.  It
writes history.json after each commit, and does not count again what is there.  So it may be ended
at any time, and goes on later.  Commits whose build or calls fail are kept with the reason.

Commits are the first parents of a revision, if they change what a call runs.  The newest and the
oldest come first, then those in the middle of the widest gaps, until twenty are spread over the
history.  The others are put where counts changed most between two counted commits, so that a step
belongs to as few commits as possible.
"""

import argparse
import itertools
import json
import math
import os
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import counter

builds = counter.load("builds")
FILE = counter.FOLDER / "history.json"
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
# What a call runs: the tools of the command line are no part of it.
SOURCES = ["pyx", "setup.py", "roicy/*.py"]
TOOLS = ["_bench*", "_track*", "_against*", "_compare*", "_scaling*", "_timing*", "_workloads*"]
TOOLS += ["_demo*", "__main__*", "bench", "torch", "cuda", "compat"]
# One set of kernels is compiled, to save time, but for the processors for which the gate counts.
BUILD = {"ROICY_BUILD_ISA": "baseline", "ROICY_BUILD_FLAGS": "-march=x86-64-v3"}
EVENLY = 20  # commits that are spread over the history, before steps are looked at
WHAT = ("instructions", "bytes moved", "memory")  # of a call
STEP = 0.05  # a smaller change is neither marked nor a reason to look at commits in between


def landed(revision):
    """Return the commits that may be counted, the oldest first."""
    tools = [f":!roicy/{name}" for name in TOOLS]
    listed = builds.git("rev-list", "--first-parent", "--reverse", revision, "--", *SOURCES, *tools)
    return listed.splitlines()


def read():
    """Return what has been counted, and what is known about it."""
    empty = {"versions": {}, "commits": {}, "steps": [], "notes": {}}
    return empty | (json.loads(FILE.read_text()) if FILE.exists() else {})


def write(history, commits):
    """Write what has been counted, in the order of the history, a line for each commit."""
    order = {commit: i for i, commit in enumerate(commits)}
    known = sorted(history["commits"], key=lambda commit: order.get(commit, -1))
    parts = {
        "commits": [f'"{commit}": {json.dumps(history["commits"][commit])}' for commit in known],
        "steps": [json.dumps(step) for step in history["steps"]],
        "notes": [f'"{commit}": {json.dumps(note)}' for commit, note in history["notes"].items()],
    }
    texts = [f'"versions": {json.dumps(history["versions"])}']
    for name, lines in parts.items():
        first, last = "[]" if name == "steps" else "{}"
        texts.append(f'"{name}": {first}\n  ' + ",\n  ".join(lines) + f"\n {last}")
    temporary = FILE.with_suffix(".new")
    temporary.write_text("{\n " + ",\n ".join(texts) + "\n}\n")
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
    for end in (commits[-1], commits[0]):
        if end not in known:
            return end
    tried = [i for i, commit in enumerate(commits) if commit in known]
    if len(tried) < evenly:  # the middle of the widest gap
        first, second = max(itertools.pairwise(tried), key=lambda pair: pair[1] - pair[0])
        return commits[(first + second) // 2] if second > first + 1 else None
    counted = [i for i in tried if known[commits[i]]]
    best, chosen = math.log1p(STEP), None
    for first, second in itertools.pairwise(counted):
        between = [i for i in range(first + 1, second) if commits[i] not in known]
        size = change(known[commits[first]], known[commits[second]])
        if between and size > best:
            best, chosen = size, commits[between[len(between) // 2]]
    return chosen


def count(commit, folder):
    """Return the versions, the counts of each call of a commit, and what is counted of all."""
    before = os.times()
    path = builds.compile_commit(commit, Path(folder), BUILD)
    spent = os.times()
    build = spent.children_user + spent.children_system
    build -= before.children_user + before.children_system
    pattern = "^(" + "|".join(CALLS) + ")$"
    versions, found = counter.count(pattern, "baseline", Path(path, "roicy"))
    counts = {name: [found[name][what] for what in WHAT] for name in CALLS if name in found}
    package = {"build seconds": round(build), "wheel bytes": found["wheel"]["bytes"]}
    package["import instructions"] = found[counter.IMPORT]["instructions"]
    package["import memory"] = found[counter.IMPORT]["memory"]
    return versions, {"counts": counts, "package": package}


def about(commit):
    """Return when a commit was made, in seconds since 1970, and the first line of its message."""
    date, subject = builds.git("show", "-s", "--format=%ct%n%s", commit).splitlines()
    return {"date": int(date), "subject": subject}


def counted_of(history, commits):
    """Return the commits that have counts, in order."""
    return [one for one in commits if "counts" in history["commits"].get(one, {})]


def count_all(revision, most, minutes):
    """Count commits until there are enough, or no time is left."""
    from tqdm import tqdm

    commits, history = landed(revision), read()
    done, end = len(counted_of(history, commits)), time.monotonic() + 60 * minutes
    with tqdm(total=most, initial=done, unit="commit") as progress:
        while done < most and time.monotonic() < end:
            known = {one: found.get("counts") for one, found in history["commits"].items()}
            commit = choose(commits, known)
            if commit is None:
                break
            found = about(commit)
            progress.set_postfix_str(commit[:10])
            with tempfile.TemporaryDirectory(prefix=f"roicy-{commit[:10]}-") as folder:
                try:
                    versions, counted = count(commit, folder)
                except RuntimeError as error:
                    found["missing"] = str(error)
                else:
                    if history["versions"] not in ({}, versions):
                        raise SystemExit(
                            f"{FILE}: counted with {history['versions']}, and this machine has "
                            f"{versions}; delete the file to count all commits anew"
                        )
                    history["versions"] = versions
                    found |= counted
                    done += 1
                    progress.update()
            history["commits"][commit] = found
            write(history, commits)
    print(f"{done} commits have counts, {len(history['commits']) - done} failed")


def steps_of(history, commits):
    """
    Return a step for each counted commit at which a call left the level of its counts.

    A level begins at a step.  Counts have hardly any noise.  Detectors for noisy times, such as
    ASV's, leave out what one commit changes and the next one changes again.
    """
    counted, found, steps = counted_of(history, commits), {}, []
    places = {commit: i for i, commit in enumerate(commits)}
    for call in CALLS:
        level = None
        for i, commit in enumerate(counted):
            now = history["commits"][commit]["counts"].get(call, [None])[0]
            if now and level and abs(now / level - 1) > STEP:
                found.setdefault(i, {})[call] = [level, now]
                level = now
            level = level or now
    for i in sorted(found):
        before, commit = counted[i - 1], counted[i]
        between = commits[places[before] + 1 : places[commit] + 1]
        named = noted(history["notes"], between, found[i])
        why = " ".join(history["notes"][one]["why"] for one in named)
        if not named:
            why = history["commits"][commit]["subject"]
            if len(between) > 1:
                why = f"Not looked for yet; the last of these commits is: {why}"
        steps.append(
            {"before": before, "commit": commit, "of": len(between), "named": named or [commit]}
            | {"why": why, "calls": found[i]}
        )
    return steps


def noted(notes, commits, calls):
    """Return the commits that have a note about one of the calls."""
    return [
        one
        for one in commits
        if one in notes and any(re.search(notes[one]["of"], call) for call in calls)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("command", choices=["count", "steps"])
    parser.add_argument("--revision", default="HEAD", help="(default: %(default)s)")
    parser.add_argument("--commits", type=int, default=30, help="(default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="(default: %(default)s)")
    options = parser.parse_args()
    if options.command == "count":
        count_all(options.revision, options.commits, options.minutes)
    else:
        commits, history = landed(options.revision), read()
        history["steps"] = steps_of(history, commits)
        write(history, commits)
        for step in history["steps"]:
            print(*(one[:10] for one in step["named"]), f"of {step['of']}:", step["why"])
            for call, (before, now) in step["calls"].items():
                print(f"    {call:<30} {before:>10} {now:>10} {now / before - 1:+.1%}")


if __name__ == "__main__":
    main()
