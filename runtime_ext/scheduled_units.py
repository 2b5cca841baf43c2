"""The units of a scheduled module as data: functions, constants, and the place of each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime_ext.ir_form import ModuleError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.schedule import UNROLLED_FROM, Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy


@dataclass(frozen=True)
class ScheduledUnits:
    """The calls of a scheduled module's units as a graph, with the function of each call."""

    #: One operator for each call; a merged operator has several outputs.
    graph: OpGraph
    #: Stages of that graph; none is merged, because functions of merged units are one unit here.
    stages: tuple[Stage, ...]
    #: For each operator its Relax function.
    functions: tuple[Any, ...]
    #: For each operator TVM's constants of its parameters after the data, in the IR's layout.
    constants: tuple[tuple[Any, ...], ...]
    #: The schedule as JSON data, which an executable keeps.
    schedule: Mapping[str, Any]
    #: For each output of the graph that is a constant TVM's constant.
    constant_outputs: Mapping[int, Any]
    #: The model's names of its outputs, which may be one tensor twice, an input or a constant.
    output_names: tuple[str, ...]
    #: The name of the rKernel of each operator that is not computed by its default kernel.
    kernels: Mapping[int, str]
    #: For each operator that was measured alone its seconds on 1, 2, ... lanes.
    unit_latencies: Mapping[int, tuple[float, ...]]


def stages_of_calls(places: Sequence[tuple[int, int]], schedule: Schedule) -> tuple[Stage, ...]:
    """Return the stages of calls, given the stage and the group of each call.

    The schedule says whether a stage's groups are streams, whose calls are in launch order.
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
) -> tuple[Stage, ...]:
    """Return stages with the schedule's co-scheduled ones marked and placed.

    ``stages`` are those of the calls, as many as the schedule's; ``calls`` has the call of each
    unit that is called alone. Raise ModuleError if other units are called in a co-scheduled stage.
    """
    placed = list(stages)
    for number, stage in enumerate(schedule.stages):
        if stage.placement is None:
            continue
        units = [calls.get(unit, -1) for unit in stage.units]
        if number >= len(placed) or set(units) != set(placed[number].units):
            raise ModuleError(
                f"the units of the co-scheduled stage {number} are not those that the module calls "
                "there: schedule anew"
            )
        placement = tuple(replace(s, unit=calls.get(s.unit, -1)) for s in stage.placement)
        placed[number] = Stage(Strategy.CO_SCHEDULE, (tuple(units),), placement=placement)
    return tuple(placed)


def latencies_of_calls(
    schedule: Schedule, calls: Mapping[int, int]
) -> dict[int, tuple[float, ...]]:
    """Return the unit latencies of a schedule by call; merged units have none."""
    latencies = schedule.unit_latencies.items()
    return {calls[unit]: seconds for unit, seconds in latencies if unit in calls}


def require_lanes(schedule: Mapping[str, Any], lanes: int) -> None:
    """Raise ScheduleError if a schedule (JSON data) places instances on more lanes than given."""
    plan = Schedule.from_json(schedule.get(UNROLLED_FROM, schedule)).instances
    if plan is not None and plan.lanes > lanes:
        raise ScheduleError(f"the schedule is for more lanes than {lanes}: search again")
