"""Regions of lanes: what one lane alone uses lies in its own, and plans are as safe as others."""

from __future__ import annotations

from hypothesis import given

from tests.fast_run import examples
from tests.program.arena.small_programs import programs, rounded
from tests.refusals import refused
from tests.region_check import check_regions
from tvm_ios.program.arena.check import check_arena
from tvm_ios.program.arena.planner import plan_lane_memory, plan_memory
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, ProgramError, Role


@examples(60)
@given(programs())
def test_plans_are_safe_and_regions_kept(program: Program) -> None:
    memory = plan_lane_memory(program)
    check_arena(program, memory.plan)
    check_regions(program, memory.plan, memory.regions)
    least = plan_memory(program)
    assert memory.bound == least.bound <= least.plan.nbytes <= memory.plan.nbytes <= memory.unshared
    assert memory.proven == (memory.plan.nbytes == memory.bound)
    if len(program.lanes) == 1:
        assert memory.regions[0].stop <= memory.plan.nbytes


def two_lanes(instances: int) -> Program:
    """Lanes that work by themselves: each instance makes ``b`` of ``a``, and drops both."""
    kind = BufferType((64,))
    buffers = [
        Buffer(f"{name}{lane}{i}", kind, Role.INTERMEDIATE)
        for lane in range(2)
        for i in range(instances)
        for name in "ab"
    ]
    lanes = tuple(
        tuple(
            Launch(0, used, 0, 1, 0)
            for i in range(instances)
            for first in [2 * (lane * instances + i)]
            for used in ((first,), (first, first + 1))
        )
        for lane in range(2)
    )
    return Program(lanes, ("k",), tuple(buffers), ("u",))


def test_the_next_instance_gets_the_bytes_of_the_last() -> None:
    program = two_lanes(5)
    memory = plan_lane_memory(program)
    assert memory.regions == (range(512), range(512, 1024))
    assert (memory.plan.nbytes, memory.proven) == (1024, True)


def test_what_lies_in_another_lane_s_region_is_found() -> None:
    program = two_lanes(1)
    memory = plan_lane_memory(program)
    size = rounded(program, 0)
    # Safe, but the lanes' bytes are interleaved.
    mixed = MemoryPlan(4 * size, {0: 0, 1: 2 * size, 2: size, 3: 3 * size})
    check_arena(program, mixed)
    with refused(ProgramError, "'b00'", "region"):
        check_regions(program, mixed, memory.regions)
    with refused(ProgramError, "regions", "share"):
        check_regions(program, memory.plan, (range(512), range(448, 1024)))
