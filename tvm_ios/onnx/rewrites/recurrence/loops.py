"""Write LSTM, GRU and RNN as one matrix product of all inputs and one operator of all steps.

The operator is of a domain of its own; where it can, :func:`with_functions` defines it by ONNX's,
so that any runtime of ONNX runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx import AttributeProto, OperatorSetIdProto, TensorProto, helper

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.canonical import integers
from tvm_ios.onnx.edit import constant, redirect
from tvm_ios.onnx.rewrites.recurrence.cells import Direction, Unroller, unroll_recurrent
from tvm_ios.onnx.rewrites.steps import static_shape

#: The domain of the operators in :data:`LAYERS`.
#:
#: Their inputs are, with those of ONNX's layers in their shapes for one direction: the sum of
#: what the inputs contribute to the gates of each step and of all biases, of shape (steps, batch,
#: gates); R; initial_h; of an LSTM initial_c and P; of a GRU that resets late B, of which only the
#: last part is not zero. Of ONNX Runtime's quantised LSTM R holds integers, which each state is
#: quantised for, the sums have no biases, and behind P are the products' scales and the biases,
#: each of (1, gates). Their results are all states, of shape (steps, batch, hidden), and an LSTM's
#: last memory.
DOMAIN = "tvm_ios"
#: The layers of ONNX, by the operator of all of a layer's steps.
LAYERS = {
    "LSTMSteps": "LSTM",
    "LSTMStepsAndMemory": "LSTM",
    "GRUSteps": "GRU",
    "RNNSteps": "RNN",
    "DynamicQuantizeLSTMSteps": "DynamicQuantizeLSTM",
    "DynamicQuantizeLSTMStepsAndMemory": "DynamicQuantizeLSTM",
}
#: The optional inputs by name, behind the gates' sums and R.
OPTIONAL = {
    "LSTM": ("state", "memory", "peepholes"),
    "GRU": ("state", "bias"),
    "RNN": ("state",),
    "DynamicQuantizeLSTM": ("state", "memory", "peepholes", "scale", "bias"),
}
#: Where they are among the inputs of ONNX's layers.
_PLACES = {"bias": 3, "state": 5, "memory": 6, "peepholes": 7}
_DEFINED = frozenset({"LSTM", "GRU", "RNN"})
#: The activations that a loop computes.
ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh"})
#: Wider layers become cells: of a batch of one a loop runs on one lane, a cell on all.
_WIDEST = 768
#: The first opset in which the operators can be defined by ONNX's.
_OPSET = 9


def loop_recurrent(graph: Any, node: Any, opset: int) -> None:
    """Write an LSTM, GRU or RNN of constant weights as an operator of all steps.

    Layers that no such operator computes, those of one step, and very wide ones become cells as by
    :func:`~tvm_ios.onnx.rewrites.recurrence.cells.unroll_recurrent`, with its errors.
    """
    source: Any = node.inputs[0] if node.inputs else None
    is_layer = node.op_type in _DEFINED and opset >= _OPSET and not node.domain
    if is_layer and source.shape is not None and source.shape.is_static():
        looper = Looper(graph, node, opset, node.op_type)
        if looper.fits() and looper.hidden <= _WIDEST:
            looper.write()
            return
    unroll_recurrent(graph, node, opset)


class Looper(Unroller):
    """A writer of an ``"LSTM"``, ``"GRU"`` or ``"RNN"`` layer as operators of all steps."""

    def fits(self) -> bool:
        """Return whether there is an operator that computes the layer."""
        get = self.node.attributes.get_int
        has_variants = self.clip or get("input_forget", 0) or self.has_lengths()
        is_known = {name.title() for name in self.names()} <= ACTIVATIONS
        return not has_variants and is_known and self.type == np.float32 and self.length > 1

    def write(self) -> None:
        """Write the operators of all directions, and replace the node's results."""
        steps, source = self.steps, self.node.inputs[0]
        if self.batch_first:
            source = steps.transposed(source, (1, 0, 2))
        directions = [self._direction(d) for d in range(self.directions)]
        runs = [self._loop(source, direction) for direction in directions]
        states = [run[0] for run in runs]
        together = states[0] if len(states) == 1 else steps.op("Concat", *states, axis=2)
        self._read_directly(states, together)
        results = [self._sequence(together)]
        last = [self._last(*pair) for pair in zip(states, directions, strict=True)]
        results.append(self._ends(last))
        if self._has_memory():
            results.append(self._ends([run[1] for run in runs]))
        steps.stand_for(*results)

    def _loop(self, source: Any, direction: Direction) -> list[Any]:
        """Return the states of all steps, and the last memory if it is read."""
        steps, number = self.steps, self.steps.number
        given: dict[str, Any] = {
            "state": self._state(5, direction.number),
            "memory": self._state(6, direction.number),
        }
        if direction.peepholes is not None:
            given["peepholes"] = number(direction.peepholes.reshape(1, -1))
        gates, weight = self._products(source, direction, given)
        optional = [given.get(name) for name in OPTIONAL[self.node.op_type]]
        count = len(self.names()) // self.directions
        names = self.names()[direction.number * count :][:count]
        attributes = {
            "activations": [name.title() for name in names],
            "direction": "reverse" if direction.reverse else "forward",
            "hidden_size": self.hidden,
        }
        if self.kind == "GRU":
            attributes["linear_before_reset"] = int(self._resets_late())
        more = self._has_memory()
        made: Any = steps.op(
            f"{self.node.op_type}Steps" + ("AndMemory" if more else ""),
            gates,
            number(np.ascontiguousarray(weight.T)[None]),
            *optional,
            outputs=2 if more else 1,
            **attributes,
        )
        results: list[Any] = made if more else [made]
        shapes = [(self.length, self.batch, self.hidden), (1, self.batch, self.hidden)]
        results[0].producer().domain = DOMAIN
        for value, shape in zip(results, shapes, strict=False):
            value.shape, value.dtype = ir.Shape(shape), ir.DataType.FLOAT
        return results

    def _products(
        self, source: Any, direction: Direction, given: dict[str, Any]
    ) -> tuple[Any, Array]:
        """Return the sums of gates, and R as a right operand; add to the optional inputs."""
        op, number, hidden = self.steps.op, self.steps.number, self.hidden
        bias = direction.bias_w + direction.bias_r
        if self._resets_late():
            bias[-hidden:] = direction.bias_w[-hidden:]
            late = np.zeros((1, 2 * len(bias)), self.type)
            late[0, -hidden:] = direction.bias_r[-hidden:]
            if late.any():
                given["bias"] = number(late)
        gates = op("MatMul", source, number(direction.w))
        return op("Add", gates, number(bias)) if bias.any() else gates, direction.r

    def _state(self, place: int, d: int) -> Any:
        """Return the state before the first step, of (1, batch, hidden), or None for zeros."""
        value = self._input(place)
        array = None if value is None else constant(value)
        if value is None or (array is not None and not np.any(array)):
            return None
        if self.batch_first:
            value = self.steps.transposed(value, (1, 0, 2))
        return self.steps.split(value, [1] * self.directions, 0)[d]

    def _last(self, states: Any, direction: Direction) -> Any:
        """Return the state of the step that came last, of (1, batch, hidden)."""
        at = 0 if direction.reverse else self.length - 1
        if self.steps.opset < 10:
            return self.steps.op("Slice", states, axes=[0], starts=[at], ends=[at + 1])
        return self.steps.op("Slice", states, *(self.steps.number([n]) for n in (at, at + 1, 0)))

    def _ends(self, states: Sequence[Any]) -> Any:
        """Return the last states of all directions, each of (1, batch, hidden), as one tensor."""
        steps = self.steps
        whole = states[0] if len(states) == 1 else steps.op("Concat", *states, axis=0)
        return steps.op("Transpose", whole, perm=[1, 0, 2]) if self.batch_first else whole

    def _sequence(self, together: Any) -> Any:
        """Return states of (steps, batch, directions * hidden) in the layout of a layer's."""
        steps = self.steps
        shape = [self.length, self.batch, self.directions, self.hidden]
        perm = [1, 0, 2, 3] if self.batch_first else [0, 2, 1, 3]
        if self.directions == 1 and not self.batch_first:
            return steps.unsqueezed(together, 1)
        return steps.op("Transpose", steps.op("Reshape", together, steps.number(shape)), perm=perm)

    def _read_directly(self, states: Sequence[Any], together: Any) -> None:
        """Let operators that only undo the layout of a layer's result read the states instead."""
        if self.batch_first:
            return
        for node, _ in list(self.node.outputs[0].uses()):
            direction = self._direction_taken(node)
            perm = tuple(node.attributes.get_ints("perm", ()))
            if direction is not None:
                self._undo(node.outputs[0], states[direction], 1)
            elif node.op_type == "Transpose" and perm == (0, 2, 1, 3):
                self._undo(node.outputs[0], together, 2)
        self._undo(self.node.outputs[0], together, 1)

    def _direction_taken(self, node: Any) -> int | None:
        """Return the direction that a Slice takes of a layer's result; None if it is none."""
        if node.op_type != "Slice" or node.outputs[0].is_graph_output():
            return None
        starts, ends = integers(node, 1, "starts"), integers(node, 2, "ends")
        axes, steps = integers(node, 3, "axes"), integers(node, 4, "steps")
        if axes != (1,) or starts is None or ends is None or steps not in (None, (1,)):
            return None
        taken = range(self.directions)[starts[0] : ends[0]]
        return taken[0] if len(taken) == 1 else None

    def _undo(self, value: Any, states: Any, axis: int) -> None:
        """Replace the results of operators that make the states of a value by the states.

        Such an operator drops the axis of one direction, or joins it with the elements of a state.
        """
        width = states.shape[2] if states.shape is not None else self.hidden * self.directions
        wanted, is_one = [self.length, self.batch, width], width == self.hidden
        in_order = is_one or axis == 2 or self.batch == 1
        for reader, _ in list(value.uses()):
            squeezed = reader.op_type == "Squeeze" and is_one and integers(reader, 1, "axes")
            reshaped = reader.op_type == "Reshape" and in_order
            undoes = squeezed == (axis,) or (reshaped and static_shape(reader.outputs[0]) == wanted)
            if undoes and not reader.outputs[0].is_graph_output():
                redirect(self.steps.graph, reader.outputs[0], states)
                self.steps.graph.remove(reader, safe=True)

    def _has_memory(self) -> bool:
        """Return whether the last memory of an LSTM is read."""
        if self.kind != "LSTM" or len(self.node.outputs) < 3:
            return False
        memory = self.node.outputs[2]
        return bool(memory.uses()) or memory.is_graph_output()


