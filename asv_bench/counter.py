"""Counts of calls: instructions and cache misses under callgrind, memory, and Python's bytecodes.

The gate, the history and the ASV suite count by `count`, and by nothing else.  docs/tracking.md
says what each count is.

All calls are counted in one process by valgrind's callgrind, with the AVX2 kernels, since it does
not know AVX-512, and one thread.  Each call is made some times before it is counted, and start-up
is not counted at all.  The caches are simulated, and have the same sizes on every machine.  Then
the memory that the call takes is counted, the bytecodes that the front end executes, and the locks
that the same call takes on two threads.

The same commit has the same counts on every machine.  valgrind shows the same processor and the
same addresses everywhere, and counter.c the same number of processors and the same kernel.  The
process sees roicy, NumPy, Python and this file through links in a new folder, whose path has the
same length each time, and nothing else that is installed.  A longer path would move objects of the
interpreter, whose caches of attributes then collide or do not.
"""

import ast
import bisect
import contextlib
import ctypes
import importlib.util
import itertools
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import sysconfig
import zlib
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).absolute().parent
BENCH = FOLDER.parent / "roicy" / "bench"
# Size, ways and line of the simulated caches.  The last level is as large as the level 2 cache of a
# core, so the maps of these workloads do not fit into it.  A way of each covers one page.  So it
# does not matter which pages an array got, and counts do not depend on what was allocated before.
CACHES = {"I1": "32768,8,64", "D1": "32768,8,64", "LL": "1048576,256,64"}
LINE = 64
WARM_UP = 10  # calls after which the interpreter has chosen its instructions; they run fast
SHOWN = 0.005  # functions that execute a smaller share of a call's instructions are not kept
IMPORT = "import roicy"
# A process that counts the import has imported nothing else before but NumPy and what that imports.
# So a module is seen that roicy imports and need not.
BARE = "import gc, ctypes, numpy; gc.disable(); library = ctypes.CDLL(None); "
OF_MEMORY = "library.watch_bytes(); import roicy; print(library.most_bytes()); "
OF_BYTECODES = (
    "import sys; known = {*sys.modules, 'counter'}; import counter; "
    "[sys.modules.pop(one) for one in {*sys.modules} - known]; counter.trace_import_here()"
)
OF_CALLS = (
    f"library.start_counting(); import roicy; library.write_counts(b'{IMPORT}, 1'); "
    "library.stop_counting(); import counter; "
)
THREADS = 2  # of the call whose locks are counted
TRIGGER = re.compile(r"^desc: Trigger: Client Request: (.*), (\d+)$", re.MULTILINE)
FPN, C4 = {"shape": (1, 32, 200, 304), "count": 100}, {"shape": (1, 32, 50, 76), "count": 50}
POOL, PRROI = {"shape": (1, 32, 50, 76), "count": 100}, {"shape": (1, 32, 100, 152), "count": 50}
PS, CAMERA = {"shape": (1, 147, 50, 76), "count": 100}, {"shape": (1, 3, 270, 480), "count": 4}
ROTATED = {"shape": (1, 32, 128, 128), "count": 50}
PASTE = {"image_shape": (400, 544), "count": 20, "sides": (16, 256)}
YOLO = {"image_shape": (270, 480), "count": 10, "sides": (16, 256)}
ENCODER = {"shapes": ((6, 6), (12, 12), (24, 24))}
DECODER = {"shapes": ((40, 40), (20, 20), (10, 10)), "queries": 100}
LABELS = {"shape": (19, 32, 64), "size": (256, 512)}
MANY = {"shape": (150, 32, 32), "size": (270, 480)}
PICTURE = {"shape": (10, 54, 54), "size": (540, 960)}
ONE = {"shape": (1, 4, 32, 32), "count": 1}  # most of it is the front end
FEW = {"shape": (1, 32, 200, 304)}
# workload, pass and layout: calls, and what is smaller than in the workload of the timings
CALLS = {
    "align_fpn_p2 forward NCHW": (2, FPN),
    "align_fpn_p2 forward NHWC": (2, FPN),
    "align_fpn_p2 backward NCHW": (1, FPN),
    "align_c4 backward NHWC": (2, C4),
    "align_c4 backward_boxes NCHW": (2, C4),
    "align_fpn_p2 backward_boxes NHWC": (2, FPN),
    "align_pyramid forward NCHW": (1, FPN),
    "align_few forward NCHW": (4, FEW),
    "align_few rounded NHWC": (4, FEW),
    "align_camera forward NHWC": (2, CAMERA),
    "align_few maximum NCHW": (1, FEW),
    "align_few maximum_backward NHWC": (1, FEW),
    "pool_vgg forward NCHW": (2, POOL),
    "pool_vgg backward NHWC": (2, POOL),
    "prroi_iounet forward NHWC": (1, PRROI),
    "ps_align_rfcn forward NCHW": (1, PS),
    "ps_align_rfcn backward_boxes NCHW": (1, PS),
    "rotated_aerial forward NCHW": (1, ROTATED),
    "rotated_aerial backward NHWC": (1, ROTATED),
    "crop_faces forward NHWC": (2, {"count": 4}),
    "crop_nv12_faces forward NHWC": (2, {"count": 4}),
    "crop_nv12_people forward NHWC": (2, {"count": 4}),
    "crop_nv12_letterbox forward NHWC": (1, {"size": (320, 320)}),
    "crop_text_corners forward NHWC": (1, {"count": 2}),
    "resize_clip forward NHWC": (1, {}),
    "resize_qwen forward NHWC": (1, {"size": (280, 504)}),
    "paste_masks forward NCHW": (1, PASTE),
    "paste_masks_values forward NCHW": (1, PASTE),
    "paste_masks_rle forward NCHW": (1, PASTE),
    "yolo_masks forward NCHW": (1, YOLO),
    "attention_encoder forward NHWC": (1, ENCODER),
    "attention_encoder backward NHWC": (1, ENCODER),
    "attention_decoder forward NHWC": (4, DECODER),
    "labels_19 forward NCHW": (2, LABELS),
    "labels_150 forward NCHW": (2, MANY),
    "masks_picture forward NCHW": (2, PICTURE),
    "masks_picture_rle forward NCHW": (2, PICTURE),
    # results that are made, as most callers have it, and not given as `out`
    "align_few returned NCHW": (4, FEW),
    "crop_faces returned NHWC": (2, {"count": 4}),
    "paste_masks returned NCHW": (1, PASTE),
    "labels_19 returned NCHW": (2, LABELS),
    "attention_decoder returned NHWC": (4, DECODER),
    "align_tiny forward NCHW": (50, ONE),
    "align_tiny backward_boxes NHWC": (50, ONE),
    "pool_tiny backward NCHW": (50, ONE),
}
NAMES = [IMPORT, *CALLS]


