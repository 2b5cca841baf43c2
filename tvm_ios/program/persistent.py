"""An rProgram for one persistent kernel: the steps of each vEU and their waits (plain data).

On a GPU a vEU is a thread block that stays (Rammer, section 4.1.2). It goes through a list of
ranges of rTasks; a *step* is one of them, and after it the vEU increments its step count. A tensor
is read only when all of it is there, so steps wait for whole operators; the waits are kept once for
each operator, because there are too many pairs of hundreds of vEUs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from tvm_ios.graph.op_graph import bits, closures, mask_of
from tvm_ios.program.program import Buffer, KernelUse

#: For each lane the number of its steps that must be finished.
StepCounts = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RTasks:
    """The rTasks ``[begin, end)`` of an operator: one step of a vEU."""

    operator: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class ROperator:
    """A phase of a unit with its buffers, as rTasks that are independent of each other.

    ``kernel``, ``buffers`` and ``unit`` are as of a :class:`tvm_ios.program.program.Launch`.
    ``waits`` are the operators that must be complete before any of its rTasks begins, in ascending
    order, without those that these have waited for themselves.
    """

    kernel: int
    buffers: tuple[int, ...]
    unit: int
    waits: tuple[int, ...]


@dataclass(frozen=True)
class PersistentProgram:
    """The program of a persistent kernel."""

    #: For each vEU its steps, in order.
    lanes: tuple[tuple[RTasks, ...], ...]
    #: The operators in the order of Append: an operator waits for earlier ones only, and a vEU runs
    #: operators in ascending order. So some vEU can always go on.
    operators: tuple[ROperator, ...]
    #: As of a :class:`tvm_ios.program.program.Program`.
    kernels: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    units: tuple[str, ...]
    uses: tuple[KernelUse, ...]

    @cached_property
    def barriers(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each step of each vEU, the operators that it has to wait for.

        Those are left out that the vEU knows to be complete: they were waited for before, by the
        vEU or by operators that it has waited for, or it has run all of their rTasks itself.
        """
        before = self._before
        places = [{*steps} for steps in self.finished]
        barriers: list[tuple[tuple[int, ...], ...]] = []
        for number, lane in enumerate(self.lanes):
            awaited, waits = 0, list[tuple[int, ...]]()
            for step in lane:
                needed = mask_of(self.operators[step.operator].waits) & ~awaited
                waits.append(tuple(bits(needed)))
                for other in bits(needed):
                    awaited |= before[other] | 1 << other
                if places[step.operator] == {number}:
                    awaited |= 1 << step.operator
            barriers.append(tuple(waits))
        return tuple(barriers)

    @cached_property
    def finished(self) -> tuple[StepCounts, ...]:
        """For each operator, the step counts of the vEUs that run it when it is complete."""
        steps: list[dict[int, int]] = [{} for _ in self.operators]
        for number, lane in enumerate(self.lanes):
            for place, step in enumerate(lane, 1):
                steps[step.operator][number] = place
        return tuple(steps)

    @cached_property
    def _before(self) -> tuple[int, ...]:
        """For each operator, the bit set of those that are complete when it begins."""
        waits = [mask_of(operator.waits) for operator in self.operators]
        return closures(waits, range(len(waits)))

    @property
    def independent(self) -> bool:
        """True if no operator waits for another."""
        return not any(operator.waits for operator in self.operators)

    def steps_of(self, operators: Collection[int]) -> dict[int, int]:
        """Return each vEU's step count at which some operators are complete, by vEU."""
        needed: dict[int, int] = {}
        for operator in operators:
            for lane, steps in self.finished[operator].items():
                needed[lane] = max(steps, needed.get(lane, 0))
        return dict(sorted(needed.items()))
