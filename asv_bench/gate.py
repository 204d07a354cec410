"""The gate of slow commits: counts of calls beside those of counts.json.

    python asv_bench/gate.py                  # count, compare, fail where something is worse
    python asv_bench/gate.py --same           # fail where anything has moved
    python asv_bench/gate.py --write          # accept the counts of this build as the new ones
    python asv_bench/gate.py --commit main    # beside another commit, which is built first
    python asv_bench/gate.py --profile DIR    # keep callgrind's files, and flame graphs of them
    python asv_bench/gate.py --build          # build what git tracks here, and judge that, too

.ci/gate does the last one where Cython and NumPy are those of counts.json.  A count of all calls
takes 90 processor seconds, and a build as many.  What is built of other commits is kept in
asv_bench/results/builds.

counter.py says what is counted.  A count is worse if it has grown by more than the band of its
call: --write counts three times, at paths of three lengths, and keeps the least counts and by how
much the others differed, besides what they differed by before.  The band is Q3 + 3 IQR of these
numbers.

What seems worse is counted twice more.  Then the last commit before this one that wrote counts.json
is built and counted on this machine, too.  A count that does not exceed that commit's is not worse.
So a difference between machines fails nothing, and a slow-down does.  Where the compiler, Python or
another version is not that of counts.json, that commit's counts are compared in its place.

--build always builds that commit, unless it compiles the same files, and at the same time as this
one.  So both builds have the same neighbours, and the ratio of their processor seconds is judged.
"""

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import counter
import flame
import history

builds, progress = counter.load("builds"), counter.load("progress")
ROOT = counter.FOLDER.parent
RECORD = "asv_bench/counts.json"
COUNTS = ROOT / RECORD
SETS = ["avx2", "baseline"]  # of counts.json, as the build says
KEPT_BUILDS = counter.FOLDER / "results" / "builds"
TO_BUILD = {"Cython": "cython>=3.1", "setuptools": "setuptools>=77"}
COMPILED = ("pyx", "setup.py", "pyproject.toml")  # what a build depends on
LONGER = (0, 9, 40)  # letters by which paths are longer, so that the interpreter's objects move
KEPT = 12  # numbers by which counts differed
# No band is narrower or wider.  Counts of the interpreter move by 0.2 % if a docstring does.
NARROWEST, WIDEST = 0.003, 0.009
# What grows by less than this many is never worse, whatever its share is.
LEAST = {
    "instructions": 100,
    "level 1 misses": 200,
    "last level misses": 100,
    "bytes moved": 100 * counter.LINE,
    "memory": 256,
    "bytecodes": 0,
    "locks": 0,
    "bytes": 1024,
    "processor seconds": 10,
}
WIDE = dict.fromkeys(("level 1 misses", "last level misses", "bytes moved"), 0.01)
WIDE["processor seconds"] = 0.25
EXACT = ("memory", "bytecodes", "locks", "bytes")  # these repeat, but for longer paths
MOST_FUNCTIONS = 10


