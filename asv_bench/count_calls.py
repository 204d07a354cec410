"""Counts of calls that others write, of any packages, judged beside those of an earlier run.

    python asv_bench/count_calls.py calls.py                        # print what each call takes
    python asv_bench/count_calls.py calls.py --write counts.json    # and keep it
    python asv_bench/count_calls.py calls.py --beside counts.json   # fail where one has grown

README.md beside this file has a file of calls.  Bands and verdicts are those of the gate.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import counter
import gate


def judge(old, versions, counts):
    """Print what moved, and return the exit code: 1 if a count is worse, 2 if none is compared."""
    if gate.differing(old["versions"], versions):
        print(f"counts are not comparable: {gate.differing(old['versions'], versions)}")
        return 2
    rows = gate.compare(old["counts"], counts)
    print(gate.table(rows) if rows else "same: no count left its band")
    grown = {row[0] for row in rows if row[-1] == "WORSE"}
    for name in sorted(grown):
        print(gate.functions_text(name, old["counts"], counts))
    return int(bool(grown) or any(row[-1] == "not in both" for row in rows))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("calls", help="a file of calls")
    parser.add_argument("--write", metavar="FILE", help="keep the counts in this file")
    parser.add_argument("--beside", metavar="FILE", help="compare with the counts of this file")
    parser.add_argument("--profile", metavar="FOLDER", help="keep callgrind's files there")
    options = parser.parse_args(arguments)
    try:
        old = json.loads(Path(options.beside).read_text()) if options.beside else None
        several = [counter.count_file(options.calls, options.profile)]
        if options.write:  # how far counts move by themselves
            several += [counter.count_file(options.calls, longer=more) for more in gate.LONGER[1:]]
    except (OSError, RuntimeError, ValueError) as error:
        print(f"FAILED: {error}")
        return 2
    versions, counts = several[0][0], gate.least_of([found for _, found in several])
    for name, found in counts.items():
        said = ", ".join(f"{found[what]} {what}" for what in gate.LEAST if what in found)
        print(f"{name}: {said}")
    if options.write:
        gate.write(options.write, versions, counts)
    return judge(old, versions, counts) if old else 0


if __name__ == "__main__":
    sys.exit(main())
