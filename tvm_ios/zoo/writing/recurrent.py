"""LSTM cells as frameworks write them, unrolled over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_ios.zoo.writing.model_writer import ModelWriter

#: Appends a cell: from what it reads, its state and its memory to its next state and memory.
Cell = Callable[[Any, Any, Any], tuple[Any, Any]]

#: The gates of a cell, in PyTorch's order.
_GATES = ("input", "forget", "candidate", "output")


class RecurrentNetwork(ModelWriter):
    """A writer of networks on sequences, as cells in loops over time (batch 1)."""

    def steps(self, source: Any, count: int) -> list[Any]:
        """Return the slices of a sequence (steps, 1, features), each of (1, features)."""
        return [self._step(source, step) for step in range(count)]

    def _step(self, source: Any, step: int) -> Any:
        name = self._fresh("step")
        index = self._weight(f"{name}.index", np.array(step, np.int64))
        return self._op("Gather", name, [source, index], {"axis": 0})

    def zeros(self, name: str, hidden: int) -> Any:
        """Return a zero state or memory."""
        return self._weight(self._fresh(name), np.zeros((1, hidden), np.float32))

    def linear(self, name: str, x: Any, features: int, results: int) -> Any:
        """Append a dense layer with bias."""
        weight, bias = self._linear_weights(name, features, results)
        return self._op("Gemm", name, [x, weight, bias], {"transB": 1})

    def layer(self, sequence: Sequence[Any], cell: Cell, hidden: int) -> list[Any]:
        """Append a layer of cells over a sequence, and return its states, starting from zeros."""
        state, memory = self.zeros("state", hidden), self.zeros("memory", hidden)
        states: list[Any] = []
        for step, x in enumerate(sequence):
            with self.scope(f"step{step}"):
                state, memory = cell(x, state, memory)
            states.append(state)
        return states

    def layers_by_step(self, cells: Sequence[Cell], hidden: int) -> Callable[[int, Any], Any]:
        """Return a function (step, x) that appends one step of all layers.

        It returns the state of the last layer, and keeps those of all layers for the next step.
        """
        carried = [(self.zeros("state", hidden), self.zeros("memory", hidden)) for _ in cells]

        def run(step: int, x: Any) -> Any:
            for layer, cell in enumerate(cells):
                with self.scope(f"step{step}/layer{layer}"):
                    carried[layer] = cell(x, *carried[layer])
                x = carried[layer][0]
            return x

        return run

    def cell_of_two_products(self, features: int, hidden: int) -> Cell:
        """Return PyTorch's cell: one product of the input and one of the state for all gates."""
        weights = (
            *self._linear_weights("input_gates", features, 4 * hidden),
            *self._linear_weights("hidden_gates", hidden, 4 * hidden),
        )

        def cell(x: Any, state: Any, memory: Any) -> tuple[Any, Any]:
            from_input = self._op("Gemm", self._fresh("x"), [x, *weights[:2]], {"transB": 1})
            from_state = self._op("Gemm", self._fresh("h"), [state, *weights[2:]], {"transB": 1})
            gates = self._op("Add", self._fresh("gates"), [from_input, from_state])
            return self._next(self._gates(gates), memory)

        return cell

    def cell_of_one_product(self, features: int, hidden: int) -> Cell:
        """Return TensorFlow's basic cell: one product of the concatenated input and state.

        Forget gates have a bias of one more, added in each step.
        """
        weight, bias = self._linear_weights("gates", features + hidden, 4 * hidden)
        one = self._weight(self._fresh("one"), np.array(1.0, np.float32))

        def cell(x: Any, state: Any, memory: Any) -> tuple[Any, Any]:
            both = self._op("Concat", self._fresh("both"), [x, state], {"axis": 1})
            gates = self._op("Gemm", self._fresh("gates"), [both, weight, bias], {"transB": 1})
            parts = self._gates(gates)
            parts[1] = self._op("Add", self._fresh("forget.biased"), [parts[1], one])
            return self._next(parts, memory)

        return cell

    def cell_of_eight_products(self, features: int, hidden: int) -> Cell:
        """Return Rammer's cell: each gate has one product with the input and one with the state."""
        weights = [self._gate_weights(gate, features, hidden) for gate in _GATES]
        one = self._weight(self._fresh("one"), np.array(1.0, np.float32))

        def cell(x: Any, state: Any, memory: Any) -> tuple[Any, Any]:
            parts: list[Any] = []
            for gate, (from_x, from_state, bias) in zip(_GATES, weights, strict=True):
                left = self._op("MatMul", self._fresh(f"{gate}.x"), [x, from_x])
                right = self._op("MatMul", self._fresh(f"{gate}.h"), [state, from_state])
                total = self._op("Add", self._fresh(f"{gate}.sum"), [left, right])
                parts.append(self._op("Add", self._fresh(gate), [total, bias]))
            parts[1] = self._op("Add", self._fresh("forget.biased"), [parts[1], one])
            return self._next(parts, memory)

        return cell

    def _gates(self, gates: Any) -> list[Any]:
        return self._parts("split", gates, [self._fresh(name) for name in _GATES])

    def _next(self, gates: Sequence[Any], memory: Any) -> tuple[Any, Any]:
        """Return the next state and memory (Hochreiter and Schmidhuber, 1997; forget gates)."""
        input_gate, forget, candidate, output_gate = (
            self._op(kind, self._fresh(kind.lower()), [gate])
            for kind, gate in zip(("Sigmoid", "Sigmoid", "Tanh", "Sigmoid"), gates, strict=True)
        )
        retained = self._op("Mul", self._fresh("kept"), [forget, memory])
        added = self._op("Mul", self._fresh("taken"), [input_gate, candidate])
        memory = self._op("Add", self._fresh("memory"), [retained, added])
        squashed = self._op("Tanh", self._fresh("shown"), [memory])
        return self._op("Mul", self._fresh("state"), [output_gate, squashed]), memory

    def _gate_weights(self, gate: str, features: int, hidden: int) -> tuple[Any, Any, Any]:
        name = self._fresh(f"{gate}_gate")
        products = (
            self._weight(f"{name}.{label}", self._normal((count, hidden), 1.5 / math.sqrt(count)))
            for label, count in (("x", features), ("h", hidden))
        )
        return (*products, self._weight(f"{name}.bias", self._normal((hidden,), 0.3)))

    def _linear_weights(self, name: str, features: int, results: int) -> tuple[Any, Any]:
        # Gates must neither saturate nor vanish over ten layers.
        name = self._fresh(name)
        weight = self._normal((results, features), 1.5 / math.sqrt(features))
        return (
            self._weight(f"{name}.weight", weight),
            self._weight(f"{name}.bias", self._normal((results,), 0.3)),
        )
