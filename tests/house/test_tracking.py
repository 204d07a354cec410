"""The gate of slow commits counts and judges as it says, and so does the history."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

import roicy
from roicy.bench.workloads import ALL

ROOT = Path(__file__).parents[2]


def load(name):
    path = ROOT / "asv_bench" / f"{name}.py"
    if not path.exists():
        pytest.skip("the ASV suite is not here")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gate = pytest.fixture(lambda: load("gate"))
counter = pytest.fixture(lambda: load("counter"))
history = pytest.fixture(lambda: load("history"))
CALL = "align_fpn_p2 forward NCHW"
VERSIONS = {"compiler": "GCC 1", "cython": "3"}


def counts(instructions=1_000_000, lines=50_000, memory=500_000, spread=(), **functions):
    found = {"instructions": instructions, "memory": memory, "bytecodes": 300}
    found |= {"level 1 misses": lines, "last level misses": lines, "bytes moved": 64 * lines}
    functions = {"contract_bins_float": 600_000, "forward roicy/_call.py": 50} | functions
    found |= {"functions": functions, "spread": {"instructions": list(spread)}}
    return {CALL: found, "wheel": {"bytes": 2_000_000}, "build": {"processor seconds": 60}}


OLD = {"versions": VERSIONS, "counts": counts()}


@pytest.mark.parametrize(
    ("now", "code", "said"),
    [
        (counts(), 0, "same: no count left its band"),
        (counts(1_002_900), 0, "same"),
        (counts(1_003_100), 1, "1 counts are worse"),
        (counts(lines=51_100), 1, "3 counts are worse"),
        (counts(memory=505_100), 1, "1 counts are worse"),
        (counts() | {"wheel": {"bytes": 2_010_000}}, 1, "wheel  .*WORSE"),
        (counts() | {"build": {"processor seconds": 74}}, 0, "same"),
        (counts() | {"build": {"processor seconds": 76}}, 1, "build  .*WORSE"),
        # a call without its prefetches executes less and waits longer
        (counts(980_000), 0, "(?s)bench --against COMMIT --workloads align_fpn_p2\n.*Better"),
        (counts(980_000, lines=45_000), 0, "(?s)^(?!.*--against).*Better"),
        ({}, 1, "3 not in both"),
        (counts() | {"another": counts()[CALL]}, 1, "1 not in both"),
    ],
)
def test_gate_judges(gate, capsys, now, code, said):
    assert gate.judge(OLD, VERSIONS, now) == code
    assert re.search(said, capsys.readouterr().out)


@pytest.fixture
def commits(gate, monkeypatch, tmp_path):
    """A repository of three commits: counts.json is written, kept, and written again."""
    monkeypatch.setattr(gate.builds, "SOURCE", tmp_path)
    monkeypatch.setattr(gate, "COUNTS", tmp_path / "asv_bench" / "counts.json")
    monkeypatch.setattr(gate, "KEPT_BUILDS", tmp_path / "builds")
    gate.COUNTS.parent.mkdir()
    gate.builds.git("init", "-q", "-b", "main")
    for number, instructions in enumerate((1_000_000, 1_000_000, 1_100_000)):
        gate.COUNTS.write_text(json.dumps({"counts": counts(instructions)}))
        (tmp_path / "source").write_text(str(number))
        gate.builds.git("add", ".")
        names = ("-c", "user.name=a", "-c", "user.email=a@b")
        gate.builds.git(*names, "commit", "-q", "-m", str(number))
    return gate.builds.git("rev-list", "--reverse", "HEAD").splitlines()


@pytest.fixture
def spent(gate, monkeypatch):
    """Have commits be built in these processor seconds, though Cython may be missing."""
    seconds = {}

    def compile_commit(commit, folder, _):
        (folder / "roicy").mkdir(parents=True)
        return str(folder), seconds[commit]

    monkeypatch.setattr(gate, "TO_BUILD", {})
    monkeypatch.setattr(gate, "build_key", lambda settings: settings["ROICY_BUILD_ISA"])
    monkeypatch.setattr(gate.builds, "compile_commit", compile_commit)
    return seconds


def test_gate_knows_what_is_the_machines(gate, commits, spent, monkeypatch, capsys, tmp_path):
    """Counts may exceed counts.json by what the commit that wrote it exceeds its own counts here.

    That is the last one before this commit, whose own counts are accepted.
    """
    spent[commits[0]] = 90  # no other commit is built
    here = counts(1_020_000, memory=490_000)
    monkeypatch.setattr(gate.counter, "count", lambda *_, **__: (VERSIONS, here))
    for commit, old, limit in ((2, 1_100_000, 1_122_000), (1, 1_000_000, 1_020_000)):
        gate.builds.git("checkout", "-q", commits[commit])
        found = gate.as_here(counts(old), None, gate.Commits(tmp_path))
        assert (found[CALL]["instructions"], found[CALL]["memory"]) == (limit, 500_000)
    assert f"{commits[0][:10]}, which wrote it, is counted" in capsys.readouterr().out
    gate.builds.git("checkout", "-q", commits[0])
    assert gate.as_here(counts(), None, None) == counts()
    gate.builds.git("clone", "-q", "--depth", "1", f"file://{tmp_path}", "shallow")
    monkeypatch.setattr(gate.builds, "SOURCE", tmp_path / "shallow")
    assert gate.as_here(counts(), None, None) == counts()
    said = "judged by counts.json alone: the history lacks"
    assert capsys.readouterr().out.count(said) == 2


def test_gate_judges_builds_beside_each_other(gate, commits, spent, monkeypatch, tmp_path):
    """A machine that takes twice as long changes nothing, and files that are the same are so."""
    spent |= zip(commits, (120, 126, 180), strict=True)
    for compiled, head, expected in (("source", 1, 63), ("source", 2, 90), ("else", 2, 60)):
        monkeypatch.setattr(gate, "COMPILED", (compiled,))
        made = gate.Commits(tmp_path / f"builds of {compiled} {head}")
        assert made.seconds(commits[head], commits[0], None) == {"processor seconds": expected}
        assert len(made.made) == 1 + (compiled == "source")


def test_gate_builds_what_git_tracks(gate, commits, tmp_path):
    """A file may be newer and the same, as in a checkout that was copied."""
    source = tmp_path / "source"
    os.utime(source, (0, 0))
    assert gate.tracked() == commits[2]
    source.write_text("changed")
    assert gate.builds.git("show", f"{gate.tracked()}:source") == "changed"


def test_gate_needs_the_same_sets_for_bytes(gate, capsys):
    """A build with one instruction set more is larger, which is no fault."""
    old, new = counts(), counts() | {"wheel": {"bytes": 3_000_000, "instruction sets": ["avx512"]}}
    old, new = gate.with_same_sets(old, new)
    assert "wheel" not in {**old, **new}
    assert gate.compare(old, new) == []
    said = "the build has avx512, and the counts are of avx2, baseline"
    assert capsys.readouterr().out == f"bytes are not compared: {said}\n"
    assert gate.with_same_sets(old, old) == (old, old)


def test_gate_takes_the_writer_for_other_versions(gate, commits, capsys):
    """Another compiler needs counts of its own, of the commit that counts.json is of."""
    asked = SimpleNamespace(allow_skip=False)
    assert gate.writer_instead(VERSIONS, VERSIONS | {"valgrind": "4"}, asked) is None
    assert gate.writer_instead(VERSIONS, VERSIONS | {"compiler": "GCC 2"}, asked) == commits[0]
    assert "compiler GCC 2, and the counts are of GCC 1" in capsys.readouterr().out
    asked.allow_skip = True
    assert gate.writer_instead(VERSIONS, {"compiler": "GCC 2"}, asked) is None


@pytest.mark.parametrize("sets", [["avx2", "baseline"], ["avx512", "avx2", "baseline"]])
def test_gate_builds_the_writer_with_the_same_sets(gate, commits, monkeypatch, tmp_path, sets):
    """Counts move with the instruction sets of a build, so like is compared with like."""
    asked, options = [], SimpleNamespace(build=False, commit=None, only=None, profile=None)
    options.write = options.allow_skip = options.same = False

    def compile_commit(commit, folder, settings):
        (folder / "roicy").mkdir(parents=True)
        asked.append(sorted(settings["ROICY_BUILD_ISA"].split(","), reverse=True))
        return str(folder), 1

    def count(*_, package=None, **__):
        built = asked[0] if package else sets
        wheel = {"bytes": 1_000_000 * len(built), "instruction sets": built}
        return VERSIONS, counts(1_000_000 + 10_000 * ("avx512" in built)) | {"wheel": wheel}

    monkeypatch.setattr(gate, "TO_BUILD", {})
    monkeypatch.setattr(gate, "build_key", lambda _: "key")
    monkeypatch.setattr(gate.builds, "compile_commit", compile_commit)
    monkeypatch.setattr(gate.counter, "count", count)
    assert gate.run(options, json.loads(json.dumps(OLD)), gate.Commits(tmp_path)) == 0
    assert [sorted(one) for one in asked] == [sorted(sets)] * ("avx512" in sets)


def test_counts_are_judged_of_any_calls(gate, counter, monkeypatch, capsys, tmp_path):
    """A file of calls is counted, kept, and judged beside what was kept."""
    monkeypatch.setitem(sys.modules, "counter", counter)
    monkeypatch.setitem(sys.modules, "gate", gate)
    mine = load("count_calls")
    asked, kept = str(tmp_path / "calls.py"), str(tmp_path / "counts.json")
    Path(asked).write_text("import numpy as np\n")
    assert mine.main([asked]) == 2
    assert "no PACKAGES = [...], expected a list" in capsys.readouterr().out
    Path(asked).write_text('PACKAGES = ["no_such_package"]\n')
    assert mine.main([asked]) == 2
    assert "'no_such_package' is not installed" in capsys.readouterr().out
    for number, options, code, said in (
        (1_000_000, ["--write", kept], 0, "1000000 instructions"),
        (1_000_100, ["--beside", kept], 0, "same: no count left its band"),
        (1_100_000, ["--beside", kept], 1, "WORSE"),
    ):
        found = {CALL: counts(number)[CALL]}
        monkeypatch.setattr(counter, "count_file", lambda *_, found=found, **__: (VERSIONS, found))
        assert mine.main([asked, *options]) == code
        assert said in capsys.readouterr().out
    monkeypatch.setattr(counter, "count_file", lambda *_, **__: (VERSIONS | {"cython": "4"}, found))
    assert mine.main([asked, "--beside", kept]) == 2


THEIRS = """
import numpy as np
PACKAGES = ["ml_dtypes", "threadpoolctl"]

