"""What only a machine with a GPU can tell; .ci/device starts each step, and limits its time.

    python asv_bench/device.py bench            # a step prints its results, a line of JSON each
    python asv_bench/device.py bench --dry-run  # without a GPU, by emulation

Times are in seconds.
"""

import argparse
import contextlib
import importlib.metadata
import json
import statistics
import sys
import time
from pathlib import Path

# CuPy 14.2 is of CUDA 13; another driver needs cupy-cuda12x and the wheels of its toolkit.
WHEELS = "numpy pytest hypothesis cupy-cuda13x[ctk]==14.2.0 nvidia-cuda-sanitizer-api".split()
WHEELS += ["torch==2.14.1", "torchvision==0.29.1"]
TIMED = "align_fpn_p2_sr2 align_fpn_p2 align_adaptive align_pyramid align_c4 align_mask".split()
TIMED += "align_tiny pool_vgg prroi_iounet ps_align_lighthead".split()
DIRECTIONS = ("forward", "backward", "backward_boxes")
CALLS, REPEATS = 20, 7  # calls that are queued between two events, and how often
SMALL_CALLS = 200  # that are queued before the GPU is waited for; its queue holds about a thousand
LEVEL_2 = 256 << 20  # bytes that are written to empty the level 2 cache


class Device:
    """The GPU, or the stand-in for it on the CPU, which gets small calls."""

    def __init__(self, dry):
        self.dry = dry
        if dry:
            sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
            from cuda_emulation import standin

            sys.modules["cupy"] = standin
        import cupy

        from roicy.bench.workloads import WORKLOADS

        self.cupy = cupy
        self.works = {name: WORKLOADS[name] for name in TIMED}
        if dry:
            self.works = {name: small(work) for name, work in self.works.items()}

    def synchronize(self):
        if not self.dry:
            self.cupy.cuda.get_current_stream().synchronize()

    def call(self, work, direction="forward", layout="NCHW", reuse=True):
        """Return a call of roicy on the device."""
        import roicy

        return work.call(roicy, work.arrays(), direction, layout, reuse, put=self.cupy.asarray)

    def between_events(self, function, calls):
        """Return the seconds of so many calls, by the clock of the GPU, and until it has them."""
        first, last = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        start = time.perf_counter()
        first.record()
        for _ in range(calls):
            function()
        last.record()
        host = time.perf_counter() - start
        last.synchronize()
        return self.cupy.cuda.get_elapsed_time(first, last) / 1e3, host

    def timed(self, function):
        """Return times of a call: queued ones, host only, and after emptying the cache."""
        function()
        self.synchronize()
        if self.dry:
            return {}
        queued = [self.between_events(function, CALLS) for _ in range(REPEATS)]
        cold, flushed = [], self.cupy.empty(LEVEL_2, "uint8")
        for _ in range(REPEATS):
            flushed.fill(0)
            cold.append(self.between_events(function, 1)[0])
        seconds, host = (statistics.median(times) / CALLS for times in zip(*queued, strict=True))
        return {"seconds": seconds, "host": host, "seconds_cold": statistics.median(cold)}


def small(workload):
    """Return a workload that the stand-in computes in a second."""
    n, c, h, w = workload.shape
    c = 49 if workload.operator.startswith("ps_") else min(c, 8)
    return workload._replace(shape=(n, c, min(h, 50), min(w, 76)), count=5)


def passes_of(works):
    """Yield workload, pass and a row that names both, of everything that roicy can call."""
    import roicy

    for name, work in works.items():
        for direction in DIRECTIONS:
            if work.has(roicy, direction):
                yield work, direction, {"workload": name, "direction": direction}


def facts(device):
    """What the machine is, and how fast its memory is."""
    from roicy.bench import timing

    packages = {}
    for name in (name.split("=")[0].split("[")[0] for name in WHEELS):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    yield timing.facts() | {"packages": packages}
    if device.dry:
        yield {"gpu": {"name": "none, emulated on the CPU", "copy_rate": None}}
        return
    cupy, runtime = device.cupy, device.cupy.cuda.runtime
    found = runtime.getDeviceProperties(0)
    source, target = cupy.ones(1 << 28, "float32"), cupy.empty(1 << 28, "float32")
    seconds = device.timed(lambda: cupy.copyto(target, source))["seconds"]
    yield {
        "gpu": {
            "name": found["name"].decode(),
            "compute_capability": f"{found['major']}.{found['minor']}",
            "memory": found["totalGlobalMem"],
            "multiprocessors": found["multiProcessorCount"],
            "level_2": found["l2CacheSize"],
            "driver": runtime.driverGetVersion(),
            "runtime": runtime.runtimeGetVersion(),
            "copy_rate": 2 * source.nbytes / seconds,
        }
    }


def first(device):
    """How long a first call takes in a new process; CuPy keeps what it compiles in a folder."""
    call, start = device.call(device.works["align_tiny"]), time.perf_counter()
    call()
    device.synchronize()
    yield {"seconds": time.perf_counter() - start}


def torchvision_on(device):
    """Return what prepares torchvision's calls, which do not wait for the GPU."""
    from roicy.bench import peers

    class Queued(peers.TorchVision):
        def put(self, array):
            return super().put(array).cuda()

        def done(self, results):
            return results

    return (peers.TorchVision if device.dry else Queued)(1)


