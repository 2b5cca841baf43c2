"""The policy ``heft``: critical-path list scheduling (Topcuoglu et al., IEEE TPDS 13(3), 2002).

HEFT takes tasks by upward rank, the length of the longest path from a task to the end, and puts
each on the processor where it ends first, in a gap between others if it fits there (the
insertion-based policy). Here a task is a unit and a processor a lane of a CPU or a stream of a
GPU; lanes share their memory, so that nothing is communicated.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from tvm_ios.costs.costs import Offer
from tvm_ios.graph.op_graph import bits
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.streams import stage_of_streams
from tvm_ios.schedule.waves import waves


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """The time, in seconds, at which a task runs, and the processor it runs on."""

    begin: float
    end: float
    task: int
    processor: int


def heft(
    costs: Sequence[Sequence[float]], communication: Mapping[tuple[int, int], float]
) -> tuple[Slot, ...]:
    """Place tasks on processors (HEFT, figure 2) and return one slot a task, in the order of tasks.

    ``costs`` are for each task, in topological order, its seconds on each processor.
    ``communication`` is for each edge the seconds from the end of the first task to the start of
    the second if they run on different processors.
    """
    ranks = upward_ranks(costs, communication)
    sources: dict[int, dict[int, float]] = {}
    for (source, task), delay in communication.items():
        sources.setdefault(task, {})[source] = delay
    slots: dict[int, Slot] = {}
    processors: list[list[Slot]] = [[] for _ in costs[0]] if costs else []
    # A task's rank is no less than those of its readers, which have higher numbers.
    for task in sorted(range(len(costs)), key=lambda task: (-ranks[task], task)):
        choices: list[tuple[float, int, float]] = []
        for processor, seconds in enumerate(costs[task]):
            ready = 0.0
            for source, delay in sources.get(task, {}).items():
                there = slots[source].processor == processor
                ready = max(ready, slots[source].end + (0.0 if there else delay))
            begin = _earliest(processors[processor], ready, seconds)
            choices.append((begin + seconds, processor, begin))
        end, processor, begin = min(choices)
        slots[task] = Slot(begin, end, task, processor)
        insort(processors[processor], slots[task])
    return tuple(slots[task] for task in range(len(costs)))


def upward_ranks(
    costs: Sequence[Sequence[float]], communication: Mapping[tuple[int, int], float]
) -> list[float]:
    """Return for each task the length of the longest path from its start to the end (equation 8).

    The arguments are those of :func:`heft`; a task's costs are averaged over the processors.
    """
    after = [0.0] * len(costs)
    ranks = [0.0] * len(costs)
    edges: dict[int, list[tuple[int, float]]] = {}
    for (source, task), delay in communication.items():
        edges.setdefault(task, []).append((source, delay))
    for task in reversed(range(len(costs))):
        ranks[task] = fmean(costs[task]) + after[task]
        for source, delay in edges.get(task, ()):
            after[source] = max(after[source], delay + ranks[task])
    return ranks


def _earliest(slots: Sequence[Slot], ready: float, seconds: float) -> float:
    """Return the earliest second at which a task can begin: in a long enough gap, or at the end."""
    free = ready
    for slot in slots:
        if free + seconds <= slot.begin:
            return free
        free = max(free, slot.end)
    return free


def heft_schedule(request: Request) -> Schedule:
    """Return one stage of streams: each unit on the lane where HEFT places it, by start time."""
    graph = request.problem.units
    seconds, lanes = _seconds_of_units(request)
    edges = {(p, unit): 0.0 for unit in range(len(graph)) for p in bits(graph.predecessors[unit])}
    slots = heft([[each] * lanes for each in seconds], edges)
    order = sorted(range(len(graph)), key=lambda unit: (slots[unit].begin, unit))
    stage = stage_of_streams(order, {unit: slots[unit].processor for unit in order})
    return request.problem.schedule((stage,))


def _seconds_of_units(request: Request) -> tuple[list[float], int]:
    """Return the seconds of each unit on one lane, and the number of lanes.

    Where lanes are threads, units were timed on one of them. Where they are streams, whose number
    is free, the seconds are those of a unit alone on the device, and there is one stream for each
    unit of the widest wave.
    """
    graph, costs = request.problem.units, request.costs
    if costs.measuring is not None:
        costs.measuring.bounds(request.progress)
    on_lanes = costs.completed(sequential_schedule(graph)).unit_latencies
    if len(on_lanes) == len(graph):
        return [on_lanes[unit][0] for unit in range(len(graph))], len(on_lanes[0])
    alone = [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(len(graph))]
    widest = max(map(len, waves(graph.predecessors, range(len(graph)))))
    return [request.stages.stage_latency(graph, stage) for stage in alone], widest


def find(request: Request) -> Found:
    """Return HEFT's schedule of the whole graph."""
    return Found(heft_schedule(request))


HEFT = Policy(
    "heft",
    "critical-path list scheduling: each unit whole, where it ends first",
    find,
    needs=frozenset({Offer.STAGES}),
    tried=False,
)
