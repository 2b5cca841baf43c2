"""HEFT, Nimble and Opara: their papers' examples, and brute force on small graphs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_dags import dags, graph_of
from tvm_ios.costs.costs import Costs, costs_of_model
from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.policies.heft import Slot, heft, upward_ranks
from tvm_ios.policies.nimble import assign_streams, least_predecessors, nimble_schedule
from tvm_ios.policies.opara import allocate_streams, launch_order, opara_schedule
from tvm_ios.policies.policy import Problem
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.streams import stage_of_streams, synchronisations
from tvm_ios.search import search

#: HEFT's example (figure 1): times of ten tasks on three processors, and of their messages.
COSTS = (
    (14, 16, 9),
    (13, 19, 18),
    (11, 13, 19),
    (13, 8, 17),
    (12, 13, 10),
    (13, 16, 9),
    (7, 15, 11),
    (5, 11, 14),
    (18, 12, 20),
    (21, 7, 16),
)
MESSAGES = {
    **{(0, 1): 18, (0, 2): 12, (0, 3): 9, (0, 4): 11, (0, 5): 14, (1, 7): 19, (1, 8): 16},
    **{(2, 6): 23, (3, 7): 27, (3, 8): 23, (4, 8): 13, (5, 7): 15, (6, 9): 17, (7, 9): 11},
    (8, 9): 13,
}


def test_heft_gives_the_schedule_of_its_papers_example() -> None:
    ranks = [108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert upward_ranks(COSTS, MESSAGES) == pytest.approx(ranks, abs=1e-3)
    slots = heft(COSTS, MESSAGES)
    assert max(slot.end for slot in slots) == 80
    on_third = sorted(slot for slot in slots if slot.processor == 2)
    assert [(slot.task, slot.begin) for slot in on_third] == [(0, 0), (2, 9), (4, 28), (6, 38)]


def test_heft_fills_gaps() -> None:
    # Task 0 ends at 4 and its message arrives at 7; task 2, of no predecessor, fits in between.
    slots = heft([[4, 9], [9, 5], [9, 3]], {(0, 1): 3.0})
    assert (slots[1], slots[2]) == (Slot(7, 12, 1, 1), Slot(0, 3, 2, 1))


@st.composite
def tasks(draw: st.DrawFn) -> tuple[list[list[int]], dict[tuple[int, int], float]]:
    """Times of tasks on processors, also none, and of messages."""
    predecessors = draw(dags(6))
    processors = draw(st.integers(1, 3))
    times = st.lists(st.integers(0, 6), min_size=processors, max_size=processors)
    costs = draw(st.lists(times, min_size=len(predecessors), max_size=len(predecessors)))
    edges = [(p, task) for task, mask in enumerate(predecessors) for p in bits(mask)]
    return costs, {edge: float(draw(st.integers(0, 4))) for edge in edges}


@given(tasks())
def test_heft_takes_tasks_by_rank_and_ends_each_as_early_as_can_be(
    given_tasks: tuple[list[list[int]], dict[tuple[int, int], float]],
) -> None:
    costs, messages = given_tasks
    slots, ranks = heft(costs, messages), upward_ranks(costs, messages)
    placed: list[Slot] = []
    for task in sorted(range(len(costs)), key=lambda task: (-ranks[task], task)):
        # Times are whole numbers, so each begin can be tried.
        ends = [
            (begin + seconds, processor)
            for processor, seconds in enumerate(costs[task])
            for begin in range(200)
            if is_free(placed, processor, begin, begin + seconds)
            and begin >= ready(placed, messages, task, processor)
        ]
        assert (slots[task].end, slots[task].processor) == min(ends)
        assert slots[task].end - slots[task].begin == costs[task][slots[task].processor]
        placed.append(slots[task])


def is_free(placed: Sequence[Slot], processor: int, begin: float, end: float) -> bool:
    """Whether nothing else runs there; what takes no time is in nobody's way."""
    return all(
        slot.end <= begin or end <= slot.begin for slot in placed if slot.processor == processor
    )


def ready(
    placed: Sequence[Slot], messages: dict[tuple[int, int], float], task: int, processor: int
) -> float:
    return max(
        (
            slot.end + (0 if slot.processor == processor else messages[slot.task, task])
            for slot in placed
            if (slot.task, task) in messages
        ),
        default=0.0,
    )


class OneSecond:
    name = "a second a unit"

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        return 1.0


def on_two_lanes(schedule: Schedule) -> Schedule:
    """As costs do that have timed units on lanes."""
    units = {unit for stage in schedule.stages for unit in stage.units}
    return replace(schedule, unit_latencies=dict.fromkeys(units, (1.0, 0.5)))


@given(dags(8), st.booleans())
def test_heft_uses_lanes_that_were_timed_or_streams_as_the_graph_is_wide(
    predecessors: tuple[int, ...], timed: bool
) -> None:
    graph = graph_of(predecessors)
    costs: Costs = costs_of_model(OneSecond())
    if timed:
        costs = replace(costs, completed=on_two_lanes)
    (stage,) = search(Problem.of(graph, 40), "heft", costs).schedule.stages
    unlimited = len(graph) if not timed else 2
    assert stage.strategy is Strategy.STREAMS
    assert len(stage.groups) <= unlimited
    if not timed:
        # As many streams as are of use: no unit waits but for what it reads.
        level = [0] * len(graph)
        for unit in range(len(graph)):
            level[unit] = 1 + max((level[p] for p in bits(predecessors[unit])), default=0)
        assert makespan(graph, stage) == max(level)


