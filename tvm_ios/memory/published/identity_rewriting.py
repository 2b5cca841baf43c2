"""SERENITY's identity rewriting: convolutions of parts instead of a whole concatenation.

Ahn et al., "Ordering Chaos", MLSys 2020, section 3.3. The rewritten graph computes the same and has
orders with a smaller peak, because a part can be freed before the next one is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.operators import is_depthwise, operator_flops


def rewrite_concatenations(graph: OpGraph) -> OpGraph:
    """Rewrite convolutions that are the only readers of a concatenation of channels.

    A convolution without groups becomes a sum of convolutions, each of one part with its slice of
    the weight (channel-wise partitioning). A depthwise convolution becomes a concatenation of
    depthwise convolutions of the parts (kernel-wise partitioning), which may be rewritten again
    with its reader. Weights are slices of the old ones along the axis of the parts, in order. Units
    are left as they are.
    """
    while (place := _first_place(graph)) is not None:
        graph = _rewritten(graph, *place)
    return graph


def _first_place(graph: OpGraph) -> tuple[int, int] | None:
    """Return the first concatenation to rewrite and the convolution that is its only reader."""
    for number, op in enumerate(graph.operators):
        if op.kind != "conv2d" or op.members or len(op.inputs) != 2:
            continue
        whole, weight = op.inputs
        join = graph.producer[whole]
        if join is None or whole in graph.outputs or graph.consumers[whole] != (number,):
            continue
        concat = graph.operators[join]
        if concat.kind != "concat" or concat.attrs["axis"] != 1 or concat.members:
            continue
        parts = [graph.tensors[t] for t in concat.inputs]
        if len(parts) < 2 or any(len(p.shape) != 4 for p in parts):
            continue
        alone = op.attrs["group"] == 1 and graph.tensors[weight].constant
        if alone or (is_depthwise(graph, op) and graph.tensors[weight].constant):
            return join, number
    return None


def _rewritten(graph: OpGraph, join: int, number: int) -> OpGraph:
    tensors = list(graph.tensors)
    concat, op = graph.operators[join], graph.operators[number]
    (result,), (_, weight) = op.outputs, op.inputs
    depthwise = is_depthwise(graph, op)

    def tensor(name: str, shape: Sequence[int], constant: bool = False) -> int:
        tensors.append(Tensor(name, tuple(shape), tensors[result].dtype, constant))
        return len(tensors) - 1

    def operator(name: str, kind: str, inputs: tuple[int, ...], output: int) -> Operator:
        attrs = dict(op.attrs) if kind == "conv2d" else {}
        if kind == "conv2d" and depthwise:
            attrs["group"] = tensors[inputs[0]].shape[1]
        if kind == "concat":
            attrs = dict(concat.attrs)
        read = [tensors[t] for t in inputs]
        flops = operator_flops(kind, attrs, read, [tensors[output]])
        return Operator(name, kind, inputs, (output,), MappingProxyType(attrs), flops)

    fresh: list[Operator] = []
    values: list[int] = []
    shape, weights = tensors[result].shape, tensors[weight].shape
    for i, part in enumerate(concat.inputs):
        channels = tensors[part].shape[1]
        if depthwise:
            share = (channels, *weights[1:])
            out = (shape[0], channels, *shape[2:])
        else:
            share, out = (weights[0], channels, *weights[2:]), shape
        piece = tensor(f"{tensors[weight].name}.part{i}", share, constant=True)
        values.append(tensor(f"{tensors[result].name}.part{i}", out))
        fresh.append(operator(f"{op.name}.part{i}", "conv2d", (part, piece), values[-1]))
        if not depthwise and i:
            last = i + 1 == len(concat.inputs)
            total = result if last else tensor(f"{tensors[result].name}.sum{i}", shape)
            fresh.append(operator(f"{op.name}.sum{i}", "add", (values[-2], values[-1]), total))
            values[-1] = total
    if depthwise:
        fresh.append(operator(f"{op.name}.concat", "concat", tuple(values), result))
    operators = [o for i, o in enumerate(graph.operators) if i not in (join, number)]
    # Where the convolution stood: all parts are there by then.
    operators[number - 1 : number - 1] = fresh
    return replace(graph, operators=tuple(operators), tensors=tuple(tensors))
