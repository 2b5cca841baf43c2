"""A unit after compilation: plain data, without TVM."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.program.constant_transform import ParamTransform
from tvm_ios.program.program import UnitCode


@dataclass(frozen=True)
class ConstantUse:
    """A constant as a kernel wants it: a parameter of the unit's function, transformed."""

    parameter: int
    transform: ParamTransform


@dataclass(frozen=True)
class CompiledUnit:
    """Code that runs a unit.

    Attributes
    ----------
    code
        Its phases. The parameters are the data inputs, ``constants`` and the outputs.
    constants
        How to make the constant parameters, in their order.
    key
        Equal for units of equal code.
    kernels
        The keys of its kernels.
    tuned
        Names of what a tuning log had for it.
    library
        The kernel library that it calls, which has to be where it runs; empty for none.
    """

    code: UnitCode
    constants: tuple[ConstantUse, ...]
    key: str
    kernels: tuple[str, ...]
    tuned: frozenset[str] = frozenset()
    library: str = ""
