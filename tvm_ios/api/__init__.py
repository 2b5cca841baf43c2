"""The front door for programs: what the commands do, as functions."""

from tvm_ios.api.measured import optimize
from tvm_ios.api.policies import MEASURED_POLICIES, POLICIES
from tvm_ios.api.units import load_operators, load_units
from tvm_ios.api.unmeasured import compile_unmeasured

__all__ = [
    "MEASURED_POLICIES",
    "POLICIES",
    "compile_unmeasured",
    "load_operators",
    "load_units",
    "optimize",
]
