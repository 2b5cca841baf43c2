"""Searches that take equal branches for one find what all others find."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tvm_ios.ios.endings as endings_module
from tests.fast_run import examples
from tests.ios.brute_force import all_endings, all_states, groups_of
from tests.random_dags import all_on_one_lane, dags, graph_of
from tvm_ios.costs.named import costs_named
from tvm_ios.graph.branch_symmetry import BranchSymmetry
from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.ios.block import Block, block_symmetry
from tvm_ios.ios.dynamic_program import solve_space
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.endings import enumerate_endings
from tvm_ios.ios.memory_front import pareto_front
from tvm_ios.ios.network import search_graph
from tvm_ios.policies.ios import IOS_POLICIES
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

prunings = st.builds(Pruning, st.none() | st.integers(1, 3), st.none() | st.integers(1, 3))


@st.composite
def with_copies(draw: st.DrawFn, most: int = 9) -> OpGraph:
    """Graphs in which a random part is repeated between random others; sometimes twice over."""
    kinds: list[str] = []
    predecessors: list[int] = []

    def repeat(sources: int, depth: int) -> int:
        """Add copies of a part, and a unit that reads their ends; gives that unit's bit."""
        part = draw(dags(3))
        ends = 0
        part_kinds = [draw(st.sampled_from(["conv2d", "pool"])) for _ in part]
        nested = depth > 0 and draw(st.booleans())
        for _ in range(draw(st.integers(2, 3))):
            base = len(predecessors)
            for mask, kind in zip(part, part_kinds, strict=True):
                predecessors.append(mask << base or sources)
                kinds.append(kind)
            last = 1 << (len(predecessors) - 1)
            if nested:
                for _ in range(2):
                    predecessors.append(last)
                    kinds.append("relu")
                last = 0b11 << (len(predecessors) - 2)
            ends |= last
        predecessors.append(ends)
        kinds.append("concat")
        return 1 << (len(predecessors) - 1)

    end = repeat(0, 1)
    if draw(st.booleans()):
        repeat(end if draw(st.booleans()) else 0, 0)
    assume(len(predecessors) <= most)
    return graph_of(predecessors, kinds)


def automorphisms(graph: OpGraph) -> list[dict[int, int]]:
    """All permutations of units that keep kinds and edges."""
    wired = nx.DiGraph((p, u) for u in range(len(graph)) for p in bits(graph.predecessors[u]))
    wired.add_nodes_from((u, {"kind": op.kind}) for u, op in enumerate(graph.operators))
    matcher = nx.isomorphism.DiGraphMatcher(wired, wired, lambda a, b: bool(a["kind"] == b["kind"]))
    return list(matcher.isomorphisms_iter())


def moved(mask: int, permutation: dict[int, int]) -> int:
    return mask_of(permutation[unit] for unit in bits(mask))


class AlikeCost:
    """Random seconds for every stage; the same for stages that a permutation makes one another."""

    name = "alike"

    def __init__(self, graph: OpGraph, seed: int, ties: bool) -> None:
        self.permutations, self.seed, self.ties = automorphisms(graph), seed, ties

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        least = min(moved(stage.mask, permutation) for permutation in self.permutations)
        rng = random.Random(f"{self.seed} {stage.strategy} {least}")
        # Large stages are dear, so that schedules have several.
        each = float(rng.randint(1, 4)) if self.ties else rng.uniform(0.1, 1)
        return each * len(stage.units)


def generated(symmetry: BranchSymmetry | None, units: int) -> list[dict[int, int]]:
    """All permutations that exchanging equal branches gives."""
    swaps = [
        {**dict(zip(a, b, strict=True)), **dict(zip(b, a, strict=True))}
        for branches in (symmetry.classes if symmetry is not None else ())
        for a, b in itertools.pairwise(branches)
    ]
    found = {tuple(range(units))}
    frontier = list(found)
    for known in frontier:
        for swap in swaps:
            other = tuple(swap.get(unit, unit) for unit in known)
            if other not in found:
                found.add(other)
                frontier.append(other)
    return [dict(enumerate(permutation)) for permutation in found]


