"""The counts of the gate, from commit to commit; one process counts all calls of a commit."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import counter
import gate


class Counts:
    params = [counter.NAMES]
    param_names = ["call"]
    timeout = 1200

    def setup_cache(self):
        reason = gate.why_not()
        if reason:
            raise NotImplementedError(reason)
        return counter.count()[1]

    def setup(self, counts, call):
        if call not in counts:
            raise NotImplementedError("this version lacks the operator")

    def track_instructions(self, counts, call):
        return counts[call]["instructions"]

    def track_bytes_moved(self, counts, call):
        return counts[call]["bytes moved"]

    def track_memory(self, counts, call):
        return counts[call]["memory"]


Counts.track_instructions.unit = "instructions"
Counts.track_bytes_moved.unit = Counts.track_memory.unit = "bytes"
