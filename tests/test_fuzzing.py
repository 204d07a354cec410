"""Calls are made from the strings of the corpus, and from some random strings."""

import fuzzing
import pytest


@pytest.mark.parametrize("part", range(8))
def test_kept(part):
    """Each of these strings reached new code, or once made a call fail."""
    fuzzing.fail_when_slow()
    for data in fuzzing.corpus()[part::8]:
        fuzzing.watched(data)


@pytest.mark.parametrize(
    ("seed", "calls"),
    [(0, 1000), *(pytest.param(seed, 10000, marks=pytest.mark.slow) for seed in range(1, 9))],
)
def test_random(seed, calls):
    ends = fuzzing.random_calls(seed, calls)
    values = sum(count for end, count in ends.items() if end.endswith(": value"))
    # most calls must reach the kernels, and not end in an error
    assert values > sum(ends.values()) / 2