def orbits(things: Iterator[tuple[int, ...]], permutations: Sequence[dict[int, int]]) -> int:
    """How many of some bit sets, or tuples of them, no permutation makes one another."""
    return len(
        {min(tuple(moved(mask, p) for mask in thing) for p in permutations) for thing in things}
    )


@given(with_copies(), prunings, st.integers(0, 2**32), st.booleans(), st.booleans())
@examples(100)
def test_the_schedule_is_as_fast_as_without_symmetry(
    graph: OpGraph, pruning: Pruning, seed: int, ties: bool, budgeted: bool
) -> None:
    cost = AlikeCost(graph, seed, ties)
    strategies = IOS_POLICIES["ios-holistic"].strategies
    budget = 16 * (len(graph) - 1) if budgeted else None

    def find(*, as_one: bool):
        return search_graph(
            graph,
            [graph.all_operators],
            cost,
            strategies,
            pruning,
            lambda g, units: len({g.predecessors[u] for u in units}) == 1,
            branches_as_one=as_one,
            memory_budget=budget,
        )

    (found, few), (expected, all_of_them) = find(as_one=True), find(as_one=False)
    assert math.isclose(found.latency, expected.latency, rel_tol=1e-9)
    all_on_one_lane(graph, found).validate(graph)
    for stage, seconds in zip(found.stages, found.latencies, strict=True):
        assert seconds == cost.stage_latency(graph, stage)
    assert few.states is not None
    assert all_of_them.states is not None
    assert few.states <= all_of_them.states


@given(with_copies(7), prunings, st.integers(0, 2**32))
@examples(40)
def test_the_trades_of_latency_for_memory_are_those_without_symmetry(
    graph: OpGraph, pruning: Pruning, seed: int
) -> None:
    def front(*, as_one: bool) -> list[tuple[float, int]]:
        points = pareto_front(
            graph,
            [graph.all_operators],
            AlikeCost(graph, seed, ties=True),
            IOS_POLICIES["ios-parallel"].strategies,
            pruning,
            lambda *_: False,
            branches_as_one=as_one,
        )
        return [(point.schedule.latency, point.peak) for point in points]

    assert front(as_one=True) == front(as_one=False)


@given(with_copies(), prunings, st.booleans())
@examples(60)
def test_states_and_endings_are_the_orbits_of_all(
    graph: OpGraph, pruning: Pruning, few_pieces: bool
) -> None:
    symmetry = block_symmetry(graph, Block.of(graph, graph.all_operators), 0)
    permutations = generated(symmetry, len(graph))
    assert all(
        moved(graph.predecessors[unit], p) == graph.predecessors[image]
        and graph.operators[unit].kind == graph.operators[image].kind
        for p in permutations
        for unit, image in p.items()
    )
    with pytest.MonkeyPatch.context() as patch:
        if not few_pieces:
            patch.setattr(endings_module, "connected_pieces", lambda *_: None)
        space = enumerate_endings(graph.predecessors, pruning, symmetry=symmetry)
    endings = all_endings(graph.predecessors, pruning.r, pruning.s)
    states = ((state,) for state in all_states(graph.predecessors))
    assert len(space.states) == orbits(states, permutations)
    pairs = ((state, ending) for state, those in endings.items() for ending in those)
    assert space.transitions == orbits(pairs, permutations)
    used = ((ending,) for ending in set().union(*endings.values()))
    assert len(space.endings) == orbits(used, permutations)


@given(with_copies(), st.data())
@examples(100)
def test_parts_of_representatives_are_moved_to_what_they_represent(
    graph: OpGraph, data: st.DataObject
) -> None:
    symmetry = block_symmetry(graph, Block.of(graph, graph.all_operators), 0)
    assume(symmetry is not None)
    assert symmetry is not None
    state = data.draw(st.sampled_from(sorted(all_states(graph.predecessors))))
    representative = int(symmetry.representatives(np.array([state], np.uint64))[0])
    part = representative & data.draw(st.integers(0, graph.all_operators))
    result = symmetry.moved(state, part)
    assert any(
        (moved(representative, p), moved(part, p)) == (state, result)
        for p in generated(symmetry, len(graph))
    )


