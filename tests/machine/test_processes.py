"""Calls work beside forks, process pools, other thread pools and signals, as in a server."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import roicy
from roicy import attention

PREAMBLE = """
import os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import roicy

x = np.random.default_rng(0).standard_normal((2, 64, 100, 100)).astype(np.float32)
boxes = [[k % 2, k % 50, k % 40, k % 50 + 30, k % 40 + 40] for k in range(500)]
boxes = np.array(boxes, np.float32)

def align(threads=3):
    return roicy.roi_align(x, boxes, 7, num_threads=threads)

def same(a, b):
    return a.tobytes() == b.tobytes()

def tasks():
    return len(os.listdir("/proc/self/task"))

def tasks_of_pool(expected=0):  # once the pool has its helpers, which start while calls compute
    for count in range(200):
        align()
        time.sleep(0.01)
        if count >= 10 and tasks() >= expected:
            break
    return tasks()

expected = align(1)
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
plain = pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="sanitizers reserve more than that")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
timers = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers")


def run(code, tmp_path, timeout=120, **environment):
    """Run a program in a process of its own, which must end by itself.  Return the words that it
    prints.

    If it does not end, it and its children print where each of their threads stands.
    """
    script = tmp_path / "program.py"
    script.write_text(PREAMBLE + textwrap.dedent(code))
    keep = {
        name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))
    }
    command = [sys.executable, "-X", "faulthandler", script]
    with subprocess.Popen(
        command,
        env={**keep, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGABRT)
            else:
                process.kill()
            out, errors = process.communicate()
            pytest.fail(f"no end within {timeout} s\nprinted: {out}\n{errors}")
    assert process.returncode == 0, errors
    return out.split()


@forks
@linux
@pytest.mark.parametrize(
    ("used", "environment"),
    [
        (True, {}),
        (False, {}),
        (True, {"KMP_INIT_AT_FORK": "FALSE"}),  # as joblib sets it
        (True, {"OMP_NUM_THREADS": "many"}),  # at which LLVM's runtime ends a process
    ],
    ids=str,
)
def test_fork(used, environment, tmp_path):
    """The child of a process with a pool starts its own, and so does a grandchild.  The parent can
    compute afterwards, too.
    """
    code = f"""
        if {used}:
            assert tasks_of_pool(3) >= 3

        def child(depth):
            if os.fork() == 0:
                alone = tasks()
                right = same(align(), expected)
                print(alone, tasks_of_pool(3), right, flush=True)
                if depth:
                    child(depth - 1)
                os._exit(0)
            assert os.wait()[1] == 0

        child(1)
        assert same(align(), expected)
        print(tasks_of_pool(3))
    """
    assert run(code, tmp_path, **environment) == ["1", "3", "True"] * 2 + ["3"]


@forks
@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="AddressSanitizer leaves the locks of its allocator as other threads held them",
)
def test_fork_beside_busy_threads(tmp_path):
    """A thread with a team and a thread without one fork while others compute."""
    code = """
        align()
        stop = threading.Event()

        def busy():
            while not stop.is_set():
                assert same(align(2), expected)

        def fork(count):
            for _ in range(count):
                if os.fork() == 0:
                    os._exit(0 if same(align(), expected) else 1)
                assert os.wait()[1] == 0
                print("right", flush=True)

        with ThreadPoolExecutor(3) as pool:
            workers = [pool.submit(busy) for _ in range(2)]
            fork(5)
            pool.submit(fork, 5).result()
            stop.set()
            assert not any(worker.result() for worker in workers)
    """
    assert run(code, tmp_path) == ["right"] * 10


@forks
def test_prefork_server(tmp_path):
    """Workers are forked by a master that has warmed up, and answer requests on several threads."""
    code = """
        align()
        workers = []
        for _ in range(3):
            read, write = os.pipe()
            if os.fork() == 0:
                with ThreadPoolExecutor(4) as pool:
                    answers = list(pool.map(lambda _: same(align(2), expected), range(12)))
                os.write(write, bytes(answers))
                os._exit(0)
            workers.append(read)
        for read in workers:
            print(sum(os.read(read, 100)))
    """
    assert run(code, tmp_path) == ["12"] * 3


@forks
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processor affinity is Linux's")
def test_a_child_asks_again_for_its_processors(tmp_path):
    """A worker that is pinned to one processor does not use the number that its parent found."""
    code = """
        before = roicy.get_num_threads()
        if os.fork() == 0:
            os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
            print(roicy.get_num_threads(), flush=True)
            os._exit(0)
        os.wait()
        print(roicy.get_num_threads() == before)
    """
    assert run(code, tmp_path) == ["1", "True"]


