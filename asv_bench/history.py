"""Counts of commits that have landed, for the page of the documentation.

    python asv_bench/history.py take            # what commits wrote to counts.json: a second
    python asv_bench/history.py count           # this commit: some minutes
    python asv_bench/history.py count v0.1.0 main~20
    python asv_bench/history.py steps           # marks the commits at which counts changed
    python asv_bench/history.py behind          # fails where many commits came after the last count

`count` builds a commit in a temporary folder and counts a few calls of it, by counter.py.  It
writes history.json after each commit, and does not count again what is there.  A commit stands for
the last one before it that changed what a call runs.  Commits whose build or calls fail are kept
with the reason.

`take` does not build: a commit that moves a count writes counts.json.  The gate's build has other
flags, so each count is multiplied by what the last commit before has here, over what it wrote
there.  `gate.py --write` takes what it finds, so nobody has to count.
"""

import argparse
import contextlib
import json
import re
import sys
import tempfile
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
WHAT = ("instructions", "bytes moved", "memory")  # of a call
FEW = 9  # commits that wrote counts.json, of which one must be counted
MOST_BEHIND = 60  # commits that may come after the last one that is counted
STEP = 0.05  # smaller changes are steps for Otava alone
OF_OTAVA = {"window_len": 50, "max_pvalue": 0.001, "min_magnitude": 0.007}


def landed(revision):
    """Return the commits that changed what a call runs, the oldest first."""
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
    known = sorted(history["commits"].items(), key=lambda item: order.get(item[0], -1))
    counter.write(FILE, history | {"commits": dict(known)}, depth=3)


def count(commit):
    """Return the versions, the counts of each call of a commit, and what is counted of all."""
    with tempfile.TemporaryDirectory(prefix=f"roicy-{commit[:10]}-") as folder:
        path, build = builds.compile_commit(commit, Path(folder), BUILD)
        pattern = "^(" + "|".join(CALLS) + ")$"
        versions, found = counter.count(pattern, "baseline", Path(path, "roicy"))
    counts = {name: [found[name][what] for what in WHAT] for name in CALLS if name in found}
    package = {"build seconds": round(build), "wheel bytes": found["wheel"]["bytes"]}
    for what in ("instructions", "memory"):
        package[f"import {what}"] = found[counter.IMPORT][what]
    return versions, {"counts": counts, "package": package}


def count_all(revisions):
    """Count the commits that have no counts yet."""
    commits, history = landed("HEAD"), read()
    for commit in dict.fromkeys(landed(revision)[-1] for revision in revisions):
        if commit in history["commits"]:
            print(f"{commit[:10]} is there")
            continue
        date, subject = builds.git("show", "-s", "--format=%ct%n%s", commit).splitlines()
        try:
            versions, found = count(commit)
        except RuntimeError as error:
            versions, found = history["versions"], {"missing": str(error)}
        if history["versions"] not in ({}, versions):
            raise SystemExit(
                f"{FILE}: counted with {history['versions']}, and this machine has {versions}; "
                "delete the file to count all commits anew"
            )
        history["versions"] = versions
        history["commits"][commit] = {"date": int(date), "subject": subject} | found
        write(history, commits)
        print(f"{commit[:10]} {found.get('missing', 'is counted')}")


def written(commit):
    """Return the versions of counts.json in a commit, and what the history keeps of its counts."""
    file = json.loads(builds.git("show", f"{commit}:asv_bench/counts.json"))
    found, of_import = file["counts"], file["counts"][counter.IMPORT]
    counts = {name: [found[name][what] for what in WHAT] for name in CALLS if name in found}
    package = {"wheel bytes": found["wheel"]["bytes"]}
    package |= {f"import {what}": of_import[what] for what in ("instructions", "memory")}
    if "build" in found:
        package["build seconds"] = round(found["build"]["processor seconds"])
    return file["versions"], {"counts": counts, "package": package}


def scaled(now, before, kept):
    """Return numbers as large beside those that are kept as they are beside those before."""
    if isinstance(now, dict):
        return {name: scaled(now[name], before[name], kept[name]) for name in now if name in kept}
    if isinstance(now, list):
        return [scaled(*each) for each in zip(now, before, kept, strict=True)]
    return round(now * kept / before) if before else now


