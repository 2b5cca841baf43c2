"""Schedules that show what a search may not choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.graph.op_graph import bits
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

if TYPE_CHECKING:
    from relay_passes.prepared import Prepared


def merge_first(prepared: Prepared, every: int = 1) -> Schedule:
    """A schedule that merges every n-th time that it can, or runs all that is ready side by side.

    At least one stage is merged and one has several groups, or this fails.
    """
    graph = prepared.units
    done, chances, stages = 0, 0, []
    while done != graph.all_operators:
        ready = [u for u in bits(graph.all_operators & ~done) if not graph.predecessors[u] & ~done]
        stage = Stage(Strategy.CONCURRENT, tuple((unit,) for unit in ready))
        for unit in ready:
            twins = tuple((u,) for u in ready if u == unit or mergeable(graph, (unit, u)))
            if len(twins) > 1 and mergeable(graph, [u for (u,) in twins]):
                chances += 1
                if (chances - 1) % every:
                    break
                stage = Stage(Strategy.MERGE, twins)
                break
        stages.append(stage)
        done |= stage.mask
    assert any(s.strategy is Strategy.MERGE for s in stages), "nothing could be merged"
    assert any(s.strategy is Strategy.CONCURRENT and len(s.groups) > 1 for s in stages)
    return Schedule(graph.fingerprint, tuple(stages), "by hand")
