"""Replace sequences of known length by operators on single tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant, new_constant, node_text
from tvm_ios.onnx.rewrites.control.bodies import Body, replace_nodes
from tvm_ios.onnx.rewrites.steps import Steps

#: The values that a sequence holds, in order.
_Items = list[Any]


def write_sequences_out(graph: Any, opset: int) -> bool:
    """Replace readers of sequences and optionals of known content; return whether there were any.

    The operators that make the sequences stay, without readers. Constants of the graph must be
    folded. Raise GraphError if an operator reads an item that does not exist.
    """
    items: dict[Any, _Items] = {}

    def results_of(node: Any) -> Sequence[Any] | None:
        if node.op_type in _MAKERS:
            _MAKERS[node.op_type](Steps(graph, node, opset), items)
        elif node.op_type in _READERS:
            result = _READERS[node.op_type](Steps(graph, node, opset), items)
            return None if result is None else [result]
        return None

    return replace_nodes(graph, results_of)


# Operators that make a sequence or an optional value.


def _empty(steps: Steps, items: dict[Any, _Items]) -> None:
    items[steps.node.outputs[0]] = []


def _construct(steps: Steps, items: dict[Any, _Items]) -> None:
    items[steps.node.outputs[0]] = list(steps.node.inputs)


def _pass_on(steps: Steps, items: dict[Any, _Items]) -> None:
    source = next(iter(steps.node.inputs), None)
    if source in items:
        items[steps.node.outputs[0]] = items[source]


def _insert(steps: Steps, items: dict[Any, _Items]) -> None:
    source, item, place = (*steps.node.inputs, None)[:3]
    position = _position(steps, items, source, place, extra=1)
    if position is not None:
        before = items[source]
        items[steps.node.outputs[0]] = [*before[:position], item, *before[position:]]


def _erase(steps: Steps, items: dict[Any, _Items]) -> None:
    source, place = (*steps.node.inputs, None)[:2]
    position = _position(steps, items, source, place, last=-1)
    if position is not None:
        before = items[source]
        items[steps.node.outputs[0]] = [*before[:position], *before[position + 1 :]]


def _split(steps: Steps, items: dict[Any, _Items]) -> None:
    """Replace ``SplitToSequence`` by a split."""
    node = steps.node
    source: Any = node.inputs[0]
    sizes = node.inputs[1] if len(node.inputs) > 1 else None
    axis = node.attributes.get_int("axis", 0)
    extent = None if source.shape is None else source.shape[axis]
    size = np.array(1) if sizes is None else constant(sizes)
    if not isinstance(extent, int) or size is None or extent == 0:
        return
    if size.ndim == 0:
        whole, rest = divmod(extent, int(size.item()))
        parts = [int(size.item())] * whole + [rest] * (rest > 0)
    else:
        parts = [int(part) for part in size]
    results = steps.split(source, parts, axis)
    if sizes is None and not node.attributes.get_int("keepdims", 1):
        results = [steps.squeezed(result, axis) for result in results]
    _hold(steps, [results], items)


def _map(steps: Steps, items: dict[Any, _Items]) -> None:
    """Replace ``SequenceMap`` by one copy of its body per item."""
    node = steps.node
    first, *rest = node.inputs
    is_sequence = [isinstance(value.type, ir.SequenceType) for value in rest]
    known = [value in items for value, is_one in zip(rest, is_sequence, strict=True) if is_one]
    if not items.get(first) or not all(known):
        return
    body = Body(steps.graph, node, node.attributes["body"].as_graph())
    results = [
        body.write(
            [
                item,
                *(
                    items[value][place] if is_one else value
                    for value, is_one in zip(rest, is_sequence, strict=True)
                ),
            ],
            f"{steps.name}.{place}",
        )
        for place, item in enumerate(items[first])
    ]
    _hold(steps, list(zip(*results, strict=True)), items)


def _hold(steps: Steps, sequences: Sequence[Sequence[Any]], items: dict[Any, _Items]) -> None:
    """Let sequences of these values replace the results of an operator."""
    results: list[Any] = []
    for held, output in zip(sequences, steps.node.outputs, strict=True):
        results.append(steps.op("SequenceConstruct", *held))
        results[-1].type, results[-1].shape = output.type, output.shape
        items[results[-1]] = list(held)
    steps.stand_for(*results)


# Operators that read one.


def _at(steps: Steps, items: dict[Any, _Items]) -> Any:
    source, place = steps.node.inputs
    position = _position(steps, items, source, place, last=-1)
    return None if position is None else items[source][position]


def _length(steps: Steps, items: dict[Any, _Items]) -> Any:
    (source,) = steps.node.inputs
    if source not in items:
        return None
    return new_constant(steps.graph, f"{steps.name}.length", np.array(len(items[source])))


def _concatenated(steps: Steps, items: dict[Any, _Items]) -> Any:
    (source,) = steps.node.inputs
    if not items.get(source):
        return None
    axis, parts = steps.node.attributes.get_int("axis"), items[source]
    if steps.node.attributes.get_int("new_axis", 0):
        parts = [steps.unsqueezed(part, axis) for part in parts]
    return steps.op("Concat", *parts, axis=axis)


def _element(steps: Steps, items: dict[Any, _Items]) -> Any:
    """Return the value that an optional holds, or None if it is not known."""
    _pass_on(steps, items)
    source = steps.node.inputs[0]
    maker = source.producer()
    if isinstance(source.type, ir.TensorType):
        return source
    return maker.inputs[0] if _is_optional_tensor(maker) else None


def _has_element(steps: Steps, items: dict[Any, _Items]) -> Any:
    source = next(iter(steps.node.inputs), None)
    maker = None if source is None else source.producer()
    if source is None or isinstance(source.type, ir.TensorType) or source in items:
        answer = source is not None
    elif maker is not None and maker.op_type == "Optional":
        answer = any(value is not None for value in maker.inputs)
    else:
        return None
    return new_constant(steps.graph, f"{steps.name}.answer", np.array(answer))


def _is_optional_tensor(node: Any) -> bool:
    return (
        node is not None
        and node.op_type == "Optional"
        and len(node.inputs) == 1
        and node.inputs[0] is not None
        and isinstance(node.inputs[0].type, ir.TensorType)
    )


def _position(
    steps: Steps,
    items: Mapping[Any, _Items],
    source: Any,
    place: Any,
    *,
    extra: int = 0,
    last: int | None = None,
) -> int | None:
    """Return a non-negative index into a sequence, or None if it or the sequence is not known.

    ``extra`` is 1 where the index behind the last item is allowed. ``last`` is the index if
    ``place`` is None; by default the one behind the last item.
    """
    number = None if place is None else constant(place)
    if source not in items or (place is not None and number is None):
        return None
    length = len(items[source])
    position = (length if last is None else last) if number is None else int(number.item())
    counted = position + length if position < 0 else position
    if not 0 <= counted < length + extra:
        raise GraphError(
            f"{node_text(steps.node)} asks for item {position} of a sequence of {length}: export "
            "the model again"
        )
    return counted


_MAKERS: Mapping[str, Callable[[Steps, dict[Any, _Items]], None]] = {
    "Identity": _pass_on,
    "Optional": _pass_on,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceMap": _map,
    "SplitToSequence": _split,
}

_READERS: Mapping[str, Callable[[Steps, dict[Any, _Items]], Any]] = {
    "ConcatFromSequence": _concatenated,
    "OptionalGetElement": _element,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceLength": _length,
}
