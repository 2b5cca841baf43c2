from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.random_dags import dags, graph_of
from tvm_ios.graph.op_graph import bits
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages
from tvm_ios.schedule.stage_order import in_graph_order


def alone(*units: int) -> tuple[Stage, ...]:
    return tuple(Stage(Strategy.CONCURRENT, ((unit,),)) for unit in units)


def test_a_chain_is_finished_before_the_next_begins() -> None:
    """Two layers of two steps each, found step by step."""
    graph = graph_of((0b0, 0b1, 0b1, 0b110))
    assert in_graph_order(graph, alone(0, 2, 1, 3)) == alone(0, 1, 2, 3)


def test_inputs_come_first() -> None:
    graph = graph_of((0b0, 0b0, 0b10))
    together = Stage(Strategy.CONCURRENT, ((0,), (2,)))
    assert in_graph_order(graph, (*alone(1), together)) == (*alone(1), together)


@given(dags(9), st.integers(0, 2**32))
@examples(60)
def test_any_order_becomes_one_that_can_run(predecessors: tuple[int, ...], seed: int) -> None:
    graph = graph_of(predecessors)
    rng = random.Random(seed)
    left = set(range(len(predecessors)))
    stages: list[Stage] = []
    while left:
        ready = [u for u in left if not any(p in left for p in bits(predecessors[u]))]
        taken = rng.sample(ready, rng.randint(1, len(ready)))
        stages.append(Stage(Strategy.CONCURRENT, tuple((u,) for u in taken)))
        left -= set(taken)
    ordered = in_graph_order(graph, stages)
    Schedule(graph.fingerprint, ordered, "any").validate(graph)
    assert sorted(s.units for s in ordered) == sorted(s.units for s in stages)
    assert in_graph_order(graph, ordered) == ordered
    if all(len(stage.units) == 1 for stage in stages):
        assert ordered == sequential_stages(graph)
