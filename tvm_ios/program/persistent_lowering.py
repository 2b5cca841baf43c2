"""Lowering of a co-scheduled stage to a persistent program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.program.persistent import PersistentProgram, ROperator, RTasks
from tvm_ios.program.placed import emit_placed, reject_misfit
from tvm_ios.program.program import Launch, Part, UnitCode
from tvm_ios.program.program_builder import NO_PARTS, ConstantName, ProgramBuilder
from tvm_ios.schedule.stage import Stage


def lower_persistent(
    graph: OpGraph,
    stage: Stage,
    code: Mapping[int, UnitCode],
    *,
    lanes: int,
    constant_name: ConstantName | None = None,
    parts: Mapping[int, Part] = NO_PARTS,
) -> PersistentProgram:
    """Compile a co-scheduled stage to a persistent program on ``lanes`` vEUs.

    Other parameters are as for :func:`tvm_ios.program.lower.lower`; a phase has one tile for each
    rTask. Raise LoweringError if the stage's placement does not fit its units, their code or the
    number of vEUs.
    """
    reject_misfit(graph, stage, code, lanes)
    builder = ProgramBuilder(
        graph, [((unit,), code[unit]) for unit in stage.units], constant_name, parts
    )
    writer = _Writer(lanes)
    emit_placed(graph, builder, writer, stage, code)
    empty = builder.program(((),))
    return PersistentProgram(
        lanes=tuple(map(tuple, writer.steps)),
        operators=tuple(writer.operators),
        kernels=empty.kernels,
        buffers=empty.buffers,
        units=empty.units,
        uses=empty.uses,
    )


class _Writer:
    """Records the phases of a builder as operators, each with those that it has to wait for.

    A reader waits for the last writer of a region, a writer for it and the readers since.
    """

    def __init__(self, lanes: int) -> None:
        self.steps: list[list[RTasks]] = [[] for _ in range(lanes)]
        self.operators: list[ROperator] = []
        self._before: list[int] = []
        self._writer: dict[int, int] = {}
        self._readers: dict[int, int] = {}

    def phase(
        self,
        launches: Sequence[tuple[int, Launch]],
        reads: Collection[int],
        writes: Collection[int],
    ) -> None:
        """Append an operator; see :meth:`tvm_ios.program.lane_writer.LaneWriter.phase`."""
        needed = 0
        for region in {*reads, *writes}:
            needed |= self._writer.get(region, 0)
        for region in writes:
            needed |= self._readers.get(region, 0)
        implied = 0
        for other in bits(needed):
            implied |= self._before[other]
        self._before.append(needed | implied)
        number, launch = len(self.operators), launches[0][1]
        waits = tuple(bits(needed & ~implied))
        self.operators.append(ROperator(launch.kernel, launch.buffers, launch.unit, waits))
        for lane, launch in launches:
            self.steps[lane].append(RTasks(number, launch.begin, launch.end))
        for region in reads:
            self._readers[region] = self._readers.get(region, 0) | 1 << number
        for region in writes:
            self._writer[region], self._readers[region] = 1 << number, 0
