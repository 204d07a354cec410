"""Planted faults, which show that the sanitizers and the tests find faults of these kinds.

    python tests/planted_faults.py bounds | index | alignment | race | device

gives a kernel arguments that no operator would give.  Under the sanitizer for the fault, the
program ends with a report.  Without a sanitizer, the fault takes its course.

    python tests/planted_faults.py kernels [--only NAME ...] [--folder FOLDER] [PYTEST'S OPTIONS]

builds a copy of the checkout with all FAULTS behind a switch, and runs the tests of operators with
one fault at a time.  It prints which tests fail, and at the end which test functions no fault has
made fail: these have to hold something else.  A fault that no test finds is an error.  All of them
take an hour.  A line of FAULTS that is no longer in the sources is to be written anew.

    python tests/planted_faults.py harnesses [--folder FOLDER]

builds such a copy, and runs for each fault of HARNESSES the program that looks for its kind, which
must end with an error.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from roicy import _cpu
from roicy._kernels import isa, machine
from roicy._kernels.plan import Arguments
from roicy._table import INTEGRATED, PRROI_POOL

ROOT = Path(__file__).resolve().parents[1]
# Tests of other things than operators, of the GPU, and of programs that take their time.
SKIPPED = re.compile(
    r"test_(cuda|onnx|torch|style|docs|imports|typing|tracking|examples|server|processes|memory|"
    r"limits|dispatch|workloads|threads|array_likes|arguments|openvino|fuzzing)"
)
SECONDS = 900  # of one run: a fault may make a loop endless
HEADER = """
#ifndef PLANTED_H
#define PLANTED_H
#include <stdlib.h>
static int planted_fault = 0;
__attribute__((constructor)) static void plant(void) {
    const char *fault = getenv("ROICY_PLANTED");
    planted_fault = fault ? atoi(fault) : 0;
}
#define PLANTED(i) (planted_fault == (i))
#ifdef __AVX2__
#define IN_AVX2 1
#else
#define IN_AVX2 0
#endif
#endif
"""
DECLARATION = 'cdef extern from "planted.h" nogil:\\n    bint PLANTED(int)\\n    int IN_AVX2\\n'

# In a file of Python, after its first import.
PYTHON = """
import os

def PLANTED(number):
    return os.environ.get("ROICY_PLANTED") == str(number)
