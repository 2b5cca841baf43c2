"""The default rule of what is a unit, after the schedule units of the IOS paper (table 2).

Every unit but a recurrent cell is a tree of operators with one exit: what is made inside, but not
by the exit, is read inside only. Such units can never depend on each other in a circle.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.operators import (
    ACTIVATIONS,
    ANCHORS,
    ARITHMETIC,
    RESHAPING,
    is_depthwise,
    is_pointwise,
)
from tvm_ios.graph.unit_partition import Partition, is_acyclic
from tvm_ios.graph.unit_prologues import activation_read_by, take_prologues, take_scales, take_views

#: Activations that a unit may end with, one of a slope for each channel among them.
_LAST = ACTIVATIONS | {"prelu"}
_ELEMENT_WISE = ACTIVATIONS | ARITHMETIC
#: A number that is added to few elements looks like a bias.
_OF_ONE = _ELEMENT_WISE | {"bias_add"}
_CHEAP = _LAST | ARITHMETIC | RESHAPING | {"softmax", "cast", "bias_add", "split", "round"}


def default_rule(graph: OpGraph) -> Sequence[Sequence[int]]:
    """Partition operators into units.

    - A convolution or dense layer with its bias and activation, and with a residual sum that only
      it feeds and the activation after that (of two such convolutions the later one takes it).
    - An activation and the separable convolution that alone reads it, with its bias; sums that
      only such an activation reads go with it (RandWire's sums of predecessors).
    - An activation and the convolution that alone reads it; between them may stand an average
      pooling before a 1x1 convolution (NASNet's path adjustment, with its pad and slice).
    - A dense layer with the split of its result, and with the element-wise operators that follow
      from the parts: an LSTM's cell from the product with its state on.
    - A concatenation with the concatenations and sums that only it reads (an exit).
    - A convolution or dense layer, or a reshape or transposition, with the product of two
      element-wise functions that alone read it (swish, GELU).
    - Any other operator, a chain of sums being one, with the cheap ones (element-wise, reshape,
      softmax, split) that follow it, whatever numbers these read too. So what is quantised goes
      with what makes it, and the limits of what is rounded are no activation before a convolution.
    - A sum with the products of rounded values and numbers that it alone reads, and with the later
      convolution whose rounded result is one of these values, read by it alone (residual sums of
      quantised networks).
    - A slice or reshape that a dense layer alone reads goes with it, if nothing else took it.
    """
    groups = _grouped(graph, cells=True)
    # Cells have several exits: two that read parts of each other are no units.
    return groups if is_acyclic(graph, groups) else _grouped(graph, cells=False)


def _grouped(graph: OpGraph, cells: bool) -> list[list[int]]:
    partition = Partition(graph)
    _separable_convolutions(partition)
    _exits(partition)
    _epilogues(partition)
    _sums(partition)
    take_scales(partition)
    if cells:
        _cells(partition)
    take_prologues(partition)
    _cheap_followers(partition)
    _rounded_sums(partition)
    take_views(partition)
    return partition.groups()


_ADD = frozenset({"add"})
_BIAS = frozenset({"bias_add"})
_CONV = frozenset({"conv2d"})
_CLIP = frozenset({"clip"})


def _separable_convolutions(partition: Partition) -> None:
    """Join depthwise and 1x1 convolutions, with the activation before them."""
    graph = partition.graph
    for op in range(len(graph)):
        if not is_pointwise(graph, graph.operators[op]):
            continue
        bias = partition.maker(op, _BIAS)
        depthwise = partition.maker(op if bias is None else bias, _CONV)
        if depthwise is None or not is_depthwise(graph, graph.operators[depthwise]):
            continue
        partition.join(op, depthwise, *([] if bias is None else [bias]))
        after = partition.reader(op, _BIAS)
        if after is not None:
            partition.join(op, after)
        activation = activation_read_by(partition, depthwise)
        if activation is None:
            continue
        partition.join(activation, depthwise)
        total = partition.graph.producer[partition.op(activation).inputs[0]]
        if total is not None and partition.is_sum(total) and partition.reader(total) == activation:
            partition.join_sums(total, activation)


def _exits(partition: Partition) -> None:
    """Join to a concatenation the concatenations and sums that only it reads."""
    for op in range(len(partition.graph)):
        if partition.op(op).kind != "concat":
            continue
        for source in partition.sources(op):
            if source is None or partition.reader(source) != op:
                continue
            if partition.op(source).kind == "concat":
                partition.join(source, op)
            elif partition.is_sum(source):
                partition.join_sums(source, op)


def _epilogues(partition: Partition) -> None:
    """Join to a convolution or dense layer its bias and its activation."""
    for op in range(len(partition.graph)):
        if partition.op(op).kind not in ANCHORS:
            continue
        bias = partition.reader(op, _BIAS)
        if bias is not None and partition.alone(bias):
            partition.join(op, bias)
        last = op if bias is None else bias
        # A separable convolution that is activated before is not activated after.
        activated = partition.op(partition.members(op)[0]).kind not in ANCHORS
        if partition.members(op)[-1] == last and not activated:
            _take_activation(partition, last)


def _take_activation(partition: Partition, op: int) -> None:
    activation = partition.reader(op, _LAST)
    if activation is not None:
        if partition.alone(activation):
            partition.join(op, activation)
        return
    partition.join(op, *_gate(partition, op))


def _gate(partition: Partition, op: int) -> list[int]:
    """Return the operators of ``f(x) * g(x)`` (swish, GELU) if nothing else reads x or these."""
    (result,) = partition.op(op).outputs
    readers = partition.graph.consumers[result]
    if len(readers) != 2 or result in partition.graph.outputs:
        return []
    (path, product), (other, end) = (_path(partition, reader) for reader in readers)
    is_product = product == end and partition.op(product).kind == "multiply"
    return [*path, *other, product] if is_product and partition.alone(product) else []


def _path(partition: Partition, op: int) -> tuple[list[int], int]:
    """Return the element-wise operators of one value from an operator on, and what reads them."""
    path: list[int] = []
    while True:
        after = partition.reader(op)
        is_one = len(partition.sources(op)) == 1 and partition.op(op).kind in _OF_ONE
        if after is None or not is_one or not partition.alone(op):
            return path, op
        path.append(op)
        op = after


def _sums(partition: Partition) -> None:
    """Join a residual sum to the later convolution before it; keep other sums together."""
    for op in range(len(partition.graph)):
        if not partition.is_sum(op) or not partition.alone(op):
            continue
        shape = _shape(partition, op)
        plain = [
            source
            for source in partition.sources(op)
            if source is not None
            and partition.reader(source) == op
            and _is_bare_product(partition, source)
            and _shape(partition, source) == shape
        ]
        if plain:
            partition.join(op, _latest(partition, plain))
            _take_activation(partition, op)
    for op in range(len(partition.graph)):
        reader = partition.reader(op, _ADD) if partition.is_sum(op) else None
        if reader is not None and all(
            partition.is_sum(member)
            for member in (*partition.members(op), *partition.members(reader))
        ):
            partition.join(op, reader)


def _latest(partition: Partition, ops: Sequence[int]) -> int:
    """Return the deepest of a sum's operands; of equally deep ones the second input."""
    return max(ops[::-1], key=lambda op: partition.graph.depth[op])


def _shape(partition: Partition, op: int) -> tuple[int, ...]:
    return partition.graph.tensors[partition.op(op).outputs[0]].shape


def _is_bare_product(partition: Partition, op: int) -> bool:
    """Return whether an operator ends a unit of a convolution or dense layer, unactivated."""
    members = partition.members(op)
    kinds = [partition.op(member).kind for member in members]
    return members[-1] == op and kinds[0] in ANCHORS and set(kinds[1:]) <= {"bias_add"}


def _cells(partition: Partition) -> None:
    """Join to a dense layer the split of its result and what only depends on the parts.

    Other values that go into the cell must not depend on the split.
    """
    graph, ancestors = partition.graph, partition.graph.ancestors
    for split in range(len(graph)):
        if partition.op(split).kind != "split":
            continue
        # A split of a constant has none.
        source = next(iter(partition.sources(split)), None)
        if source is None or partition.reader(source) != split:
            continue
        kinds = {partition.op(member).kind for member in partition.members(source)}
        if "dense" not in kinds or partition.members(source)[-1] != source:
            continue
        cell = {split}
        fringe = [split]
        while fringe:
            op = heapq.heappop(fringe)
            for tensor in partition.op(op).outputs:
                for reader in graph.consumers[tensor]:
                    fed = (s for s in partition.sources(reader) if s is not None)
                    if (
                        reader not in cell
                        and partition.op(reader).kind in _ELEMENT_WISE
                        and partition.alone(reader)
                        and all(s in cell or not ancestors[s] >> split & 1 for s in fed)
                    ):
                        cell.add(reader)
                        heapq.heappush(fringe, reader)
        partition.join(source, *cell)


def _cheap_followers(partition: Partition) -> None:
    """Join cheap operators to the only producer of their non-scalar input, if unshared."""
    for op in range(len(partition.graph)):
        sources = _without_numbers(partition, op)
        if partition.op(op).kind in _CHEAP and partition.alone(op) and len(sources) == 1:
            source = sources[0]
            if source is not None and partition.reader(source) == op:
                partition.join(op, source)
        if partition.op(op).kind in RESHAPING and len(partition.op(op).outputs) == 1:
            partition.join(op, *_gate(partition, op))


def _rounded_sums(partition: Partition) -> None:
    """Join a sum of products of rounded values to the later convolution that makes one."""
    for op in range(len(partition.graph)):
        if not partition.is_sum(op):
            continue
        scales = [s for s in partition.sources(op) if s is not None and s in partition.members(op)]
        made = [partition.maker(s, _CLIP) for s in scales if partition.op(s).kind == "multiply"]
        shape = _shape(partition, op)
        convolved = [
            clip
            for clip in made
            if clip is not None
            and clip not in partition.members(op)
            and partition.members(clip)[-1] == clip
            and partition.op(partition.members(clip)[0]).kind in ANCHORS
            and _shape(partition, clip) == shape
        ]
        if convolved:
            partition.join(op, _latest(partition, convolved))


def _without_numbers(partition: Partition, op: int) -> list[int | None]:
    """Return the producers of an operator's inputs, without scalars if its result is larger."""
    graph = partition.graph
    if len(partition.sources(op)) == 1 or math.prod(_shape(partition, op)) == 1:
        return partition.sources(op)
    tensors = (t for t in dict.fromkeys(partition.op(op).inputs) if not graph.tensors[t].constant)
    return [graph.producer[t] for t in tensors if math.prod(graph.tensors[t].shape) > 1]
