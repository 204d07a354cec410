"""Builds the extensions.

pyx/table has a C file for each instruction set, which becomes tables of functions.  It is compiled
with flags of its own, for float and for double.  All else is compiled once.

Environment variables:

ROICY_BUILD_ISA      comma-separated instruction sets to build, for instance "baseline"; by default
                     all that exist for this architecture
ROICY_BUILD_DEBUG=1  assertions on, no optimisation, and scratch is filled with
                     NaN: for finding faults
ROICY_BUILD_FLAGS    further flags for compiler and linker, for instance "-fsanitize=address"
"""

import atexit
import os
import re
import shlex
import shutil
import struct
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from sysconfig import get_config_var, get_platform

from Cython.Build import cythonize
from Cython.Build.Dependencies import create_dependency_tree
from Cython.Compiler import Options
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

try:
    from setuptools.modified import newer_group
except ImportError:
    sys.exit("setuptools is too old, expected 77 or newer: pip install 'setuptools>=77'")

# The extensions, by their names in roicy/_kernels.
KERNELS = {
    name: f"pyx/{folder}{name}.pyx"
    for folder, names in {
        "": ("machine", "isa"),
        "call/": ("plan",),
        "methods/": ("methods",),
        "images/": ("crop", "resize", "paste"),
        "attention/": ("attention",),
        "labels/": ("labels",),
    }.items()
    for name in names
}
# Those that others load: ONNX Runtime, and other people's extensions.
OTHERS = {
    "roicy.onnxruntime.provider": "pyx/provider/provider.pyx",
    "roicy.cython_api": "pyx/interface/cython_api.pyx",
}
# What Cython needs for typed memoryviews, once for all extensions.  It is also in sys.modules by
# the last part of its name, which no other package may have.
VIEWS = "roicy._kernels.cython_views_of_roicy"
# Flags of the instruction sets of x86-64.  pyx/table has a C file for each.
X86 = {
    "baseline": [],
    "avx2": ["-march=x86-64-v3"],
    "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
# The GPU compiles these rules, too: at run time, from the folder of the package.
RULES = [Path("pyx/plan", name) for name in ("rules.h", "rules_levels.h", "rules_rotated.h")]
FOLDER_OF_GPU = Path("roicy/cuda/kernels")
DEBUG = os.environ.get("ROICY_BUILD_DEBUG", "0") != "0"
FLAGS = shlex.split(os.environ.get("ROICY_BUILD_FLAGS", ""))
# One build serves the oldest Python and all newer ones by the limited API.  Free-threaded ones have
# none that others share: each has a build of its own.
LIMITED = not get_config_var("Py_GIL_DISABLED")
OLDEST = "cp311", "0x030B0000"  # as requires-python of pyproject.toml
PROGRAM = "int main(void) { return 0; }"
OF_CLANG = "int main(void) { return 0 * __clang__; }"
STRICT = [
    "-fno-fast-math",
    "-fno-unsafe-math-optimizations",
    "-fno-finite-math-only",
    "-fno-associative-math",
    "-fno-reciprocal-math",
    "-fsigned-zeros",
]
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": False,
    "freethreading_compatible": True,
    # Calls of plain functions and methods of C make no tuple and no object: 2 % of a tiny call.
    "binding": False,
    "always_allow_keywords": False,
    # Each statement of C then follows the lines of Cython that it is made of: a third of all lines.
    "emit_code_comments": DEBUG,
}


def instruction_sets(by_clang):
    """Flags of those to build.  On Windows GCC misaligns wide vectors on stacks (its bug 54412)."""
    # The platform that is built for.  In a cross-build this is not the machine that builds.
    system, _, processor = get_platform().partition("-")
    known = {"baseline": []}
    unix = processor.endswith("x86_64") and system in ("linux", "macosx")
    if unix or (by_clang and processor == "amd64"):
        known = X86
    elif processor.endswith("universal2"):  # of whose two halves one is x86-64
        known = {
            isa: [word for flag in flags for word in ("-Xarch_x86_64", flag)]
            for isa, flags in X86.items()
        }
    wanted = os.environ.get("ROICY_BUILD_ISA", ",".join(known)).split(",")
    unknown = set(wanted) - set(known)
    if unknown or "baseline" not in wanted:
        sys.exit(
            f"ROICY_BUILD_ISA={','.join(wanted)}: "
            f"expected 'baseline' and any others of {', '.join(known)}"
        )
    return {name: known[name] for name in wanted}