def makespan(graph: OpGraph, stage: Stage) -> int:
    """Of units of a second each."""
    ends: dict[int, int] = {}
    for unit in stage.order:
        group = next(group for group in stage.groups if unit in group)
        before = [*bits(graph.predecessors[unit]), *group[: group.index(unit)]]
        ends[unit] = 1 + max((ends[u] for u in before), default=0)
    return max(ends.values())


def partitions(units: Sequence[int]) -> Iterator[list[list[int]]]:
    """All ways to put units on streams."""
    if not units:
        yield []
        return
    *others, last = units
    for parts in partitions(others):
        yield [*parts, [last]]
        for place in range(len(parts)):
            yield [*parts[:place], [*parts[place], last], *parts[place + 1 :]]


def is_concurrent(graph: OpGraph, stream_of: dict[int, int]) -> bool:
    """Maximum logical concurrency: units on one stream have a path between them."""
    return all(
        stream_of[a] != stream_of[b] or graph.ancestors[b] >> a & 1
        for b in range(len(graph))
        for a in range(b)
    )


def waits_of(graph: OpGraph, stream_of: dict[int, int]) -> int:
    stage = stage_of_streams(range(len(graph)), stream_of)
    return sum(map(len, synchronisations(graph, stage).values()))


@given(dags(6))
def test_nimble_has_the_fewest_waits_of_all_that_are_as_concurrent(
    predecessors: tuple[int, ...],
) -> None:
    graph = graph_of(predecessors)
    streams = assign_streams(graph)
    assert is_concurrent(graph, streams)
    choices = [
        {unit: number for number, part in enumerate(parts) for unit in part}
        for parts in partitions(range(len(graph)))
    ]
    waits = {waits_of(graph, choice) for choice in choices if is_concurrent(graph, choice)}
    assert waits_of(graph, streams) == min(waits)
    # Theorem 2: edges of the minimum equivalent graph less those of the matching.
    edges = sum(least_predecessors(graph, unit).bit_count() for unit in range(len(graph)))
    matched = len(graph) - len(set(streams.values()))
    assert waits_of(graph, streams) == edges - matched


@given(dags(6))
def test_nimbles_streams_are_the_fewest_paths_that_cover_the_least_edges(
    predecessors: tuple[int, ...],
) -> None:
    graph = graph_of(predecessors)
    least = [least_predecessors(graph, unit) for unit in range(len(graph))]
    assert [mask_of(_reached(least, unit)) for unit in range(len(graph))] == list(graph.ancestors)
    fewest = min(
        len(parts)
        for parts in partitions(range(len(graph)))
        if all(least[b] >> a & 1 for part in parts for a, b in pairwise(part))
    )
    assert len(set(assign_streams(graph).values())) == fewest


def _reached(least: Sequence[int], unit: int) -> set[int]:
    return {s for p in bits(least[unit]) for s in (p, *_reached(least, p))}


@given(dags(8))
def test_opara_follows_an_input_that_nothing_follows_yet(predecessors: tuple[int, ...]) -> None:
    graph = graph_of(predecessors)
    stream_of = allocate_streams(graph)
    followed: set[int] = set()
    for unit in range(len(graph)):
        free = [p for p in bits(predecessors[unit]) if p not in followed]
        followed |= set(free[:1])
        assert stream_of[unit] == (stream_of[free[0]] if free else unit)
    # So a stream is a path, and what is on it could not have run at once.
    assert is_concurrent(graph, stream_of)
    assert sorted(launch_order(graph)) == list(range(len(graph)))


def test_opara_launches_arithmetic_and_memory_in_turn_the_least_demanding_first() -> None:
    graph = graph_of([0] * 5)
    sizes, flops = (8, 4, 2, 6, 1), (8 * 64, 4 * 64, 2 * 64, 6, 1)
    graph = replace(
        graph,
        tensors=(
            graph.tensors[0],
            *(replace(t, shape=(n,)) for t, n in zip(graph.tensors[1:], sizes, strict=True)),
        ),
        operators=tuple(replace(op, flops=f) for op, f in zip(graph.operators, flops, strict=True)),
    )
    assert launch_order(graph) == [2, 4, 1, 3, 0]


@given(dags(8))
def test_their_schedules_are_valid(predecessors: tuple[int, ...]) -> None:
    graph = graph_of(predecessors)
    for schedule in (nimble_schedule(graph), opara_schedule(graph)):
        schedule.validate(graph)
        assert [stage.strategy for stage in schedule.stages] == [Strategy.STREAMS]


@pytest.mark.parametrize("policy", ["heft", "nimble", "opara"])
def test_streams_of_a_chain_are_the_sequential_program(policy: str) -> None:
    from tvm_ios.costs.named import costs_named

    graph = graph_of([0, 0b1, 0b10, 0b100])
    problem, costs = Problem.of(graph, 40), costs_named("v100")
    (stage,) = search(problem, policy, costs).schedule.stages
    assert stage.groups == ((0, 1, 2, 3),)
    assert costs.stages is not None
    alone = sum(costs.stages.stage_latency(graph, s) for s in sequential_schedule(graph).stages)
    assert math.isclose(costs.stages.stage_latency(graph, stage), alone)
