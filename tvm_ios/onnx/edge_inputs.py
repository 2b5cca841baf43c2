"""Inputs for which kernels often go wrong: NaN, infinities, ties, masked rows, last indices.

Each input is followed through operators that move or select its values without arithmetic. Behind
other operators rounding would break ties, and infinities would turn everything into NaN. NaN itself
is followed through all element-wise operators.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.inputs import free_inputs

#: The library's own types are incomplete.
_numpy: Any = np

#: Operators whose outputs hold values of the first input, or of all inputs.
MOVE_FIRST = {
    *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Expand"),
    *("Tile", "Identity"),
}
_MOVE_ALL = {"Concat"}
#: The same of floating-point numbers; the outputs of some hold a sign or an integer of them.
_CHOOSE_FIRST = {
    *("Gather", "GatherElements", "GatherND", "Pad", "DepthToSpace", "SpaceToDepth", "Clip"),
    *("Relu", "Abs", "Neg", "Ceil", "Floor", "Round", "Sign", "TopK", "MaxPool", "GlobalMaxPool"),
    *("ReduceMax", "ReduceMin"),
}
_CHOOSE_ALL = {"Max", "Min"}
#: Operators whose outputs hold indices or truth values, not values of the inputs.
_TELL = {
    *("ArgMax", "ArgMin", "IsInf", "IsNaN", "Equal", "Greater", "GreaterOrEqual", "Less"),
    "LessOrEqual",
}
_SOFTMAX = {"Softmax", "LogSoftmax"}
#: Operators that compute each element from one element of each input, and NaN from NaN.
ELEMENT_WISE = {
    *("Abs", "Add", "Ceil", "Clip", "Div", "Erf", "Exp", "Floor", "Identity", "LeakyRelu", "Log"),
    *("Max", "Mean", "Min", "Mul", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign"),
    *("Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tanh"),
}
#: Operators that go another way where a number is NaN, as those do that read one number twice.
LOOK_AT_NAN = {
    *("Clip", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "LeakyRelu", "Less"),
    *("LessOrEqual", "Max", "Min", "Relu", "Sign"),
}
#: Operators that do not care for infinities and ties, among those above.
_CARELESS = {
    *(*MOVE_FIRST, *_MOVE_ALL, "Gather", "GatherElements", "GatherND", "Pad", "DepthToSpace"),
    *("SpaceToDepth", "Neg", "Abs", "Where", "Add"),
}
#: Operators for which ONNX leaves the treatment of NaN open.
_UNDEFINED_OF_NAN = {
    *("ArgMax", "ArgMin", "Clip", "GlobalMaxPool", "Max", "MaxPool", "Min", "ReduceMax"),
    *("ReduceMin", "TopK"),
}
_INTEGERS = {
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
}


def edge_inputs(
    model: Any, inputs: Mapping[str, Array], *, infinities: bool
) -> dict[str, Array] | None:
    """Return inputs at the edges of what the model's operators are defined for, or None.

    Inputs for which no operator has such an edge stay as they are; None if all do. Cases that ONNX
    leaves undefined are left out: infinities cast to integers, indices out of range.  ``inputs``
    are random inputs of the simplified ``model``. ``infinities`` tells whether rows that hold only
    infinities may be drawn for reductions.
    """
    graph = _Graph(model)
    generator = np.random.default_rng(1)
    drawn = dict(inputs)
    for name, array in inputs.items():
        kind = array.dtype.kind
        if array.size == 0 or name not in graph.readers:
            continue
        if kind == "f":
            other = _floats(_uses(graph, name), array, generator, infinities)
            if infinities and (specials := _specials(graph, name)):
                other = _with_specials(array if other is None else other, specials, generator)
        elif kind == "i":
            other = _indices(_extents(graph, name), array, generator)
        elif kind == "b":
            other = _mask(graph, name, array)
        else:
            other = None
        drawn[name] = array if other is None else other
    changed = any(drawn[name] is not array for name, array in inputs.items())
    return drawn if changed else None


class _Graph:
    """The readers and shapes of a model's values, by name."""

    def __init__(self, model: Any) -> None:
        self.opset = max((o.version for o in model.opset_import if not o.domain), default=0)
        graph = model.graph
        self.readers: dict[str, list[Any]] = defaultdict(list)
        for node in graph.node:
            for name in dict.fromkeys(node.input):
                self.readers[name].append(node)
        #: Truth values that tell of numbers.
        self.tests = {
            name
            for node in graph.node
            if node.op_type in LOOK_AT_NAN - ELEMENT_WISE
            for name in node.output
        }
        self.shapes = {w.name: list(w.dims) for w in graph.initializer}
        for value in (*free_inputs(model), *graph.value_info, *graph.output):
            dims = value.type.tensor_type.shape.dim
            self.shapes.setdefault(value.name, [d.dim_value for d in dims])

    def after(self, names: Iterable[str]) -> list[Any]:
        """Return all operators that depend on any of the named values."""
        waiting, seen = [*names], set(names)
        nodes: list[Any] = []
        while waiting:
            for node in self.readers.get(waiting.pop(), ()):
                new = [name for name in node.output if name not in seen]
                seen.update(new)
                waiting += new
                nodes += [node] if new else []
        return nodes