def load(name):
    """Return a module of roicy/bench, without importing roicy."""
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chosen(only):
    """Return the names of the calls that a pattern names."""
    return [name for name in CALLS if not only or re.search(only, name)]


def drawn(name):
    """Return a workload and its arrays, which draw_here draws."""
    import workloads

    def placed(value):
        if isinstance(value, list):
            return [placed(one) for one in value]
        return workloads.placed(value, value.dtype) if value.flags.c_contiguous else value

    workload, direction, _ = name.split()
    work, file = workloads.ALL[workload]._replace(**CALLS[name][1]), Path("drawn", name)
    if not file.exists():
        arrays = work.arrays("float16" if direction == "rounded" else "float32")
        file.write_bytes(pickle.dumps(arrays))
    return work, {name: placed(one) for name, one in pickle.loads(file.read_bytes()).items()}


def prepared(roicy, name, threads=1):
    """Return a function without parameters, which makes a call of the table."""
    (work, arrays), (_, direction, layout) = drawn(name), name.split()
    if direction.startswith("maximum"):
        work = work._replace(operator="roi_align_max")
    reuse = direction != "returned"
    kinds = {"rounded": "forward", "maximum": "forward", "maximum_backward": "backward"}
    kinds["returned"] = "forward"
    return work.call(roicy, arrays, kinds.get(direction, direction), layout, reuse, threads)


def draw_here(wanted):
    """Draw the arrays of calls before valgrind does, which would need seconds."""
    importlib.import_module("timing"), importlib.import_module("workloads")
    for name in among(wanted):
        drawn(name)


def among(wanted):
    """Return the calls at whose places `wanted` has a "1"."""
    return [name for name, mark in zip(CALLS, wanted, strict=True) if mark == "1"]


