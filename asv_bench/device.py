"""
What only a machine with a GPU and many cores can tell; .ci/device starts it.

Each step is a process with a limit of its time.  It prints its results line by line, and
device.json and device.md are written after each step, so that nothing is lost if the time is over.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
TESTS = FOLDER.parent / "tests"
# CuPy 14.2 is of CUDA 13; another driver needs cupy-cuda12x and the wheels of its toolkit.
WHEELS = "numpy pytest hypothesis tqdm cupy-cuda13x[ctk]==14.2.0 nvidia-cuda-sanitizer-api".split()
WHEELS += ["torch==2.14.1", "torchvision==0.29.1"]
# seconds that a step may take, in the order of what is learnt from them
STEPS = {"facts": 30, "compile": 60, "bench": 120, "host": 20, "tests": 100, "kernels": 30}
STEPS |= {"large": 40, "memcheck": 45, "racecheck": 45, "synccheck": 30, "initcheck": 30}
STEPS |= {"scaling": 60}
TIMED = "align_fpn_p2_sr2 align_fpn_p2 align_adaptive align_pyramid align_c4 align_mask".split()
TIMED += "align_tiny pool_vgg prroi_iounet ps_align_lighthead".split()
SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")  # steps, and tools
DIRECTIONS = ["forward", "backward", "backward_boxes"]
SMALL_CALLS = 200  # that are queued before the GPU is waited for; its queue holds about a thousand
SCALED = ["align_fpn_p2", "align_c4", "pool_vgg", "prroi_iounet"]
CALLS, REPEATS = 20, 7  # calls that are queued between two events, and how often
SECONDS = ("seconds", "host", "seconds_cold", "least")  # columns that are times
TABLES = ("bench", "host", "kernels", "scaling")  # steps whose rows are a table each
LEVEL_2 = 256 << 20  # bytes that are written to empty the level 2 cache
MOST_THREADS = 16


def say(**row):
    """Give a result to the process that runs the steps."""
    print(json.dumps(row), flush=True)


def small(workload):
    """Return a workload that the stand-in computes in a second."""
    n, c, h, w = workload.shape
    c = 49 if workload.operator.startswith("ps_") else min(c, 8)
    return workload._replace(shape=(n, c, min(h, 50), min(w, 76)), count=5)


class Device:
    """The GPU, or the stand-in for it on the CPU."""

    def __init__(self, dry):
        self.dry = dry
        if dry:
            sys.path.insert(0, str(TESTS))
            from cuda_emulation import standin

            sys.modules["cupy"] = standin
        import cupy

        self.cupy = cupy
        self.flushed = None if dry else cupy.empty(LEVEL_2, "uint8")

    def synchronize(self):
        if not self.dry:
            self.cupy.cuda.get_current_stream().synchronize()

    def counted(self, call):
        """Return what a call asks of the stand-in, which from then on runs no kernels."""
        if not self.dry:
            return {}
        counted = {
            name: getattr(self.cupy, name) for name in ("launches", "operations", "allocations")
        }
        self.cupy.idle = True
        for found in counted.values():
            found.clear()
        call()
        sizes = {"bytes": sum(counted["allocations"])}
        return {name: len(found) for name, found in counted.items()} | sizes

    def between_events(self, function, calls):
        """Return the seconds of so many calls, by the clock of the GPU, and until it has them."""
        if self.dry:
            start = time.perf_counter()
            for _ in range(calls):
                function()
            return [time.perf_counter() - start] * 2
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
        calls, repeats = (1, 1) if self.dry else (CALLS, REPEATS)
        function()
        self.synchronize()
        queued = [self.between_events(function, calls) for _ in range(repeats)]
        cold = []
        for _ in range(repeats):
            if self.flushed is not None:
                self.flushed.fill(0)
            cold.append(self.between_events(function, 1)[0])
        return {
            "seconds": statistics.median(one for one, _ in queued) / calls,
            "host": statistics.median(host for _, host in queued) / calls,
            "seconds_cold": statistics.median(cold),
        }


def workloads_of(device):
    """Return the workloads of the steps, small ones for the stand-in."""
    from roicy.bench.workloads import WORKLOADS

    return {name: small(WORKLOADS[name]) if device.dry else WORKLOADS[name] for name in TIMED}


def passes_of(works):
    """Yield name, workload and pass of everything that roicy can call."""
    import roicy

    for name, work in works.items():
        yield from ((name, work, one) for one in DIRECTIONS if work.has(roicy, one))


def prepared(device, work, direction="forward", layout="NCHW", reuse=True):
    """Return a call of roicy on the device."""
    import roicy

    put = device.cupy.asarray
    return work.call(roicy, work.arrays(), direction, layout, reuse, put=put)


def step_facts(device):
    """What the machine is, and how fast its memory is."""
    from roicy.bench import timing

    say(**timing.facts())
    packages = {}
    for name in WHEELS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            package = name.split("=")[0].split("[")[0]
            packages[package] = importlib.metadata.version(package)
    say(packages=packages)
    if device.dry:
        say(gpu={"name": "none, emulated on the CPU", "copy_rate": None})
        return
    cupy, runtime = device.cupy, device.cupy.cuda.runtime
    found = runtime.getDeviceProperties(0)
    source, target = cupy.ones(1 << 28, "float32"), cupy.empty(1 << 28, "float32")
    seconds = device.timed(lambda: cupy.copyto(target, source))["seconds"]
    say(
        gpu={
            "name": found["name"].decode(),
            "compute_capability": f"{found['major']}.{found['minor']}",
            "memory": found["totalGlobalMem"],
            "multiprocessors": found["multiProcessorCount"],
            "level_2": found["l2CacheSize"],
            "driver": runtime.driverGetVersion(),
            "runtime": runtime.runtimeGetVersion(),
            "copy_rate": 2 * source.nbytes / seconds,
        }
    )


def program_of(step, dry):
    """Return the command of a step."""
    return [sys.executable, __file__, "--step", step, *["--dry-run"] * dry]


def step_compile(device):
    """How long a first call takes, with no compiled kernels in the cache, and with them."""
    with tempfile.TemporaryDirectory() as folder:
        for cache in ["full"] if device.dry else ["empty", "full"]:
            start = time.perf_counter()
            env = os.environ | ({} if device.dry else {"CUPY_CACHE_DIR": folder})
            subprocess.run(program_of("first", device.dry), env=env, check=True)
            say(cache=cache, process_seconds=time.perf_counter() - start)


def step_first(device):
    """Make one call, in a new process."""
    prepared(device, workloads_of(device)["align_tiny"])()
    device.synchronize()


def torchvision_on(device):
    """Return what prepares torchvision's calls, which do not wait for the GPU; or None."""
    from roicy.bench import peers

    class Queued(peers.TorchVisionCuda):
        def done(self, results):
            return results

    try:
        return (peers.TorchVision if device.dry else Queued)(1)
    except ImportError as error:
        say(note=f"torchvision is left out: {error}")
        return None


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


