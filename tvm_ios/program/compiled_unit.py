"""A unit after compilation: plain data, without TVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    name
        The rKernel that a schedule has to name for the unit to run in this form; empty for those
        that it may run in without a name.
    forms
        What each kernel is, for people, such as ``contraction``; empty where nobody knows.
    """

    code: UnitCode
    constants: tuple[ConstantUse, ...]
    key: str
    kernels: tuple[str, ...]
    tuned: frozenset[str] = frozenset()
    library: str = ""
    name: str = ""
    forms: tuple[str, ...] = ()

    @property
    def notes(self) -> dict[str, Any]:
        """What is worth keeping beside a program, as plain data; what is empty is left out."""
        notes = {"forms": list(self.forms), "tuned": sorted(self.tuned), "library": self.library}
        return {name: value for name, value in notes.items() if value}
