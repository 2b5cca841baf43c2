"""The policy ``nimble``: streams of maximum logical concurrency (Kwon et al., NeurIPS 2020).

Nimble gives any two operators without a path between them different streams (maximum logical
concurrency, section 4.2), and of all such assignments takes one of the fewest synchronisations
(Algorithm 1): the edges that no other path implies are a bipartite graph of operators and their
readers; each edge of a maximum matching puts a reader on the stream of what it reads. So a stream
is a path of these edges; ``len(units) - len(matching)`` streams and ``len(edges) - len(matching)``
synchronisations remain.
"""

from __future__ import annotations

import networkx

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.streams import stage_of_streams


def nimble_schedule(graph: OpGraph) -> Schedule:
    """Return one stage of Nimble's streams, with units launched in the graph's own order."""
    stage = stage_of_streams(range(len(graph)), assign_streams(graph))
    return Schedule(graph.fingerprint, (stage,), policy="nimble", batch=graph.batch)


def assign_streams(graph: OpGraph) -> dict[int, int]:
    """Return for each unit the first unit of its stream (Nimble, Algorithm 1)."""
    # A unit is in the bipartite graph twice: as a source by its number, as a reader by ~number.
    edges = [
        (source, ~unit)
        for unit in range(len(graph))
        for source in bits(least_predecessors(graph, unit))
    ]
    read = {source for source, _ in edges}
    bipartite: networkx.Graph[int] = networkx.Graph(edges)
    matching: dict[int, int] = networkx.bipartite.hopcroft_karp_matching(bipartite, read)
    stream_of: dict[int, int] = {}
    for unit in range(len(graph)):
        before = matching.get(~unit)
        stream_of[unit] = unit if before is None else stream_of[before]
    return stream_of


def least_predecessors(graph: OpGraph, unit: int) -> int:
    """Return, as a bit set, the predecessors of a unit that no other predecessor implies.

    Their edges are the graph's minimum equivalent graph, its transitive reduction.
    """
    implied = 0
    for source in bits(graph.predecessors[unit]):
        implied |= graph.ancestors[source]
    return graph.predecessors[unit] & ~implied


def find(request: Request) -> Found:
    """Return Nimble's schedule of the whole graph."""
    return Found(nimble_schedule(request.problem.units))


NIMBLE = Policy(
    "nimble", "Nimble's streams, the fewest waits of all as concurrent as can be", find, tried=False
)
