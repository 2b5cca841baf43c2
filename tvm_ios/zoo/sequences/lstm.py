"""LSTM-TC: the unrolled 10-layer text classifier of Rammer's benchmark (Ma et al., OSDI 2020)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tvm_ios.zoo.writing.model_writer import ModelWriter

_CLASSES = 10


def build_lstm_tc(seed: int = 0) -> Any:
    """LSTM-TC as an ``onnx.ModelProto``: input (100, 1, 256), output (1, 10) logits.

    Ten layers of hidden size 256 over 100 steps (Rammer, table 2), batch 1: a thousand cells of
    thirteen operators.
    """
    return _build("lstm_tc", seed, layers=10, steps=100, hidden=256)


def build_lstm_small(seed: int = 0) -> Any:
    """Two layers of hidden size 16 over 6 steps: input (6, 1, 16), output (1, 10) logits."""
    return _build("lstm_small", seed, layers=2, steps=6, hidden=16)


def _build(name: str, seed: int, layers: int, steps: int, hidden: int) -> Any:
    net = _Recurrent(name, seed)
    source = net.new_input("input", (steps, 1, hidden))
    sequence = [net.step(source, step) for step in range(steps)]
    for layer in range(layers):
        with net.scope(f"layer{layer}"):
            sequence = net.lstm(sequence, hidden)
    return net.finish(net.linear("classifier", sequence[-1], hidden, _CLASSES), (1, _CLASSES))


class _Recurrent(ModelWriter):
    """An LSTM as PyTorch exports one that is written as a cell in a loop over time."""

    def step(self, source: Any, step: int) -> Any:
        """What the model reads at one step: (batch, features)."""
        name = self._fresh("step")
        index = self._weight(f"{name}.index", np.array(step, np.int64))
        return self._op("Gather", name, [source, index], {"axis": 0})

    def linear(self, name: str, x: Any, features: int, results: int) -> Any:
        """A dense layer with bias."""
        weight, bias = self._linear_weights(name, features, results)
        return self._op("Gemm", name, [x, weight, bias], {"transB": 1})

    def lstm(self, sequence: list[Any], hidden: int) -> list[Any]:
        """The hidden state of one layer at every step; the same weights serve all."""
        weights = (
            *self._linear_weights("input_gates", hidden, 4 * hidden),
            *self._linear_weights("hidden_gates", hidden, 4 * hidden),
        )
        state = self._weight(self._fresh("state"), np.zeros((1, hidden), np.float32))
        memory = self._weight(self._fresh("memory"), np.zeros((1, hidden), np.float32))
        states: list[Any] = []
        for step, x in enumerate(sequence):
            with self.scope(f"step{step}"):
                state, memory = self._cell(x, state, memory, weights)
            states.append(state)
        return states

    def _cell(self, x: Any, state: Any, memory: Any, weights: tuple[Any, ...]) -> tuple[Any, Any]:
        """The next state and memory (Hochreiter and Schmidhuber, 1997, with forget gates)."""
        from_input = self._op("Gemm", self._fresh("x"), [x, *weights[:2]], {"transB": 1})
        from_state = self._op("Gemm", self._fresh("h"), [state, *weights[2:]], {"transB": 1})
        gates = self._op("Add", self._fresh("gates"), [from_input, from_state])
        names = [self._fresh(name) for name in ("input", "forget", "candidate", "output")]
        parts = self._parts("split", gates, names)
        input_gate, forget, candidate, output_gate = (
            self._op(kind, self._fresh(kind.lower()), [part])
            for kind, part in zip(("Sigmoid", "Sigmoid", "Tanh", "Sigmoid"), parts, strict=True)
        )
        retained = self._op("Mul", self._fresh("kept"), [forget, memory])
        added = self._op("Mul", self._fresh("taken"), [input_gate, candidate])
        memory = self._op("Add", self._fresh("memory"), [retained, added])
        squashed = self._op("Tanh", self._fresh("shown"), [memory])
        return self._op("Mul", self._fresh("state"), [output_gate, squashed]), memory

    def _linear_weights(self, name: str, features: int, results: int) -> tuple[Any, Any]:
        # Gates must neither saturate nor vanish over ten layers.
        name = self._fresh(name)
        weight = self._normal((results, features), 1.5 / math.sqrt(features))
        return (
            self._weight(f"{name}.weight", weight),
            self._weight(f"{name}.bias", self._normal((results,), 0.3)),
        )
