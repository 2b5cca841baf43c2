"""Event graphs say exactly what programs do, and of lowered ones with no event too many."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.cuda.event_graph import EventGraph, event_graph
from tests.fast_run import examples
from tests.program.arena.small_programs import programs
from tests.random_units import Case, cases
from tests.stress.programs import random_program
from tvm_ios.program.arena.planner import plan_memory
from tvm_ios.program.happens_before import check_races, ordered_launches
from tvm_ios.program.lower import lower
from tvm_ios.program.memory_plan import pieces
from tvm_ios.program.program import Launch, Program, Wait


def any_program() -> st.SearchStrategy[Program]:
    """Programs with too many waits, of random lanes, and as lowering writes them."""
    return st.one_of(
        programs(), st.integers(0, 1 << 30).map(lambda seed: random_program(Random(seed)))
    )


Place = tuple[int, int]


def happens_before(program: Program) -> set[tuple[Place, Place]]:
    return {
        ((other, n), (lane, finished - 1))
        for lane, finished, counts, _ in ordered_launches(program)
        for other, count in enumerate(counts)
        for n in range(count)
    }


def ordered(graph: EventGraph) -> set[tuple[Place, Place]]:
    edges = nx.DiGraph(graph.edges)
    edges.add_nodes_from(range(len(graph.nodes)))
    place = [(node.lane, node.number) for node in graph.nodes]
    return {(place[a], place[b]) for a, b in nx.transitive_closure_dag(edges).edges}


@examples(100)
@given(any_program())
def test_the_order_is_the_programs(program: Program) -> None:
    graph = event_graph(program)
    assert ordered(graph) == happens_before(program)
    assert all(a < b for a, b in graph.edges)
    launches = [(n, i) for n, lane in enumerate(program.lanes) for i in lane]
    assert sorted((x.lane, x.number) for x in graph.nodes) == [
        (lane, place)
        for lane, items in enumerate(program.lanes)
        for place, _ in enumerate(i for i in items if isinstance(i, Launch))
    ]
    assert {id(x.launch) for x in graph.nodes} == {
        id(i) for _, i in launches if isinstance(i, Launch)
    }


@examples(100)
@given(any_program())
def test_followers_wait_for_one_launch_of_their_stream(program: Program) -> None:
    graph = event_graph(program)
    before: dict[int, set[int]] = {}
    for a, b in graph.edges:
        before.setdefault(b, set()).add(a)
    expected = {
        b: a
        for b, (a, *others) in before.items()
        if not others and graph.nodes[a].lane == graph.nodes[b].lane
    }
    assert graph.followers == expected


@examples(100)
@given(cases(whole=True), st.integers(1, 6))
def test_every_event_is_needed(case: Case, lanes: int) -> None:
    graph = event_graph(lower(case.graph, case.schedule_on(lanes), case.code, lanes=lanes))
    order = ordered(graph)
    for number, node in enumerate(graph.nodes):
        for left_out in node.awaits:
            awaits = tuple(other for other in node.awaits if other != left_out)
            nodes = list(graph.nodes)
            nodes[number] = replace(node, awaits=awaits)
            assert ordered(replace(graph, nodes=tuple(nodes))) < order


@examples(100)
@given(any_program())
def test_runs_begin_and_end_on_the_origin(program: Program) -> None:
    graph = event_graph(program)
    edges = nx.DiGraph(graph.edges)
    edges.add_nodes_from(range(len(graph.nodes)))
    firsts = {n for n, x in enumerate(graph.nodes) if x.forks}
    on_origin = [n for n, x in enumerate(graph.nodes) if x.lane == graph.origin]
    begun = firsts | {n for n in on_origin[:1]}
    # Whatever waits for nothing waits for the begin, and all that forks needs to.
    assert {n for n in edges if not edges.in_degree(n)} == begun
    ended = {*graph.joins, *on_origin[-1:]}
    reached = ended.union(*(nx.ancestors(edges, n) for n in ended))
    assert reached == set(edges)
    for join in graph.joins:
        others = ended - {join}
        assert join not in others.union(*(nx.ancestors(edges, n) for n in others))


@examples(100)
@given(cases(whole=True), st.integers(1, 6))
def test_data_and_memory_are_ordered(case: Case, lanes: int) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, lanes=lanes)
    check_races(program)
    graph = event_graph(program)
    order = ordered(graph)
    plan = plan_memory(program).plan
    ranges, _ = pieces(program, plan)
    users = {
        buffer: [
            (x.lane, x.number)
            for x in graph.nodes
            if buffer in map(program.whole_of, x.launch.buffers)
        ]
        for buffer in plan.offsets
    }
    for a, b in itertools.combinations(plan.offsets, 2):
        if set(ranges[a]) & set(ranges[b]):
            pairs = list(itertools.product(users[a], users[b]))
            assert all((x, y) in order for x, y in pairs) or all((y, x) in order for x, y in pairs)
    for x, y in itertools.combinations(graph.nodes, 2):
        uses = program.uses
        writes_x = {x.launch.buffers[p] for p in uses[x.launch.kernel].writes}
        writes_y = {y.launch.buffers[p] for p in uses[y.launch.kernel].writes}
        if writes_x & {*y.launch.buffers} or writes_y & {*x.launch.buffers}:
            assert ((x.lane, x.number), (y.lane, y.number)) in order


@examples(100)
@given(cases(whole=True), st.integers(1, 6))
def test_lowering_launches_a_kernel_of_one_tile_once(case: Case, lanes: int) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, lanes=lanes)
    launches = [i for lane in program.lanes for i in lane if isinstance(i, Launch)]
    assert len(launches) == sum(len(code.calls) for code in case.code.values())
    assert {(i.begin, i.end) for i in launches} <= {(0, 1)}


def test_waits_for_other_lanes_are_events() -> None:
    def launch(unit: int) -> Launch:
        return Launch(0, (), 0, 1, unit)

    lanes = (
        (launch(0), Wait(0, 1), launch(1)),
        (Wait(0, 1), Wait(2, 0), launch(2)),
        (Wait(1, 1), launch(3), Wait(0, 2)),
        (),
    )
    graph = event_graph(Program(lanes, ("k",), (), tuple("abcd")))
    assert [node.awaits for node in graph.nodes] == [(), (), (0,), (2,)]
    assert [graph.nodes[n].lane for n in graph.joins] == [2]
    assert graph.origin == 0
    assert len(graph.recorded) == 3
    assert not any(node.forks for node in graph.nodes)
    assert event_graph(Program(((),), (), (), ())).nodes == ()
