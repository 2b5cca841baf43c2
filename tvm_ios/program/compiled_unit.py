"""A unit after compilation: plain data, without TVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_ios.program.constant_transform import ParamTransform
from tvm_ios.program.program import UnitCode


@dataclass(frozen=True)
class ConstantUse:
    """A constant as a kernel reads it: a parameter of the unit's function, and its transform."""

    parameter: int
    transform: ParamTransform


@dataclass(frozen=True)
class CompiledUnit:
    """The compiled code of a unit, in one of its forms."""

    #: Its phases. The parameters are the data inputs, ``constants`` and the outputs.
    code: UnitCode
    #: How to make the constant parameters, in order.
    constants: tuple[ConstantUse, ...]
    #: Equal for units of equal code.
    key: str
    #: The keys of its kernels.
    kernels: tuple[str, ...]
    #: The names of the workloads that a tuning log had an entry for.
    tuned: frozenset[str] = frozenset()
    #: The kernel library that it calls, needed where it runs; empty for none.
    library: str = ""
    #: The rKernel that a schedule has to name for the unit to run in this form; empty if the form
    #: runs without a name.
    name: str = ""
    #: A label of each kernel for people, such as ``contraction``; empty where unknown.
    forms: tuple[str, ...] = ()

    @property
    def notes(self) -> dict[str, Any]:
        """Return the notes to keep beside a program, as plain data, without the empty ones."""
        notes = {"forms": list(self.forms), "tuned": sorted(self.tuned), "library": self.library}
        return {name: value for name, value in notes.items() if value}
