"""The schedules that every other one is compared with (IOS, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.costs.model import CostModel
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.ios.block import cut_into_blocks
from tvm_ios.memory.stage_order import order_stages
from tvm_ios.schedule.schedule import Schedule, Stage, Strategy, sequential_stages


def baseline_schedule(
    policy: str,
    graph: OpGraph,
    cost: CostModel | None = None,
    *,
    device: str = "",
) -> Schedule | None:
    """The schedule of a policy that needs no search; None for one that does.

    Parameters
    ----------
    policy
        ``"sequential"``, ``"greedy"`` or ``"memory"``, else the result is None.
    graph, cost, device
        As in :func:`sequential_schedule`.
    """
    if policy == "sequential":
        return sequential_schedule(graph, cost, device=device)
    if policy == "greedy":
        return greedy_schedule(graph, None, cost, device=device)
    if policy == "memory":
        return memory_schedule(graph, cost, device=device)
    return None


def memory_schedule(graph: OpGraph, cost: CostModel | None = None, *, device: str = "") -> Schedule:
    """One unit a stage, in the order of least peak memory.

    Parameters
    ----------
    graph, cost, device
        As in :func:`sequential_schedule`.
    """
    stages = sequential_stages(graph)
    order = order_stages(graph, stages).order
    return _schedule(graph, tuple(stages[place] for place in order), "memory", cost, device)


def sequential_schedule(
    graph: OpGraph, cost: CostModel | None = None, *, device: str = ""
) -> Schedule:
    """One unit a stage, in the graph's own order.

    Parameters
    ----------
    graph
        The graph of units.
    cost
        Gives the stages' seconds; None leaves them out.
    device
        Written into the schedule.
    """
    return _schedule(graph, sequential_stages(graph), "sequential", cost, device)


def greedy_schedule(
    graph: OpGraph,
    blocks: Sequence[int] | None = None,
    cost: CostModel | None = None,
    *,
    device: str = "",
) -> Schedule:
    """All units that can run now form one stage, again and again.

    Parameters
    ----------
    graph
        The graph of units.
    blocks
        Bit sets of units in the order of execution, which no stage crosses; None for the whole
        graph as one.
    cost
        Gives the stages' seconds; None leaves them out.
    device
        Written into the schedule.

    Raises
    ------
    SearchError
        If the blocks do not fit the graph.
    """
    masks = (graph.all_operators,) if blocks is None else tuple(blocks)
    cut_into_blocks(graph, masks)
    stages: list[Stage] = []
    done = 0
    for mask in masks:
        left = mask
        while left:
            ready = tuple(u for u in bits(left) if not graph.predecessors[u] & ~done)
            stages.append(Stage(Strategy.CONCURRENT, tuple((unit,) for unit in ready)))
            for unit in ready:
                done |= 1 << unit
            left &= ~done
    return _schedule(graph, tuple(stages), "greedy", cost, device)


def _schedule(
    graph: OpGraph,
    stages: tuple[Stage, ...],
    policy: str,
    cost: CostModel | None,
    device: str,
) -> Schedule:
    return Schedule(
        fingerprint=graph.fingerprint,
        stages=stages,
        policy=policy,
        device=device,
        batch=graph.batch,
        latencies=() if cost is None else tuple(cost.stage_latency(graph, s) for s in stages),
    )