@forks
def test_settings_survive_a_fork(tmp_path):
    code = """
        roicy.set_num_threads(5)
        if os.fork() == 0:
            print(roicy.get_num_threads(), flush=True)
            roicy.set_num_threads(6)
            print(roicy.get_num_threads(), flush=True)
            os._exit(0)
        os.wait()
        print(roicy.get_num_threads())
    """
    assert run(code, tmp_path) == ["5", "6", "5"]


@pytest.mark.parametrize("forked", [False, pytest.param(True, marks=forks)], ids=["", "in a child"])
def test_no_idle_spinning(forked, tmp_path):
    """Helpers sleep after a call, rather than burn the CPU quota of a container."""
    code = f"""
        def after_calls():
            spent = []
            for _ in range(20):
                align(2)
                start = time.process_time()
                time.sleep(0.02)
                spent.append(time.process_time() - start)
            return min(spent)  # other work of the machine only adds to it
        if {forked} and os.fork():
            os.wait()
        else:
            print(after_calls())
    """
    (spent,) = run(code, tmp_path)
    assert float(spent) < 1e-3  # a runtime's own threads take 2 to 12 ms


@linux
def test_threadpoolctl(tmp_path):
    """The OpenMP runtime is found by threadpoolctl, and calls of a thread keep to its limits."""
    pytest.importorskip("threadpoolctl")
    code = """
        import threadpoolctl
        from roicy._machine import _threads
        print(any(pool["user_api"] == "openmp" for pool in threadpoolctl.threadpool_info()))
        before = tasks()
        with threadpoolctl.threadpool_limits(1):
            assert same(align(None), expected)
            print(tasks_of_pool() - before)
        print(tasks_of_pool(before + 2) - before)
    """
    assert run(code, tmp_path, OMP_NUM_THREADS="3") == ["True", "0", "2"]