@pytest.mark.parametrize("device", ["v100", "cpu"])
@given(graph=with_copies(), data=st.data())
@examples(40)
def test_a_described_device_does_not_tell_equal_branches_apart(
    device: str, graph: OpGraph, data: st.DataObject
) -> None:
    costs = costs_named(device)
    assert costs.branches_alike
    assert costs.stages is not None
    symmetry = block_symmetry(graph, Block.of(graph, graph.all_operators), 0)
    endings = sorted(set().union(*all_endings(graph.predecessors).values()))
    ending = data.draw(st.sampled_from(endings))
    first, *others = (
        costs.stages.stage_latency(
            graph, Stage(Strategy.CONCURRENT, groups_of(graph.predecessors, moved(ending, p)))
        )
        for p in generated(symmetry, len(graph))
    )
    assert all(math.isclose(first, other, rel_tol=1e-9) for other in others)


def branches(count: int, length: int) -> OpGraph:
    """Chains between two units."""
    predecessors = [0]
    for _ in range(count):
        base = len(predecessors)
        predecessors += [1 << (base + place - 1) if place else 1 for place in range(length)]
    predecessors.append(mask_of(range(length, len(predecessors), length)))
    return graph_of(predecessors)


@pytest.mark.parametrize(("count", "length"), [(16, 1), (16, 3), (5, 4)])
def test_equal_chains_have_the_states_of_multisets(count: int, length: int) -> None:
    graph = branches(count, length)
    symmetry = block_symmetry(graph, Block.of(graph, graph.all_operators), 0)
    space = enumerate_endings(graph.predecessors, Pruning(1, 2), symmetry=symmetry)
    # The first unit has run, and not the last; or neither, or both.
    assert len(space.states) == math.comb(count + length, length) + 2


@given(st.integers(0, 2**32))
@examples(80)
def test_stages_of_equal_chains_follow_each_other(seed: int) -> None:
    graph = branches(3, 3)
    symmetry = block_symmetry(graph, Block.of(graph, graph.all_operators), 0)
    space = enumerate_endings(graph.predecessors, Pruning(3, 3), symmetry=symmetry)
    latency = np.random.default_rng(seed).random(len(space.endings)) * space.ending_sizes
    strategies = np.zeros(len(space.endings), np.int64)
    solution = solve_space(space, latency, strategies)
    Schedule(graph.fingerprint, solution.stages, policy="").validate(graph)


def test_branches_within_branches() -> None:
    # Two branches of a unit, three equal units and one that reads these.
    predecessors = [0, 1, 1, 1, 0b1110, 0, 1 << 5, 1 << 5, 1 << 5, 0b111 << 6, 1 << 4 | 1 << 9]
    graph = graph_of(predecessors)
    symmetry = block_symmetry(graph, Block.of(graph, graph.all_operators), 0)
    assert symmetry is not None
    assert [len(branches) for branches in symmetry.classes] == [3, 3, 2]
    space = enumerate_endings(predecessors, Pruning(2, 2), symmetry=symmetry)
    # Of one branch 1 + 4 + 1 states; of two equal ones C(6 + 1, 2); and the last unit.
    assert len(space.states) == math.comb(6 + 1, 2) + 1


def test_units_that_differ_are_not_exchanged() -> None:
    assert block_symmetry(graph_of([0, 0], ["conv2d", "pool"]), Block((0, 1), (0, 0)), 0) is None
    wired = graph_of([0, 0b1, 0b10, 0])
    assert block_symmetry(wired, Block.of(wired, wired.all_operators), 0) is None
    # One of two results is needed after the block.
    later = graph_of([0, 0, 0b11, 0b1])
    assert block_symmetry(later, Block.of(later, 0b0111), 0) is None
