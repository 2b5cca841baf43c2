"""A persistent program as the usual kind, which executors of lanes run and proofs know."""

from __future__ import annotations

from tvm_ios.program.persistent import PersistentProgram
from tvm_ios.program.program import Launch, Program, Wait


def program_of(persistent: PersistentProgram) -> Program:
    """The same with a lane a vEU and a wait for each vEU that a barrier waits for."""
    lanes: list[tuple[Launch | Wait, ...]] = []
    for number, (lane, barriers) in enumerate(
        zip(persistent.lanes, persistent.barriers, strict=True)
    ):
        items: list[Launch | Wait] = []
        seen: dict[int, int] = {}
        for step, operators in zip(lane, barriers, strict=True):
            for other, steps in persistent.steps_of(operators).items():
                if other != number and seen.get(other, 0) < steps:
                    items.append(Wait(other, steps))
                    seen[other] = steps
            of = persistent.operators[step.operator]
            items.append(Launch(of.kernel, of.buffers, step.begin, step.end, of.unit))
        lanes.append(tuple(items))
    return Program(
        tuple(lanes), persistent.kernels, persistent.buffers, persistent.units, persistent.uses
    )
