from __future__ import annotations

from tvm_ios.costs.stage_key import stage_key
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.streams import stage_of_streams

# a and b read x; c and d read y; e reads a's output, f reads c's; kinds repeat.
TENSORS = tuple(Tensor(name, (1,)) for name in ("x", "y", "ta", "tb", "tc", "td", "te", "tf"))
GRAPH = OpGraph(
    "wires",
    (
        Operator("a", "conv", (0,), (2,)),
        Operator("b", "pool", (0,), (3,)),
        Operator("c", "conv", (1,), (4,)),
        Operator("d", "pool", (1,), (5,)),
        Operator("e", "dense", (2,), (6,)),
        Operator("f", "dense", (4,), (7,)),
    ),
    TENSORS,
    (0, 1),
    (3, 5, 6, 7),
)


def key(*groups: tuple[int, ...], strategy: Strategy = Strategy.CONCURRENT, on: str = "2") -> str:
    return stage_key(GRAPH, Stage(strategy, groups), lambda g, u: g.operators[u].kind, on)


def test_equal_stages_share_a_key() -> None:
    assert key((0,), (1,)) == key((2,), (3,))
    assert key((0, 4)) == key((2, 5))
    assert key((0, 4), (3,)) == key((2, 5), (1,))
    assert key((0,), (1,)) == key((1,), (0,))


def test_the_order_of_launches_and_the_streams_make_a_difference() -> None:
    def streams(order: tuple[int, ...], **stream_of: int) -> str:
        numbers = {"abcdef".index(name): stream for name, stream in stream_of.items()}
        stage = stage_of_streams(order, numbers)
        return stage_key(GRAPH, stage, lambda g, u: g.operators[u].kind, "2")

    same = streams((0, 1, 4), a=0, b=1, e=0)
    assert streams((2, 3, 5), c=7, d=2, f=7) == same
    others = [
        streams((1, 0, 4), a=0, b=1, e=0),
        streams((0, 1, 4), a=0, b=1, e=1),
        streams((0, 1, 4), a=0, b=0, e=0),
        key((0, 4), (1,)),
    ]
    assert len({same, *others}) == 5


def test_wiring_units_strategy_and_conditions_make_a_difference() -> None:
    keys = [
        key((0,)),
        key((1,)),
        key((0,), (1,)),
        key((0,), (3,)),  # no shared input
        key((0,), (1,), strategy=Strategy.MERGE),
        key((0, 4)),
        key((0,), (4,)),
        key((0, 5)),  # a chain in time, not in data
        key((0,), on="3"),
    ]
    assert len(set(keys)) == len(keys)