def extensions():
    sources = {f"roicy._kernels.{name}": source for name, source in KERNELS.items()}
    sources.update(OTHERS)
    sources[VIEWS] = VIEWS.replace(".", "/") + ".c"
    limited = {}
    if LIMITED:
        limited = {"py_limited_api": True, "define_macros": [("Py_LIMITED_API", OLDEST[1])]}
    return [
        Extension(name, [source], include_dirs=["pyx"], **limited)
        for name, source in sources.items()
    ]


def translate(extensions):
    """Make extensions of Cython into those of C, and say which headers they include."""
    made = cythonize(
        extensions,
        include_path=["pyx", "."],
        build_dir="build/c",
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=VIEWS,
    )
    written = {module.name: module for module in made}
    for extension in extensions:
        read = declarations(extension.sources[0])
        extension.sources = written[extension.name].sources
        extension.depends = with_included([*written[extension.name].depends, *read])


def declarations(source):
    """Return the pxd files of pyx that a file needs: C that stands in them may include headers."""
    if not source.endswith(".pyx"):
        return []
    read = create_dependency_tree(quiet=True).all_dependencies(source)  # cythonize has made it
    return sorted(path for path in read if Path(path).match("*.pxd") and "pyx" in Path(path).parts)


def with_included(headers):
    """Return headers, or C files, and what they include.  Cython looks at headers of pyx alone."""
    found = [Path(header) for header in headers]
    for header in found:
        for name in re.findall('^ *#include "(.+)"', header.read_text(), re.MULTILINE):
            path = next(path for path in (header.parent / name, Path("pyx", name)) if path.exists())
            if path not in found:
                found.append(path)
    return sorted(map(str, found))


