"""Files in the format of IOS's published implementation, written from graphs of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from tvm_ios.graph.elements import Operator
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.zoo.writing.network import Feature, ImageNetwork


def inception_block_model() -> onnx.ModelProto:
    """Two branches that begin alike, two windows of one tensor, and a pooling."""
    net = ImageNetwork("block", 0, (3, 12, 12))
    x = net.relu(net.conv(net.input, 8, 3, 2))
    ends: list[Feature] = []
    for branch, kernel in (("wide", (1, 3)), ("high", (3, 1))):
        with net.scope(branch):
            y = net.relu(net.conv(x, 6, 1))
            ends.append(net.relu(net.conv(y, 6, kernel)))
    with net.scope("split"):
        y = net.relu(net.conv(x, 5, 1))
        ends += [net.relu(net.conv(y, 4, kernel)) for kernel in ((1, 3), (3, 1))]
    with net.scope("pooled"):
        ends.append(net.relu(net.conv(net.max_pool(x, 3, 1, "same"), 7, 1)))
    return classified(net, net.concat(ends))


def classified(net: ImageNetwork, x: Feature) -> onnx.ModelProto:
    """A network that ends in a pooling and a classifier."""
    return net.finish(net.dense(net.global_avg_pool(x), 4), (1, 4))


def published_file(graph: OpGraph, stages: Sequence[Stage], units: int) -> dict[str, Any]:
    """The first units of a graph and their stages, as one block.

    Merged units become one node of the largest window, and who reads one of them reads its
    channels of that node.
    """
    places: dict[int, list[Any]] = {}
    nodes: list[dict[str, Any]] = []
    named: list[list[list[str]]] = []
    for stage in stages:
        merged = stage.strategy is Strategy.MERGE
        kept = [[unit for unit in group if unit < units] for group in stage.groups]
        groups = [list(stage.units)] if merged else [group for group in kept if group]
        if not groups:
            continue
        for group in groups:
            for members in [group] if merged else [[unit] for unit in group]:
                begin, name = 0, f"n{members[0]}"
                inputs = _inputs(graph, members[0], places)
                for unit in members:
                    end = begin + _channels(graph, unit)
                    places[unit] = [name, begin, end]
                    begin = end
                nodes.append(_node(graph, name, members, inputs))
        named.append([[f"n{group[0]}"] if merged else [f"n{u}" for u in group] for group in groups])
    source = {
        "type": "placeholder",
        "name": "in",
        "hint_name": "in",
        "output_shape": list(graph.tensors[graph.inputs[0]].shape[1:]),
    }
    block = {
        "enter_name": "in",
        "enter_node": source,
        "inner_nodes": nodes[:-1],
        "exit_node": nodes[-1],
        "stages": named,
    }
    return {"name": f"{graph.name}_dp_parallel_merge", "input": source, "blocks": [block]}


def _inputs(graph: OpGraph, unit: int, places: dict[int, list[Any]]) -> list[list[list[Any]]]:
    """A term for each source; channels of a node that lie side by side are one value."""
    sources = [places[p] for p in bits(graph.predecessors[unit])]
    if not sources:
        return [[["in", 0, graph.tensors[graph.inputs[0]].shape[1]]]]
    joined: list[list[Any]] = []
    for name, begin, end in sorted(sources):
        if joined and joined[-1][0] == name and joined[-1][2] == begin:
            joined[-1] = [name, joined[-1][1], end]
        else:
            joined.append([name, begin, end])
    return [[value] for value in joined]


def _node(
    graph: OpGraph, name: str, members: Sequence[int], inputs: list[list[list[Any]]]
) -> dict[str, Any]:
    operators = [graph.operators[unit] for unit in members]
    shape = list(graph.tensors[operators[0].outputs[0]].shape[1:])
    shape[0] = sum(_channels(graph, unit) for unit in members)
    node: dict[str, Any] = {
        "name": name,
        "hint_name": " ".join(f"n{unit}" for unit in members),
        "inputs": inputs,
        "output_shape": shape + [1] * (3 - len(shape)),
    }
    first = operators[0]
    if "conv2d" in first.kind:
        return node | {
            "type": "conv",
            "out_channels": shape[0],
            "kernel": [max(_kernel(op)[axis] for op in operators) for axis in (0, 1)],
            "stride": list(_ints(first, "strides")),
            "padding": [0, 0],
            "groups": first.attrs["group"],
            "act": "relu",
        }
    if "pool2d" in first.kind:
        return node | {
            "type": "pool",
            "pool_type": first.kind.split("_")[0],
            "kernel": list(_ints(first, "kernel")),
            "stride": list(_ints(first, "strides")),
            "padding": [0, 0],
        }
    if first.kind == "mean+reshape":
        return node | {"type": "pool", "pool_type": "global_avg", "kernel": shape[1:]}
    return node | {"type": "identity"}


def _channels(graph: OpGraph, unit: int) -> int:
    return graph.tensors[graph.operators[unit].outputs[0]].shape[1]


def _kernel(op: Operator) -> tuple[int, ...]:
    return _ints(op, "kernel")


def _ints(op: Operator, key: str) -> tuple[int, ...]:
    value = op.attrs[key]
    assert isinstance(value, tuple)
    return tuple(v for v in value if isinstance(v, int))
