"""The policy ``sequential``, the baseline of all others (IOS, section 4.2)."""

from __future__ import annotations

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import sequential_stages


def sequential_schedule(graph: OpGraph) -> Schedule:
    """Return the schedule of one unit a stage, in the graph's own order."""
    return Schedule(
        graph.fingerprint, sequential_stages(graph), policy="sequential", batch=graph.batch
    )


def find(request: Request) -> Found:
    """Return the sequential schedule."""
    return Found(sequential_schedule(request.problem.units))


SEQUENTIAL = Policy("sequential", "one unit after another, in the graph's own order", find)