@dataclass
class _Uses:
    """The uses of a floating-point input by a model's operators.

    ``known`` is false if any of them does arithmetic with it; then no edge values are drawn.
    ``cares`` tells whether any has an edge case.
    """

    known: bool = True
    cares: bool = False
    softmax: list[Any] = field(default_factory=list[Any])
    added: bool = False
    to_integer: bool = False
    nan_is_defined: bool = True
    #: ONNX Runtime begins poolings with the lowest number, and takes it for a bound that is not
    #: there: by it one cannot tell what is right of infinities.
    lowest: bool = True
    largest: bool = True


def _uses(graph: _Graph, name: str) -> _Uses:
    uses = _Uses()
    waiting, carried = [name], {name}
    while waiting:
        value = waiting.pop()
        for node in graph.readers.get(value, ()):
            kind, first = node.op_type, node.input[0] == value and value not in node.input[1:]
            uses.cares |= kind not in _CARELESS
            new: list[str] = []
            if (kind in MOVE_FIRST | _CHOOSE_FIRST and first) or kind in _MOVE_ALL | _CHOOSE_ALL:
                # The indices of a pooling or an unsorted TopK are undefined for ties.
                outputs = 2 if kind == "TopK" and _attribute(node, "sorted", 1) else 1
                new = list(node.output[:1])
                uses.known &= kind not in ("TopK", "MaxPool") or len(node.output) <= outputs
                least, most = ([*node.input[1:3], "", ""])[:2]
                uses.lowest &= "MaxPool" not in kind and (kind != "Clip" or least != "")
                uses.largest &= kind != "Clip" or most != ""
            elif kind == "Where" and value != node.input[0]:
                new = list(node.output)
            elif kind == "Add":
                uses.added, new = True, list(node.output)
            elif kind == "Cast":
                to = _attribute(node, "to", 0)
                uses.to_integer |= to in _INTEGERS
                new = [] if to in _INTEGERS or to == TensorProto.BOOL else list(node.output)
            elif kind in _SOFTMAX:
                uses.softmax.append(node)
            elif kind not in _TELL:
                uses.known = False
            waiting += [n for n in new if n not in carried]
            carried.update(new)
    after = graph.after(name for node in uses.softmax for name in node.output)
    uses.nan_is_defined = _nan_is_defined(after) and not any(n.op_type in _SOFTMAX for n in after)
    return uses


def _floats(uses: _Uses, array: Array, generator: Any, infinities: bool) -> Array | None:
    """Return halves from -2 to 2 with ties and infinities, or a softmax's mask, or None."""
    if not uses.known or not uses.cares or (uses.added and not uses.softmax):
        return None
    if uses.softmax:
        return None if uses.to_integer else _masked(array, generator, uses.nan_is_defined)
    halves: Array = generator.integers(0 if uses.to_integer else -4, 5, array.shape) / 2
    drawn = np.array(halves, array.dtype)
    if infinities and not uses.to_integer:
        rows = _rows(drawn)
        chance: Array = generator.random(rows.shape)
        block = len(rows) // 4
        if uses.largest:
            rows[chance < 1 / 16] = rows[:block] = np.inf
        if uses.lowest:
            rows[chance > 15 / 16] = rows[block : 2 * block] = rows[:, -1] = -np.inf
    return drawn


