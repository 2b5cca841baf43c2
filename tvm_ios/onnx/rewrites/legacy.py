"""Upgrade operators of opset 6 and older to opset 7, with which runtimes begin.

Some attributes become inputs, and a ``broadcast`` axis becomes broadcasting from the last axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.cut import graphs_inside
from tvm_ios.onnx.edit import node_text, opset_of

#: The library's own types are incomplete.
_onnx: Any = onnx
_helper: Any = helper

_FIRST = 7
#: The first version whose constants of ``Selu`` are not rounded.
_EXACT_SELU = 6
_BINARY = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
#: Attributes that change no result, or none that runtimes compute.
_WITHOUT_MEANING = frozenset({"consumed_inputs", "is_test", "output_sequence"})


def is_legacy(model: Any) -> bool:
    """Return whether a model is of an opset older than 7. One that states none is of opset 1."""
    return opset_of(model) < _FIRST


def modernise_legacy(model: Any) -> None:
    """Upgrade an older ``onnx.ModelProto``, whose operators stand in order, to opset 7, in place.

    Raise GraphError if an operator has no form in opset 7, or the rank of a broadcast operand is
    unknown.
    """
    graphs = [model.graph, *graphs_inside(model.graph)]
    writers = dict(_WRITERS)
    if opset_of(model) < _EXACT_SELU:
        writers["Selu"] = _selu
    for graph in graphs:
        _rewrite(graph, writers, {})
    others = [entry for entry in model.opset_import if entry.domain not in ("", "ai.onnx")]
    del model.opset_import[:]
    model.opset_import.extend([_helper.make_opsetid("", _FIRST), *others])
    ranks = _ranks(model)
    for graph in graphs:
        _rewrite(graph, {**dict.fromkeys(_BINARY, _align), "PRelu": _slope}, ranks)


@dataclass
class _Old:
    """A node that is rewritten in place.

    ``ranks`` has the known ranks of values, ``constants`` the graph's constant tensors, both by
    name. ``before`` collects operators to insert before the node.
    """

    node: Any
    ranks: Mapping[str, int]
    constants: Mapping[str, Any]
    before: list[Any]

    def taken(self, name: str, default: Any = None) -> Any:
        """Remove an attribute and return its value, or the default."""
        for place, attribute in enumerate(self.node.attribute):
            if attribute.name == name:
                value = _helper.get_attribute_value(attribute)
                del self.node.attribute[place]
                return value
        return default

    def state(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self.taken(name)
        self.node.attribute.append(_helper.make_attribute(name, value))

    def constant(self, place: int) -> Array:
        """Return the array of an input, or raise GraphError if it is not constant."""
        name = self.node.input[place]
        if name not in self.constants:
            raise self.refusal(f"reads {name!r}, which is computed")
        return numpy_helper.to_array(self.constants[name])

    def rank(self, place: int) -> int:
        """Return the rank of an input, or raise GraphError if it is not known."""
        name = self.node.input[place]
        if name in self.constants:
            return len(self.constants[name].dims)
        if name not in self.ranks:
            raise self.refusal(f"reads {name!r}, whose number of axes is not known")
        return self.ranks[name]

    def with_axes(self, place: int, count: int) -> None:
        """Append ``count`` axes of extent 1 to an input."""
        if count <= 0:
            return
        name, rank = self.node.input[place], self.rank(place)
        wider = f"{self.node.output[0]}.{name}"
        axes = list(range(rank, rank + count))
        self.before.append(_helper.make_node("Unsqueeze", [name], [wider], axes=axes))
        self.node.input[place] = wider

    def refusal(self, what: str) -> GraphError:
        """Return an error that names the node."""
        return GraphError(
            f"{node_text(self.node)} {what}, by the rules of an opset before {_FIRST}: export the "
            "model with a newer opset"
        )


def _rewrite(
    graph: Any, writers: Mapping[str, Callable[[_Old], None]], ranks: Mapping[str, int]
) -> None:
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[Any] = []
    for node in graph.node:
        if node.op_type == "Constant":
            constants.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
        old = _Old(node, ranks, constants, [])
        for name in _WITHOUT_MEANING:
            old.taken(name)
        if node.op_type in writers:
            writers[node.op_type](old)
        nodes += [*old.before, node]
    del graph.node[:]
    graph.node.extend(nodes)


def _ranks(model: Any) -> dict[str, int]:
    """Return the known ranks of values. Results of broadcasts have the first operand's."""
    standing: Any = _onnx.ModelProto()
    standing.CopyFrom(model)
    for graph in (standing.graph, *graphs_inside(standing.graph)):
        for node in graph.node:
            if node.op_type in (*_BINARY, "PRelu"):
                node.op_type = "Identity"
                del node.input[1:], node.attribute[:]
    inferred = _onnx.shape_inference.infer_shapes(standing)
    return {
        value.name: len(value.type.tensor_type.shape.dim)
        for graph in (inferred.graph, *graphs_inside(inferred.graph))
        for value in (*graph.input, *graph.value_info, *graph.output)
        if value.type.tensor_type.HasField("shape")
    }


