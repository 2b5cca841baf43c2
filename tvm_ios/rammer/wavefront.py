"""Rammer's wavefront scheduling policy (Rammer, Algorithm 1).

Two slips of the algorithm as printed are repaired. Its loop pushes an rProgram only when the next
one begins, so the last one is lost: here it is kept. And ``ScheduleWave(W, Pcurr, D)`` appends to
the program that it is given, so ``time(Pcurr)`` would be taken of the longer one: here programs are
never changed, appending returns another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.rammer.rprogram import RProgram, simulate
from tvm_ios.schedule.rkernel import RKernel, fastest, most_efficient
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.waves import waves

#: Returns the rKernels of a unit, at least one; the first is the one in other stages.
RKernels = Callable[[int], tuple[RKernel, ...]]
#: Returns the seconds of rPrograms to compare, all measured or all simulated.
Profile = Callable[[Sequence[RProgram]], Sequence[float]]

#: Relative differences up to this are ties: sums of times differ so by rounding.
_TIE = 1e-12


def wavefront_programs(
    graph: OpGraph, kernels: RKernels, lanes: int, profile: Profile = simulate
) -> tuple[RProgram, ...]:
    """Schedule a graph as rPrograms that run one after another (Rammer, Algorithm 1: Schedule).

    Each unit is in exactly one. ``kernels`` returns the rKernels of a unit, and ``profile`` the
    seconds of rPrograms.
    """
    plans: list[RProgram] = []
    current = RProgram.empty(lanes)
    for wave in waves(graph.predecessors, range(len(graph))):
        alone = schedule_wave(graph, wave, RProgram.empty(lanes), kernels, profile)
        if current.units:
            joined = schedule_wave(graph, wave, current, kernels, profile)
            together, before, after = profile((joined, current, alone))
            if together <= (before + after) * (1 + _TIE):
                current = joined
                continue
            plans.append(current)
        current = alone
    return (*plans, current) if current.units else ()


def schedule_wave(
    graph: OpGraph, wave: Sequence[int], program: RProgram, kernels: RKernels, profile: Profile
) -> RProgram:
    """Return a program extended by a wave of units (ScheduleWave, with SelectRKernels).

    The wave's fastest rKernels are taken if all their rTasks together leave lanes free (those of a
    unit's phases do not run at once: the widest counts). Else the most efficient ones, which leave
    more of the lanes to others, are taken if the profile says that they are better.
    """
    fast = {unit: fastest(kernels(unit)) for unit in wave}
    placed = program.append(graph, wave, fast)
    if leaves_free(fast.values(), len(program.clocks)):
        return placed
    efficient = {unit: most_efficient(kernels(unit)) for unit in wave}
    if efficient == fast:
        return placed
    other = program.append(graph, wave, efficient)
    seconds, others = profile((placed, other))
    return other if others < seconds else placed


def leaves_free(kernels: Iterable[RKernel], lanes: int) -> bool:
    """Return whether all rTasks of a wave together are fewer than the lanes."""
    return sum(max(kernel.tasks, default=0) for kernel in kernels) < lanes


def co_schedule(graph: OpGraph, units: Sequence[int], kernels: RKernels, lanes: int) -> RProgram:
    """Return the rProgram of a co-scheduled stage of some units, simulated.

    All other units that they read from were computed before.
    """
    program = RProgram.empty(lanes)
    for wave in waves(graph.predecessors, units):
        program = schedule_wave(graph, wave, program, kernels, simulate)
    return program


def rammer_schedule(
    graph: OpGraph, programs: Sequence[RProgram], seconds: Sequence[float], kernels: RKernels
) -> Schedule:
    """Return a schedule with one co-scheduled stage for each rProgram, and its placements.

    ``seconds`` are those of each program.
    """
    schedule = Schedule(
        fingerprint=graph.fingerprint,
        stages=tuple(
            Stage(Strategy.CO_SCHEDULE, (program.units,), latency=latency)
            for program, latency in zip(programs, seconds, strict=True)
        ),
        policy="",
        batch=graph.batch,
    )
    program_of = dict(zip(schedule.stages, programs, strict=True))
    return with_placements(schedule, program_of.__getitem__, kernels)


def with_placements(
    schedule: Schedule, programs: Callable[[Stage], RProgram], kernels: RKernels
) -> Schedule:
    """Return a schedule with the placements and rKernels of its co-scheduled stages.

    ``programs`` returns the rProgram of a co-scheduled stage.
    """
    co_scheduled = {
        stage: programs(stage)
        for stage in schedule.stages
        if stage.strategy is Strategy.CO_SCHEDULE
    }
    names = {
        unit: kernel.name
        for program in co_scheduled.values()
        for unit, kernel in program.kernels.items()
    }
    return replace(
        schedule,
        stages=tuple(
            replace(stage, placement=co_scheduled[stage].placement)
            if stage in co_scheduled
            else stage
            for stage in schedule.stages
        ),
        kernels={unit: name for unit, name in names.items() if name != kernels(unit)[0].name},
    )