def _specials(graph: _Graph, name: str) -> tuple[float, ...]:
    """Return NaN and infinities if some reader tests for them and all others pass them on.

    Return () otherwise, and only NaN if a clip without both bounds is on the way.
    """
    told = {n for node in graph.after(graph.tests) for n in node.output} | graph.tests
    waiting, reached = [name], {name}
    looked, nodes, bounded = False, list[Any](), True
    while waiting:
        value = waiting.pop()
        for node in graph.readers.get(value, ()):
            kind, new = node.op_type, list(node.output[:1])
            moved = kind in MOVE_FIRST and value not in node.input[1:]
            if kind == "Where" and value != node.input[0]:
                # Where a test of the input selects, NaN may not be selected.
                new = [] if node.input[0] in told else new
            elif kind in LOOK_AT_NAN - ELEMENT_WISE:
                new = []
            elif not (moved or kind in _MOVE_ALL | ELEMENT_WISE):
                return ()
            looked |= kind in LOOK_AT_NAN
            bounded &= kind != "Clip" or (len(node.input) == 3 and "" not in node.input)
            nodes.append(node)
            waiting += [n for n in new if n not in reached]
            reached.update(new)
    twice = any(len(node.input) > 1 and reached.issuperset(node.input) for node in nodes)
    if not (looked or twice):
        return ()
    return (np.nan, np.inf, -np.inf) if bounded else (np.nan,)


def _with_specials(array: Array, specials: tuple[float, ...], generator: Any) -> Array:
    """Return a copy with each special number in a few places, and the first one at index 0."""
    drawn = array.copy()
    flat = drawn.reshape(-1)
    chance: Array = generator.random(flat.size)
    for place, special in enumerate(specials):
        flat[(chance * 32).astype(int) == place] = special
    flat[0] = specials[0]
    return drawn


def _masked(array: Array, generator: Any, whole_row: bool) -> Array:
    """Return a copy with minus infinity at random places, never at two neighbours.

    With ``whole_row``, the first of several rows is minus infinity throughout.
    """
    drawn = array.copy()
    places: Array = _numpy.indices(array.shape).sum(axis=0)
    drawn[(places % 2 == 1) & (generator.random(array.shape) < 0.5)] = -np.inf
    rows = _rows(drawn)
    if len(rows) > 1 and whole_row:
        rows[0] = -np.inf
    return drawn


def _rows(array: Array) -> Array:
    """Return a view of a contiguous array as a matrix of rows along its last axis."""
    return array.reshape(-1, array.shape[-1] if array.ndim else 1)


def _extents(graph: _Graph, name: str) -> tuple[int, bool] | None:
    """Return the smallest extent that the input indexes, and whether indices may be negative.

    Return None if the input is used for anything but indices.
    """
    extents: list[int] = []
    waiting, carried = [name], {name}
    while waiting:
        value = waiting.pop()
        for node in graph.readers.get(value, ()):
            kind, data = node.op_type, graph.shapes.get(node.input[0], [])
            if kind in MOVE_FIRST | _MOVE_ALL or (
                kind == "Cast"
                and _attribute(node, "to", 0) in (TensorProto.INT32, TensorProto.INT64)
            ):
                waiting += [n for n in node.output if n not in carried]
                carried.update(node.output)
            elif kind in ("Gather", "GatherElements") and node.input[1] == value and data:
                extents.append(data[_attribute(node, "axis", 0)])
            elif kind == "GatherND" and node.input[1] == value and data:
                begin = _attribute(node, "batch_dims", 0)
                extents += data[begin : begin + graph.shapes[value][-1]]
            elif kind not in _TELL:
                return None
    return (min(extents), graph.opset >= 11) if extents else None


def _indices(limits: tuple[int, bool] | None, array: Array, generator: Any) -> Array | None:
    if limits is None or limits[0] < 1:
        return None
    extent, from_the_end = limits
    least = -extent if from_the_end else 0
    drawn: Array = generator.integers(least, extent, array.size)
    ends = [extent - 1, least, 0, -1 if from_the_end else 0][: array.size]
    drawn[: len(ends)] = ends
    return drawn.reshape(array.shape).astype(array.dtype)


def _mask(graph: _Graph, name: str, array: Array) -> Array | None:
    """Return a mask with one row of false and one of true, or None if that could yield NaN."""
    after = graph.after([name])
    softmax = [node for node in after if node.op_type in _SOFTMAX]
    again = graph.after(name for node in softmax for name in node.output)
    if array.ndim == 0 or not _nan_is_defined(after) or any(n.op_type in _SOFTMAX for n in again):
        return None
    rows = _rows(array.copy())
    if len(rows) < 3:
        return None
    rows[0], rows[-1] = False, True
    return rows.reshape(array.shape)


def _nan_is_defined(nodes: Iterable[Any]) -> bool:
    """Return whether none of these operators is undefined for NaN, the softmax of a masked row."""
    return not any(
        node.op_type in _UNDEFINED_OF_NAN
        or (node.op_type == "Cast" and _attribute(node, "to", 0) in _INTEGERS)
        for node in nodes
    )


def _attribute(node: Any, name: str, default: int) -> int:
    return next((int(a.i) for a in node.attribute if a.name == name), default)