def with_functions(model: Any) -> None:
    """Define the operators of all steps that an ``onnx_ir`` model has by ONNX's layers."""
    names = {node.op_type for node in model.graph if node.domain == DOMAIN}
    if not names:
        return
    model.opset_imports[DOMAIN] = 1
    # ONNX has no quantised layers.
    for name in sorted(name for name in names if LAYERS[name] in _DEFINED):
        function = ir.serde.deserialize_function(_function(name, model.opset_imports[""]))
        model.functions[function.identifier()] = function


def _function(name: str, opset: int) -> Any:
    """Return the definition of an operator of all steps: the layer whose W is the identity."""
    kind = LAYERS[name]
    optional = OPTIONAL[kind]
    inputs = ["gates", "r", *optional]
    attributes = ["activations", "direction", "hidden_size"]
    attributes += ["linear_before_reset"] if kind == "GRU" else []
    places = ["gates", "w", "r", *[""] * 5]
    for given in optional:
        places[_PLACES[given]] = given
    most = 8 if kind == "LSTM" else 6
    results = ["sequence", "last"] + (["last_memory"] if kind == "LSTM" else [])

    def number(result: str, value: Sequence[int], *shape: int) -> Any:
        tensor = helper.make_tensor(result, TensorProto.INT64, shape, value)
        return helper.make_node("Constant", [], [result], value=tensor)

    layer = helper.make_node(kind, places[:most], results)
    for attribute in attributes:
        kinds = {"activations": AttributeProto.STRINGS, "direction": AttributeProto.STRING}
        reference = layer.attribute.add()
        reference.name = reference.ref_attr_name = attribute
        reference.type = kinds.get(attribute, AttributeProto.INT)
    nodes = [
        helper.make_node("Shape", ["r"], ["extents"]),
        number("both", [1, 1], 2),
        helper.make_node("Gather", ["extents", "both"], ["square"]),
        helper.make_node("ConstantOfShape", ["square"], ["zeros"]),
        helper.make_node("EyeLike", ["zeros"], ["identity"]),
        number("one", [1], 1),
        helper.make_node("Concat", ["one", "square"], ["one_direction"], axis=0),
        helper.make_node("Reshape", ["identity", "one_direction"], ["w"]),
        layer,
        number("first", [0]),
        helper.make_node("Gather", ["sequence", "first"], ["states"], axis=1),
    ]
    outputs = ["states"] + (["last_memory"] if name.endswith("AndMemory") else [])
    imports = [OperatorSetIdProto(domain="", version=opset)]
    return helper.make_function(DOMAIN, name, inputs, outputs, nodes, imports, attributes)
