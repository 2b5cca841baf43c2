"""Unroll LSTM, GRU and RNN into cells, which schedulers see and TVM's importer needs.

The input's contribution to all steps is one matrix product, the previous state's one per step
(Appleyard et al., "Optimizing Performance of Recurrent Neural Networks on GPUs", 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant, node_text, warn_once
from tvm_ios.onnx.rewrites.activations import Activation, activations
from tvm_ios.onnx.rewrites.steps import Steps

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
#: Preparing more cells takes about a minute.
_MANY = 1000
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}


def unroll_recurrent(graph: Any, node: Any, opset: int) -> None:
    """Write an LSTM, GRU or RNN of constant weights as one cell per step and direction.

    Raise GraphError if its weights are computed, an activation is unknown, or its sequences differ
    in length before opset 9.
    """
    if node.op_type not in _GATES or opset < 7:
        return
    source = node.inputs[0]
    if source.shape is None or not source.shape.is_static():
        return
    Unroller(graph, node, opset, node.op_type).write()


@dataclass(frozen=True)
class Direction:
    """The weights, as right operands of products, and the activations of one direction.

    Shapes: ``w`` (features, gates), ``r`` (hidden, gates), biases (gates,), ``peepholes`` (3,
    hidden) in the order input, output, forget. ``functions`` are ONNX's f, g and h. ``reverse``
    tells whether it begins at the last step. ``state`` and ``memory``, of (batch, hidden), precede
    the first step; None means zeros.
    """

    number: int
    w: Array
    r: Array
    bias_w: Array
    bias_r: Array
    peepholes: Array | None
    functions: Sequence[Activation]
    reverse: bool
    state: Any
    memory: Any


class Unroller:
    """A writer of an ``"LSTM"``, ``"GRU"`` or ``"RNN"`` layer as cells."""

    def __init__(self, graph: Any, node: Any, opset: int, kind: str) -> None:
        self.node, self.steps, self.kind = node, Steps(graph, node, opset), kind
        self.gates = _GATES[self.kind]
        self.batch_first = bool(node.attributes.get_int("layout", 0))
        extents = tuple(node.inputs[0].shape)
        if self.batch_first:
            extents = (extents[1], extents[0], extents[2])
        self.length, self.batch, self.features = extents
        self.w, self.r = (self._weights(place) for place in (1, 2))
        self.directions, _, self.hidden = self.r.shape
        self.type = self.r.dtype if self.r.dtype.kind == "f" else np.dtype(np.float32)
        self.clip = node.attributes.get_float("clip", 0.0)

    def write(self) -> None:
        """Write the cells of all directions, and replace the node's results."""
        if (cells := self.length * self.directions) > _MANY:
            warn_once(
                f"{node_text(self.node)} is unrolled to {cells} cells, which take a minute or "
                "more to prepare: export the model for fewer steps"
            )
        steps, source = self.steps, self.node.inputs[0]
        if self.batch_first:
            source = steps.transposed(source, (1, 0, 2))
        rows = (self.length * self.batch, self.features)
        source = steps.reshaped(source, (self.length, self.batch, self.features), rows)
        directions = [self._run(source, self._direction(d)) for d in range(self.directions)]
        sequences, states, memories = ([m[i] for m in directions] for i in range(3))
        together = [list(step) for step in zip(*sequences, strict=True)]
        # (length, directions, batch, hidden), or with the batch first.
        shape = [self.length, self.directions, self.batch, self.hidden]
        flat = steps.op("Concat", *(state for step in together for state in step), axis=0)
        whole = steps.op("Reshape", flat, steps.number(shape))
        if self.batch_first:
            whole = steps.op("Transpose", whole, perm=[2, 0, 1, 3])
        results = [whole, self._ends(states)]
        if self.kind == "LSTM":
            results.append(self._ends(memories))
        steps.stand_for(*results)

    def _ends(self, states: Sequence[Any]) -> Any:
        """Return the last states of all directions as one tensor."""
        shape = [self.directions, self.batch, self.hidden]
        flat = self.steps.op("Concat", *states, axis=0)
        whole = self.steps.op("Reshape", flat, self.steps.number(shape))
        return self.steps.op("Transpose", whole, perm=[1, 0, 2]) if self.batch_first else whole

    def _run(self, source: Any, direction: Direction) -> tuple[list[Any], Any, Any]:
        """Return the states of all steps in order of time, the last state, and the last memory."""
        steps = self.steps
        bias = direction.bias_w + direction.bias_r
        if self._resets_late():
            bias = np.concatenate([bias[: -self.hidden], direction.bias_w[-self.hidden :]])
        product = self._of_input(source, direction, bias)
        read = steps.split(product, [self.batch] * self.length, 0)
        weight = steps.number(direction.r)
        cell = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.kind](
            direction, weight
        )
        state, memory, states = direction.state, direction.memory, list[Any]()
        together = list(zip(read, self._inside, strict=True))
        for gates, inside in reversed(together) if direction.reverse else together:
            new_state, new_memory = cell(gates, state, memory)
            states.append(self._where(inside, new_state, None))
            state = self._where(inside, new_state, state)
            memory = self._where(inside, new_memory, memory)
        return states[::-1] if direction.reverse else states, state, memory

    def has_lengths(self) -> bool:
        """Return whether sequences may end before the last step."""
        lengths = self._input(4)
        stated = None if lengths is None else constant(lengths)
        return lengths is not None and (stated is None or not np.all(stated == self.length))

    @cached_property
    def _inside(self) -> list[Any]:
        """For each step the (batch, 1) mask of running sequences, or None if all run."""
        if not self.has_lengths():
            return [None] * self.length
        steps, lengths = self.steps, self._input(4)
        stated = constant(lengths)
        if steps.opset < 9:
            raise self._refusal("has sequences of several lengths: export it with opset 9 or later")
        column = [self.batch, 1]
        if stated is not None:
            return [steps.number(stated.reshape(column) > step) for step in range(self.length)]
        rows = steps.op("Reshape", lengths, steps.number(column))
        return [
            steps.op("Greater", rows, steps.number(np.array(step, np.int32)))
            for step in range(self.length)
        ]

    def _where(self, inside: Any, value: Any, otherwise: Any) -> Any:
        """Select the value inside the sequences, and another one or zeros elsewhere."""
        if inside is None or value is None:
            return value
        zero = self.steps.number(np.zeros((), self.type))
        return self.steps.op("Where", inside, value, zero if otherwise is None else otherwise)

    def _lstm(self, direction: Direction, weight: Any) -> Callable[..., tuple[Any, Any]]:
        """Return the function of an LSTM cell; gates are input, output, forget, candidate."""
        op, (f, g, h) = self.steps.op, direction.functions
        rows = () if direction.peepholes is None else direction.peepholes
        peepholes = [self.steps.number(row) for row in rows]
        coupled = self.node.attributes.get_int("input_forget", 0)

        def with_peephole(gate: Any, memory: Any, place: int) -> Any:
            if not peepholes or memory is None:
                return gate
            return op("Add", gate, op("Mul", memory, peepholes[place]))

        def cell(gates: Any, state: Any, memory: Any) -> tuple[Any, Any]:
            parts = self._parts(self._with(gates, state, weight, direction))
            input_gate = f(with_peephole(parts[0], memory, 0))
            new_memory = op("Mul", input_gate, g(parts[3]))
            if memory is not None:
                if coupled:
                    forget_gate = op("Sub", self.steps.number(1.0), input_gate)
                else:
                    forget_gate = f(with_peephole(parts[2], memory, 2))
                new_memory = op("Add", op("Mul", forget_gate, memory), new_memory)
            output_gate = f(with_peephole(parts[1], new_memory, 1))
            return op("Mul", output_gate, h(new_memory)), new_memory

        return cell

    def _gru(self, direction: Direction, weight: Any) -> Callable[..., tuple[Any, Any]]:
        """Return the function of a GRU cell; gates are update, reset, hidden."""
        steps, op, hidden, (f, g) = self.steps, self.steps.op, self.hidden, direction.functions
        one, late = steps.number(1.0), self._resets_late()
        new_weight, new_bias = direction.r[:, -hidden:], steps.number(direction.bias_r[-hidden:])
        if not late:
            weight, new_weight = steps.number(direction.r[:, :-hidden]), steps.number(new_weight)

        def cell(gates: Any, state: Any, _: Any) -> tuple[Any, Any]:
            update, reset, new = self._parts(gates)
            if state is None:
                # A zero state contributes only the bias.
                if late:
                    new = op("Add", new, op("Mul", f(reset), new_bias))
                return op("Mul", op("Sub", one, f(update)), g(new)), None
            from_state = op("MatMul", state, weight)
            if late:
                more = self._parts(from_state)
                reset_state = op("Mul", f(op("Add", reset, more[1])), op("Add", more[2], new_bias))
            else:
                more = steps.split(from_state, [hidden] * 2, 1)
                reset_state = op(
                    "MatMul", op("Mul", f(op("Add", reset, more[1])), state), new_weight
                )
            update_gate = f(op("Add", update, more[0]))
            candidate = g(op("Add", new, reset_state))
            fresh = op("Mul", op("Sub", one, update_gate), candidate)
            return op("Add", fresh, op("Mul", update_gate, state)), None

        return cell

    def _rnn(self, direction: Direction, weight: Any) -> Callable[..., tuple[Any, Any]]:
        (f,) = direction.functions

        def cell(gates: Any, state: Any, _: Any) -> tuple[Any, Any]:
            return f(self._with(gates, state, weight, direction)), None

        return cell

    def _resets_late(self) -> bool:
        """Return whether a GRU resets after the product with the state, as in cuDNN."""
        return self.kind == "GRU" and bool(self.node.attributes.get_int("linear_before_reset", 0))

    def _of_input(self, source: Any, direction: Direction, bias: Array) -> Any:
        """Return the input's contribution to the gates of all steps, with the bias."""
        number = self.steps.number
        return self.steps.op("Gemm", source, number(direction.w), number(bias))

    def _with(self, gates: Any, state: Any, weight: Any, direction: Direction) -> Any:
        """Return a step's gates with the state's contribution added."""
        if state is None:
            return gates
        return self.steps.op("Add", gates, self.steps.op("MatMul", state, weight))

    def _parts(self, gates: Any) -> list[Any]:
        return self.steps.split(gates, [self.hidden] * self.gates, 1)

    # Reading the node's inputs and attributes.

    def _direction(self, d: int) -> Direction:
        width = self.gates * self.hidden
        bias = self._input(3)
        both = np.zeros(2 * width, self.type) if bias is None else self._weights(3)[d]
        peepholes = self._input(7)
        stated = self.node.attributes.get_string("direction", "forward")
        return Direction(
            number=d,
            w=self.w[d].T,
            r=self.r[d].T,
            bias_w=both[:width],
            bias_r=both[width:],
            peepholes=None if peepholes is None else self._weights(7)[d].reshape(3, -1),
            functions=self._functions(d),
            reverse=stated == "reverse" or d == 1,
            state=self._start(5, d),
            memory=self._start(6, d),
        )

    def _start(self, place: int, d: int) -> Any:
        """Return the state before the first step, of (batch, hidden), or None for zeros."""
        value = self._input(place)
        if value is None:
            return None
        array = constant(value)
        if array is not None and not np.any(array):
            return None
        if self.batch_first:
            value = self.steps.transposed(value, (1, 0, 2))
        shape = [self.batch, self.hidden]
        value = self.steps.split(value, [1] * self.directions, 0)[d]
        return self.steps.op("Reshape", value, self.steps.number(shape))

    def names(self) -> Sequence[str]:
        """Return the names of the activations of all directions."""
        default = _DEFAULTS[self.kind] * self.directions
        return self.node.attributes.get_strings("activations", default)

    def _functions(self, d: int) -> list[Activation]:
        """Return the activations of a direction, with the clip of their arguments."""
        names = self.names()
        # ONNX does not say that gates alone are clipped; runtimes leave an LSTM's memory as it is.
        limits = ([self.clip, self.clip, 0.0][: len(_DEFAULTS[self.kind])]) * self.directions
        functions = activations(self.steps, names, limits)
        if functions is None:
            raise self._refusal(f"has activations that ONNX does not define ({', '.join(names)})")
        count = len(_DEFAULTS[self.kind])
        return functions[d * count : (d + 1) * count]

    def _input(self, place: int) -> Any:
        return self.node.inputs[place] if len(self.node.inputs) > place else None

    def _weights(self, place: int) -> Array:
        array = constant(self._input(place))
        if array is None:
            raise self._refusal("has weights that are computed: export the model with constants")
        return array

    def _refusal(self, what: str) -> GraphError:
        where = f"node {self.node.name!r}, output {self.node.outputs[0].name!r}"
        return GraphError(f"operator {self.node.op_type} ({where}) {what}")
