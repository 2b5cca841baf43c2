"""Persistent kernels are kept only where they take less than the same units on streams."""

from __future__ import annotations

from tests.graph_sketch import GraphSketch
from tvm_ios.rammer.streams import with_streams
from tvm_ios.schedule.placement import Share
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


def test_the_faster_one_is_kept() -> None:
    sketch = GraphSketch()
    first = sketch.op("relu", 0)
    last = sketch.op("relu", sketch.op("relu", first))
    graph = sketch.graph(last)
    both = (Share(0, 0, 0, 0, 1), Share(1, 0, 0, 0, 1))
    kernels = (
        Stage(Strategy.CO_SCHEDULE, ((0, 1),), placement=both, latency=3e-6),
        Stage(Strategy.CO_SCHEDULE, ((2,),), placement=(Share(2, 0, 0, 0, 1),), latency=1e-6),
    )
    schedule = Schedule(
        graph.fingerprint,
        kernels,
        policy="rammer",
        batch=graph.batch,
        kernels={0: "fine", 2: "fine"},
    )
    alone = [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(3)]

    def after(seconds: float | None) -> Schedule:
        return with_streams(schedule, graph.predecessors, lambda _: seconds)

    assert after(2e-6) == schedule
    assert after(None) == schedule, "nothing is known of streams"
    mixed = after(1.4e-6)
    assert mixed.stages == (alone[0], alone[1], kernels[1])
    assert mixed.latencies == (1.4e-6, 1.4e-6, 1e-6)
    assert mixed.kernels == {2: "fine"}
    mixed.validate(graph)
    # No gain is no reason for a kernel of its own.
    assert after(1e-6).stages == tuple(alone)
