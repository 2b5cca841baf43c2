"""Recurrent layers."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from tests.outside.case import Case, floats, kind, node, onnx_model

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@kind("recurrent layers")
def _recurrent(rng: Generator) -> Case:
    operator = str(rng.choice([*_GATES]))
    gates, steps, batch, size, hidden = _GATES[operator], int(rng.integers(1, 6)), 3, 4, 5
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    ways = 2 if direction == "bidirectional" else 1
    weights = {
        "w": floats(rng, ways, gates * hidden, size),
        "r": floats(rng, ways, gates * hidden, hidden) * np.float32(0.3),
    }
    inputs = ["x", "w", "r", "", "", ""]
    if rng.integers(2):
        weights["b"] = floats(rng, ways, 2 * gates * hidden)
        inputs[3] = "b"
    if rng.integers(2):
        weights["lengths"] = rng.integers(1, steps + 1, batch).astype(np.int32)
        inputs[4] = "lengths"
    if rng.integers(2):
        weights["h"] = floats(rng, ways, batch, hidden)
        inputs[5] = "h"
    attributes = {"hidden_size": hidden, "direction": direction}
    if operator == "GRU":
        attributes["linear_before_reset"] = int(rng.integers(2))
    if rng.random() < 0.25:
        attributes["clip"] = 0.7
    outputs = ["y", "last", *(["cell"] if operator == "LSTM" else [])]
    x = floats(rng, steps, batch, size)
    made = node(operator, inputs, outputs, **attributes)
    return Case(onnx_model([made], {"x": x}, outputs, weights, opset=17), {"x": x})


@kind("long recurrences")
def _long(rng: Generator) -> Case:
    """So many steps that the sizes of their parts are a large constant."""
    steps = int(rng.choice([126, 130, 140]))
    weights = {"w": floats(rng, 1, 6, 2), "r": floats(rng, 1, 6, 2) * np.float32(0.3)}
    x = floats(rng, steps, 1, 2)
    made = node("GRU", ["x", "w", "r"], ["y"], hidden_size=2)
    return Case(onnx_model([made], {"x": x}, ["y"], weights, opset=17), {"x": x})
