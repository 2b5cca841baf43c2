"""The units of a scheduled module as data: functions, constants, and the place of each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime_ext.ir_form import ModuleError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.placement import Placement
from tvm_ios.schedule.schedule import UNROLLED_FROM, Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy


@dataclass(frozen=True)
class ScheduledUnits:
    """The calls of units as a graph, with what each call runs.

    Attributes
    ----------
    graph
        One operator a call; a merged operator has several outputs.
    stages
        Stages of that graph; none is merged, because functions of merged units are one unit here.
    placements
        For the place in ``stages`` of each co-scheduled one where its rTasks run.
    functions
        For each operator its Relax function.
    constants
        For each operator TVM's constants of its parameters after the data, in the IR's layout.
    schedule
        The schedule as plain data, which an executable keeps.
    constant_outputs
        For each output of the graph that is a constant TVM's constant.
    output_names
        The model's names of its outputs, which may be one tensor twice, an input or a constant.
    kernels
        For each operator that does not run in its usual way the name of its rKernel.
    unit_latencies
        For each operator that was measured alone its seconds on 1, 2, ... lanes.
    """

    graph: OpGraph
    stages: tuple[Stage, ...]
    placements: Mapping[int, Placement]
    functions: tuple[Any, ...]
    constants: tuple[tuple[Any, ...], ...]
    schedule: Mapping[str, Any]
    constant_outputs: Mapping[int, Any]
    output_names: tuple[str, ...]
    kernels: Mapping[int, str]
    unit_latencies: Mapping[int, tuple[float, ...]]


def stages_of_calls(places: Sequence[tuple[int, int]], schedule: Schedule) -> tuple[Stage, ...]:
    """The stages of calls, of which each has a stage and a group.

    Parameters
    ----------
    places
        For each call its stage and group.
    schedule
        The schedule of the units, which says whether the groups of a stage are streams; these are
        called in the order of their launches.
    """
    groups_by_stage: dict[int, dict[int, list[int]]] = {}
    for call, (stage, group) in enumerate(places):
        groups_by_stage.setdefault(stage, {}).setdefault(group, []).append(call)
    stages: list[Stage] = []
    for number, calls in sorted(groups_by_stage.items()):
        groups = tuple(tuple(calls[group]) for group in sorted(calls))
        if number < len(schedule.stages) and schedule.stages[number].order:
            launched = tuple(sorted(call for group in groups for call in group))
            stages.append(Stage(Strategy.STREAMS, groups, launched))
        else:
            stages.append(Stage(Strategy.CONCURRENT, groups))
    return tuple(stages)


def placed_stages(
    stages: Sequence[Stage], schedule: Schedule, calls: Mapping[int, int]
) -> tuple[tuple[Stage, ...], dict[int, Placement]]:
    """The stages, those that the schedule co-schedules as such, and the placements of these.

    Parameters
    ----------
    stages
        The stages of the calls.
    schedule
        The schedule of the units, with the same stages.
    calls
        For each unit that is called alone its call.

    Raises
    ------
    ModuleError
        If other units are called in a co-scheduled stage.
    """
    placed = list(stages)
    placements: dict[int, Placement] = {}
    for stage, shares in schedule.placements.items():
        units = [calls.get(unit, -1) for unit in schedule.stages[stage].units]
        if stage >= len(placed) or set(units) != set(placed[stage].units):
            raise ModuleError(
                f"the units of the co-scheduled stage {stage} are not those that the module calls "
                "there: schedule anew"
            )
        placed[stage] = Stage(Strategy.CO_SCHEDULE, (tuple(units),))
        placements[stage] = tuple(
            replace(share, unit=calls.get(share.unit, -1)) for share in shares
        )
    return tuple(placed), placements


def latencies_of_calls(
    schedule: Schedule, calls: Mapping[int, int]
) -> dict[int, tuple[float, ...]]:
    """The unit latencies of a schedule by call; merged units have none."""
    latencies = schedule.unit_latencies.items()
    return {calls[unit]: seconds for unit, seconds in latencies if unit in calls}


def require_lanes(schedule: Mapping[str, Any], lanes: int) -> None:
    """Refuse to build for fewer lanes than a schedule, as plain data, has placed instances on.

    Raises
    ------
    ScheduleError
        If it has placed instances on more lanes.
    """
    plan = Schedule.from_json(schedule.get(UNROLLED_FROM, schedule)).instances
    if plan is not None and plan.lanes > lanes:
        raise ScheduleError(f"the schedule is for more lanes than {lanes}: search again")