def take():
    """Add the commits that wrote counts.json after the last one that is counted."""
    history, order = read(), landed("HEAD")
    last, _ = behind(history, order)
    asked = ("rev-list", "--first-parent", f"-{FEW}", "HEAD", "--", "asv_bench/counts.json")
    wrote = builds.git(*asked).splitlines()  # the newest first
    stands = [landed(commit)[-1] for commit in wrote]
    if last not in stands:
        return f"none of the last {FEW} commits that wrote counts.json has a count"
    (versions, before), kept = written(wrote[stands.index(last)]), history["commits"][last]
    for commit, stand in reversed([*zip(wrote, stands, strict=True)][: stands.index(last)]):
        others, now = written(commit)
        if others != versions:
            return f"{commit[:10]} was counted with {others}"
        date, subject = builds.git("show", "-s", "--format=%ct%n%s", stand).splitlines()
        row = {"date": int(date), "subject": subject} | scaled(now, before, kept)
        history["commits"][stand] = row
    if stands[0] != last:
        history["steps"] = steps_of(history, order)
        write(history, order)
    return f"{stands.index(last)} commits are taken from counts.json"


def behind(history, commits):
    """Return the last commit that is counted, and how many came after it."""
    for later, commit in enumerate(reversed(commits)):
        if commit in history["commits"]:
            return commit, later
    return None, len(commits)


def check_behind():
    """Print where the history ends, and return the exit code."""
    if builds.git("rev-parse", "--is-shallow-repository") == "true":
        print("SKIPPED: this clone lacks the commits that would be counted")
        return 0
    commit, later = behind(read(), landed("HEAD"))
    print(f"docs/speed.md ends at {commit and commit[:10]}; {later} commits came later")
    if later <= MOST_BEHIND:
        return 0
    print(f"FAILED: expected at most {MOST_BEHIND}. asv_bench/README.md says how to count more.")
    return 1


def places_of(values):
    """Return the places in a list of counts at which a new level begins.

    Otava sees small steps between long levels, and leaves out what the next commit changes again.
    """
    found, level = set(), values[0]
    for i, now in enumerate(values):
        if abs(now / level - 1) > STEP:
            found.add(i)
            level = now
    with contextlib.suppress(ImportError):
        from otava.analysis import compute_change_points

        found |= {int(point.index) for point in compute_change_points(values, **OF_OTAVA)[0]}
    return sorted(found)


def steps_of(history, commits):
    """Return a step for each counted commit at which a call left the level of its counts."""
    counted = [one for one in commits if "counts" in history["commits"].get(one, {})]
    found, steps, notes = {}, [], history["notes"]
    places = {commit: i for i, commit in enumerate(commits)}
    for call in CALLS:
        has = [i for i, one in enumerate(counted) if call in history["commits"][one]["counts"]]
        values = [history["commits"][counted[i]]["counts"][call][0] for i in has]
        level = values[0] if values else None
        for place in places_of(values) if values else ():
            found.setdefault(has[place], {})[call] = [level, values[place]]
            level = values[place]
    for i in sorted(found):
        before, commit = counted[i - 1], counted[i]
        between = commits[places[before] + 1 : places[commit] + 1]
        calls = "\n".join(found[i])
        named = [one for one in between if one in notes and re.search(notes[one]["of"], calls)]
        why = " ".join(notes[one]["why"] for one in named) or history["commits"][commit]["subject"]
        if not named and len(between) > 1:
            why = f"Not looked for yet; the last of these commits is: {why}"
        steps.append(
            {"before": before, "commit": commit, "of": len(between), "named": named or [commit]}
            | {"why": why, "calls": found[i]}
        )
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("command", choices=["count", "take", "steps", "behind"])
    parser.add_argument("revisions", nargs="*", default=["HEAD"], help="(default: HEAD)")
    options = parser.parse_args()
    if options.command == "count":
        count_all(options.revisions)
        return 0
    if options.command == "take":
        print(take())
        return 0
    if options.command == "behind":
        return check_behind()
    commits, history = landed("HEAD"), read()
    history["steps"] = steps_of(history, commits)
    write(history, commits)
    for step in history["steps"]:
        print(*(one[:10] for one in step["named"]), f"of {step['of']}:", step["why"])
        for call, (before, now) in step["calls"].items():
            print(f"    {call:<30} {before:>10} {now:>10} {now / before - 1:+.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
