"""The policy ``sequential``: what every other one is compared with (IOS, section 4.2)."""

from __future__ import annotations

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import sequential_stages


def sequential_schedule(graph: OpGraph) -> Schedule:
    """One unit a stage, in the graph's own order."""
    return Schedule(
        graph.fingerprint, sequential_stages(graph), policy="sequential", batch=graph.batch
    )


def find(request: Request) -> Found:
    """The sequential schedule."""
    return Found(sequential_schedule(request.problem.units))


SEQUENTIAL = Policy("sequential", "one unit after another, in the graph's own order", find)
