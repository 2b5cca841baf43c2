"""Group operators into units: the smallest parts of a schedule, inside which operators fuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import MappingProxyType

from tvm_ios.graph.elements import AttrValue, GraphError, Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.operators import ACTIVATIONS, ANCHORS, POOLS
from tvm_ios.graph.topological import topological_order
from tvm_ios.graph.unit_rule import default_rule

#: A rule partitions the operators of a graph: every operator number stands in one group.
UnitRule = Callable[[OpGraph], Sequence[Sequence[int]]]


def form_units(graph: OpGraph, rule: UnitRule = default_rule) -> OpGraph:
    """Return the graph of units of a graph of operators, grouped by ``rule``.

    A unit's ``members`` are numbers of operators in ``graph``, each after those it reads from, in
    an order that follows from the wiring and not from the numbers, so that a model's units have one
    fingerprint however its operators were numbered. Its tensors are those at its boundary: inputs
    are what it reads from outside, data first, then its constants, each in order of first use;
    outputs are what is read outside or is an output of the graph. Units are numbered in topological
    order, as close as that allows to the order in which a depth-first walk from the outputs reaches
    their last operators: importers number operators differently, but a schedule that was made from
    one must fit the other.

    Attributes of a unit: those of its operator if it has one; those of its convolution or dense
    layer with ``out_channels``, ``activation`` (a kind, or ``"none"``), ``kernel`` (of a
    convolution) and the activation's own (``activation_min``, ...) if it is one followed by at most
    a bias and an activation; else ``body``, a nested tuple of its operators' kinds, attributes and
    wiring.

    Raise GraphError if the rule's groups are not a partition, or two of them depend on each other.
    """
    groups = [tuple(sorted(group)) for group in rule(graph)]
    owner = _owners(graph, groups)
    order = _topological(graph, groups, owner)
    numbers: dict[int, int] = {}
    tensors: list[Tensor] = []

    def number(tensor: int) -> int:
        if tensor not in numbers:
            numbers[tensor] = len(tensors)
            tensors.append(graph.tensors[tensor])
        return numbers[tensor]

    inputs = tuple(number(tensor) for tensor in graph.inputs)
    units: list[Operator] = []
    names: set[str] = set()
    for group in order:
        members = _by_wiring(graph, groups[group])
        read, written = _boundary(graph, members, owner)
        name = graph.operators[_anchor(graph, members)].name
        while name in names:
            name += "'"
        names.add(name)
        units.append(
            Operator(
                name=name,
                kind="+".join(graph.operators[i].kind for i in members),
                inputs=tuple(number(tensor) for tensor in read),
                outputs=tuple(number(tensor) for tensor in written),
                attrs=MappingProxyType(_attributes(graph, members, read, written)),
                flops=sum(graph.operators[i].flops for i in members),
                members=members,
            )
        )
    outputs = tuple(number(tensor) for tensor in graph.outputs)
    return OpGraph(graph.name, tuple(units), tuple(tensors), inputs, outputs)


def _owners(graph: OpGraph, groups: Sequence[tuple[int, ...]]) -> list[int]:
    owner = [-1] * len(graph)
    for number, group in enumerate(groups):
        if not group:
            raise GraphError(f"the unit rule made group {number} empty")
        for op in group:
            if not 0 <= op < len(graph):
                raise GraphError(f"the unit rule named operator {op}, which does not exist")
            if owner[op] >= 0:
                name = graph.operators[op].name
                raise GraphError(f"the unit rule put operator {name!r} into two units")
            owner[op] = number
    if -1 in owner:
        name = graph.operators[owner.index(-1)].name
        raise GraphError(f"the unit rule put operator {name!r} into no unit")
    return owner


def _topological(
    graph: OpGraph, groups: Sequence[tuple[int, ...]], owner: Sequence[int]
) -> list[int]:
    """Return the groups in an order in which each comes after those it reads from."""
    before: list[set[int]] = [set() for _ in groups]
    for op, mask in enumerate(graph.predecessors):
        for source in bits(mask):
            if owner[source] != owner[op]:
                before[owner[op]].add(owner[source])
    rank = {op: place for place, op in enumerate(_by_wiring(graph, range(len(graph))))}
    order = topological_order(before, [max(rank[op] for op in group) for group in groups])
    if stuck_groups := set(range(len(groups))) - set(order):
        stuck = min(stuck_groups)
        while sources := before[stuck] & stuck_groups:
            # Walk back until the walk closes: that unit is on a cycle.
            stuck_groups.remove(stuck)
            stuck = next(iter(sources))
        name = graph.operators[_anchor(graph, groups[stuck])].name
        raise GraphError(
            f"the unit of {name!r} both feeds and reads another unit; "
            "take everything between its operators into it, or split it"
        )
    return order


def _boundary(
    graph: OpGraph, members: Sequence[int], owner: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the tensors that a unit reads (data, then constants) and makes for others."""
    outputs = [t for i in members for t in graph.operators[i].outputs]
    inside = set(outputs)
    read = dict.fromkeys(t for i in members for t in graph.operators[i].inputs if t not in inside)
    written = [
        tensor
        for tensor in outputs
        if tensor in graph.outputs
        or any(owner[reader] != owner[members[0]] for reader in graph.consumers[tensor])
    ]
    data = [tensor for tensor in read if not graph.tensors[tensor].constant]
    return data + [tensor for tensor in read if graph.tensors[tensor].constant], written


