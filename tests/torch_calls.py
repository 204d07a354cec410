"""Tensors for tests of PyTorch; importing this skips a file of tests where it is missing."""

import sys
import threading
import types

import attended
import numpy as np
import pytest
from conftest import SUMS, random_boxes

from roicy._keywords import keywords_of

torch = pytest.importorskip("torch")

# These warnings come from the exporters and what they call.
OF_EXPORTERS = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::UserWarning",
    "ignore::torch.jit.TracerWarning",
)

PYRAMID = "multiscale_roi_align"
# the operators of one map
NAMES = [*SUMS, "roi_pool", "roi_align_max"]


SAMPLED = {"sampling_ratio": 2}
ALIGNED = {**SAMPLED, "aligned": True}
# of operators, beside the scale
PARAMETERS = {
    "roi_align": ALIGNED,
    "ps_roi_align": SAMPLED,
    "roi_align_max": {**ALIGNED, "products": True},
    PYRAMID: {**ALIGNED, "canonical_scale": 8.0, "canonical_level": 1},
}


def pack(name, maps):
    """Return maps, or their scales, as an operator takes them."""
    return list(maps) if name == PYRAMID else maps[0]


def problem(rng, name, dtype):
    """Return the input of an operator, boxes, the size of the output and the parameters."""
    maps = [torch.from_numpy(rng.standard_normal((2, 8, 15 // i, 17 // i))) for i in (1, 2)]
    boxes = torch.from_numpy(random_boxes(rng, 2, 7, (30, 34), np.float64)).to(dtype)
    parameters = {"spatial_scale": pack(name, [0.5, 0.25]), **keywords_of(name)}
    parameters |= PARAMETERS.get(name, {})
    return pack(name, [level.to(dtype) for level in maps]), boxes, (2, 2), parameters


def by_image(boxes):
    """Return the boxes of each of two images."""
    return [boxes[boxes[:, 0] == n, 1:] for n in range(2)]


def pyramid(rng, dtype):
    maps = [
        torch.from_numpy(rng.standard_normal((2, 3, 64 // 2**i, 80 // 2**i))).to(dtype)
        for i in range(3)
    ]
    low = rng.uniform(0, 60, (9, 2))
    boxes = np.concatenate(
        [rng.integers(0, 2, (9, 1)), low, low + np.exp(rng.uniform(2, 5.3, (9, 2)))], axis=1
    )
    return maps, torch.from_numpy(boxes).to(dtype), [1 / 4, 1 / 8, 1 / 16]


def named(maps):
    return {str(i): level for i, level in enumerate(maps)} | {"pool": maps[-1][..., ::2, ::2]}


def tensors(rng, dtype=np.float64, **sizes):
    """Return value, locations, weights and a gradient."""
    return [torch.from_numpy(array) for array in attended.problem(rng, dtype, **sizes)]


def plant(monkeypatch, name, source="", **names):
    """Put a module of this source in sys.modules, in packages that are there or planted, too."""
    for i, letter in enumerate(f"{name}."):
        if letter == "." and (name[:i] == name or name[:i] not in sys.modules):
            monkeypatch.setitem(sys.modules, name[:i], types.ModuleType(name[:i]))
    module = sys.modules[name]
    vars(module).update(names)
    exec(source, vars(module))
    return module


def assert_threads_pass(work):
    """Run a function in four threads at the same time, of which none may raise an error."""
    errors = []

    def watched():
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=watched) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