def trace_import_here():
    """Import roicy, and print how many bytecodes each module executes meanwhile."""
    found, folders = Counter(), sorted(sys.path, key=len, reverse=True)

    def trace(frame, event, _):
        frame.f_trace_opcodes = True
        if event == "opcode":
            found[frame.f_globals.get("__name__"), frame.f_code.co_filename] += 1
        return trace

    traced(lambda: importlib.import_module("roicy"), trace)
    least, shown = SHOWN * sum(found.values()), Counter()
    for (name, file), spent in found.items():
        folder = next((one for one in folders if file.startswith(f"{one}/")), "")
        if spent > least or str(name).startswith("roicy"):
            shown[f"{name} {file.removeprefix(f'{folder}/')}"] += spent
    print(json.dumps([sum(found.values()), shown]))


def count_here(wanted):
    """Count in this process, which runs under callgrind, has loaded counter.c and counted roicy.

    Each call is counted in a child of its own.  So no call sees what those before it have left, and
    counts are the same whichever calls are asked for.
    """
    roicy = importlib.import_module("roicy")
    importlib.import_module("workloads")
    package = str(Path(roicy.__file__).parent)
    for name, mark in zip(CALLS, wanted, strict=True):
        if mark == "1":
            in_child(lambda name=name: count_call(name, roicy, package), name)
    built = None
    with contextlib.suppress(AttributeError, ImportError):  # of older commits
        built = importlib.import_module("roicy._kernels.isa").built()
    found = {path.name: json.loads(path.read_text()) for path in Path("found").iterdir()}
    print(json.dumps([versions_here(), found, built]))


def in_child(function, name):
    """Write what a function returns in a child of this process to a file, unless it is None."""
    child = os.fork()
    if child:
        if os.waitpid(child, 0)[1]:
            raise RuntimeError(f"{name}: the process that counts it failed")
        return
    try:
        found = function()
        if found is not None:
            Path("found", name).write_text(json.dumps(found))
        sys.stderr.flush()
        os._exit(0)
    finally:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def count_call(name, roicy, package):
    """Count a call of the table; None if this version of roicy lacks it."""
    try:
        call = prepared(roicy, name)
        call()
    except (AttributeError, TypeError, ValueError) as error:  # of a commit before the operator
        print(f"{name}: {error}", file=sys.stderr)
        return None
    found = count_function(name, call, CALLS[name][0], package)
    call = prepared(roicy, name, THREADS)
    call()  # which may start threads
    library = ctypes.CDLL(None)
    library.locks_taken.restype = ctypes.c_long
    library.watch_bytes()
    call()
    return found | {"locks": library.locks_taken()}


def count_function(name, call, calls, *packages):
    """Have callgrind count some calls of a function; return their memory and bytecodes."""
    library = ctypes.CDLL(None)
    library.most_bytes.restype = ctypes.c_long
    for _ in range(WARM_UP):
        call()
    library.start_counting()
    call()  # the simulated caches are empty before it
    encoded, repeats = f"{name}, {calls}".encode(), range(calls)
    library.forget_counts()
    for _ in repeats:
        call()
    library.write_counts(encoded)
    library.stop_counting()
    library.watch_bytes()
    call()
    memory, executed = library.most_bytes(), bytecodes(call, *packages)
    found = {"memory": memory, "bytecodes": sum(executed.values()), "functions": executed}
    return found | {"holders": holders(library, call, *packages)}


def holders(library, call, *packages):
    """Return the bytes that functions hold when a call holds most: [bytes, function, offset, file].

    The offset is that of the code of the file that allocated them, and the function the one of
    these packages that Python ran meanwhile.
    """
    names, folder = [""], str(Path(packages[0]).parent)
    running = ctypes.c_long.in_dll(library, "running")

    def number_of(frame):
        while frame and not frame.f_code.co_filename.startswith(packages):
            frame = frame.f_back
        code = frame and frame.f_code
        name = code and f"{code.co_name} {code.co_filename.removeprefix(folder)[1:]}"
        if name and name not in names:
            names.append(name)
        return names.index(name) if name else 0

    def profile(frame, event, _):
        if event in ("call", "return"):
            running.value = number_of(frame if event == "call" else frame.f_back)

    for _ in range(2):  # the first has all that `profile` needs
        library.watch_bytes()
        sys.setprofile(profile)
        call()
        sys.setprofile(None)
        library.most_bytes()
    text, found = ctypes.create_string_buffer(4096), []
    while library.read_holder(len(found), text, ctypes.c_size_t(len(text))):
        held, number, offset, file = text.value.decode().split(" ", 3)
        found.append([int(held), names[int(number)], int(offset), file])
    return found