def on_another_stream(device, call):
    """Return the result of a call on a stream of its own."""
    if device.dry:
        return call()
    with device.cupy.cuda.Stream(non_blocking=True) as stream:
        result = call()
        stream.synchronize()
    return result


def bytes_of(results):
    """Return the bytes of a result, or of the results of a pyramid."""
    each = results if isinstance(results, list) else [results]
    return b"".join(result.get().tobytes() for result in each)


def bench(device):
    """Times of roicy and torchvision, on the same arrays."""
    peer = None
    try:
        peer = torchvision_on(device)
    except ImportError as error:
        yield {"said": f"torchvision is left out: {error}"}
    for work, direction, row in passes_of(device.works):
        for layout in work.layouts:
            call = device.call(work, direction, layout)
            first, second = bytes_of(call()), bytes_of(call())
            same = first == second == bytes_of(on_another_stream(device, call))
            row["bytes"] = work.read_bytes(work.arrays(), direction) + len(first)
            about = {"library": "roicy", "layout": layout, "repeats_bits": same}
            yield row | about | device.timed(call)
        call = peer and peer.prepare(work, work.arrays(), direction)
        if call is not None:
            yield row | {"library": "torchvision", "layout": "NCHW"} | device.timed(call)


def counted(device, call):
    """Return what a call asks of the stand-in, which from then on runs no kernels."""
    if not device.dry:
        return {}
    names = ("launches", "operations", "allocations")
    counts = {name: getattr(device.cupy, name) for name in names}
    device.cupy.idle = True
    for found in counts.values():
        found.clear()
    call()
    return {name: len(found) for name, found in counts.items()} | {
        "bytes": sum(counts["allocations"])
    }


def host(device):
    """What small calls cost the host, which does not wait: the least of five times."""
    from roicy.bench.workloads import WORKLOADS

    tiny = WORKLOADS["align_tiny"]
    works = {
        "roi_align": tiny,
        "roi_align, 4 levels": tiny._replace(operator="multiscale_roi_align", levels=4),
        "roi_pool": WORKLOADS["pool_tiny"],
        "ps_roi_align": tiny._replace(operator="ps_roi_align", shape=(1, 49, 32, 32)),
        "roi_align_rotated": tiny._replace(operator="roi_align_rotated"),
    }
    # On the stand-in there is nothing to wait for, and other programs do not count.
    clock = time.process_time if device.dry else time.perf_counter
    for work, direction, row in passes_of(works):
        device.cupy.idle = False
        call = device.call(work, direction, reuse=False)
        call()
        counts, times = counted(device, call), []
        for _ in range(5):
            device.synchronize()
            start = clock()
            for _ in range(SMALL_CALLS):
                call()
            times.append((clock() - start) / SMALL_CALLS)
        yield row | {"host": min(times)} | counts


def kernels(device):
    """The time of each kernel, by the profiler of PyTorch."""
    if device.dry:
        yield {"said": "there is no GPU to profile"}
        return
    from torch.profiler import ProfilerActivity, profile

    for work, direction, row in passes_of(device.works):
        call = device.call(work, direction)
        call()
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            for _ in range(5):
                call()
            device.synchronize()
        for event in found.key_averages():
            yield row | {"kernel": event.key, "seconds": event.self_device_time_total / 5e6}


def large(device):
    """A map of more than 2**31 elements, of which a box reads the last ones."""
    import numpy as np

    import roicy

    shape = (1, 4, 60, 70) if device.dry else (1, 64, 5860, 5870)
    x = np.zeros(shape, np.float32)  # the system provides only the pages that are written
    x[0, :, -40:, -40:] = np.random.default_rng(0).standard_normal((shape[1], 40, 40))
    box = np.array([[0, shape[3] - 29.5, shape[2] - 29.75, shape[3] - 5, shape[2] - 10]], "f")
    maps, rows = device.cupy.asarray(x), device.cupy.asarray(box)
    found = roicy.roi_align(maps, rows, 3).get()
    expected = roicy.roi_align(x, box, 3)
    grad = device.cupy.asarray(np.ones_like(expected))
    last_rows = roicy.roi_align_backward(grad, rows, shape)[0, -1, -60:].get()
    # The gradient of each of the 9 bins is 1.
    wrong = max(np.abs(found - expected).max(), abs(last_rows.sum(dtype=np.float64) - 9))
    yield {"passed": bool(wrong < 1e-3), "said": f"{x.size} elements, off by {wrong:.1e}"}


def calls(device):
    """Small calls of every pass; without a pool, so that each array has its own allocation."""
    if not device.dry:
        device.cupy.cuda.set_allocator(None)
    for work, direction, _ in passes_of(device.works):
        for layout in work.layouts:
            device.call(small(work), direction, layout, reuse=False)()
    device.synchronize()
    return []


STEPS = {step.__name__: step for step in (facts, first, bench, host, kernels, large, calls)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("step", choices=[*STEPS, "requirements"])
    parser.add_argument("--dry-run", action="store_true", help="without a GPU, by emulation")
    options = parser.parse_args()
    if options.step == "requirements":
        print(" ".join(WHEELS))
        return 0
    for row in STEPS[options.step](Device(options.dry_run)):
        print(json.dumps(row), flush=True)
        if not row.get("passed", True):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
