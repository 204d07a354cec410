"""The counts of the gate, from commit to commit; one process counts all calls of a commit.

ROICY_COUNTED is a pattern of the calls that are counted, to save time.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import counter
import gate


class Counts:
    params = [counter.NAMES, ["instructions", "bytes moved", "memory"]]
    param_names = ["call", "count"]
    timeout = 1200

    def setup_cache(self):
        reason = gate.why_not()
        if reason:
            raise NotImplementedError(reason)
        return counter.count(os.environ.get("ROICY_COUNTED"))[1]

    def setup(self, counts, call, count):
        if call not in counts:
            raise NotImplementedError("this version lacks the operator, or it was not asked for")

    def track_count(self, counts, call, count):
        return counts[call][count]