WORKERS = [
    ("multiprocessing", "fork"), ("multiprocessing", "spawn"), ("multiprocessing", "forkserver"),
    ("joblib", "loky"), ("joblib", "threading"), ("dask", "threads"), ("dask", "processes"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("package", "way"), WORKERS)
def test_pools_of_workers(package, way, tmp_path):
    pytest.importorskip(package)
    if package == "multiprocessing" and way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {way}")
    work = {
        "multiprocessing": f"multiprocessing.get_context({way!r}).Pool(2).map(align, counts)",
        "joblib": f"joblib.Parallel(2, backend={way!r})(map(joblib.delayed(align), counts))",
        "dask": f"dask.compute(*map(dask.delayed(align), counts), scheduler={way!r})",
    }
    code = f"""
        import {package}, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of a fork beside threads
        if __name__ == "__main__":
            align()
            counts = [1, 2, 3, 4]
            print(*[same(out, expected) for out in {work[package]}])
    """
    assert run(code, tmp_path) == ["True"] * 4


def test_beside_other_thread_pools(tmp_path):
    """NumPy's BLAS, and torch if installed, compute before, after and during calls."""
    code = """
        others = [lambda: np.ones((300, 300)) @ np.ones((300, 300))]
        try:
            import torch
            maps, weights = torch.ones(1, 8, 64, 64), torch.ones(8, 8, 3, 3)
            others.append(lambda: torch.nn.functional.conv2d(maps, weights))
        except ImportError:
            pass
        for other in others:
            other()
            assert same(align(), expected)
            other()
        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(other) for other in others * 8]
            jobs += [pool.submit(align, 2) for _ in range(8)]
            print(sum(same(job.result(), expected) for job in jobs[-8:]))
        if hasattr(os, "fork"):
            if os.fork() == 0:
                os._exit(0 if same(align(), expected) else 1)
            print(os.wait()[1])
    """
    assert run(code, tmp_path)[0] == "8"


@timers
def test_signals(tmp_path):
    """Signals that arrive during a call are handled after it, and its result is complete."""
    code = """
        import signal
        caught = []
        signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        right = all(same(align(threads), expected) for threads in (1, 2, 3) * 20)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(right, len(caught) > 10)

        def interrupt(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        interrupted = 0
        for _ in range(20):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                while True:
                    align()
            except KeyboardInterrupt:
                interrupted += 1
        print(interrupted, same(align(), expected))
    """
    assert run(code, tmp_path) == ["True", "True", "20", "True"]


def long_calls():
    """Return calls of images and of attention that take seconds."""
    rng = np.random.default_rng(0)
    frame, boxes = rng.integers(0, 256, (90, 120, 3), np.uint8), np.tile((0, 0, 120, 90), (9000, 1))
    masks, whole = rng.random((1, 28, 28), np.float32), [[0, 0, 20000, 20000]]
    prototypes = np.ones((32, 500, 500), np.float32)
    tilted = [[0, 60, 45, 50000, 50000, 0.3]]
    value, queries = np.ones((1, 100, 1, 2048), np.float32), 200
    at = rng.random((1, queries, 1, 1, 20000, 2), np.float32)
    attended = value, [(10, 10)], at, at[..., 0]
    grad = np.ones((1, queries, 2048), np.float32)

    def slopes():
        call = attention.Call(*attended, None, "bilinear", "zeros", False)
        attention.gradients(call, grad, (False, True, True), 1)

    return {
        "attention": lambda: roicy.deformable_attention(*attended),
        "gradient of values": lambda: roicy.deformable_attention_backward(grad, *attended),
        "gradients of locations": slopes,
        "codes": lambda: roicy.paste_masks(masks, whole, (20000, 20000), format="rle"),
        "codes of sums": lambda: roicy.prototype_masks(
            np.tile(masks, (8, 1, 1)), masks[0, :1, :8], whole, (20000, 20000), format="rle"
        ),
        "images": lambda: roicy.prototype_masks(
            prototypes, np.ones((2000, 32), np.float32), [[0, 0, 100, 100]] * 2000, (100, 100)
        ),
        "axes": lambda: roicy.resize_masks(masks, (2, 9), via=(2**26, 2**26), format="rle"),
        "taps": lambda: roicy.resize(frame, (1, 1), content=(0, 0, 2**24, 1)),
        "crops": lambda: roicy.crop(frame, boxes, 160, dtype=np.uint8),
        "a turned crop": lambda: roicy.crop(frame, tilted, 4000, num_threads=1),
    }  # fmt: skip


# Each takes half a second.  The last ones are other tasks of functions that come before.
LONG_CALLS = [
    "attention", "gradient of values", "codes", "images", "a turned crop", "taps",
    *(pytest.param(name, marks=pytest.mark.slow)
      for name in ("gradients of locations", "codes of sums", "crops", "axes")),
]  # fmt: skip


@timers
@pytest.mark.parametrize("name", LONG_CALLS)
def test_ctrl_c_ends_long_calls(name):
    """The error comes from among the tasks, not after the call."""

    def interrupt(*_):
        raise KeyboardInterrupt

    call, files = long_calls()[name], set()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in (0.02, 0.1, 0.5):  # arguments may be checked for as long
            signal.setitimer(signal.ITIMER_REAL, delay)
            with pytest.raises(KeyboardInterrupt) as caught:
                call()
            files |= {Path(entry.path).suffix for entry in caught.traceback}
            if files & {".pxd", ".pyx"}:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert files & {".pxd", ".pyx"}


@linux
@pytest.mark.parametrize(
    "environment",
    [
        {"OMP_THREAD_LIMIT": "2", "OMP_STACKSIZE": "64k"},
        {"OMP_DYNAMIC": "true", "OMP_PROC_BIND": "true"},
        {"OMP_NUM_THREADS": "1"},
    ],
    ids=str,
)
def test_limits_of_the_runtime(environment, tmp_path):
    """A runtime that gives fewer threads than asked for, or none, changes no result."""
    code = "print(*[same(align(threads), expected) for threads in (1, 2, 5, 64)])"
    assert run(code, tmp_path, **environment) == ["True"] * 4


@linux
@plain
def test_small_stacks(tmp_path):
    """Callers and helpers with stacks of 128 KB, as musl gives them, have room for all calls."""
    code = f"""
        sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
        import fuzzing

        def call():
            return [
                fuzzing.one_call(string, target)
                for target in fuzzing.TARGETS if target != "nodes"  # whose threads are not ours
                for string in fuzzing.corpus(target)[::8]
            ]

        threading.stack_size(128 << 10)
        with ThreadPoolExecutor(1) as caller:
            print(len(caller.submit(call).result()) > 100)
    """
    assert run(code, tmp_path, OMP_STACKSIZE="128k") == ["True"]


# Callers of the pool at once, before which a process meets a limit.
LIMITED = """
import resource
barrier = threading.Barrier({callers} + 1)

def call():
    barrier.wait()
    return all([same(align({threads}), expected) for _ in range(3)])

with ThreadPoolExecutor({callers}) as callers:
    answers = [callers.submit(call) for _ in range({callers})]
    {limit}
    barrier.wait()
    print(*[answer.result() for answer in answers])
"""
OF_THREADS = """
    if os.getuid() == 0:
        os.setresuid(54321, 54321, 54321)  # who has no other process, and is limited
    resource.setrlimit(resource.RLIMIT_NPROC, (tasks() + {room},) * 2)
"""
OF_MEMORY = """
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ({room} << 20),) * 2)
"""
root = pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0,
    reason="only root can become a user of one process",
)


