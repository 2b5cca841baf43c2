from __future__ import annotations

import dataclasses
import math
import random

from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.random_dags import all_on_one_lane, dags, graph_of
from tests.refusals import refused
from tvm_ios.errors import SearchError
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.block import Block, block_key, cut_into_blocks
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.network import search_graph
from tvm_ios.policies.ios import IOS_POLICIES
from tvm_ios.schedule.stage import Stage


class CostByPlace:
    """Random seconds by strategy and the units' places in blocks of one size."""

    name = "by place"

    def __init__(self, seed: int, size: int) -> None:
        self.seed = seed
        self.size = size
        self.asked = 0

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        self.asked += 1
        places = sorted(unit % self.size for unit in stage.units)
        return random.Random(f"{self.seed} {stage.strategy} {places}").uniform(0.1, 1)


def twins(predecessors: tuple[int, ...], copies: int) -> tuple[OpGraph, list[int]]:
    """The same block again and again, each reading the exit of the one before."""
    size = len(predecessors) + 1
    tensors = [Tensor("input", (1, 4))]
    operators: list[Operator] = []
    for copy in range(copies):
        base = copy * size
        for unit, mask in enumerate((*predecessors, (1 << len(predecessors)) - 1)):
            inputs = [base + p + 1 for p in range(size) if mask >> p & 1] or [base]
            tensors.append(Tensor(f"t{base + unit}", (1, 4)))
            operators.append(
                Operator(f"unit {base + unit}", f"kind {unit}", tuple(inputs), (base + unit + 1,))
            )
    graph = OpGraph("twins", tuple(operators), tuple(tensors), (0,), (copies * size,))
    return graph, [((1 << size) - 1) << (copy * size) for copy in range(copies)]


@given(dags(5), st.integers(0, 2**32), st.sampled_from(sorted(IOS_POLICIES)))
@examples(40)
def test_equal_blocks_are_searched_once_with_the_same_result(
    predecessors: tuple[int, ...], seed: int, policy: str
) -> None:
    graph, blocks = twins(predecessors, 3)
    size = len(predecessors) + 1
    once, every = CostByPlace(seed, size), CostByPlace(seed, size)

    def always(_: OpGraph, units: tuple[int, ...]) -> bool:
        return True

    shown: list[tuple[int, int]] = []
    reused, statistics = search_graph(
        graph,
        blocks,
        once,
        IOS_POLICIES[policy].strategies,
        Pruning(),
        always,
        progress=lambda done, total: shown.append((done, total)),
    )
    separate, every_block = search_graph(
        graph, blocks, every, IOS_POLICIES[policy].strategies, Pruning(), always, reuse=False
    )
    assert reused.stages == separate.stages
    assert math.isclose(reused.latency, separate.latency)
    assert (statistics.blocks, statistics.blocks_searched, every_block.blocks_searched) == (
        3,
        1,
        3,
    )
    assert every_block.transitions == 3 * statistics.transitions
    assert every.asked == 3 * once.asked
    assert shown == [(1, 3), (2, 3), (3, 3)]
    all_on_one_lane(graph, reused).validate(graph)


def test_the_block_key_ignores_names_only() -> None:
    graph, blocks = twins((0, 0, 0b11), 2)
    first, second = (Block.of(graph, mask) for mask in blocks)
    assert block_key(graph, first) == block_key(graph, second)

    def changed(unit: int, **change: object) -> str:
        operators = list(graph.operators)
        operators[unit] = dataclasses.replace(operators[unit], **change)
        return block_key(dataclasses.replace(graph, operators=tuple(operators)), first)

    same = block_key(graph, first)
    assert changed(0, name="another") == same
    assert changed(0, kind="pool") != same
    assert changed(0, attrs={"strides": (2, 2)}) != same
    assert changed(0, flops=7) != same
    assert changed(2, inputs=(1,)) != same
    tensors = (*graph.tensors[:1], Tensor("t0", (1, 8)), *graph.tensors[2:])
    assert block_key(dataclasses.replace(graph, tensors=tensors), first) != same
    # Read outside as well: its buffer lives on.
    exposed = dataclasses.replace(graph, outputs=(*graph.outputs, 1))
    assert block_key(exposed, first) != same


def test_the_block_key_sees_which_outside_tensors_are_shared() -> None:
    tensors = (Tensor("a", (1,)), Tensor("b", (1,)), Tensor("x", (1,)), Tensor("y", (1,)))

    def graph(second: int) -> OpGraph:
        operators = (Operator("p", "conv", (0,), (2,)), Operator("q", "conv", (second,), (3,)))
        return OpGraph("two", operators, tensors, (0, 1), (2, 3))

    shared, apart = graph(0), graph(1)
    assert block_key(shared, Block.of(shared, 0b11)) != block_key(apart, Block.of(apart, 0b11))


def test_blocks_that_do_not_fit_are_refused() -> None:
    graph = graph_of([0, 0b1, 0b10])
    with refused(SearchError, "later block"):
        cut_into_blocks(graph, [0b010, 0b101])
    with refused(SearchError, "overlap"):
        cut_into_blocks(graph, [0b011, 0b110])
    with refused(SearchError, "'u2'"):
        cut_into_blocks(graph, [0b011])
    with refused(SearchError, "exist"):
        cut_into_blocks(graph, [0b1111])
