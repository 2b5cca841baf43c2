"""Mixing of schedules: the fastest segments between points where they have run the same units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_ios.graph.op_graph import OpGraph, mask_of
from tvm_ios.schedule.instance_plan import InstancePlan, PlacedInstance, SplitSubGraph, regions
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


@dataclass(frozen=True, slots=True)
class Segment:
    """The stages of a schedule between two neighbouring points at which it can be cut.

    ``stages`` are numbers of stages, ``order`` the instances that run in them in the order of the
    schedule's plan, and ``done`` the bit set of the units that have run when the segment ends.
    """

    stages: tuple[int, ...]
    order: tuple[PlacedInstance, ...]
    done: int


def segments_of(schedule: Schedule) -> tuple[Segment, ...]:
    """Cut a valid schedule at each point at which all stages and sub-graphs begun have ended.

    That is after each stage outside sub-graphs; between sub-graphs, only if all instances of those
    before the point come before all instances of those after it.
    """
    plan = schedule.instances or InstancePlan((), ())
    owner = {unit: n for n, subgraph in enumerate(plan.subgraphs) for unit in subgraph.units}
    segments: list[Segment] = []
    done = 0
    for region in regions(plan, schedule.stages):
        inside = {owner.get(schedule.stages[stage].units[0]) for stage in region}
        order = [place for place in plan.order if place.subgraph in inside]
        begin, first = 0, 0
        for last, stage in enumerate(region):
            done |= schedule.stages[stage].mask
            complete = {n for n in inside if n is not None and not _mask(plan, n) & ~done}
            end = sum(place.subgraph in complete for place in order)
            begun = {owner.get(schedule.stages[s].units[0]) for s in region[: last + 1]} - {None}
            if begun <= complete and all(p.subgraph in complete for p in order[:end]):
                stages = tuple(region[begin : last + 1])
                segments.append(Segment(stages, tuple(order[first:end]), done))
                begin, first = last + 1, end
    return tuple(segments)


def _mask(plan: InstancePlan, subgraph: int) -> int:
    return mask_of(plan.subgraphs[subgraph].units)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule that was measured, and the seconds of each of its segments."""

    schedule: Schedule
    seconds: tuple[float, ...]


def mix(graph: OpGraph, candidates: Sequence[Candidate], policy: str) -> Schedule:
    """Join segments of valid schedules of a graph into the schedule with the least sum of times.

    Of equal sums, the one that changes between candidates least often is taken, then one that uses
    earlier candidates. The result names ``policy``.
    """
    segments = [segments_of(candidate.schedule) for candidate in candidates]
    edges: dict[int, list[tuple[int, int]]] = {}
    for number, segments_of_candidate in enumerate(segments):
        before = 0
        for place, segment in enumerate(segments_of_candidate):
            edges.setdefault(before, []).append((number, place))
            before = segment.done
    # For each set of units that have run, and each candidate whose segment ran last: the seconds,
    # the changes between candidates, and the segments.
    best: dict[int, dict[int, tuple[float, int, tuple[tuple[int, int], ...]]]] = {}
    best[0] = {-1: (0.0, 0, ())}
    for done in sorted(edges, key=int.bit_count):
        for number, place in edges[done]:
            after = best.setdefault(segments[number][place].done, {})
            for last, (seconds, changes, way) in best.get(done, {}).items():
                total = seconds + candidates[number].seconds[place]
                reached = (total, changes + (last != number), (*way, (number, place)))
                if number not in after or reached < after[number]:
                    after[number] = reached
    way = min(best[graph.all_operators].values())[2]
    chosen = [(candidates[number].schedule, segments[number][place]) for number, place in way]
    return joined(graph, chosen, policy)


def joined(graph: OpGraph, parts: Sequence[tuple[Schedule, Segment]], policy: str) -> Schedule:
    """Join consecutive segments of several schedules, each with its schedule, into one schedule."""
    stages = tuple(schedule.stages[n] for schedule, segment in parts for n in segment.stages)
    kernels: dict[int, str] = {}
    latencies: Mapping[int, tuple[float, ...]] = {}
    subgraphs: list[SplitSubGraph] = []
    order: list[PlacedInstance] = []
    for schedule, segment in parts:
        segment_units = {unit for n in segment.stages for unit in schedule.stages[n].units}
        kernels |= {unit: name for unit, name in schedule.kernels.items() if unit in segment_units}
        latencies = latencies or schedule.unit_latencies
        new: dict[int, int] = {}
        for number in sorted({place.subgraph for place in segment.order}):
            assert schedule.instances is not None
            new[number] = len(subgraphs)
            subgraphs.append(schedule.instances.subgraphs[number])
        order += [replace(place, subgraph=new[place.subgraph]) for place in segment.order]
    first = parts[0][0]
    return Schedule(
        graph.fingerprint,
        stages,
        policy,
        first.device,
        graph.batch,
        kernels=kernels,
        unit_latencies=latencies,
        instances=InstancePlan(tuple(subgraphs), tuple(order)) if subgraphs else None,
    ).with_latencies(())


def by_sub_graph(schedule: Schedule) -> Schedule:
    """Return a schedule whose instances run sub-graph by sub-graph, so that it has more cuts."""
    if schedule.instances is None:
        return schedule
    order = tuple(sorted(schedule.instances.order, key=lambda place: place.subgraph))
    return replace(schedule, instances=replace(schedule.instances, order=order))


def with_merges(schedule: Schedule, other: Schedule) -> Schedule:
    """Return a schedule with instances in which units are merged as in stages of another schedule.

    Only units of one sub-graph that have stages of their own are merged: they read the same tensor,
    so all of them can run where the first does. Both are valid schedules of one graph.
    """
    plan = schedule.instances or InstancePlan((), ())
    owner = {unit: n for n, subgraph in enumerate(plan.subgraphs) for unit in subgraph.units}
    alone = {stage.units[0] for stage in schedule.stages if len(stage.units) == 1}
    merge_of: dict[int, Stage] = {}
    for stage in other.stages:
        subgraphs = {owner.get(unit) if unit in alone else None for unit in stage.units}
        if stage.strategy is Strategy.MERGE and len(subgraphs) == 1 and None not in subgraphs:
            merge_of |= dict.fromkeys(stage.units, stage)
    stages: list[Stage] = []
    for stage in schedule.stages:
        joint_stage = merge_of.get(stage.units[0], stage)
        if joint_stage is not stage and joint_stage in stages:
            continue
        stages.append(joint_stage)
    merged = merge_of.keys()
    kernels = {unit: name for unit, name in schedule.kernels.items() if unit not in merged}
    return replace(schedule, stages=tuple(stages), kernels=kernels).with_latencies(())
