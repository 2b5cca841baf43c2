from __future__ import annotations

import math

from tvm_ios.costs.recorded import RecordedCost
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy

TENSORS = (Tensor("x", (1,)), Tensor("y", (1,)), Tensor("z", (1,)))
GRAPH = OpGraph(
    "two",
    (Operator("a", "conv", (0,), (1,)), Operator("b", "conv", (1,), (2,))),
    TENSORS,
    (0,),
    (2,),
)


def stage(*units: int) -> Stage:
    return Stage(Strategy.CONCURRENT, (units,))


def test_the_quietest_median_counts_and_what_is_missing_cannot_be_used() -> None:
    measurements = {"(0,)": [[3.0, 1.0, 9.0], [8.0, 8.0, 2.0]], "(1,)": [[2.0]]}
    cost = RecordedCost(measurements, lambda _, s: str(s.units))
    assert cost.stage_latency(GRAPH, stage(0)) == 3.0
    assert cost.stage_latency(GRAPH, stage(1)) == 2.0
    assert cost.stage_latency(GRAPH, stage(0, 1)) == math.inf
    measurements["(0, 1)"] = [[4.0]]
    assert cost.stage_latency(GRAPH, stage(0, 1)) == 4.0
