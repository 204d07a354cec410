"""Calls are made from the strings of the corpus, and from some random strings."""

import fuzzing
import pytest


@pytest.mark.parametrize("target", fuzzing.TARGETS)
@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_kept(target, part):
    """These strings reach all code that random strings are known to reach."""
    fuzzing.fail_when_slow()
    for data in fuzzing.corpus(target)[part::4]:
        fuzzing.watched(data, target)


@pytest.mark.parametrize(
    ("seed", "calls"),
    [(0, 300), *(pytest.param(seed, 5000, marks=pytest.mark.slow) for seed in range(1, 5))],
)
def test_random(seed, calls):
    ends = fuzzing.random_calls(seed, calls)
    values = sum(count for end, count in ends.items() if end.endswith(": value"))
    # most calls must reach the kernels, and not end in an error
    assert values > sum(ends.values()) / 2