def step_bench(device):
    """Times of roicy and torchvision, on the same arrays."""
    peer = torchvision_on(device)
    for name, work, direction in passes_of(workloads_of(device)):
        arrays = work.arrays()
        for layout in work.layouts:
            call = prepared(device, work, direction, layout)
            first, second = bytes_of(call()), bytes_of(call())
            same = first == second == bytes_of(on_another_stream(device, call))
            moved = work.read_bytes(arrays, direction) + len(first)
            row = {"workload": name, "direction": direction, "bytes": moved}
            times = device.timed(call)
            say(library="roicy", layout=layout, repeats_bits=same, **row, **times)
        other = peer and peer.prepare(work, arrays, direction)
        if other is not None:
            say(library="torchvision", layout="NCHW", **row, **device.timed(other))


def step_host(device):
    """What small calls cost the host, which does not wait: the least of five times."""
    from roicy.bench import timing
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
    for name, work, direction in passes_of(works):
        device.cupy.idle = False
        call = prepared(device, work, direction, reuse=False)
        call()
        counts = device.counted(call)
        host = min(timing.times(call, 0, 5, SMALL_CALLS, clock, device.synchronize))
        say(workload=name, direction=direction, host=host, **counts)


def step_kernels(device):
    """The time of each kernel, by the profiler of PyTorch."""
    if device.dry:
        say(left_out="there is no GPU to profile")
        return
    try:
        from torch.profiler import ProfilerActivity, profile
    except ImportError as error:
        say(left_out=f"PyTorch is not installed: {error}")
        return
    for name, work, direction in passes_of(workloads_of(device)):
        call = prepared(device, work, direction)
        call()
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            for _ in range(5):
                call()
            device.synchronize()
        for event in found.key_averages():
            seconds = event.self_device_time_total / 5e6
            say(workload=name, direction=direction, kernel=event.key, seconds=seconds)