def holders_by_name(found, packages):
    """Return the bytes of each function: of packages' compiled code, or else of Python's."""
    total, symbols = Counter(), {}
    for held, function, offset, file in found:
        if file.endswith(".so") and file.startswith(packages):
            if file not in symbols:
                listed = load("builds").run(["nm", "--defined-only", file]).splitlines()
                lines = [line.split(" ", 2) for line in listed]
                symbols[file] = sorted(
                    (int(at, 16), name) for at, kind, name in lines if kind in "tT"
                )
            place = bisect.bisect(symbols[file], (offset,)) - 1
            function = plain(symbols[file][place][1]) if place >= 0 else Path(file).name
        total[function or "others"] += held
    least = SHOWN * sum(total.values())
    return {name: held for name, held in total.most_common() if held > least}


def count_file_here(counted=True):
    """Count each call of calls.py in a child of its own, or only make it."""
    # Not '': cv2 looks for its library in what comes second, and must not find itself first.
    sys.path[0] = f"{os.getcwd()}/drawn"
    calls = importlib.import_module("calls")
    packages = [f"{os.getcwd()}/{name}" for name in ("calls.py", "numpy", *calls.PACKAGES)]
    for name, prepare in vars(calls).items():
        if callable(prepare) and getattr(prepare, "__module__", "") == "calls" and name[0] != "_":
            if counted:
                made = (name, prepare, packages)
                in_child(lambda made=made: count_function(made[0], made[1](), 1, *made[2]), name)
            else:
                prepare()()
    paths = [path for path in (Path("found", name) for name in vars(calls)) if path.exists()]
    found = {path.name: json.loads(path.read_text()) for path in paths}
    versions = {"python": sys.version, "numpy": sys.modules["numpy"].__version__}
    print(json.dumps([versions | {"libc": os.confstr("CS_GNU_LIBC_VERSION")}, found]))


def bytecodes(call, *packages):
    """Return how many bytecodes each function of these packages executes in a call."""
    found, folder = Counter(), str(Path(packages[0]).parent)

    def trace(frame, event, _):
        code = frame.f_code
        if not code.co_filename.startswith(packages):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            found[f"{code.co_name} {code.co_filename.removeprefix(folder)[1:]}"] += 1
        return trace

    traced(call, trace)
    return found


def traced(call, trace):
    """Make a call, and have `trace` see its bytecodes."""
    # Python 3.12.0 to 3.12.3 look only here whether any frame asks for bytecodes.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)


def versions_here():
    """Return what the counts of this process depend on."""
    import timing

    build, runtime = timing.versions().values()
    profiled = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    python = f"{runtime['python']}, {runtime['python_compiler']}" + ", profiled" * profiled
    kept = {name: build[name] for name in ("compiler", "cython")} | {"python": python}
    return kept | {name: runtime[name] for name in ("numpy", "libc")}


def counts_of(text):
    """Return the name and the counts of a call, from a file of callgrind; None of other files."""
    trigger = TRIGGER.search(text)
    if trigger is None:
        return None  # of the end of the process
    events = re.search(r"^events: (.*)$", text, re.MULTILINE)[1].split()
    values = re.search(r"^(?:summary|totals): (.*)$", text, re.MULTILINE)[1].split()
    found = dict.fromkeys(events, 0) | dict(zip(events, map(int, values), strict=False))
    first = found["D1mr"] + found["D1mw"] + found["I1mr"]
    last = found["DLmr"] + found["DLmw"] + found["ILmr"]
    # A miss reads a line, and a dirty miss writes another one back.
    lines = last + found["ILdmr"] + found["DLdmr"] + found["DLdmw"]
    calls = int(trigger[2])
    counts = {
        "instructions": found["Ir"],
        "level 1 misses": first,
        "last level misses": last,
        "bytes moved": lines * LINE,
    }
    counts = {what: round(number / calls) for what, number in counts.items()}
    least, functions = SHOWN * found["Ir"], costs_of(text)[0].items()
    kept = {name: round(spent / calls) for name, spent in functions if spent > least}
    return trigger[1], counts | {"functions": kept}


