"""The operators whose order memory schedulers choose."""

from __future__ import annotations

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.operators import ANCHORS
from tvm_ios.graph.units import form_units


def with_biases(graph: OpGraph) -> OpGraph:
    """The graph with every bias in the convolution or dense layer that it belongs to.

    No kernel makes a tensor without its bias first, so these are one operator each; all others
    stay alone. Members are numbers of operators in ``graph``.
    """
    return form_units(graph, _anchors_with_biases)


def _anchors_with_biases(graph: OpGraph) -> list[list[int]]:
    groups: list[list[int]] = [[op] for op in range(len(graph))]
    for op, described in enumerate(graph.operators):
        maker = graph.producer[described.inputs[0]] if described.inputs else None
        if described.kind != "bias_add" or maker is None:
            continue
        read_elsewhere = described.inputs[0] in graph.outputs or list(
            bits(graph.successors[maker])
        ) != [op]
        if graph.operators[maker].kind in ANCHORS and not read_elsewhere:
            groups[maker].append(op)
            groups[op] = []
    return [group for group in groups if group]