def step_large(device):
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
    say(elements=x.size, passed=bool(wrong < 1e-3), said=f"{x.size} elements, off by {wrong:.1e}")


def reported(command, **facts):
    """Run a command; say whether it passed and its last line, and where it fails the last 60."""
    ended = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
    said = (ended.stdout + ended.stderr).strip().splitlines() or [""]
    failure = {"failure": "\n".join(said[-60:])} if ended.returncode else {}
    say(passed=ended.returncode == 0, said=said[-1], **facts, **failure)


def step_tests(device):
    """Run the tests of the GPU, up to the first failure; a few of them on the stand-in."""
    chosen = "forward and (test_workloads or test_any_strides)" if device.dry else "GPU"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-c", os.devnull, "--rootdir=."]
    reported([*command, "-p", "no:cacheprovider", "-k", chosen, "test_cuda.py"])


def find_sanitizer():
    """Return the path of compute-sanitizer, of the system or of a wheel, or None."""
    found = shutil.which("compute-sanitizer") or shutil.which(
        "/usr/local/cuda/bin/compute-sanitizer"
    )
    folders = [Path(folder) / "nvidia" for folder in sys.path]
    wheels = (path for folder in folders for path in folder.glob("**/compute-sanitizer"))
    return found or next((str(path) for path in wheels if path.is_file()), None)


def sanitize(device, tool):
    """Make small calls under a tool of compute-sanitizer; on the stand-in, without it."""
    program = program_of("calls", device.dry)
    if not device.dry:
        sanitizer = find_sanitizer()
        if sanitizer is None:
            say(left_out="compute-sanitizer is not installed")
            return
        program = [sanitizer, "--tool", tool, "--error-exitcode", "9", *program]
    reported(program, emulated=device.dry)


def step_calls(device):
    """Small calls of every pass; without a pool, so that each array has its own allocation."""
    if not device.dry:
        device.cupy.cuda.set_allocator(None)
    for _, work, direction in passes_of(workloads_of(device)):
        for layout in work.layouts:
            prepared(device, small(work), direction, layout, reuse=False)()
    device.synchronize()


def step_scaling(device):
    """Speed of the CPU on 1, 2, 4, ... threads."""
    from roicy.bench import threads, timing

    most = min(timing.usable_cores(), MOST_THREADS)
    names, seconds = (SCALED[:1], 0.01) if device.dry else (SCALED, 0.2)
    for direction in ("forward", "backward"):
        for name in names:
            rows = threads.scaling([(name, direction)], "float32", most, 3, seconds)
            for row in rows:
                say(**row)