def why_not(builds_first=False):
    """Return why this machine cannot count, or None."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if builds_first:
        return None
    avx2 = os.environ | {"ROICY_ISA": "avx2", "PYTHONPATH": str(counter.imported().parent)}
    command = [sys.executable, "-c", "import roicy"]
    tried = subprocess.run(command, env=avx2, capture_output=True, text=True)
    if tried.returncode:
        return "import roicy: " + (tried.stderr.strip().splitlines() or ["failed"])[-1]
    return None


def band(spreads, what):
    """Return by which share a count may grow, from the shares by which it differed before."""
    known = spreads if len(spreads) > 1 else (0, 0)
    low, _, high = statistics.quantiles(known, n=4, method="inclusive")
    return max(NARROWEST, WIDE.get(what, 0), min(high + 3 * (high - low), WIDEST))


def compare(old, new):
    """Return (call, count, old, new, change, verdict) of all counts that moved, worst first."""
    rows = []
    for name in {**old, **new}:
        ours, theirs = old.get(name, {}), new.get(name, {})
        if LEAST.keys() & (ours.keys() ^ theirs.keys()):
            rows.append((name, "-", None, None, float("inf"), "not in both"))
        for what in (what for what in LEAST if what in ours and what in theirs):
            before, now = ours[what], theirs[what]
            change = now / before - 1 if before else float(now > 0)
            share, more = band(ours.get("spread", {}).get(what, []), what), abs(now - before)
            verdict = ""
            if abs(change) > share and more > LEAST[what]:
                verdict = "WORSE" if change > 0 else "better"
            if verdict or (abs(change) > NARROWEST and more > LEAST[what] / 2):
                rows.append((name, what, before, now, change, verdict))
    return sorted(rows, key=lambda row: -row[4])


def worse(old, new):
    """Return the calls and counts that are worse."""
    return {row[:2] for row in compare(old, new) if row[-1] == "WORSE"}


def grown(old, new):
    """Return (function, old, new) of the functions that grew, the worst first."""
    rows = []
    for name, now in new.get("functions", {}).items():
        # A function that is not kept took less than this share.
        unseen = 0 if " " in name else round(counter.SHOWN * old["instructions"])
        before = old["functions"].get(name, min(unseen, now))
        if now > before:
            rows.append((name, before, now))
    ours = [row for row in rows if where(row[0])]
    return sorted(ours or rows, key=lambda row: row[1] - row[2])[:MOST_FUNCTIONS]


def holding(old, new):
    """Return (function, old, new) of the functions that hold more memory, the worst first."""
    if ("", "memory") not in worse({"": old}, {"": new}):
        return []
    before = old.get("holders", {})
    rows = [(name, before.get(name, 0), now) for name, now in new.get("holders", {}).items()]
    rows = [row for row in rows if row[2] > row[1]]
    return sorted(rows, key=lambda row: row[1] - row[2])[:MOST_FUNCTIONS]


def where(function):
    """Return the file and the line of a function of roicy, or an empty text."""
    name, _, file = function.partition(" ")
    module, _, name = name.rpartition(".")
    files = sorted((ROOT / "pyx").rglob("*.*"), key=lambda path: (path.stem != module, path.suffix))
    name = name.removesuffix("_float").removesuffix("_double")
    # `cdef T x = name(...)` is a call.
    start = re.compile(rf"(?:\s*(?:cp?)?def |\w)[^=]*\b{name}\)?\(.*(?<!;)$")
    for path in [ROOT / file] if file else files:
        if path.suffix in (".py", ".pyx", ".pxd", ".h") and path.exists():
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if name in line and start.match(line):
                    return f"{path.relative_to(ROOT)}:{number}"
    return file


def accepted(old, versions, counts):
    """Return what `--write` writes: counts that hardly moved stay as they are in `old`."""
    if old["versions"] != versions:
        return counts
    moved = {row[0] for row in compare(old["counts"], counts)}
    return {name: found if name in moved else old["counts"][name] for name, found in counts.items()}


def least_of(several):
    """Return the least of several counts, with the shares by which the others differ from it."""
    found = {}
    for name, first in several[0].items():
        found[name], spread = dict(first), {}
        for what in LEAST.keys() & first.keys():
            numbers = sorted(one[name][what] for one in several if name in one)
            found[name][what] = numbers[0]
            if numbers[0] and len(numbers) > 1 and what not in EXACT:
                spread[what] = [round(number / numbers[0] - 1, 5) for number in numbers[1:]]
        found[name] |= {"spread": dict(sorted(spread.items()))} if spread else {}
    return found


def with_spread(old, counts):
    """Return counts with the shares by which old ones differed before theirs."""
    for name, found in counts.items():
        before = old.get(name, {}).get("spread", {})
        for what, shares in found.get("spread", {}).items():
            found["spread"][what] = [*before.get(what, []), *shares][-KEPT:]
    return counts


def tracked():
    """Return a commit of what git tracks here."""
    builds.git("status")  # or `stash` fails where a file is newer and the same
    return builds.git("stash", "create") or builds.git("rev-parse", "HEAD")


def writer():
    """Return the last commit before this one that wrote counts.json."""
    head, *wrote = builds.git("log", "--format=%H", "HEAD", "--", RECORD).splitlines()
    if head != builds.git("rev-parse", "HEAD"):
        wrote.insert(0, head)
    if not wrote or builds.git("rev-parse", "--is-shallow-repository") == "true":
        raise ValueError("the history lacks the commit that wrote counts.json before this one")
    return wrote[0]


class Commits:
    """Builds of commits in a temporary folder, and the processor seconds that they took.

    They have the instruction sets of the build that is judged: one set more moves what the dynamic
    loader does at import, and where kernels lie.
    """

    def __init__(self, folder):
        self.folder, self.made, self.sets = folder, {}, SETS

    def settings(self):
        """Return the environment of a build."""
        others = [name for name in self.sets if name != "baseline"]
        return {"ROICY_BUILD_ISA": ",".join(["baseline", *others])}

    def build(self, *commits):
        """Build what is not built yet, all at the same time."""
        commits = [commit for commit in commits if commit not in self.made]
        if lacking():
            raise ValueError(f"a build needs {lacking()}")
        with ThreadPoolExecutor() as pool:
            folders = [Path(self.folder, commit) for commit in commits]
            made = pool.map(
                builds.compile_commit, commits, folders, [self.settings()] * len(commits)
            )
            self.made |= zip(commits, made, strict=True)

    def package(self, commit):
        """Return the package of a commit, which an earlier run may have built."""
        if commit in self.made:
            return Path(self.made[commit][0], "roicy")
        kept = KEPT_BUILDS / f"{commit[:12]}-{build_key(self.settings())}"
        if not kept.exists():
            with progress.Progress(f"building {commit[:10]}"):
                self.build(commit)
            KEPT_BUILDS.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=KEPT_BUILDS) as folder:
                shutil.copytree(Path(self.made[commit][0], "roicy"), Path(folder, "roicy"))
                Path(folder, "roicy").rename(kept)
        return kept

    def seconds(self, head, beside, recorded):
        """Return how long a build would have taken where the one of counts.json was timed."""
        same = not builds.git("diff", "--name-only", beside, head, "--", *COMPILED)
        with progress.Progress("building this checkout and the commit beside it"):
            self.build(head, *([] if same else [beside]))
        spent, other = (self.made[head if same else one][1] for one in (head, beside))
        print(f"built in {spent:.0f} processor seconds, and {beside[:10]} in {other:.0f}")
        before = written_by(beside).get("build", recorded or {"processor seconds": other})
        return {"processor seconds": round(before["processor seconds"] * spent / other, 1)}


def lacking():
    """Return what a build needs and pip has to install, or an empty text."""
    missing = [f"'{text}'" for name, text in TO_BUILD.items() if not importlib.util.find_spec(name)]
    return missing and f"pip install {' '.join(missing)}"


def build_key(settings):
    """Return a short text of all that a build of a commit depends on."""
    compiler = os.environ.get("CC", "cc")
    said = builds.run([*compiler.split(), "--version"])
    flags = [f"{name}={os.environ[name]}" for name in sorted(os.environ) if "FLAGS" in name]
    cython = importlib.metadata.version("cython") if not lacking() else ""
    facts = [compiler, said, sys.version, cython, *flags, str(settings)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:8]


def counted(only, **options):
    """Count, and say meanwhile for how long; versions and counts are those of counter.count."""
    names = counter.chosen(only)
    with progress.Progress(f"counting {len(names)} calls in valgrind"):
        return counter.count(only, **options)


def written_by(commit):
    """Return the counts of counts.json in a commit."""
    listed = builds.git("ls-tree", commit, RECORD)
    return json.loads(builds.git("show", f"{commit}:{RECORD}"))["counts"] if listed else {}


def as_here(old, only, commits):
    """Return the counts of counts.json as far as this machine exceeds them, and say how it is."""
    try:
        wrote = writer()
        print(f"something is worse than counts.json; {wrote[:10]}, which wrote it, is counted")
        _, here = as_of(wrote, only, commits)
    except (RuntimeError, ValueError) as error:
        print(f"judged by counts.json alone: {error}")
        return old
    found = {name: dict(one) for name, one in old.items()}
    for name in found.keys() & here.keys():
        for what in LEAST.keys() & found[name].keys() & here[name].keys():
            found[name][what] = max(found[name][what], here[name][what])
    return found


def table(rows):
    lines = [f"{'call':<36} {'count':<18} {'before':>12} {'now':>12} {'change':>8}"]
    for name, what, before, now, change, verdict in rows:
        numbers = "" if before is None else f"{before:>12} {now:>12} {change:>+8.2%}"
        lines.append(f"{name:<36} {what:<18} {numbers:<34}  {verdict}")
    return "\n".join(lines)


def functions_text(name, old, new):
    """Return the functions that grew in a call, and those that hold more memory, a line each."""
    text = ""
    for what, found in (
        ("what grew (instructions of kernels, bytecodes of Python)", grown(old[name], new[name])),
        ("who holds more when the call holds most (bytes)", holding(old[name], new[name])),
    ):
        lines = [
            f"\n  {function.split(' ')[0]:<34} {before:>12} {now:>12}  {where(function)}"
            for function, before, now in found
        ]
        text += "".join([f"\n{name}: {what}", *lines]) if lines else ""
    return text


def skipped(reason, allowed):
    """Say in a line why nothing is compared, and return the exit code."""
    print(f"{'SKIPPED' if allowed else 'FAILED'}: {reason}")
    return int(not allowed)


def differing(old, versions):
    """Return in which versions a machine differs from that of counts, or an empty text."""
    return "; ".join(
        f"{key} {versions.get(key)}, and the counts are of {value}"
        for key, value in old.items()
        if versions.get(key) != value
    )


def with_same_sets(old, counts):
    """Return both counts, without bytes where the builds have other instruction sets."""
    built = [one.get("wheel", {}).get("instruction sets", SETS) for one in (old, counts)]
    if built[0] == built[1]:
        return old, counts
    of_old, of_new = (", ".join(one or ["unknown"]) for one in built)
    print(f"bytes are not compared: the build has {of_new}, and the counts are of {of_old}")
    found = [{name: c for name, c in one.items() if "bytes" not in c} for one in (old, counts)]
    return found[0], found[1]


def doubtful(rows):
    """Return the calls that execute fewer instructions and have as many misses as before."""
    better = {row[:2] for row in rows if row[-1] == "better"}
    misses = ("level 1 misses", "last level misses", "bytes moved")
    names = dict.fromkeys(name for name, what in better if what == "instructions")
    return [name for name in names if not any((name, what) in better for what in misses)]


def judge(old, versions, counts, allow_skip=False, same=False):
    """Print what moved, and return the exit code."""
    if differing(old["versions"], versions):
        said = differing(old["versions"], versions)
        return skipped(f"counts are not comparable: {said}", allow_skip)
    rows = compare(old["counts"], counts)
    if rows:
        print(table(rows))
    verdicts = [row[-1] for row in rows]
    for name in dict.fromkeys(row[0] for row in rows if row[-1] == "WORSE"):
        print(functions_text(name, old["counts"], counts))
    if doubtful(rows):
        works = sorted({name.split()[0] for name in doubtful(rows) if name in counter.CALLS})
        print(
            "Fewer instructions with as many misses may be slower: prefetches may be gone.\n"
            f"Ask: python -m roicy bench --against COMMIT --workloads {' '.join(works)}"
        )
    if "WORSE" in verdicts or "not in both" in verdicts or (same and "better" in verdicts):
        print(
            f"FAILED: {verdicts.count('WORSE')} counts are worse, {verdicts.count('better')} "
            f"better, {verdicts.count('not in both')} not in both.\nIf that is meant, run "
            "`.ci/gate --write`, and say in the commit why counts.json changes."
        )
        return 1
    if "better" in verdicts:
        print("Better: `.ci/gate --write` keeps what was gained.")
    else:
        print("same: no count left its band")
    print(f"passed: {len(counts)} calls and files, none of them worse")
    return 0


def write(path, versions, counts):
    """Write counts to a file, what is kept of a call in a line each."""
    content = {"versions": versions, "caches": counter.CACHES, "counts": counts}
    counter.write(path, content, depth=4)


def writer_instead(recorded, versions, options):
    """Return the commit to count if counts.json is of other versions, and else None."""
    said = differing(recorded, versions)
    if not said or options.allow_skip:
        return None
    print(f"the commit that wrote counts.json is counted in its place: {said}")
    return writer()


def as_of(commit, only, commits, keep=None):
    """Return versions, and the counts of another commit, which is built.

    They are the least at paths of three lengths, times the changes that counts.json has accepted
    since that commit.
    """
    then, now = written_by(commit), json.loads(COUNTS.read_text())["counts"]
    path = commits.package(commit)
    several = [counted(only, package=path, keep=keep, longer=more) for more in LONGER]
    counts = least_of([found for _, found in several])
    for name in counts.keys() & then.keys() & now.keys():
        found, before, after = counts[name], then[name], now[name]
        for what in LEAST.keys() & found.keys() & before.keys() & after.keys():
            found[what] = round(found[what] * after[what] / (before[what] or after[what] or 1))
        found["spread"] = after.get("spread", {})
    return several[0][0], counts


def draw(keep):
    """Draw a flame graph of each file of callgrind, beside it."""
    for path in [one for one in (keep / "now").iterdir() if one.suffix != ".svg"]:
        before = keep / "before" / path.name
        old = before.read_text() if before.exists() else ""
        path.with_name(f"{path.name}.svg").write_text(flame.drawn(path.read_text(), old))


def options_of():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    flags = {
        "write": "write the counts to counts.json",
        "same": "fail where a count is better, too",
        "requirements": "print what pip must install",
        "build": "build what git tracks here first",
        "anew": "--write as if there were no counts",
        "allow-skip": "pass if nothing is compared",
    }
    for name, text in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    parser.add_argument("--only", metavar="PATTERN", help="count only these calls")
    parser.add_argument("--commit", metavar="COMMIT", help="compare with this commit, built first")
    parser.add_argument("--profile", metavar="FOLDER", help="keep profiles and flame graphs there")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write: needs all counts, expected no --only")
    if options.anew and not (options.write and options.build):
        parser.error("--anew: expected --write --build beside it")
    return options


def run(options, old, commits):
    """Count and compare, and return the exit code."""
    keep, package = options.profile and Path(options.profile), None
    start, recorded = time.monotonic(), old["counts"].get("build")
    of_build = recorded
    beside = options.commit and builds.git("rev-parse", "--verify", f"{options.commit}^{{commit}}")
    if options.build:
        head = tracked()
        try:
            other = beside or (head if options.anew else writer())
            of_build = commits.seconds(head, other, of_build)
        except ValueError as error:
            print(f"the time of the build is not judged: {error}")
        package = commits.package(head)
    elif lacking():
        print(f"no other commit can be built, should it be asked for: {lacking()}")
    versions, counts = counted(options.only, keep=keep and keep / "now", package=package)
    commits.sets = counts["wheel"]["instruction sets"] or SETS
    counts |= {"build": of_build} if of_build else {}

    def thrice(only):
        more = [counted(only, package=package, longer=longer)[1] for longer in LONGER[1:]]
        return least_of([counts, *more])

    calls = [name for name in counts if "instructions" in counts[name]]
    print(f"counted {len(calls)} calls in {time.monotonic() - start:.0f} s")
    if options.write:
        counts = with_spread(old["counts"], thrice(None))
        write(COUNTS, versions, accepted(old, versions, counts))
        print(f"wrote {COUNTS}; {history.take()}")
        return 0
    other = beside or writer_instead(old["versions"], versions, options)
    if other:
        before = keep and keep / "before"
        old["versions"], old["counts"] = as_of(other, options.only, commits, before)
        old["counts"] |= {"build": recorded} if recorded else {}
        counts = {name: counts[name] for name in counts if name in old["counts"]}
    elif options.only:
        old["counts"] = {name: old["counts"][name] for name in counts if name in old["counts"]}
    old["counts"], counts = with_same_sets(old["counts"], counts)
    if keep:
        draw(keep)
    seeming = worse(old["counts"], counts) if old["versions"] == versions else set()
    calls = sorted({name for name, _ in seeming} - {"build"})
    if calls:
        only = f"^({'|'.join(calls)})$"
        counts = thrice(only)
        seeming = worse(old["counts"], counts)
        if seeming and not other:
            old["counts"] = as_here(old["counts"], only, commits)
        for name, what in seeming - worse(old["counts"], counts):
            print(f"no worse than that commit on this machine: {name}, {what}")
    return judge(old, versions, counts, options.allow_skip, options.same)


def main():
    options = options_of()
    old = json.loads(COUNTS.read_text()) if COUNTS.exists() else {"versions": {}, "counts": {}}
    if options.requirements:
        print(" ".join(f"{name}=={old['versions'][name]}" for name in ("cython", "numpy")))
        return 0
    reason = why_not(options.build)
    if reason:
        return skipped(reason, options.allow_skip)
    if options.anew:
        old["counts"] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="roicy-") as folder:
            return run(options, old, Commits(folder))
    except (OSError, RuntimeError, ValueError) as error:
        print(f"FAILED: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