"""

# Each is a name, a file of pyx/ or roicy/, and some of its text, in which {right||wrong} is an
# expression and what takes its place.
FAULTS = [
    ("samples in [-1, 0] are off the map", "plan/rules.h",
     "NAME(samples_between)(axis, start, {-1||0}, axis->extent, first, stop);"),
    ("samples lie at the ends of their cells", "plan/rules.h",
     "return ((REAL)s + {(REAL)0.5||(REAL)0}) * bin_size / (REAL)axis->grid;"),
    ("small boxes keep their size", "plan/rules.h", "if (rule->at_least_one && size < {1||0}) {"),
    ("the two weights of a sample are swapped", "plan/rules.h",
     "here.weight += {run.count - run.fraction||run.fraction};"),
    ("dense samples lie at the first of them", "plan/rules.h",
     "v = {0.5 * (v + NAME(sample)(axis, start, run.stop - 1))||v};"),
    ("both edges move a sample alike", "plan/rules.h",
     "by_high = run->moving * {r||1 - r} * axis->scale;"),
    ("a raised size moves with its box", "plan/rules.h", "if ({axis->clamped||0})\n        r = 0;"),
    ("an integral has a part of its hat twice", "plan/rules.h",
     "share * (0.5 * (left - begin) + 0.5 * (right - {begin||left}));"),
    ("an integral moves with the wrong edge", "plan/rules.h",
     "by_end * (axis->bins - p - {1||0})) / n * axis->scale;"),
    ("narrow bins are counted from pixel 0", "plan/rules.h",
     "double origin = {axis->bin_size < 1 ? floor(axis->low) : 0||0}, low"),
    ("the last pixel of a box is left out", "plan/rules.h",
     "(double)end - (double)start + {rule->inclusive||0}, 1.0);"),
    ("the last row of a map is read", "plan/rules.h",
     "extent = axis->extent - ({rule->kind == RULE_UNIFORM||0});"),
    ("the nearest pixel is the one before", "plan/rules.h", "v = {round(v)||floor(v)};"),
    ("boxes turn one way only", "plan/rules_rotated.h",
     "box->sign = rule->clockwise ? {-1||1} : 1;"),
    ("a turned box moves another way", "plan/rules_rotated.h",
     "x[4] = box->sign * ({row->at * box->cosine||0} - xx * box->sine);"),
    ("a turned sample has the weights of another", "plan/rules_rotated.h",
     "double weight_y = i ? {part_y||1 - part_y} : 1 - part_y"),
    ("a weight of a pair of taps is that of the other", "simd/contract.inc.h",
     "wb = weight[taps > 1 ? {1||0} : 0];"),
    ("one tap of four is left out", "simd/contract.inc.h",
     "if (taps > {3||4})\n            NAME(add_product)(sums, wd"),
    ("a gradient replaces what it is added to", "simd/accumulate.inc.h",
     "&vectors, &bins, {1||0});"),
    ("the last of equal pixels wins", "simd/maximum.inc.h",
     "at[l] = {values[l] > best[l]||values[l] >= best[l]} ? index : at[l];"),
    ("of equal pixels the last one is found", "simd/maximum.inc.h",
     "const INDICES larger = {values > largest[v]||values >= largest[v]};"),
    ("a column is summed for another", "simd/numbers.inc.h",
     "sum = i > first ? NAME(FUSED)(weight[i], sums[{l||0}], sum)"),
    ("a number replaces what it is added to", "simd/numbers.inc.h",
     "*at = NAME(FUSED)(weight_y[j], weight_x[i] * value, {*at||0});"),
    ("a pixel of few channels forgets a box", "simd/numbers.inc.h",
     "REAL *at = (REAL *)to + *pixel * column, sum = {*at||0};"),
    ("the last bin of a channel is left out", "simd/scatter.inc.h",
     "for (; i < {line.count||line.count - 1}; i++)\n            bad |= NAME(add_one)(plane"),
    ("half of the lanes is left out", "simd/correlate.inc.h",
     "half[l] = sums[l] + {sums[l + half_lanes]||0};"),
    ("an edge gets the slope of the other", "simd/correlate.inc.h",
     "NAME(add_folded)(by_x2, weight_y[i], {of_high||of_low});"),
    ("taps beyond 64 are left out", "simd/correlate.inc.h",
     "for (some_y[0] = y[0]; some_y[0] < {y[1]||y[0] + rows}; some_y"),
    ("the last tap of a turned bin is left out", "simd/sparse.inc.h",
     "for (; u < {stop_b||stop_b - 1}; u++)\n            NAME(add_product)(b, weight[u],"),
    ("the last row of a turned window is left out", "simd/sparse.inc.h",
     "y >= {window[1]||window[1] - 1} ||"),
    ("halves are cut off", "simd/convert.h", "(bounded - bias + {0xfff||0} + (bounded >> 13 & 1))"),
    ("integers have no upper limit", "simd/convert.h",
     "value = value < {high||1e9f} ? value : high;"),
    ("the lanes of a partial block are shifted", "simd/tile.inc.h",
     "at[x * LANES + l] = row[{l||0} * step.channel + x * step.x];"),
    ("the last number of a strip is not summed", "images/rows.inc.h",
     "ptrdiff_t at = i + run <= count ? i : {count - run||count - run - 1};"),
    ("rows are packed too late", "simd/tile.inc.h",
     "if (window->y1 > {tile->y1||tile->y1 + 1}) {"),
    ("levels are rounded up", "plan/rules_levels.h",
     "(level + {(REAL)rule->close||(REAL)0.5})"),
    ("the last pixel of a crop has the weight of the rest", "images/axis.h",
     "span.last = (float)(({to - high||high + 1 - to}) * share);"),
    ("a crop reads a pixel beside its box", "images/axis.h",
     "axis->stop = (int32_t)crop_within(stop, low + {1||2}, extent);"),
    ("a turned crop stops before the edge", "images/warp.h",
     "x = x < 0 ? 0 : x > right ? {right||0} : x;"),
    ("the last pixel of an odd row has no colour", "images/yuv.h",
     "yuv_gather(u, apart, yuv->wide, {(count + 1) / 2||count / 2}, to->u);"),
    ("a row of YCbCr has U and V of the one before", "images/yuv.h",
     "{(y >> yuv.shared)||(y > 0 ? (y - 1) >> yuv.shared : 0)} * chroma[i].stride_y + first"),
    ("the last pixels of a row begin with an odd one", "images/yuv.h",
     "first = width > YUV_RUN ? {(width - YUV_RUN + 1) & ~(ptrdiff_t)1||width - YUV_RUN} : 0;"),
    ("converted rows begin with an odd pixel", "images/crop.pyx",
     "cdef Py_ssize_t low = strip.low & {~<Py_ssize_t>1||~<Py_ssize_t>0}"),
    ("regions begin with an odd pixel", "images/crop.pyx", "region.low[1] &= {~1||~0}"),
    ("V before U is taken for U before V", "images/yuv.h",
     "if (step == 2 * size && second == {first + size||first - size})"),
    ("yv12 is read as i420", "roicy/cropping/arguments.py",
     'return planes if color not in {("nv21", "yv12")||("nv21",)} else'),
    ("video range is taken for full", "roicy/cropping/arguments.py",
     '(1.0, 0, 1.0) if {color_range == "full"||True} else'),
    ("ten bits are white at 1020", "roicy/cropping/arguments.py",
     'if {wide and color_range == "full"||False}:'),
    ("bt2020 has the red of bt709", "roicy/cropping/arguments.py",
     '"bt2020": ({0.2627||0.2126}, 0.0593)'),
    ("a colour beyond 255 wraps", "images/yuv.h",
     "YUV_(packus_epi16)({(yuv_bytes)even||(yuv_bytes)(even & 255)}, (yuv_bytes)odd);"),
    ("a byte beyond 255 wraps", "images/store.h",
     "whole_of_float(from[i], -zero, {UINT8_MAX - zero||1e4f}) + zero"),
    ("an infinite pixel becomes black", "images/store.h",
     "_mm_cvtps_epi32({_mm_min_ps(value, most)||value})"),
    ("halves are rounded up in runs of bytes", "images/store.h",
     "_mm_max_ps({_mm_loadu_ps(from + i + 4 * j)||"
     "_mm_add_ps(_mm_loadu_ps(from + i + 4 * j), _mm_set1_ps(1e-5f))}, least);"),
    ("halves are rounded up in bytes", "simd/convert.h",
     "return (int32_t)({value + 0x1.8p23f - 0x1.8p23f||floorf(value + 0.5f)});"),
    ("int8 is not moved by its zero point", "roicy/cropping/__init__.py",
     'border != "constant", stored, {zero + signed||signed}, signed, threads)'),
    ("a mean is not divided by the scale of a network", "roicy/cropping/arguments.py",
     "bias=[number / {step||1} for number in pixels.bias],"),
    ("the larger half of the padding comes first", "roicy/cropping/matrices.py",
     "first = {(extent - shown)||(extent - shown + 1)} // 2"),
    ("sides are rounded at the top left", "roicy/cropping/matrices.py",
     "stop = np.maximum({shown||np.rint(shown)}[:, ::-1], 1).astype(np.int32)"),
    ("widths of lines are rounded", "roicy/cropping/matrices.py",
     "np.clip({np.ceil||np.rint}(height * ratios), 1, 2**24)"),
    ("Pillow's triangle is as wide as the area", "images/axis.h",
     "axis->half = size > 1 ? {size||size / 2 + 0.5} : 1;"),
    ("Pillow's triangle is half a pixel off", "images/axis.h",
     "span.first = (float)(share - rise * (middle - low - {0.5||0}));"),
    ("the nearest pixel is the next one", "images/axis.h",
     "middle = crop_within(floor({middle||middle + 0.5}), axis->low, axis->stop - 1.0);\n"
     "        return (struct"),
    ("a mask goes on beyond its edge", "images/paste.inc.h",
     "at = at > {0||-1} ? at : 0;\n            int32_t low = at < last"),
    ("a threshold is not reached by itself", "images/paste.inc.h",
     "to[i] = {pixels[i] >= threshold||pixels[i] > threshold};"),
    ("tables are written without memory", "plan/arrays.pxd",
     "    if {memory == NULL||False}:\n        raise MemoryError"),
    ("threads compute without scratch", "threads.pxd",
     "    if {scratch == NULL||False}:\n        raise MemoryError"),
    ("a row of a tile is not filled", "simd/tile.inc.h",
     "tile->y1, tile->x0, {bottom - tile->y1||bottom - tile->y1 - 1}, width,"),
    ("one instruction set leaves out a lane", "simd/tile.inc.h",
     "NAME(copy_short)(to + x * step.x, from + x * LANES, {lanes||lanes - IN_AVX2});"),
    ("a plan keeps its tasks", "plan/plan.pyx", "free({self.tasks.items||NULL})"),
    ("threads are not started on trial", "machine.h", "    if ({wanted > team||0}) {"),
    ("a length is coded from another one", "images/runs.h",
     "(runs->index > {2||1} ? runs->before[1] : 0)"),
]  # fmt: skip
# Faults, and the programs that look for their kinds.
HARNESSES = {
    "a row of a tile is not filled": ("uninitialised.py",),
    "the last number of a strip is not summed": ("uninitialised.py",),
    "one instruction set leaves out a lane": ("fuzzing.py", "--calls", "500", "--processes", "1"),
    "tables are written without memory": ("failing_memory.py",),
    "threads compute without scratch": ("failing_memory.py",),
    "a plan keeps its tasks": ("failing_memory.py",),
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


def index():
    """Ask for the first byte of a block without bytes."""
    machine.free_lazily(np.empty(0, np.uint8))


def alignment():
    """Pass numbers that do not lie at multiples of their size."""
    shifted = np.zeros(4 * 4 + 1, np.uint8)[1:].view(np.int32).reshape(1, 1, 1, 4)
    isa.outside(shifted, 1, 1)


def race():
    """Let tasks of several threads write the same output, which all boxes share."""
    plan = planned(np.tile(np.array([[0, 1, 1, 38, 38]], np.float32), (20, 1)), 2)
    one = np.empty((1, 64, 7, 7), np.float32)
    out = np.lib.stride_tricks.as_strided(one, (20, 64, 7, 7), (0, *one.strides[1:]))
    plan.forward(out)


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


def with_fault(text, fault, number, cython):
    """Return the text of a file with a fault, which the switch turns on."""
    _, file, place = fault
    right, wrong = re.search(r"\{([^{}]*)\|\|([^{}]*)\}", place).groups()
    both = f"{{{right}||{wrong}}}"
    before = place.replace(both, right)
    if text.count(before) != 1:
        raise SystemExit(
            f"{file}: {text.count(before)} times in the sources, expected once:\n{before}"
        )
    switch = f"PLANTED({number})"
    either = (
        f"({wrong} if {switch} else {right})" if cython else f"({switch} ? ({wrong}) : ({right}))"
    )
    return text.replace(before, place.replace(both, either))


def source(folder, file):
    """Return the path of a file of FAULTS in a checkout."""
    return folder / file if file.endswith(".py") else folder / "pyx" / file


def build(folder, names, settings):
    """Copy the checkout, plant the faults of these names and build its kernels."""
    for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    (folder / "pyx" / "planted.h").write_text(HEADER)
    planted = [(number, fault) for number, fault in enumerate(FAULTS, 1) if fault[0] in names]
    for name in sorted({file for _, (_, file, _) in planted}):
        path = source(folder, name)
        text, cython = path.read_text(), not name.endswith(".h")
        for number, fault in planted:
            if fault[1] == name:
                text = with_fault(text, fault, number, cython)
        if name.endswith(".py"):
            text = re.sub(r"(?m)^from .*\n", lambda found: found[0] + PYTHON, text, count=1)
        elif cython:
            text = re.sub(r"(?m)^(?=from |cimport |cdef )", DECLARATION, text, count=1)
        else:
            text = '#include "planted.h"\n' + text
        path.write_text(text)
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    environment = os.environ | settings
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def failures(folder, number, options):
    """Return which tests fail with a fault, or how the run ended."""
    files = sorted(str(path) for path in (folder / "tests").glob("test_*.py"))
    files = [file for file in files if not SKIPPED.search(Path(file).name)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE", "--tb=no"]
    environment = os.environ | {"PYTHONPATH": str(folder), "ROICY_PLANTED": str(number)}
    try:
        done = subprocess.run(
            [*command, *options, *files], cwd=folder, env=environment, capture_output=True,
            text=True, timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ["no end"]
    found = re.findall(r"(?m)^(?:FAILED|ERROR) tests/(\S+)", done.stdout)
    return found or ([] if done.returncode == 0 else [f"ended with {done.returncode}"])


def functions(folder):
    """Return the names of all test functions that are run."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests"], cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True,
    )  # fmt: skip
    names = re.findall(r"(?m)^tests/(test_[^\[\s]+)", done.stdout)
    return {name for name in names if not SKIPPED.search(name)}


