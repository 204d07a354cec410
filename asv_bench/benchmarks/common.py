"""What the benchmarks share: the workloads, and roicy with a given instruction set."""

import importlib
import importlib.util
import os
from pathlib import Path


def module_of(name):
    """Return a module of this checkout, whatever version of roicy is measured."""
    path = Path(__file__).resolve().parents[2] / "roicy" / "bench" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


workloads = module_of("workloads")
BEST = "best"  # the best instruction set of the machine


def load(isa=BEST):
    """
    Import roicy with an instruction set.

    Each set of parameters runs in its own process, and nothing here imports roicy earlier.
    """
    if isa != BEST:
        os.environ["ROICY_ISA"] = isa
    try:
        return importlib.import_module("roicy")
    except ImportError as error:
        if "does not support" in str(error) or "lacks it" in str(error):
            raise NotImplementedError(str(error)) from None  # ASV then skips this set of parameters
        raise
