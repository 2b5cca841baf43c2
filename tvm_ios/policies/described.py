"""The schedule of any policy for a device that is described, not measured."""

from __future__ import annotations

from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.devices.device import DeviceError, largest_gpu, load_device
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.endings import Pruning
from tvm_ios.ios.memory_front import FrontPoint, pareto_front
from tvm_ios.ios.network import SearchStatistics, search_graph
from tvm_ios.policies.baselines import baseline_schedule
from tvm_ios.progress import Steps
from tvm_ios.rammer.wavefront import RAMMER, simulated_schedule
from tvm_ios.schedule.schedule import Schedule


def described_schedule(
    graph: OpGraph,
    policy: str,
    device: str,
    pruning: Pruning,
    max_block: int,
    *,
    reuse: bool = True,
    memory_budget: int | None = None,
    progress: Steps | None = None,
) -> tuple[Schedule, SearchStatistics | None]:
    """A schedule, and what the search took; None for policies that do not search.

    Parameters
    ----------
    graph
        The graph of units.
    policy
        Its name.
    device
        A device's name, or a file that describes one.
    pruning, max_block
        Limits of the search.
    reuse
        Search equal blocks once.
    memory_budget
        Of policies that search over stages; others do not look at it.
    progress
        Called with blocks done and all of them.

    Raises
    ------
    SearchError, DeviceError
        If the policy or the device is unknown.
    MemoryBudgetError
        If no schedule fits into the memory budget.
    """
    cost = AnalyticCost(load_device(device))
    if (baseline := baseline_schedule(policy, graph, cost, device=device)) is not None:
        return baseline, None
    if policy == RAMMER:
        return simulated_schedule(graph, cost), None
    return search_graph(
        graph,
        cut_blocks(graph, max_block),
        cost,
        policy,
        pruning,
        mergeable,
        reuse=reuse,
        memory_budget=memory_budget,
        progress=progress,
        device=device,
    )


def described_front(
    graph: OpGraph,
    policy: str,
    device: str,
    pruning: Pruning,
    max_block: int,
    progress: Steps | None = None,
) -> tuple[FrontPoint, ...]:
    """The trades of latency for memory, the fastest first; parameters as above."""
    return pareto_front(
        graph,
        cut_blocks(graph, max_block),
        AnalyticCost(load_device(device)),
        policy,
        pruning,
        mergeable,
        progress=progress,
        device=device,
    )


def described_gpu(arch: str) -> str:
    """The name of the largest described GPU of an architecture such as ``sm_90``.

    Raises
    ------
    DeviceError
        If none is described.
    """
    found = largest_gpu(arch)
    if found is None:
        raise DeviceError(f"no GPU of the architecture {arch!r} is described: give --cost a file")
    return found.name