def costs_of(text):
    """Return what functions execute, from a file of callgrind.

    The first result has the instructions of each function itself; the second those of each function
    that it calls, by both their names.
    """
    names, own, called = {}, Counter(), {}
    function = callee = None
    calls = False
    for line in text.splitlines():
        if line.startswith(("fn=", "cfn=")):
            number, _, name = line.partition("=")[2].partition(" ")
            name = names.setdefault(number, plain(name))
            if line.startswith("fn="):
                function = name
            else:
                callee = name
        elif line.startswith("calls="):
            calls = True  # the next line has the costs of the function that is called
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            found = called.setdefault(function, Counter()) if calls else own
            found[callee if calls else function] += int(line.split()[1])
            calls = False
    return own, called


def plain(symbol):
    """Return the name of a function as its source has it, behind Cython's name of its module."""
    symbol = symbol.split("'")[0].split(".")[0]
    rest = re.sub(r"^(?:__pyx_fuse_\w+?)?__pyx_(?:pw|pf|f|fuse_\d+)_(?=\d)", "", symbol)
    module = ""
    while rest != symbol and (digits := re.match(r"\d+", rest)):
        start, length = digits.end(), digits.end() + int(digits[0])
        if rest[length : length + 1] != "_":  # the number of a function that Python can call
            rest = rest[start:]
            break
        module, rest = rest[start:length] + ".", rest[length + 1 :]
    return module + rest


def sizes(package):
    """Return bytes of what is loaded of each extension, and of all files of a wheel."""
    found = {}
    package = Path(package)
    for path in package.glob("_kernels/*.so"):
        text, data = load("builds").run(["size", str(path)]).splitlines()[1].split()[:2]
        found[f"extension {path.name.split('.')[0]}"] = {"bytes": int(text) + int(data)}
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".so", ".pyi", ".cu")]
    packed = [len(zlib.compress(one.read_bytes())) for one in files]
    return dict(sorted(found.items())) | {"wheel": {"bytes": sum(packed)}}


