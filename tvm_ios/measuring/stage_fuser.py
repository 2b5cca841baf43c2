"""What makes one kernel of a co-scheduled stage where lanes cannot share one, as on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tvm_ios.files.array_files import Array
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.program import Part, UnitCode
from tvm_ios.program.program_builder import NO_PARTS, ConstantName
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.rammer.wavefront import RKernels
from tvm_ios.schedule.placement import Placement
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage


@dataclass(frozen=True)
class FusedStages:
    """What lowering and sessions take of co-scheduled stages that are one kernel each.

    Attributes
    ----------
    merged, constant_name
        For :func:`tvm_ios.program.lower.lower`.
    tables
        Constants that are in no unit, by their names.
    """

    merged: Mapping[Stage, UnitCode]
    constant_name: ConstantName
    tables: Mapping[str, Array]


class StageFuser(Protocol):
    """Places the rTasks of stages on vEUs, blocks of threads that stay, as one kernel a stage."""

    @property
    def refusal(self) -> str:
        """Why a kernel cannot be made of any stage, as a part of a sentence; empty if it can."""
        ...

    def can_fuse(self, code: Mapping[int, UnitCode]) -> bool:
        """Whether a stage of some units, in this form, may become a kernel here."""
        ...

    def lanes(self, codes: Iterable[UnitCode]) -> int:
        """How many vEUs the device is for the kernels of some units."""
        ...

    def rkernel(
        self, name: str, code: UnitCode, phases: Sequence[float], overhead: float
    ) -> RKernel:
        """An rKernel from the seconds of its kernels alone, of each the launch's overhead."""
        ...

    def contended(self, kernel: RKernel, code: UnitCode, veus: int) -> RKernel:
        """A profiled rKernel whose rTasks take as long as while so many vEUs are busy."""
        ...

    def share(self, kernel: RKernel, code: UnitCode) -> float:
        """Seconds of all rTasks of an rKernel if they fill the device."""
        ...

    def rprogram(
        self,
        graph: OpGraph,
        units: Sequence[int],
        rkernels: RKernels,
        code: Callable[[int, str], UnitCode],
        *,
        profiled: bool = True,
    ) -> RProgram:
        """Some units as one rProgram, on as many vEUs as the kernels that it names leave.

        rTasks that were profiled alone are slower beside others.
        """
        ...

    def fused(
        self,
        graph: OpGraph,
        placed: Mapping[Stage, Placement],
        code: Mapping[int, UnitCode],
        constant_name: ConstantName | None = None,
        parts: Mapping[int, Part] = NO_PARTS,
    ) -> FusedStages:
        """The code of co-scheduled stages."""
        ...