def sort():
    numbers = np.arange(5000)[::-1] % 977
    return lambda: np.sort(numbers)

def round():
    import ml_dtypes
    numbers = np.linspace(0, 1, 5000, dtype=np.float32)
    return lambda: numbers.astype(ml_dtypes.bfloat16)

def inform():
    import threadpoolctl
    return threadpoolctl.threadpool_info
"""


@pytest.mark.slow
def test_calls_of_public_packages_are_counted(gate, counter, monkeypatch, capsys, tmp_path):
    """What a call of other packages costs, which of its functions grew, and who holds memory."""
    if gate.why_not(builds_first=True):
        pytest.skip("valgrind is not installed")
    pytest.importorskip("ml_dtypes"), pytest.importorskip("threadpoolctl")
    (tmp_path / "calls.py").write_text(THEIRS)
    versions, found = counter.count_file(tmp_path / "calls.py")
    assert list(found) == ["sort", "round", "inform"]
    assert set(versions) == {"python", "numpy", "libc", "valgrind"}
    assert 5000 < found["round"]["instructions"] < found["sort"]["instructions"] < 1_000_000
    assert found["sort"]["holders"]["sort numpy/_core/fromnumeric.py"] >= 5000 * 8
    assert 9 < found["sort"]["bytecodes"] < found["inform"]["bytecodes"]
    (tmp_path / "calls.py").write_text(THEIRS.replace("np.sort(numbers)", "np.sort(-numbers)"))
    _, slower = counter.count_file(tmp_path / "calls.py")
    monkeypatch.setitem(sys.modules, "counter", counter)
    monkeypatch.setitem(sys.modules, "gate", gate)
    old = {"versions": versions, "counts": found}
    assert load("count_calls").judge(old, versions, slower) == 1
    said = capsys.readouterr().out
    assert re.search(r"sort +instructions .* WORSE\n", said)
    assert not re.search(r"(round|inform) .* WORSE\n", said)
    assert re.search(r"<lambda> +0 +40000  calls.py\n", said)


def test_counted_thread_has_a_clock_of_its_own(gate, counter):
    """How long a call takes in valgrind does not change what it does."""
    if gate.why_not(builds_first=True):
        pytest.skip("valgrind is not installed")
    program = "import counter, time; times = [time.monotonic_ns() for _ in range(9)]; "
    program += "library.{}(); times += [time.monotonic_ns() for _ in range(3)]; print(times)"
    with counter.linked({}, 0) as (folder, python):
        for function in ("watch_bytes", "start_counting"):
            command = [*python, counter.BARE + program.format(function)]
            *_, before, first, second, third = json.loads(counter.run_in(folder, command, "avx2"))
            assert (second - first, third - second) == (100, 100)
            assert first < before


def test_gate_demands_the_same(gate, capsys):
    assert gate.judge(OLD, VERSIONS, counts(), same=True) == 0
    assert gate.judge(OLD, VERSIONS, counts(980_000), same=True) == 1
    assert "1 better" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spread", "share"),
    [((), 0.003), ([0.0001] * 5, 0.003), ([0.005, 0.004, 0.005, 0.004], 0.008), ([0.1, 0], 0.009)],
)
def test_bands_of_the_gate(gate, capsys, spread, share):
    """A call may move as it has moved before, and never by a percent."""
    old = {"versions": VERSIONS, "counts": counts(spread=spread)}
    assert gate.band(spread, "instructions") == pytest.approx(share)
    assert gate.judge(old, VERSIONS, counts(round(1e6 * (1 + share - 1e-4)))) == 0
    assert gate.judge(old, VERSIONS, counts(round(1e6 * (1 + share + 1e-4)))) == 1


def test_gate_names_functions(gate, capsys):
    """Where a call is worse, its functions that grew have their files and lines."""
    old = {"versions": VERSIONS, "counts": counts(shrunk=70_000, tupledealloc=10_000)}
    grown = {"contract_bins_float": 640_000, "forward roicy/_call.py": 60, "shrunk": 60_000}
    assert gate.judge(old, VERSIONS, counts(1_040_000, **grown, tupledealloc=20_000)) == 1
    said = capsys.readouterr().out
    for line, place in (
        (r"contract_bins_float +600000 +640000", r"(pyx/\S+):(\d+)"),
        (r"forward +50 +60", r"(roicy/_call\.py):(\d+)"),
    ):
        name, (file, number) = line.split(" ")[0], re.search(rf"{line} +{place}", said).groups()
        assert name.removesuffix("_float") in (ROOT / file).read_text().split("\n")[int(number) - 1]
    assert "shrunk" not in said and "tupledealloc" not in said


def test_gate_names_who_holds_memory(gate, counter, capsys, monkeypatch):
    """Where a call takes more memory, it says who holds it, in kernels and in Python."""
    old, new = counts(), counts(memory=600_000)
    old[CALL]["holders"] = {"call.compute": 500_000, "gone": 9}
    new[CALL]["holders"] = {"call.compute": 540_000, "forward roicy/_call.py": 60_000}
    assert gate.judge({"versions": VERSIONS, "counts": old}, VERSIONS, new) == 1
    said = capsys.readouterr().out
    assert re.search(r"holds most \(bytes\)\n  forward +0 +60000  roicy/_call.py:\d+\n", said)
    assert re.search(r"\n  call.compute +500000 +540000  pyx/call/call.pxd:\d+\n", said)
    assert gate.holding(old[CALL], old[CALL] | {"holders": new[CALL]["holders"]}) == []
    listed = "0000000000000010 t __pyx_f_5roicy_8_kernels_4call_compute\n0000000000000018 d data\n"
    monkeypatch.setattr(counter, "load", lambda _: SimpleNamespace(run=lambda _: listed))
    found = [[70, "f roicy/a.py", 25, "/x/roicy/call.so"], [40, "f roicy/a.py", 9, "/numpy.so"]]
    found += [[8, "", 9, "/numpy.so"], [20, "f roicy/a.py", 3, "/x/roicy/call.so"], [0, "", 0, ""]]
    expected = {"call.compute": 70, "f roicy/a.py": 40, "call.so": 20, "others": 8}
    assert counter.holders_by_name(found, ("/x/roicy/",)) == expected


def test_gate_finds_definitions(gate, monkeypatch, tmp_path):
    """What is assigned from a call is not the place where the function is defined."""
    (tmp_path / "pyx").mkdir()
    text = "cdef T first = load(1)\n    cdef T x = load(2)\ncdef T load(int i) noexcept nogil:\n"
    (tmp_path / "pyx" / "plan.pyx").write_text(text)
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    assert gate.where("plan.load") == "pyx/plan.pyx:3"


def test_gate_ignores_few_lines(gate):
    """A handful of lines more are the interpreter's, even if they are many times as many."""
    assert gate.compare(counts(lines=30), counts(lines=60)) == []