class BuildExt(build_ext):
    """Adds the flags that depend on the compiler: optimisation, and OpenMP where it works."""

    prefix = ""  # of flags that GCC and Clang have in common

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()
        self.on_sources = self.inplace  # which run() takes back

    def build_extensions(self):
        # Who builds in place works on the sources, and must see a warning.  Other builds do not
        # fail where a newer Cython warns of more.
        Options.warning_errors = bool(self.on_sources)
        translate(self.extensions)
        if self.compiler.compiler_type == "msvc":
            self.use_clang_cl()
        elif self.compiler.compiler_type == "mingw32":
            FLAGS.append("-DMS_WIN64")  # Python's headers set it for Microsoft's compiler alone
        # Results must not depend on what the compiler finds convenient, and NaN is refused.  CFLAGS
        # may have flags that allow both, so they are taken back first.
        optimise = list(STRICT)
        optimise += (
            ["-O0", "-g", "-DROICY_DEBUG"]
            if DEBUG
            else ["-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
        )
        # Positions of samples must round as in the libraries whose results we reproduce, and a
        # sum must round in the same way wherever it is compiled.  A misspelt name of C would be an
        # undefined symbol of the import.
        optimise += ["-ffp-contract=off", "-Werror=implicit-function-declaration"]
        # GCC stops inlining when a file has grown by a certain share, and makes copies of inner
        # loops for some of their callers.  In both cases some loops lose constants that make them
        # fast (R307 and R308 in docs/records.md).
        for flag in ("--param=inline-unit-growth=400", "-fno-ipa-cp-clone"):
            if self.builds(PROGRAM, [self.prefix + flag]):
                optimise.append(flag)
        # Threads of musl have stacks of 128 KB, on which several functions lie at once.  16.8 KB
        # are the most that one takes.  Clang does not know GCC's word.
        frames = "-Werror=frame-larger-than=20480"
        if self.on_sources and not (DEBUG or FLAGS or self.prefix):
            optimise += [frames] if self.builds(PROGRAM, ["-Werror", frames]) else []
        optimise = [self.prefix + flag for flag in optimise]
        strict = [] if self.prefix else STRICT
        openmp = self.openmp_flags()
        for extension in self.extensions:
            extension.extra_compile_args += optimise + FLAGS
            # The linker too: after -ffast-math it adds code that flushes small numbers to zero.
            extension.extra_link_args += strict + FLAGS
            if extension.name.endswith(".machine"):  # which has the pool of threads
                extension.extra_compile_args += openmp[0]
                extension.extra_link_args += openmp[1]
            if extension.name == VIEWS:  # which is Python's business, and no loop
                extension.extra_compile_args.append(self.prefix + "-Os")
            if extension.name.endswith(".isa"):
                self.add_tables(extension, optimise + FLAGS)
        super().build_extensions()

    def add_tables(self, extension, flags):
        """Compile the tables of each instruction set and type, and link them into an extension."""
        isas = instruction_sets(get_platform().startswith("win") and self.builds(OF_CLANG, []))
        built = " ".join(f"IS_BUILT({isa})" for isa in reversed(isas))
        extension.define_macros.append(("BUILT", built))

        def compiled(isa, real):
            source, folder = Path("pyx/table", f"{isa}.c"), Path(self.build_temp, real)
            target = Path(folder, source.with_suffix(".o"))
            if self.force or newer_group(with_included([source]), str(target)):
                own = [self.prefix + flag for flag in isas[isa]]
                self.compiler.compile(
                    [str(source)], str(folder), macros=[("REAL", real)], include_dirs=["pyx"],
                    extra_postargs=own + flags,
                )  # fmt: skip
            return str(target)

        objects = [(isa, real) for real in ("float", "double") for isa in isas]
        with ThreadPoolExecutor(self.parallel) as threads:
            extension.extra_objects = list(threads.map(compiled, *zip(*objects, strict=True)))
        extension.depends += extension.extra_objects

    def use_clang_cl(self):
        """Compile for Windows by Clang.

        The kernels use the vector types of GCC and Clang, which Microsoft's compiler lacks.
        """
        found = shutil.which("clang-cl")
        if found is None:
            sys.exit(
                "roicy is compiled by clang-cl on Windows, and there is none on the PATH: "
                "install LLVM, or the component 'C++ Clang tools' of Visual Studio"
            )
        self.compiler.initialize()
        self.compiler.cc = found
        self.prefix = "/clang:"

    def run(self):
        """Leave the extensions in the source tree too: Python started there imports that tree, and
        not what was installed.
        """
        super().run()
        if not self.inplace:
            self.copy_extensions_to_source()
        for extension in self.extensions if LIMITED else ():
            # Python would load what was built for its version alone, however old, before this.
            older = Path(*extension.name.split(".")).with_suffix(get_config_var("EXT_SUFFIX"))
            older.unlink(missing_ok=True)

    def openmp_flags(self):
        """(compile, link) flags that build and link an OpenMP program, or none.

        On macOS and Windows a runtime would have to be brought, and a second one beside that of
        PyTorch ends the process.  There the pool starts its threads itself.
        """
        if not get_platform().startswith("linux"):
            return [], []
        flags = ["-fopenmp"]
        program = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }"
        if self.builds(program, flags, flags):
            return flags, flags
        print(
            "roicy: this compiler has no OpenMP; the threads are started by roicy itself",
            file=sys.stderr,
        )
        return [], []

    def builds(self, program, compile_flags, link_flags=()):
        """Whether the compiler takes a program with these flags."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text(program + "\n")
            try:
                objects = self.compiler.compile(
                    [str(source)], output_dir=folder, extra_postargs=compile_flags
                )
                self.compiler.link_executable(
                    objects, str(Path(folder, "probe")), extra_postargs=list(link_flags)
                )
            except (CompileError, LinkError):
                return False
        return True


def check_python():
    """End with a plain sentence where roicy cannot work."""
    if struct.calcsize("P") != 8:
        sys.exit("roicy needs a 64-bit Python: its arrays may have more than 2**31 elements")


def leave_read_only_folder():
    """Build a copy of this folder if nothing can be written here: setuptools and Cython write."""
    in_place = {"--inplace", "-i", "develop", "editable_wheel"}.intersection(sys.argv)
    if os.access(".", os.W_OK) or in_place:
        return
    copy = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, copy)
    for folder, inner, files in os.walk("."):
        inner[:] = {*inner} - {".git", "build"}
        Path(copy, folder).mkdir(exist_ok=True)
        for file in files:
            shutil.copyfile(Path(folder, file), Path(copy, folder, file))
    os.chdir(copy)


def copy_rules():
    """Put RULES into the package before package data is gathered."""
    for file in RULES:
        copy = FOLDER_OF_GPU / file.name
        if not copy.exists() or copy.read_bytes() != file.read_bytes():
            copy.write_bytes(file.read_bytes())


check_python()
leave_read_only_folder()
copy_rules()
setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": OLDEST[0]}} if LIMITED else {},
)
