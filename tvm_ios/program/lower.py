"""Lowering: from a schedule and the code of the units to a program of lanes.

Stages are laid out in order. A stage of one group runs its units one after another, each kernel's
tiles spread over all lanes. With no more groups than lanes every group has a team of lanes of its
own; with more groups than lanes each group has one lane and lanes take several groups. Streams are
such groups, whose units are laid out in the order of their launches; waits between them follow from
the data. A merge stage is one group whose code computes the outputs of all its units.

No barrier stands between stages, because the waits that the data needs imply the order; with
``barriers`` there is one, which is what IOS measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.lane_writer import LaneWriter
from tvm_ios.program.lanes import allocate_lanes
from tvm_ios.program.placed import emit_placed, reject_misfit
from tvm_ios.program.program import Part, Program, UnitCode
from tvm_ios.program.program_builder import (
    NO_PARTS,
    ConstantName,
    LoweringError,
    ProgramBuilder,
    work_name,
)
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.shapes.extent import hint_of

#: Seconds that a unit takes on a number of lanes.
UnitLatency = Callable[[int, int], float]

_NO_MERGES: Mapping[Stage, UnitCode] = MappingProxyType({})


def lower(
    graph: OpGraph,
    schedule: Schedule,
    code: Mapping[int, UnitCode],
    merged: Mapping[Stage, UnitCode] = _NO_MERGES,
    *,
    lanes: int,
    unit_latency: UnitLatency | None = None,
    barriers: bool = False,
    constant_name: ConstantName | None = None,
    parts: Mapping[int, Part] = NO_PARTS,
) -> Program:
    """Compile a schedule of a graph of units to a program.

    ``code`` has the code of each unit: its parameters are the unit's distinct data inputs in the
    unit's order, then any number of constants, then its outputs. ``merged`` has that of each merge
    stage of several units: the distinct data inputs that the units do not compute, in the order of
    first use, constants, and then the outputs of all units, unit by unit. A co-scheduled stage may
    have such code too, one kernel that follows its placement; the placement is then not read.

    With measured ``unit_latency``, teams of lanes are sized by it, and a unit that is fastest on
    fewer lanes than its team has takes only these; else teams are sized by the units' FLOPs and
    bytes. ``barriers`` puts a barrier of all lanes between stages. ``constant_name`` names
    constants, of which those of equal names share a buffer (default: ``unit name/parameter
    index``). ``parts`` has the place of each tensor that lies in another tensor's memory, by tensor
    number.

    Raise ScheduleError if the schedule does not fit the graph, LoweringError if the code does not
    fit the schedule.
    """
    schedule.validate(graph)
    return lower_stages(
        graph,
        schedule.stages,
        code,
        merged,
        lanes=lanes,
        unit_latency=unit_latency,
        barriers=barriers,
        constant_name=constant_name,
        parts=parts,
    )


def lower_stages(
    graph: OpGraph,
    stages: Sequence[Stage],
    code: Mapping[int, UnitCode],
    merged: Mapping[Stage, UnitCode] = _NO_MERGES,
    *,
    lanes: int,
    unit_latency: UnitLatency | None = None,
    barriers: bool = False,
    constant_name: ConstantName | None = None,
    parts: Mapping[int, Part] = NO_PARTS,
) -> Program:
    """Compile some stages, such as one that is to be measured; parameters as in :func:`lower`.

    Tensors that the stages read but do not produce become inputs of the program; their tensors that
    others read, and graph outputs, become its outputs.
    """
    if lanes < 1:
        raise LoweringError(f"a program needs at least one lane, not {lanes}")
    groups = [_work_groups(graph, stage, code, merged) for stage in stages]
    work = [
        item
        for stage, stage_groups in zip(stages, groups, strict=True)
        for _, item in _in_launch_order(stage, enumerate(stage_groups))
    ]
    builder = ProgramBuilder(graph, work, constant_name, parts)
    writer = LaneWriter(lanes)
    for stage, stage_groups in zip(stages, groups, strict=True):
        if stage.strategy is Strategy.CO_SCHEDULE and stage not in merged:
            reject_misfit(graph, stage, code, lanes)
            emit_placed(graph, builder, writer, stage, code)
        else:
            teams = group_teams(graph, stage, len(stage_groups), lanes, unit_latency)
            for team, (units, unit_code) in _in_launch_order(
                stage, zip(teams, stage_groups, strict=True)
            ):
                width = team_width(units, len(team), unit_latency)
                builder.emit(writer, units, unit_code, team[:width])
        if barriers:
            writer.barrier()
    return builder.program(writer.lanes())


def recorded_latency(
    stages: Sequence[Stage], recorded: Mapping[int, Sequence[float]], lanes: int
) -> UnitLatency | None:
    """Return the unit latencies that a schedule records, as :func:`lower_stages` takes them.

    ``recorded`` has for measured units the seconds on 1, 2, ... lanes. Return None if that does not
    say how the groups of some stage are to share the lanes.
    """
    complete = {unit: seconds for unit, seconds in recorded.items() if len(seconds) >= lanes}
    # As many groups as lanes have one lane each, whatever their times.
    shared = (stage for stage in stages if len(stage.groups) not in (1, lanes))
    if not complete or any(unit not in complete for stage in shared for unit in stage.units):
        return None

    def latency(unit: int, count: int) -> float:
        # Merged units have a stage of their own, on all lanes: they were not timed on fewer.
        return complete[unit][count - 1] if unit in complete else 1 / count

    return latency


#: Units that one code computes together, and the code.
_Work = tuple[tuple[int, ...], UnitCode]
_OfGroup = TypeVar("_OfGroup")


def _work_groups(
    graph: OpGraph, stage: Stage, code: Mapping[int, UnitCode], merged: Mapping[Stage, UnitCode]
) -> tuple[tuple[_Work, ...], ...]:
    if stage in merged:
        return (((stage.units, merged[stage]),),)
    if stage.strategy is Strategy.MERGE and len(stage.groups) > 1:
        raise LoweringError(f"merged unit {work_name(graph, stage.units)!r} has no code")
    for unit in stage.units:
        if unit not in code:
            raise LoweringError(f"unit {graph.operators[unit].name!r} has no code")
    return tuple(tuple(((unit,), code[unit]) for unit in group) for group in stage.groups)


def _in_launch_order(
    stage: Stage, groups: Iterable[tuple[_OfGroup, tuple[_Work, ...]]]
) -> list[tuple[_OfGroup, _Work]]:
    """Return the work of a stage with the value given for its group, in the order of launches."""
    listed = [(given, item) for given, group in groups for item in group]
    if stage.order:
        place = {unit: number for number, unit in enumerate(stage.order)}
        listed.sort(key=lambda pair: place[pair[1][0][0]])
    return listed


def group_teams(
    graph: OpGraph, stage: Stage, groups: int, lanes: int, unit_latency: UnitLatency | None
) -> Sequence[tuple[int, ...]]:
    """Return, for each group, the lanes that it runs on."""
    if groups == 1:
        return (tuple(range(lanes)),)

    def assumed(unit: int, count: int) -> float:
        return hint_of(graph.operators[unit].flops + graph.operator_bytes(unit)) / count

    latency = unit_latency or assumed
    return allocate_lanes(
        [
            [sum(latency(unit, count) for unit in group) for count in range(1, lanes + 1)]
            for group in stage.groups
        ],
        lanes,
    )


def team_width(units: tuple[int, ...], team: int, unit_latency: UnitLatency | None) -> int:
    """Return the number of lanes of its team that a unit takes: the fewest that are fastest."""
    unit, *others = units
    if unit_latency is None or others:
        return team
    return min(range(1, team + 1), key=lambda lanes: unit_latency(unit, lanes))
