"""The front door for programs: what the commands do, as functions."""

from tvm_ios.api.measured import optimize
from tvm_ios.api.units import load_operators, load_units
from tvm_ios.api.unmeasured import compile_unmeasured

__all__ = [
    "compile_unmeasured",
    "load_operators",
    "load_units",
    "optimize",
]
