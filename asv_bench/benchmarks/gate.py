"""
The counts of the gate (gate.py beside this folder), for the history of many commits.

One process counts all calls of a commit, so thirty commits take as long as building them.
"""

import importlib.util
from pathlib import Path

_path = Path(__file__).resolve().parents[1] / "gate.py"
_spec = importlib.util.spec_from_file_location("gate", _path)
gate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(gate)


class Gate:
    params = [[gate.name_of(*call[:3]) for call in gate.CALLS]]
    param_names = ["call"]
    timeout = 1200

    def setup_cache(self):
        reason = gate.why_not()
        if reason:
            raise NotImplementedError(reason)
        return gate.count(None)[1]

    def setup(self, counts, call):
        if call not in counts:
            raise NotImplementedError("this version lacks the operator")

    def track_instructions(self, counts, call):
        return counts[call]["instructions"]

    def track_bytes_moved(self, counts, call):
        return counts[call]["bytes moved"]


Gate.track_instructions.unit = "instructions"
Gate.track_bytes_moved.unit = "bytes"