def test_gate_writes_what_moved(gate, tmp_path):
    """Counts that hardly moved are kept, so that a commit shows which calls it changes."""
    old = {"versions": VERSIONS, "counts": {"a": counts()[CALL], "b": counts()[CALL]}}
    found = {"a": counts(1_000_100)[CALL], "b": counts(1_100_000)[CALL], "c": counts(7)[CALL]}
    assert gate.accepted(old, VERSIONS, found) == found | {"a": counts()[CALL]}
    assert gate.accepted(old, VERSIONS | {"cython": "4"}, found) == found
    gate.write(tmp_path / "counts.json", VERSIONS, found)
    assert json.loads((tmp_path / "counts.json").read_text())["counts"] == found


def test_gate_keeps_the_least_and_what_counts_differed_by(gate):
    found = gate.least_of([counts(1_001_000), counts(lines=49_000), counts(1_002_000, memory=7)])
    assert found[CALL]["instructions"] == 1_000_000
    assert (found[CALL]["bytes moved"], found[CALL]["memory"]) == (64 * 49_000, 7)
    assert found["wheel"] == counts()["wheel"]
    found = gate.with_spread(counts(spread=[0.5] * gate.KEPT), found)
    assert found[CALL]["spread"]["instructions"] == [0.5] * (gate.KEPT - 2) + [0.001, 0.002]