def _by_wiring(graph: OpGraph, group: Sequence[int]) -> tuple[int, ...]:
    """Return operators in the order in which the last ones need them, first inputs first."""
    inside = set(group)
    order: dict[int, None] = {}
    exits = [op for op in group if not any(r in inside for r in bits(graph.successors[op]))]
    # The model's outputs have an order, which the numbers of their operators need not follow.
    output_place = {graph.producer[t]: place for place, t in reversed([*enumerate(graph.outputs)])}
    exits.sort(key=lambda op: output_place.get(op, len(output_place)))
    stack = [(op, False) for op in reversed(exits)]
    while stack:
        op, ready = stack.pop()
        if op in order:
            continue
        if ready:
            order[op] = None
            continue
        stack.append((op, True))
        sources = [graph.producer[tensor] for tensor in graph.operators[op].inputs]
        stack += [(s, False) for s in reversed(sources) if s is not None and s in inside]
    return tuple(order)


def _anchor(graph: OpGraph, members: Sequence[int]) -> int:
    """Return the operator that a unit is named after.

    It is the last convolution or dense layer, else the last concatenation, else the last pooling or
    mean, else the first operator.
    """
    for kinds in (ANCHORS, {"concat"}, POOLS):
        anchors = [i for i in members if graph.operators[i].kind in kinds]
        if anchors:
            return anchors[-1]
    return members[0]


def _attributes(
    graph: OpGraph, members: Sequence[int], read: Sequence[int], written: Sequence[int]
) -> dict[str, AttrValue]:
    operators = [graph.operators[i] for i in members]
    first = operators[0]
    if first.kind in ANCHORS and len(written) == 1 and _is_plain_chain(operators):
        attrs = dict(first.attrs)
        weight = graph.tensors[first.inputs[1]].shape
        if first.kind == "conv2d":
            attrs["kernel"] = weight[2:]
        attrs["out_channels"] = weight[0] if first.kind == "conv2d" else weight[1]
        last = operators[-1]
        attrs["activation"] = last.kind if last.kind in ACTIVATIONS else "none"
        if last.kind in ACTIVATIONS:
            attrs |= {f"activation_{key}": value for key, value in last.attrs.items()}
        return attrs
    if len(operators) == 1 and first.inputs == tuple(read) and first.outputs == tuple(written):
        return dict(first.attrs)
    return {"body": _body(operators, read, written)}


def _is_plain_chain(operators: Sequence[Operator]) -> bool:
    """Return whether operators are a chain of an anchor and at most a bias and an activation."""
    allowed = [{"bias_add"}, ACTIVATIONS]
    for before, op in itertools.pairwise(operators):
        while allowed and op.kind not in allowed[0]:
            del allowed[0]
        if not allowed or op.inputs[0] != before.outputs[0]:
            return False
        del allowed[0]
    return True


def _body(operators: Sequence[Operator], read: Sequence[int], written: Sequence[int]) -> AttrValue:
    """Return kinds, attributes and wiring; a wire is (0, input) or (1 + member, output)."""
    wires: dict[int, AttrValue] = {tensor: (0, i) for i, tensor in enumerate(read)}
    for position, op in enumerate(operators):
        wires |= {tensor: (1 + position, i) for i, tensor in enumerate(op.outputs)}
    return (
        tuple(
            (op.kind, tuple(sorted(op.attrs.items())), tuple(wires[t] for t in op.inputs))
            for op in operators
        ),
        tuple(wires[tensor] for tensor in written),
    )
