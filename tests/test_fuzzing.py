"""Calls made from bytes, as by the fuzzers: those that were kept, and some random ones."""

import fuzzing
import pytest


@pytest.mark.parametrize("part", range(8))
def test_kept(part):
    """Each of these reached code that no other did, or made a call fail once."""
    fuzzing.fail_when_slow()
    for data in fuzzing.corpus()[part::8]:
        fuzzing.watched(data)


@pytest.mark.parametrize("seed", range(8))
def test_random(seed):
    ends = fuzzing.random_calls(seed, 500)
    values = sum(count for end, count in ends.items() if end.endswith(": value"))
    assert values > sum(ends.values()) / 2  # or it is errors that are tested, and not kernels