@pytest.mark.parametrize("allowed", [False, True])
def test_gate_says_why_it_skips(gate, capsys, allowed):
    """Nothing passes unseen: what cannot be compared fails in a line, unless that is allowed."""
    assert gate.judge(OLD, VERSIONS | {"compiler": "GCC 2"}, counts(), allowed) == (not allowed)
    said = capsys.readouterr().out
    assert said.startswith("SKIPPED" if allowed else "FAILED")
    assert said.count("\n") == 1


def test_gate_fails_without_a_build(tmp_path):
    """A package that cannot be imported is a line and an exit code."""
    gate = ROOT / "asv_bench" / "gate.py"
    if not gate.exists():
        pytest.skip("the ASV suite is not here")
    (tmp_path / "roicy").mkdir()
    (tmp_path / "roicy" / "__init__.py").write_text("from ._kernels import nothing\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    for options, code in (([], 1), (["--allow-skip"], 0)):
        command, given = [sys.executable, str(gate), *options], {"cwd": tmp_path, "text": True}
        ended = subprocess.run(command, env=environment, capture_output=True, **given)
        assert (ended.returncode, ended.stdout.count("\n"), ended.stderr) == (code, 1, "")
        assert re.match("(FAILED|SKIPPED): (import roicy: |valgrind)", ended.stdout)


def test_gate_counts_all_passes_and_layouts(gate, counter):
    stored = json.loads(gate.COUNTS.read_text())["counts"]
    assert set(counter.NAMES) <= set(stored)
    directions = {tuple(name.split()[1:]) for name in counter.CALLS}
    for direction in ("forward", "backward", "backward_boxes"):
        assert {(direction, "NCHW"), (direction, "NHWC")} <= directions


@pytest.mark.slow
def test_results_are_not_copied(counter):
    """The gate counts most calls with `out`.  Without it, a call takes no array like its result."""
    kinds, seen = ("forward", "backward", "backward_boxes"), set()
    for name, (_, smaller) in counter.CALLS.items():
        workload, direction, layout = name.split()
        if direction not in kinds or workload == "crop_nv12_letterbox":  # which converts the frame
            continue
        work = ALL[workload]._replace(**smaller)
        call = work.call(roicy, work.arrays("float32"), direction, layout, False, 1)
        call()
        tracemalloc.start()
        result = call()
        held, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        if getattr(result, "nbytes", 0) > 50_000:
            seen.add(workload)
            assert most - held < result.nbytes / 2, name
    assert len(seen) > 20


def test_counter_reads_files_of_callgrind(counter):
    events = "Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw ILdmr DLdmr DLdmw"
    head = f"desc: Trigger: Client Request: {CALL}, 2\nevents: {events}\n"
    costs = "fl=(1) a.c\nfn=(1) inner.constprop.0\n10 900 5\n+2 600\n\n"
    costs += "fn=(2) __pyx_f_5roicy_8_kernels_7forward_load\n3 500\ncfn=(1)\ncalls=2 0\n* 1500\n"
    text = head + costs + "totals: 2000 9 9 2 4 6 8 2 4 10 20 40\n"
    expected = {"instructions": 1000, "level 1 misses": 6, "last level misses": 7}
    expected |= {"bytes moved": 42 * 64, "functions": {"inner": 750, "forward.load": 250}}
    assert counter.counts_of(text) == (CALL, expected)
    assert counter.counts_of("desc: Trigger: Program termination\n") is None


def test_names_of_functions(counter):
    names = {
        "__pyx_fuse_0__pyx_f_5roicy_8_kernels_4plan_make_tables": "plan.make_tables",
        "__pyx_pw_5roicy_8_kernels_7forward_1forward": "forward.forward",
        "contract_bins_float.constprop.0": "contract_bins_float",
        "_PyEval_EvalFrameDefault'2": "_PyEval_EvalFrameDefault",
    }
    assert {symbol: counter.plain(symbol) for symbol in names} == names


def test_bytecodes_of_functions(counter):
    def call():
        return roicy.get_num_threads()

    call()
    package = str(Path(roicy.__file__).parent)
    found = counter.bytecodes(call, package)
    assert found == counter.bytecodes(call, package)
    assert 0 < found["get_num_threads roicy/_machine/_threads.py"] < 100


def test_flame_graphs(counter, monkeypatch):
    """A callee stands on its caller, and what grew is red."""
    monkeypatch.setitem(sys.modules, "counter", counter)
    flame = load("flame")
    head = f"desc: Trigger: Client Request: {CALL}, 2\n"
    costs = "fn=(1) outer\n1 {}\ncfn=(2) inner<\ncalls=2 0\n* 600\n\nfn=(2)\n5 600\n"
    svg = flame.drawn(head + costs.format(500), head + costs.format(400))
    bars = re.findall(r'y="(\d+)" width="([\d.]+)".*?fill="(#\w+)"', svg)
    low, high = (int(y) for y, _, _ in bars)
    assert low - high == flame.HEIGHT
    assert [float(width) for _, width, _ in bars] == [1200, pytest.approx(1200 * 6 / 11, abs=0.1)]
    assert [fill for _, _, fill in bars] == [flame.colour(1, 2), flame.colour(1, 1)]
    assert "inner&lt;: itself 600, before 600; 54.5% of all" in svg


def test_history_is_kept(history, monkeypatch, tmp_path):
    monkeypatch.setattr(history, "FILE", tmp_path / "history.json")
    found = history.read()
    found["commits"] = {"c2": {"date": 2, "missing": "why"}, "c1": {"date": 1, "counts": {}}}
    found |= {"versions": VERSIONS, "steps": [{"of": 1}, {"of": 2}], "notes": {"c1": "more"}}
    history.write(found, ["c1", "c2"])
    assert history.read() == found
    assert list(history.read()["commits"]) == ["c1", "c2"]


def steps_of(history, values, notes=(), count=12):
    """Return the steps of counts of some of the commits, by their numbers."""
    found = {
        f"c{i}": {"subject": f"of c{i}", "counts": {"align_tiny forward NCHW": [value, 64]}}
        for i, value in values.items()
    }
    commits = [f"c{i}" for i in range(count)]
    return history.steps_of({"commits": found, "notes": dict(notes)}, commits)


def test_history_finds_steps(history, monkeypatch):
    """A step that has notes names their commits; another one names the first counted commit."""
    monkeypatch.setitem(sys.modules, "otava", None)
    values = {0: 1000, 2: 1000, 4: 1000, 6: 700, 8: 701, 10: 699, 11: 500}
    notes = {"c5": {"of": "tiny", "why": "A note."}, "c6": {"of": "pool", "why": "Another."}}
    steps = steps_of(history, values, notes)
    found = [(step["named"], step["of"], step["why"]) for step in steps]
    assert found == [(["c5"], 2, "A note."), (["c11"], 1, "of c11")]
    assert steps[0]["calls"] == {"align_tiny forward NCHW": [1000, 700]}
    small = {0: 1000, 1: 1030, 2: 1060, 3: 1090, 4: 1050, 5: 1010}  # which add up to a step
    assert [step["commit"] for step in steps_of(history, small)] == ["c2"]


def test_history_takes_what_landed(history, monkeypatch, tmp_path):
    """Commits that wrote counts.json are taken as large as they are beside the last one counted."""
    monkeypatch.setattr(history.builds, "SOURCE", tmp_path)
    monkeypatch.setattr(history, "FILE", tmp_path / "asv_bench" / "history.json")
    git, call = history.builds.git, "align_tiny forward NCHW"
    (tmp_path / "asv_bench").mkdir()
    git("init", "-q", "-b", "main")

    def commit(number, versions=VERSIONS):
        found = {"wheel": {"bytes": number}, "build": {"processor seconds": 60}}
        found |= {history.counter.IMPORT: {"instructions": number, "memory": 0}}
        found[call] = {"instructions": number, "bytes moved": 0, "memory": 3 * number}
        file = {"versions": versions, "counts": found}
        (tmp_path / "asv_bench" / "counts.json").write_text(json.dumps(file))
        (tmp_path / "setup.py").write_text(str(number))
        git("add", ".")
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", f"of {number}")
        return git("rev-parse", "HEAD")

    first = commit(1000)
    assert history.take() == "none of the last 9 commits that wrote counts.json has a count"
    package = {
        "wheel bytes": 900,
        "build seconds": 30,
        "import instructions": 9,
        "import memory": 7,
    }
    row = {"date": 1, "subject": "", "counts": {call: [2000, 0, 3000]}, "package": package}
    empty = {"versions": VERSIONS, "steps": [], "notes": {}}
    history.write(empty | {"commits": {first: row}}, [first])
    assert history.take() == "0 commits are taken from counts.json"
    second, third = commit(1010), commit(1100)
    assert history.take() == "2 commits are taken from counts.json"
    found = history.read()
    assert list(found["commits"]) == [first, second, third]
    assert found["commits"][third]["counts"] == {call: [2200, 0, 3300]}
    assert found["commits"][third]["package"]["wheel bytes"] == 990
    assert found["commits"][second]["subject"] == "of 1010"
    assert [step["commit"] for step in found["steps"]] == [third]
    other = commit(1200, VERSIONS | {"cython": "4"})
    assert history.take().startswith(f"{other[:10]} was counted with")


def test_history_says_how_far_it_is_behind(history, monkeypatch, capsys):
    commits = [f"c{i}" for i in range(100)]
    assert history.behind({"commits": {}}, commits) == (None, 100)
    monkeypatch.setattr(history.builds, "git", lambda *_: "false")
    monkeypatch.setattr(history, "landed", lambda _: commits)
    for last, code in (("c39", 0), ("c38", 1)):
        monkeypatch.setattr(history, "read", lambda last=last: {"commits": {last: {}}})
        assert history.check_behind() == code
        assert f"ends at {last}; {99 - int(last[1:])} commits came later" in capsys.readouterr().out


def test_history_stored(history):
    """What the page of the documentation draws belongs together."""
    found = history.read()
    for one in found["commits"].values():
        assert one["subject"]
        assert "missing" in one or set(one["counts"]) <= set(history.CALLS)
    for step in found["steps"]:
        assert {step["before"], step["commit"]} <= set(found["commits"])


def test_page_of_speed_says_what_its_chart_shows(history, counter):
    assert set(history.CALLS) <= set(counter.NAMES)
    *_, last = (one for one in history.read()["commits"].values() if "counts" in one)
    millions = last["counts"]["align_fpn_p2 forward NCHW"][0] / 1e6
    text = " ".join((ROOT / "docs" / "speed.md").read_text().split())
    assert f"takes {millions:.2f} million now" in text


def test_linters_have_one_version():
    """.ci/run, pre-commit and CONTRIBUTING name the same linters."""
    found = []
    for name in (".ci/run", "CONTRIBUTING.md"):
        if not (ROOT / name).exists():
            pytest.skip("this is no checkout")
        text = " ".join((ROOT / name).read_text().split())
        found.append(
            re.search(r"pip install (ruff==\S+ cython-lint==\S+ clang-format==[\d.]+)", text)
        )
    hooks = re.findall(r"rev: v(\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert {re.sub(r"[a-z-]+==", "", one[1]) for one in found} == {" ".join(hooks)}