@linux
@pytest.mark.parametrize(
    ("limit", "room", "environment"),
    [
        *(pytest.param(OF_THREADS, room, {}, marks=root) for room in (0, 1, 3, 9, 40)),
        *(pytest.param(OF_MEMORY, room, {}, marks=plain) for room in (60, 400)),
        pytest.param(OF_MEMORY, 1000, {"OMP_STACKSIZE": "512M"}, marks=plain),
        ("", 0, {"OMP_STACKSIZE": "9000 g"}),
        ("", 0, {"GOMP_STACKSIZE": "9000000000"}),
    ],
    ids=[
        "no thread", "one", "three", "nine", "forty", "60 MB", "400 MB", "large stacks",
        "stacks larger than the machine", "by GCC's variable",
    ],
)  # fmt: skip
def test_threads_that_cannot_be_started(limit, room, environment, tmp_path):
    """An OpenMP runtime would end the process: the pool does not ask it where it might."""
    code = LIMITED.format(callers=4, threads=4, limit=limit.format(room=room))
    assert run(code, tmp_path, **environment) == ["True"] * 4


@linux
def test_a_pool_of_the_process(tmp_path):
    """Threads of Python share the pool, which is as large as the largest call wanted."""
    code = """
        everybody = threading.Barrier(16)
        with ThreadPoolExecutor(16) as callers:
            alone = list(callers.map(lambda _: everybody.wait(), range(16))) and tasks()
            for threads in (2, 4, 3):
                assert all(same(a, expected) for a in callers.map(align, [threads] * 64))
            for _ in range(100):  # threads on trial come and go
                align(4)
                if tasks() - alone == 3:
                    break
                time.sleep(0.02)
            print(tasks() - alone)
    """
    assert run(code, tmp_path) == ["3"]


def test_after_a_subinterpreter(tmp_path):
    """Python's lock is given up and taken by the caller's own state, also to look for signals."""
    code = """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        interpreters.destroy(interpreters.create())
        masks, whole = np.random.default_rng(0).random((1, 28, 28), np.float32), [[0, 0, 9e3, 9e3]]
        roicy.paste_masks(masks, whole, (9000, 9000), format="rle", num_threads=2)
        print(same(align(2), expected))
    """
    assert run(code, tmp_path) == ["True"]


@linux
def test_a_runtime_that_others_use(tmp_path):
    """A region of the caller's own, in the runtime that the pool uses, changes nothing."""
    code = """
        import ctypes
        from roicy._machine import _runtimes
        for path in _runtimes.loaded():
            runtime = ctypes.CDLL(path)
            if not hasattr(runtime, "GOMP_parallel"):
                continue
            work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
            for threads in (4, 2):
                runtime.GOMP_parallel(work, None, threads, 0)
                assert same(align(threads + 1), expected)
        print("right")
    """
    assert run(code, tmp_path) == ["right"]


def test_brief_calls_keep_the_lock(tmp_path):
    """No other Python thread runs meanwhile, also where two threads compute."""
    code = """
        from roicy._kernels import machine
        x, boxes = x[:1, :16], boxes[:40:2] * [[0, 0.5, 0.5, 0.5, 0.5]]
        import time
        steps, stop = [0], []
        def count():
            while not stop:
                steps[0] += 1
                time.sleep(0)  # gives the lock up, which it would otherwise keep for 30 s
        other = threading.Thread(target=count)
        sys.setswitchinterval(30)
        other.start()
        before, released = steps[0], machine.lock_releases()
        for threads in (1, 2, 2, 2):
            roicy.roi_align(x, boxes, 7, num_threads=threads)
        found = steps[0] - before, machine.lock_releases() - released
        stop.append(1)
        print(*found)
    """
    assert run(code, tmp_path) == ["0", "0"]