def run_in(folder, command, isa):
    """Return what a process prints that sees the links of a folder and little else."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": folder,
        "LC_ALL": "C",
        "LD_PRELOAD": f"{folder}/library.so",
        "PYTHONHOME": folder,
        "PYTHONPATH": folder,
        "PYTHONUTF8": "1",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONHASHSEED": "0",
        "PYTHONPYCACHEPREFIX": f"{folder}/compiled",
        "ROICY_ISA": isa,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # Larger arrays begin at the same place of a page, whatever was freed before.
        "MALLOC_MMAP_THRESHOLD_": "16384",
    }
    return load("builds").run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL)


def imported():
    """Return the folder of the package that this process would import, or of this checkout."""
    found = importlib.util.find_spec("roicy")
    return Path(found.origin).parent if found and found.origin else FOLDER.parent / "roicy"


def write(path, content, depth):
    """Write JSON, with what is nested more deeply in one line."""
    short = re.compile(rf"\n {{{depth},}}|\n {{{depth - 1}}}(?=[]}}])")
    Path(path).write_text(short.sub(" ", json.dumps(content, indent=1)) + "\n")


@contextlib.contextmanager
def linked(links, longer):
    """Make a folder of links, and yield it with the command of a Python that sees little else.

    Its path is the same each time, unless another process counts too.
    """
    for number in itertools.count():
        folder = f"/tmp/roicy-counted-{number:03}{'x' * longer}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
            break
    try:
        numpy = Path(importlib.util.find_spec("numpy").origin).parent
        links = links | {name: f"{sys.base_prefix}/{name}" for name in ("lib", "lib64")}
        links |= {path.name: path for path in (numpy, numpy.with_name("numpy.libs"))}
        links["counter.py"] = FOLDER / "counter.py"
        for name, path in links.items():
            Path(folder, name).symlink_to(path)
        for name in ("drawn", "found", "counted"):
            Path(folder, name).mkdir()
        compiler = os.environ.get("CC", "cc").split()
        shared = ["-O1", "-shared", "-fPIC", f"{FOLDER}/counter.c", "-o", f"{folder}/library.so"]
        load("builds").run([*compiler, *shared])
        # A copy, since Python looks where a link leads.  It goes without `site`, whose work depends
        # on what else is installed.
        python = [shutil.copy(os.path.realpath(sys.executable), f"{folder}/python"), "-S", "-c"]
        yield folder, python
    finally:
        shutil.rmtree(folder)


def under_callgrind(folder, command, isa, keep=None):
    """Return what a process prints, and the counts of each call that it made under callgrind."""
    options = "--tool=callgrind --instr-atstart=no --cache-sim=yes --simulate-wb=yes".split()
    options += [f"--{name}={value}" for name, value in CACHES.items()]
    options += [f"--callgrind-out-file={folder}/counted/counts.%p"]
    printed = run_in(folder, [shutil.which("valgrind"), *options, *command], isa)
    files = {path: counts_of(path.read_text()) for path in Path(folder, "counted").iterdir()}
    files = {path: found for path, found in files.items() if found}
    for path, (name, _) in files.items() if keep else ():
        os.makedirs(keep, exist_ok=True)
        shutil.move(path, Path(keep, f"callgrind.out.{name.replace(' ', '_')}"))
    return json.loads(printed), dict(files.values())


def count(only=None, isa="avx2", package=None, keep=None, longer=0):
    """Return the versions, and the counts of all calls and of the package.

    `only` is a pattern of names of calls.  `package` is the folder of the roicy that is counted, by
    default of the one that this process would import.  `keep` is a folder for callgrind's files.
    Paths are longer by so many letters as `longer` says.
    """
    package = package or imported()
    links = {name: BENCH / name for name in ("workloads.py", "timing.py")} | {"roicy": package}
    # As long whatever is asked for: the length of a command moves all that is allocated.
    wanted = "".join("01"[name in chosen(only)] for name in CALLS)
    with linked(links, longer) as (folder, python):
        program = f"{BARE}{OF_MEMORY}import counter; counter.draw_here('{wanted}')"
        for _ in range(2):  # the first compiles
            of_import = {"memory": int(run_in(folder, [*python, program], isa))}
        executed = json.loads(run_in(folder, [*python, BARE + OF_BYTECODES], isa))
        of_import |= zip(("bytecodes", "functions"), executed, strict=True)
        command = [*python, f"{BARE}{OF_CALLS}counter.count_here('{wanted}')"]
        (versions, others, built), found = under_callgrind(folder, command, isa, keep)
        found = joined(NAMES, found, {IMPORT: of_import} | others, f"{folder}/roicy/")
    versions["valgrind"] = load("builds").run(["valgrind", "--version"]).strip()
    counts = found | sizes(package)
    counts["wheel"]["instruction sets"] = built
    return versions, counts


def count_file(path, keep=None, longer=0):
    """Return the versions, and the counts of the calls that a file of others has.

    `PACKAGES` of the file names what it imports besides NumPy and Python's own modules.  Each of
    its public functions prepares a call and returns it, a function without parameters.
    """
    text = Path(path).read_text()
    listed = re.search(r"^PACKAGES = (\[.*?\])", text, re.MULTILINE | re.DOTALL)
    if not listed:
        raise ValueError(f"{path}: no PACKAGES = [...], expected a list of what it imports")
    links = {"calls.py": Path(path).resolve()}
    for name in ast.literal_eval(listed[1]):
        found = importlib.util.find_spec(name) if name.isidentifier() else None
        origin = found and found.origin and Path(found.origin)
        if origin is None:  # a folder of libraries, such as pillow.libs
            origin = Path(importlib.util.find_spec("numpy").origin).parents[1] / name
        one = origin.parent if origin.stem == "__init__" else origin
        if not one.exists():
            raise ValueError(f"{path}: PACKAGES: {name!r} is not installed")
        links[one.name] = one
    with linked(links, longer) as (folder, python):
        program = f"{BARE}import counter; counter.count_file_here"
        run_in(folder, [*python, f"{program}(False)"], "avx2")  # which compiles
        (versions, others), found = under_callgrind(folder, [*python, f"{program}()"], "avx2", keep)
        found = joined(others, found, others, *(f"{folder}/{name}" for name in links))
    versions["valgrind"] = load("builds").run(["valgrind", "--version"]).strip()
    return versions, found


def joined(names, counts, others, *packages):
    """Return the counts of the calls, in their order; bytecodes of functions are among theirs."""
    found = {}
    for name in (name for name in names if name in counts):
        functions, more = counts[name].pop("functions"), others[name]
        found[name] = counts[name] | more | {"functions": functions | more["functions"]}
        if "holders" in more:
            found[name]["holders"] = holders_by_name(more["holders"], packages)
    return found
