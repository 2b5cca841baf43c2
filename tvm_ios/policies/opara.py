"""The policy ``opara``: greedy streams and a launch order that mixes kinds (Chen et al., 2023).

Two algorithms of Opara, "Exploiting Operator Parallelism for Expediting DNN Inference on GPUs", as
the authors' published code has them:

- *Stream allocation.* In topological order, a unit goes to the stream of the first of its inputs
  that no unit follows there yet, else to a new stream.
- *Operator launch order.* Of the units that can run, one bound by arithmetic and one bound by
  memory are launched in turn, each time the one of the least demand.

Opara reads from a profiler what share of a multiprocessor's shared memory a block asks for, and
tells the two kinds apart by operators' names. Here the demand of a unit is the elements that it
computes, a thread each, and what multiplies matrices is bound by arithmetic, all else by memory.
"""

from __future__ import annotations

import math

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.streams import stage_of_streams

#: The least FLOPs for each element computed with which a unit is bound by arithmetic: it contains
#: a matrix product, whatever its kind is called.
_PRODUCT_FLOPS = 64


def opara_schedule(graph: OpGraph) -> Schedule:
    """Return one stage of Opara's streams, with units launched in Opara's order."""
    stage = stage_of_streams(launch_order(graph), allocate_streams(graph))
    return Schedule(graph.fingerprint, (stage,), policy="opara", batch=graph.batch)


def allocate_streams(graph: OpGraph) -> dict[int, int]:
    """Return for each unit the first unit of its stream."""
    stream_of: dict[int, int] = {}
    followed = 0
    for unit in range(len(graph)):
        free = graph.predecessors[unit] & ~followed
        before = next(bits(free), None)
        stream_of[unit] = unit if before is None else stream_of[before]
        followed |= 0 if before is None else 1 << before
    return stream_of


def launch_order(graph: OpGraph) -> list[int]:
    """Return units so that arithmetic- and memory-bound ones alternate, the smallest first."""
    demand = [elements(graph, unit) for unit in range(len(graph))]
    ready: tuple[list[int], list[int]] = ([], [])

    def make_ready(unit: int) -> None:
        ready[is_arithmetic(graph, unit)].append(unit)

    missing = [mask.bit_count() for mask in graph.predecessors]
    for unit in range(len(graph)):
        if not missing[unit]:
            make_ready(unit)
    order: list[int] = []
    arithmetic = True
    while ready[0] or ready[1]:
        queue = ready[arithmetic] or ready[not arithmetic]
        unit = min(queue, key=lambda each: demand[each])
        queue.remove(unit)
        order.append(unit)
        arithmetic = not arithmetic
        for reader in bits(graph.successors[unit]):
            missing[reader] -= 1
            if not missing[reader]:
                make_ready(reader)
    return order


def is_arithmetic(graph: OpGraph, unit: int) -> bool:
    """Return whether a unit is bound by arithmetic rather than by memory."""
    return graph.operators[unit].flops >= _PRODUCT_FLOPS * elements(graph, unit)


def elements(graph: OpGraph, unit: int) -> int:
    """Return the number of elements that a unit computes."""
    return sum(math.prod(graph.tensors[t].shape) for t in graph.operators[unit].outputs)


def find(request: Request) -> Found:
    """Return Opara's schedule of the whole graph."""
    return Found(opara_schedule(request.problem.units))


OPARA = Policy(
    "opara", "Opara's streams, arithmetic and memory launched in turn", find, tried=False
)
