"""Boxes of many maps on workers of dask.distributed, one of which is killed in the middle.

    pip install 'dask[distributed]'    # beside roicy
    python many_machines.py

The workers are processes of this machine.  With ``Client("tcp://scheduler:8786")`` in place of the
local cluster they are on other machines.  The results are compared, bit by bit, with those of one
process without dask.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import time

import numpy as np
from dask.distributed import Client, LocalCluster, as_completed

import roicy


def load(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a map (1, 8, 24, 24) and its boxes (8, 5).  It stands for a file of features."""
    rng = np.random.default_rng(number)
    features = rng.standard_normal((1, 8, 24, 24), dtype=np.float32)
    corners = rng.uniform(-2, 22, (8, 2))
    boxes = np.concatenate([np.zeros((8, 1)), corners, corners + rng.uniform(0, 20, (8, 2))], 1)
    return features, boxes.astype(np.float32)


def pool(first: int, stop: int, threads: int | None = 1) -> list[str]:
    """Return a hash of the pooled boxes of each map: equal bits have equal hashes."""
    hashes = []
    for number in range(first, stop):
        features, boxes = load(number)
        pooled = roicy.roi_align(features, boxes, 7, aligned=True, num_threads=threads)
        hashes.append(hashlib.sha256(pooled.tobytes()).hexdigest())
    return hashes


def pool_on(client: Client, maps: int, block: int) -> list[str]:
    """Pool on the workers of a cluster, and kill one of them when a third of the work is done."""
    starts = range(0, maps, block)
    futures = [client.submit(pool, first, min(first + block, maps)) for first in starts]
    killed = False
    for done, _ in enumerate(as_completed(futures), start=1):
        if not killed and 3 * done >= len(futures):
            pid = min(client.run(os.getpid).values())
            os.kill(pid, signal.SIGKILL)
            killed = True
            print(f"{done} of {len(futures)} blocks are done: killed worker {pid}")
    return [one for hashes in client.gather(futures) for one in hashes]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--maps", type=int, default=10_000)
    parser.add_argument("--block", type=int, default=100, help="maps of a task")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()

    start = time.perf_counter()
    with (
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        found = pool_on(client, options.maps, options.block)
    took = time.perf_counter() - start
    print(f"{len(found)} maps on {options.workers} workers: {took:.1f} s")

    start = time.perf_counter()
    expected = pool(0, options.maps, threads=None)
    print(f"the same in this process: {time.perf_counter() - start:.1f} s")
    different = sum(a != b for a, b in zip(found, expected, strict=True))
    print(f"{different} of {options.maps} results differ in a bit")
    raise SystemExit(different > 0)


if __name__ == "__main__":
    main()
