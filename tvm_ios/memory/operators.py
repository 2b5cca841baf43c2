"""Graphs of the operators whose order memory schedulers choose."""

from __future__ import annotations

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.operators import ACTIVATIONS, ANCHORS
from tvm_ios.graph.units import form_units


def with_biases(graph: OpGraph) -> OpGraph:
    """Return the graph with each bias merged into its convolution or dense layer.

    No kernel makes the tensor without its bias, so these are one operator; all others stay alone.
    Members are numbers of operators in ``graph``.
    """
    return form_units(graph, _anchors_with_biases)


def with_activations(graph: OpGraph) -> OpGraph:
    """Return the graph with biases and activations merged into the operators they follow.

    Kernels of convolutions, dense layers and sums apply an activation to their result if no other
    operator reads the result without it. Members are numbers of operators in ``graph``.
    """
    return form_units(graph, _anchors_with_activations)


def _anchors_with_activations(graph: OpGraph) -> list[list[int]]:
    group_of = {op: group for group in _anchors_with_biases(graph) for op in group}
    for op, described in enumerate(graph.operators):
        if described.kind not in ACTIVATIONS:
            continue
        read = described.inputs[0]
        maker = graph.producer[read]
        if maker is None or graph.consumers[read] != (op,) or read in graph.outputs:
            continue
        if len(graph.operators[maker].outputs) == 1:
            group_of[maker].append(op)
            group_of[op] = group_of[maker]
    return list({id(group): group for group in group_of.values()}.values())


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
