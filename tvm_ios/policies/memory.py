"""The policy ``memory``: one unit after another, in the order of least peak memory."""

from __future__ import annotations

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.memory.stage_order import order_stages
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import sequential_stages


def memory_schedule(graph: OpGraph) -> Schedule:
    """One unit a stage, in the order of least peak memory."""
    stages = sequential_stages(graph)
    order = order_stages(graph, stages).order
    ordered = tuple(stages[place] for place in order)
    return Schedule(graph.fingerprint, ordered, policy="memory", batch=graph.batch)


def find(request: Request) -> Found:
    """The schedule of least peak memory."""
    return Found(memory_schedule(request.problem.units))


MEMORY = Policy(
    "memory", "one unit after another, in the order of least peak memory", find, tried=False
)
