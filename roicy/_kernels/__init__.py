"""The compiled kernels. See pyx/ for their source.

Importing this package loads an OpenMP runtime, GCC's or LLVM's.
"""

import os


def _reason(error: ImportError) -> str:
    """Say why there are no kernels, and what to do."""
    from pathlib import Path  # imports much, which only a failure needs

    said = f"roicy: the compiled kernels cannot be loaded: {error}. "
    root = Path(__file__).parents[2]
    if (root / "pyx").is_dir() and not any(
        path.suffix in (".so", ".pyd") for path in Path(__file__).parent.glob("machine.*")
    ):
        return (
            f"roicy: Python took roicy from {root}, a folder of its sources, in which it has not "
            "been compiled. Start Python in another folder to use an installed roicy, or compile "
            "it there: pip install -e ."
        )
    if not root.is_dir():
        return f"{said}They cannot be loaded from an archive; unpack {root} and start from there."
    return (
        f"{said}They are built for one version of Python and one kind of processor; install "
        "roicy again with this Python."
    )


_mask = None  # of this thread, where another package's runtime has bound it
try:
    _few = len(os.sched_getaffinity(0)) != os.cpu_count()
except (AttributeError, OSError):  # not Linux, or a sandbox that forbids it
    _few = False
if _few:
    from .._machine import _runtimes

    _mask = _runtimes.unbind()
try:
    from . import isa as isa
    from . import machine as machine
except ImportError as error:
    raise ImportError(_reason(error)) from error
finally:
    if _mask is not None:
        os.sched_setaffinity(0, _mask)
