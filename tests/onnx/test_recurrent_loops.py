"""Recurrent layers become operators of all steps, and which do not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from relay_passes.relax.extract import extract
from relay_passes.relax.importer import import_onnx
from tests.onnx.test_recurrent import BATCH, FEATURES, HIDDEN, STEPS, layer
from tests.onnx_sketch import Sketch, kinds, simplify_checked
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.rewrites.recurrence.loops import DOMAIN
from tvm_ios.onnx.simplify import simplify


def loops(model: Any) -> int:
    return sum(node.domain == DOMAIN for node in model.graph.node)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"kind": "LSTM", "inputs": ("bias", "lengths", "state", "memory", "peepholes")}, 1),
        ({"kind": "LSTM", "direction": "bidirectional"}, 2),
        ({"kind": "LSTM", "layout": 1}, 1),
        ({"kind": "GRU", "linear_before_reset": 1, "activations": ["sigmoid", "RELU"]}, 1),
        ({"kind": "RNN", "opset": 9}, 1),
        ({"kind": "LSTM", "steps": 1}, 0),
        ({"kind": "LSTM", "clip": 0.3}, 0),
        ({"kind": "LSTM", "input_forget": 1}, 0),
        ({"kind": "GRU", "activations": ["Sigmoid", "Softsign"]}, 0),
        ({"kind": "RNN", "opset": 8}, 0),
    ],
    ids=str,
)
def test_layers_that_are_one_operator_for_each_direction(
    options: dict[str, Any], count: int
) -> None:
    assert loops(simplify(layer(**options))) == count
    assert loops(simplify(layer(**options), cells=True)) == 0


def sequence_to_sequence(way: str) -> Any:
    """A layer whose result is written, as exporters do, without the axis of directions."""
    s = Sketch(STEPS, BATCH, FEATURES)
    ways = 2 if way != "squeezed" else 1
    weights = [s.normal(ways, 4 * HIDDEN, extent) for extent in (FEATURES, HIDDEN)]
    direction = "bidirectional" if ways == 2 else "forward"
    y = s.op("LSTM", "x", *weights, hidden_size=HIDDEN, direction=direction)

    def ints(*values: int) -> str:
        return s.const(np.array(values))

    if way == "squeezed":
        return s.model(s.op("Relu", s.op("Squeeze", y, ints(1))))
    if way == "joined":
        turned = s.op("Transpose", y, perm=[0, 2, 1, 3])
        return s.model(s.op("Relu", s.op("Reshape", turned, ints(STEPS, BATCH, -1))))
    parts = [s.op("Slice", y, ints(d), ints(d + 1), ints(1)) for d in range(2)]
    parts = [s.op("Squeeze", part, ints(1)) for part in parts]
    return s.model(s.op("Relu", s.op("Concat", *parts, axis=2)))


@pytest.mark.parametrize(
    ("way", "left"),
    [("squeezed", {}), ("joined", {"Concat": 1}), ("sliced", {"Concat": 1})],
)
def test_what_undoes_the_layout_of_a_result_is_left_out(way: str, left: dict[str, int]) -> None:
    simplified = simplify_checked(sequence_to_sequence(way))
    of_layer = {"LSTMSteps", "MatMul", "Relu"}
    assert {k: n for k, n in Counter(kinds(simplified)).items() if k not in of_layer} == left


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "LSTM", "inputs": ("bias", "state", "memory", "peepholes")},
        {"kind": "GRU", "direction": "bidirectional", "linear_before_reset": 1},
        {"kind": "RNN", "direction": "reverse"},
    ],
    ids=str,
)
def test_tvm_reads_the_same_graph(options: dict[str, Any]) -> None:
    simplified = simplify(layer(**options))
    graph = graph_from_onnx(simplified, already_simplified=True)
    read = extract(import_onnx(simplified), graph.name).graph
    assert read.fingerprint == graph.fingerprint
    assert [op.flops for op in read.operators] == [op.flops for op in graph.operators]