def _align(old: _Old) -> None:
    """Align the second operand's axes with those of the first from ``axis`` on."""
    axis, broadcasts = old.taken("axis"), old.taken("broadcast", 0)
    if not broadcasts or axis is None:
        return
    rank = old.rank(0)
    old.with_axes(1, rank - axis % rank - old.rank(1))


def _slope(old: _Old) -> None:
    """Make a one-dimensional slope one number per channel."""
    if old.rank(1) == 1 and old.rank(0) > 2 and _elements(old, 1) != 1:
        old.with_axes(1, old.rank(0) - 2)


def _elements(old: _Old, place: int) -> int | None:
    """Return the number of elements of an input, or None if it is not constant."""
    tensor = old.constants.get(old.node.input[place])
    return None if tensor is None else prod(tensor.dims)


def _batch_norm(old: _Old) -> None:
    if len(old.node.output) > 1:
        raise old.refusal("is in training")


def _cast(old: _Old) -> None:
    to = old.taken("to")
    old.state("to", TensorProto.DataType.Value(to.decode()) if isinstance(to, bytes) else to)


def _concat(old: _Old) -> None:
    old.state("axis", old.taken("axis", 1))


def _gemm(old: _Old) -> None:
    old.taken("broadcast")


def _power(old: _Old) -> None:
    """Make the exponent of a pool's norm, once a float, an integer."""
    p: float = old.taken("p", 2.0)
    if p != int(p):
        raise old.refusal(f"sums powers of {p}")
    old.state("p", int(p))


def _pad(old: _Old) -> None:
    pads = old.taken("paddings")
    if pads is not None:
        old.state("pads", pads)


def _reshape(old: _Old) -> None:
    shape = old.taken("shape")
    if shape is not None:
        _read(old, "shape", shape)


def _read(old: _Old, name: str, numbers: Sequence[int]) -> None:
    """Append a constant of integers to the node's inputs."""
    whole = f"{old.node.output[0]}.{name}"
    value = numpy_helper.from_array(np.array(numbers, np.int64), whole)
    old.before.append(_helper.make_node("Constant", [], [whole], value=value))
    old.node.input.append(whole)


def _selu(old: _Old) -> None:
    for name, default in (("alpha", 1.6732), ("gamma", 1.0507)):
        old.state(name, old.taken(name, default))


def _split(old: _Old) -> None:
    if len(old.node.input) > 1:
        old.state("split", old.constant(1).astype(np.int64).tolist())
        del old.node.input[1:]


def _tile(old: _Old) -> None:
    """Write the first version of ``Tile``, which repeats along one axis, as a ``Concat``."""
    if len(old.node.input) == 3:
        count, axis = (int(old.constant(place).item()) for place in (1, 2))
        old.node.op_type = "Concat"
        old.node.input[:] = [old.node.input[0]] * count
        old.state("axis", axis)


def _upsample(old: _Old) -> None:
    height, width = old.taken("height_scale"), old.taken("width_scale")
    if height is not None and width is not None:
        old.state("scales", [1.0, 1.0, height, width])
    if old.taken("mode", b"nearest") in (b"bilinear", b"linear"):
        old.state("mode", "linear")


_WRITERS: Mapping[str, Callable[[_Old], None]] = {
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Concat": _concat,
    "Gemm": _gemm,
    "GlobalLpPool": _power,
    "LpPool": _power,
    "Pad": _pad,
    "Reshape": _reshape,
    "Split": _split,
    "Tile": _tile,
    "Upsample": _upsample,
}
