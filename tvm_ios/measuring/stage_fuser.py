"""The interface that makes one kernel of a co-scheduled stage where lanes cannot share it."""

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
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage


@dataclass(frozen=True)
class FusedStages:
    """The code of co-scheduled stages that are one kernel each, for lowering and sessions."""

    #: For :func:`tvm_ios.program.lower.lower`.
    merged: Mapping[Stage, UnitCode]
    constant_name: ConstantName
    #: The step tables, which are constants of no unit, by their names.
    tables: Mapping[str, Array]


class StageFuser(Protocol):
    """Makes one kernel of each co-scheduled stage, with rTasks on vEUs (persistent blocks)."""

    @property
    def refusal(self) -> str:
        """Why a kernel cannot be made of any stage, as a part of a sentence; empty if it can."""
        ...

    def can_fuse(self, code: Mapping[int, UnitCode]) -> bool:
        """Return whether a stage of these units, in this form, may become a kernel here."""
        ...

    def lanes(self, codes: Iterable[UnitCode]) -> int:
        """Return the number of vEUs that the device has for the kernels of some units."""
        ...

    def rkernel(
        self, name: str, code: UnitCode, phases: Sequence[float], overhead: float
    ) -> RKernel:
        """Return an rKernel from its phases' seconds alone, less each launch's overhead."""
        ...

    def contended(self, kernel: RKernel, code: UnitCode, veus: int) -> RKernel:
        """Return a profiled rKernel with its rTask times while ``veus`` vEUs are busy."""
        ...

    def share(self, kernel: RKernel, code: UnitCode) -> float:
        """Return the seconds of all rTasks of an rKernel if they fill the device."""
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
        """Return the rProgram of some units, on as many vEUs as its kernels allow.

        If the rTasks were profiled alone (``profiled``), they are taken to be slower beside others.
        """
        ...

    def fused(
        self,
        graph: OpGraph,
        stages: Sequence[Stage],
        code: Mapping[int, UnitCode],
        constant_name: ConstantName | None = None,
        parts: Mapping[int, Part] = NO_PARTS,
    ) -> FusedStages:
        """Return the code of co-scheduled stages, each as one kernel."""
        ...
