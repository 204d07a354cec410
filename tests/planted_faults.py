"""Faults that sanitizers and tests must find before they are trusted.

    python tests/planted_faults.py bounds | alignment | race | device

gives a kernel arguments that no operator would give.  Under the sanitizer for the fault, the
program ends with a report.  Without a sanitizer, the fault takes its course.

    python tests/planted_faults.py harnesses | kernels [NAME ...] [--folder FOLDER]

builds a copy of the checkout with all faults that the sources have as PLANTED(name).  The program
that is listed for a fault, a harness or tests of kernels, must pass without it and fail with it.
Without names, each fault of the list has its turn.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from roicy import _cpu
from roicy._kernels.plan import Arguments, narrow
from roicy._table import INTEGRATED, PRROI_POOL

ROOT = Path(__file__).resolve().parents[1]
# The names of faults, with the program or the tests that must find each.
HARNESSES = {
    "a row of a tile is not filled": "uninitialised.py",
    "a number is not summed": "uninitialised.py",
    "AVX2 leaves out a lane": "fuzzing.py --calls 500 --processes 1",
    "the last channels of a head are left out": "fuzzing.py --calls 500 --processes 1",
    "tables are written without memory": "failing_memory.py",
    "threads compute without scratch": "failing_memory.py",
    "a plan keeps its tasks": "failing_memory.py",
}
KERNELS = {
    "samples before the map are left out": "operators/test_edges.py",
    "one tap of four is left out": "operators/test_against_reference.py",
    "a number replaces the sum": "operators/test_methods.py",
    "the last of equal pixels is found": "operators/test_against_reference.py",
    "the last bin of a channel is left out": "operators/test_against_reference.py",
    "taps beyond 64 are left out": "operators/test_recorded.py",
    "the last turned row is left out": "operators/test_rotated.py",
    "the nearest pixel is the next one": "images/test_crop_training.py",
    "halves are rounded up": "images/test_crop.py",
    "the last pixels begin with an odd one": "images/test_crop_yuv.py",
    "the last row is not converted": "images/test_crop_yuv.py",
    "a threshold is not reached by itself": "images/test_masks.py",
    "points after the first 64 are left out": "attention/test_attention.py",
    "labels are bounded without a margin": "labels/test_labels.py",
}


def planned(boxes, threads):
    """Return the plan of prroi_pool of 64 channels and 7 x 7 bins."""
    x = np.ones((1, 64, 40, 40), np.float32)
    arguments = Arguments(boxes, None, 1.0, "NCHW", threads)
    plan = _cpu.plan_with_maps(PRROI_POOL, INTEGRATED, x, 7, arguments)
    plan.next()
    return plan


def bounds():
    """Pool a box for which the output has no room."""
    plan = planned(np.tile(np.array([[0, 1, 1, 9, 9]], np.float32), (2, 1)), 1)
    plan.forward(np.empty((1, 64, 7, 7), np.float32))


def alignment():
    """Pass numbers that do not lie at multiples of their size."""
    shifted = np.zeros(4 * 4 + 1, np.uint8)[1:].view(np.float32)
    narrow(shifted, np.zeros(4, np.float16).view(np.uint8), ord("e"), 1)


def race():
    """Let tasks of several threads write the same output, which all boxes share.

    A helper of the pool joins a call when it can.  On a busy machine it may miss those of the first
    seconds, so there are calls for a minute.  The sanitizer is asked to end at the first report.
    """
    boxes = np.tile(np.array([[0, 1, 1, 38, 38]], np.float32), (20, 1))
    one = np.empty((1, 64, 7, 7), np.float32)
    out = np.lib.stride_tricks.as_strided(one, (20, 64, 7, 7), (0, *one.strides[1:]))
    for _ in range(3000):
        planned(boxes, 2).forward(out)


def device():
    """Run a kernel of the GPU on the CPU for more boxes than the output has room for."""
    from cuda_emulation import standin

    sys.modules["cupy"] = standin
    from roicy.cuda import _launch, backend

    boxes = standin.asarray(np.tile(np.array([[0, 1, 1, 9, 9]], np.float32), (50, 1)))
    # There are as many channels as a block has threads.  So the first number without room lies
    # right behind the output.  Hundreds of bytes further on there may be another array that the
    # sanitizer knows.
    channels = _launch.THREADS
    x = standin.asarray(np.ones((1, channels, 20, 20), np.float32))
    arguments = Arguments(boxes, None, 1.0, "NCHW", None)
    call = backend.plan_with_maps(PRROI_POOL, INTEGRATED, x, 7, arguments)
    backend.forward(call, standin.zeros((1, channels, 7, 7), np.float32), None)


def build(folder):
    """Copy the checkout, and build its kernels with the faults."""
    for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    settings = {"ROICY_BUILD_ISA": "baseline,avx2", "ROICY_BUILD_FLAGS": "-O1 -DROICY_PLANTED"}
    environment = os.environ | settings
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def run(folder, fault, program):
    """Run a program with a fault, or with none, and end if it ends otherwise than it should."""
    name, *options = program.split()
    pytest = ["-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider"]
    command = [sys.executable, *(pytest if "/test_" in name else []), f"tests/{name}"]
    environment = os.environ | {"PYTHONPATH": str(folder), "ROICY_PLANTED": fault}
    done = subprocess.run(
        [*command, *options], cwd=folder, env=environment, capture_output=True, text=True
    )
    said = (done.stdout + done.stderr).strip().splitlines()[-3:]
    print(f"{fault or 'no fault'}: {program} ends with {done.returncode}", *said, sep="\n    ")
    if (done.returncode == 0) != (fault == ""):
        sys.exit(f"{program}, {fault or 'no fault'}: not as expected")


def find(faults, arguments):
    """Run the programs that must find some faults, without a fault and with each."""
    parser = argparse.ArgumentParser(f"planted_faults.py {sys.argv[1]}")
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(faults))
    parser.add_argument("--folder", type=Path, help="where the copy is made, and kept")
    arguments = parser.parse_args(arguments)
    wanted = {name: faults[name] for name in arguments.names}
    sys.stdout.reconfigure(line_buffering=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / "setup.py").exists():
            build(folder)
        for program in dict.fromkeys(wanted.values()):
            run(folder, "", program)
        for name, program in wanted.items():
            run(folder, name, program)


if __name__ == "__main__":
    groups = {"harnesses": HARNESSES, "kernels": KERNELS}
    calls = {call.__name__: call for call in (bounds, alignment, race, device)}
    if sys.argv[1] in groups:
        find(groups[sys.argv[1]], sys.argv[2:])
    else:
        calls[sys.argv[1]]()
        print("nothing was found")