def run_step(command, limit):
    """Run a step in a process group of its own, and return its results and how it ended."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors, start_new_session=True)
        try:
            ended = "done" if process.wait(limit) == 0 else "failed"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            ended = f"stopped after {limit:.0f} s"
        out.seek(0)
        errors.seek(0)
        rows = []
        for line in out:
            with contextlib.suppress(json.JSONDecodeError):
                rows.append(json.loads(line))
        said = errors.read()[-2000:] if ended == "failed" else ""
    return {"ended": ended, "took": time.monotonic() - start, "rows": rows, "errors": said}


def merged(step):
    """Return the rows of a step as one object."""
    return {name: value for row in step["rows"] for name, value in row.items()}


def table(rows):
    """Return the lines of a table in Markdown; columns of SECONDS are in microseconds."""
    names = dict.fromkeys(name for row in rows for name in row)
    lines = ["", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for row in rows:
        cells = [row.get(name, "-") for name in names]
        for i, name in enumerate(names):
            if isinstance(cells[i], float):
                cells[i] = f"{1e6 * cells[i]:.1f}" if name in SECONDS else f"{cells[i]:.4g}"
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def markdown(file):
    """Return the results as a page for the documentation."""
    steps = file["steps"]
    facts = merged(steps["facts"]) if "facts" in steps else {}
    gpu, machine = facts.get("gpu", {}), facts.get("machine", {})
    rate = gpu.get("copy_rate")
    title = f"# {gpu.get('name', 'unknown GPU')}, {machine.get('usable_cores', '?')} cores"
    lines = [title + f" of {machine.get('processor', '?')}"]
    if file["dry_run"]:
        lines += ["", "**A dry run: emulated, small calls. No figure says anything about a GPU.**"]
    if rate:
        lines += ["", f"The GPU copies {rate / 1e9:.0f} GB/s, read and written."]
    ends = []
    for name, step in steps.items():
        found = merged(step)
        said = found.get("said") or found.get("left_out") or found.get("note") or ""
        took = f"{step['took']:.0f} s"
        ends.append({"step": name, "ended": step["ended"], "took": took, "said": said})
    lines += table(ends)
    for name in TABLES:
        rows = [row for row in steps.get(name, {"rows": []})["rows"] if "workload" in row]
        if rate and name == "bench":
            rows = [row | {"of a copy": row["seconds"] * rate / row["bytes"]} for row in rows]
        lines += ["", f"{name}, times in us", *table(rows)] if rows else []
    return "\n".join(lines) + "\n"


def has_gpu():
    with contextlib.suppress(ImportError):
        import cupy

        return cupy.cuda.is_available()
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="without a GPU, by emulation")
    parser.add_argument("--minutes", type=float, default=8.0, help="(default: %(default)s)")
    parser.add_argument("--output", default=".", help="folder of device.json and device.md")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--requirements", action="store_true", help="print what pip must install")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.requirements:
        print(" ".join(WHEELS))
        return 0
    if options.step:
        device = Device(options.dry_run)
        if options.step in SANITIZERS:
            sanitize(device, options.step)
        else:
            globals()[f"step_{options.step}"](device)
        return 0
    if not options.dry_run and not has_gpu():
        print("CuPy is not installed or sees no GPU; --dry-run runs without one", file=sys.stderr)
        return 2
    end = time.monotonic() + 60 * options.minutes
    file = {"schema": "roicy-device/1", "dry_run": options.dry_run, "steps": {}}
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.steps:
        left = end - time.monotonic()
        if left < 1:
            file["steps"][name] = {"ended": "no time left", "took": 0, "rows": [], "errors": ""}
        else:
            command = program_of(name, options.dry_run)
            file["steps"][name] = run_step(command, min(STEPS[name], left))
        step = file["steps"][name]
        print(f"{name}: {step['ended']}, {step['took']:.0f} s {step['errors']}", flush=True)
        (folder / "device.json").write_text(json.dumps(file, indent=1) + "\n")
        (folder / "device.md").write_text(markdown(file))
    bad = [
        name
        for name, step in file["steps"].items()
        if step["ended"] != "done" or merged(step).get("passed") is False
    ]
    if bad:
        print(f"not done, or failed: {', '.join(bad)}", file=sys.stderr)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
