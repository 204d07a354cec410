"""
Builds the extensions: each file of pyx/images and of pyx/kernels once for each instruction set, the
others once.

Environment variables:

ROICY_BUILD_ISA      comma-separated instruction sets to build, for instance "baseline"; by default
                     all that exist for this architecture
ROICY_BUILD_DEBUG=1  bounds checks and assertions on, no optimisation: for finding faults
ROICY_BUILD_FLAGS    further flags for compiler and linker, for instance "-fsanitize=address"
"""

import os
import shlex
import shutil
import struct
import sys
import sysconfig
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

KERNELS = sorted(path for room in ("images", "kernels") for path in Path("pyx", room).glob("*.pyx"))
ONCE = [Path("pyx/machine.pyx"), Path("pyx/plan/plan.pyx")]
# The GPU compiles these rules, too: at run time, from the folder of the package.
RULES, RULES_OF_GPU = Path("pyx/plan/rules.h"), Path("roicy/cuda/kernels/rules.h")
X86 = {
    "baseline": [],
    "avx2": ["-march=x86-64-v3"],
    "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
SHARED = "roicy._kernels.memoryviews"  # Cython's code for memoryviews, once for all extensions
HEADERS = sorted(str(path) for path in Path("pyx").glob("**/*.h"))
DEBUG = os.environ.get("ROICY_BUILD_DEBUG", "0") != "0"
FLAGS = shlex.split(os.environ.get("ROICY_BUILD_FLAGS", ""))
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": False,
    "freethreading_compatible": True,
}


def instruction_sets():
    # The platform that is built for.  In a cross-build this is not the machine that builds.
    system, _, processor = sysconfig.get_platform().partition("-")
    x86 = processor.endswith("x86_64") and system in ("linux", "macosx")
    known = X86 if x86 else {"baseline": []}
    wanted = os.environ.get("ROICY_BUILD_ISA", ",".join(known)).split(",")
    unknown = set(wanted) - set(known)
    if unknown or "baseline" not in wanted:
        sys.exit(
            f"ROICY_BUILD_ISA={','.join(wanted)}: "
            f"expected 'baseline' and any others of {', '.join(known)}"
        )
    return {name: known[name] for name in wanted}


def extensions():
    packages = [("roicy._kernels", ONCE, [])]
    for isa, flags in instruction_sets().items():
        packages.append((f"roicy._kernels.{isa}", KERNELS, flags))
    shared = Extension(SHARED, [f"build/{SHARED}.c"])
    return [shared] + [
        Extension(
            f"{package}.{file.stem}",
            [str(file)],
            include_dirs=["pyx"],
            depends=HEADERS,
            extra_compile_args=list(flags),
        )
        for package, files, flags in packages
        for file in files
    ]


def translate(extensions):
    """
    Write the C files of extensions.

    Each instruction set has its own, since the names of modules are compiled into them.
    """
    packages = {}
    for extension in extensions:
        packages.setdefault(extension.name.rpartition(".")[0], []).append(extension)
    for package, modules in packages.items():
        made = cythonize(
            modules,
            include_path=["pyx", "."],
            build_dir=f"build/{package}",
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
        )
        written = {module.name: module for module in made}
        for extension in modules:
            extension.sources = written[extension.name].sources
            extension.depends = written[extension.name].depends


class BuildExt(build_ext):
    """Adds the flags that depend on the compiler: optimisation, and OpenMP where it works."""

    prefix = ""  # of flags that GCC and Clang have in common

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self):
        translate(self.extensions)
        if self.compiler.compiler_type == "msvc":
            self.use_clang_cl()
        # No -ffast-math: results must not depend on what the compiler finds convenient.
        optimise = (
            ["-O0", "-g"]
            if DEBUG
            else ["-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
        )
        # Positions of samples must round as in the libraries whose results we reproduce, and a
        # sum must round in the same way wherever it is compiled.
        optimise.append("-ffp-contract=off")
        # GCC stops inlining when a file has grown by a certain share, and makes copies of inner
        # loops for some of their callers.  In both cases some loops lose constants that make them
        # fast (R307 and R308 in docs/records.md).
        for flag in ("--param=inline-unit-growth=400", "-fno-ipa-cp-clone"):
            if self.builds("int main(void) { return 0; }", [self.prefix + flag]):
                optimise.append(flag)
        optimise = [self.prefix + flag for flag in optimise]
        openmp = self.openmp_flags()
        for extension in self.extensions:
            extension.extra_compile_args += optimise + openmp[0] + FLAGS
            extension.extra_link_args += openmp[1] + FLAGS
        super().build_extensions()

    def use_clang_cl(self):
        """
        Compile for Windows by Clang.

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
        self.compiler.add_library_dir(str(Path(found).parent.parent / "lib"))  # libomp.lib
        self.prefix = "/clang:"

    def run(self):
        """
        Leave the extensions in the source tree too: Python started there imports that tree, and
        not what was installed.
        """
        super().run()
        if not self.inplace:
            self.copy_extensions_to_source()

    def copy_extensions_to_source(self):
        """Make the folders of the instruction sets, which may not exist there, and copy."""
        for extension in self.extensions:
            Path(*extension.name.split(".")[:-1]).mkdir(exist_ok=True)
        super().copy_extensions_to_source()

    def openmp_flags(self):
        """(compile, link) flags that build and link an OpenMP program, or none."""
        compile_flags, link_flags = {
            "darwin": (["-Xpreprocessor", "-fopenmp"], ["-lomp"]),
            "win32": (["-openmp"], []),  # the object files name the library
        }.get(sys.platform, (["-fopenmp"], ["-fopenmp"]))
        program = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }"
        if self.builds(program, compile_flags, link_flags):
            return compile_flags, link_flags
        print(
            "roicy: this compiler has no OpenMP; building kernels that run on one thread",
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


def copy_rules():
    """Put rules.h into the package before package data is gathered."""
    if not RULES_OF_GPU.exists() or RULES_OF_GPU.read_bytes() != RULES.read_bytes():
        RULES_OF_GPU.write_bytes(RULES.read_bytes())


check_python()
copy_rules()
setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExt})