def kernel_faults(arguments):
    """Run the tests with one fault of FAULTS at a time."""
    parser = argparse.ArgumentParser("planted_faults.py kernels")
    parser.add_argument("--only", nargs="*", default=[], help="the beginnings of names of faults")
    parser.add_argument("--folder", type=Path, help="where the copy is made, and kept")
    arguments, options = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / "pyx/planted.h").exists():
            build(folder, [name for name, _, _ in FAULTS], {"ROICY_BUILD_ISA": "baseline"})
        if failures(folder, 0, options):
            sys.exit("tests fail without a fault")
        idle, unseen = functions(folder), []
        for number, (name, file, _) in enumerate(FAULTS, 1):
            if not name.startswith(tuple(arguments.only) or ""):
                continue
            found = failures(folder, number, options)
            by_function = collections.Counter(test.partition("[")[0] for test in found)
            idle -= set(by_function)
            unseen += [] if found else [name]
            print(f"{number}. {name} ({file}): {len(found)} tests", flush=True)
            for function, count in by_function.most_common():
                print(f"    {count:5} {function}", flush=True)
        print("\nNo fault made fail:", *sorted(idle), sep="\n    ")
        if unseen:
            sys.exit("no test finds: " + "; ".join(unseen))


def harnesses(arguments):
    """Run for each fault of HARNESSES the program that must find it, and none without a fault."""
    parser = argparse.ArgumentParser("planted_faults.py harnesses")
    parser.add_argument("--folder", type=Path, help="where the copy is made, and kept")
    arguments = parser.parse_args(arguments)
    numbers = {name: number for number, (name, _, _) in enumerate(FAULTS, 1)}
    sound = [("no fault", program) for program in dict.fromkeys(HARNESSES.values())]
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / "pyx/planted.h").exists():
            settings = {"ROICY_BUILD_ISA": "baseline,avx2", "ROICY_BUILD_FLAGS": "-O1"}
            build(folder, HARNESSES, settings)
        for name, (program, *options) in [*sound, *HARNESSES.items()]:
            number = str(numbers.get(name, 0))
            done = subprocess.run(
                [sys.executable, folder / "tests" / program, *options], capture_output=True,
                text=True, env=os.environ | {"PYTHONPATH": str(folder), "ROICY_PLANTED": number},
            )  # fmt: skip
            said = (done.stdout + done.stderr).strip().splitlines()[-3:]
            print(f"{name}: {program} ends with {done.returncode}", *said, sep="\n    ", flush=True)
            if (done.returncode == 0) != (number == "0"):
                sys.exit(f"{program}, {name}: not as expected")


if __name__ == "__main__":
    if sys.argv[1] == "kernels":
        kernel_faults(sys.argv[2:])
    elif sys.argv[1] == "harnesses":
        harnesses(sys.argv[2:])
    else:
        {"bounds": bounds, "index": index, "alignment": alignment, "race": race, "device": device}[
            sys.argv[1]
        ]()
        print("nothing was found")
