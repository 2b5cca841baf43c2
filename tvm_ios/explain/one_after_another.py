"""The baseline of a schedule: the same kernels, one unit after another."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.explain.tasks import Work
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.lane_writer import LaneWriter
from tvm_ios.program.program import Launch, Program, ProgramError
from tvm_ios.program.regions import regions_of


def one_after_another(work: Work) -> Program:
    """Lower a program's own kernels again, each with its tiles spread over all lanes.

    Units keep their order, buffers and code, and merged units stay merged, so that the outputs are
    bitwise the same. Raise ProgramError if the program does not say which buffers its kernels
    write, RaceError if the order of the units violates a data dependence.
    """
    program = work.program
    if not program.uses:
        raise ProgramError("the program does not say what its kernels write: save it again")
    kernels = {symbol: number for number, symbol in enumerate(program.kernels)}
    regions = regions_of(program.buffers)
    launches = [item for lane in program.lanes for item in lane if isinstance(item, Launch)]
    # Of a program at one shape of a range, a kernel takes the same values at all of its launches.
    scalars = {launch.kernel: launch.scalars for launch in launches}
    lanes = len(program.lanes)
    writer = LaneWriter(lanes)
    for task in sorted(work.tasks, key=lambda task: task.unit):
        kernel = kernels[task.kernel]
        use = program.uses[kernel]
        width = max(1, min(lanes, use.tiles))
        cuts = [use.tiles * lane // width for lane in range(width + 1)]
        launch = Launch(kernel, task.arguments, 0, 0, task.unit, scalars[kernel])
        written = frozenset(use.writes)
        places = range(use.arguments)
        writer.phase(
            [
                (lane, replace(launch, begin=cuts[lane], end=cuts[lane + 1]))
                for lane in range(width)
            ],
            reads={r for p in places if p not in written for r in regions[task.arguments[p]]},
            writes={r for p in written for r in regions[task.arguments[p]]},
        )
    lowered = Program(writer.lanes(), program.kernels, program.buffers, program.units, program.uses)
    check_races(lowered)
    return lowered
