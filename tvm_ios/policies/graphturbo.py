"""The policy ``graphturbo``: of several splits of sub-graphs into instances, the fastest measured.

An instance is a part of a batch or of an image that runs through a sub-graph by itself. It gains
because its tensors are still in the cache of its lane, which no stage measured alone would show:
whole programs are built and timed in turn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tvm_ios.clock import OutOfTimeError
from tvm_ios.costs.costs import Offer
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graphturbo.policy import choose_instances, schedule_on_lanes
from tvm_ios.graphturbo.worth import lane_capacities
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.policies.program_comparison import Deadline, ProgramComparison
from tvm_ios.schedule.schedule import Schedule

#: A capacity that fits any instance: then each lane runs its part of the batch from start to end.
_EVERYTHING = 1 << 60


def find(request: Request) -> Found:
    """Return the fastest split into instances, or the sequential schedule if none can gain."""
    deadline = Deadline(request.limits.budget.time_limit)
    programs = ProgramComparison(request)
    splits = _splits(request, programs, deadline)
    if not splits:
        answer = programs.answer(request.found("sequential").schedule, splits, deadline)
        return replace(answer, why_not="no split into instances is expected to gain")
    return programs.answer(programs.fastest(splits), splits, deadline)


GRAPHTURBO = Policy(
    "graphturbo",
    "sub-graphs split into instances that stay in a lane's cache",
    find,
    needs=frozenset({Offer.PROGRAMS}),
)


class _Split(NamedTuple):
    """Arguments of :func:`choose_instances` that say how sub-graphs are split."""

    capacity: int | None
    axes: tuple[int, ...]
    least_factor: int
    device: MemoryHierarchy | None


def _splits(request: Request, programs: ProgramComparison, deadline: Deadline) -> list[Schedule]:
    """Return schedules with instances that can be built, each by another way to split.

    The first is the best one by a model of the caches, which may split rows of images too. The
    others split the batch so that instances fit into caches of several sizes, whatever the model
    predicts.
    """
    lanes, hierarchy = programs.costs.lanes, programs.costs.hierarchy
    predicted = _Split(None, (0, 2), 1, hierarchy)
    batch = request.problem.units.batch
    sizes = (*lane_capacities(hierarchy)[::2], _EVERYTHING) if batch > 1 else ()
    measured = [
        _Split(size, (0,), least, None) for least in dict.fromkeys((lanes, 1)) for size in sizes
    ]
    schedules: dict[Schedule, None] = {}
    for split in (predicted, *measured):
        if deadline.spent():
            break
        try:
            schedule = _split_schedule(request, split, lanes, deadline)
        except OutOfTimeError:
            break
        if schedule.instances is not None and programs.builds(schedule):
            schedules[schedule] = None
    return list(schedules)


def _split_schedule(request: Request, split: _Split, lanes: int, deadline: Deadline) -> Schedule:
    def report(done: int, total: int) -> bool:
        request.progress(f"{request.policy}: splitting", done, total)
        return not deadline.spent()

    operators, units = request.problem.operators, request.problem.units
    assert operators is not None, "what builds programs knows the operators"
    instances = choose_instances(
        operators,
        units,
        lanes=lanes,
        capacity=split.capacity,
        axes=split.axes,
        least_factor=split.least_factor,
        device=split.device,
        report=report,
    )
    return schedule_on_lanes(units, instances, lanes)
