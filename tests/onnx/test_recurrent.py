"""Recurrent layers become cells that compute what ONNX Runtime's layers do."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnx_sketch import Sketch, kinds, relative_error, run, run_on, simplify_checked
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.rewrites.recurrence import cells
from tvm_ios.onnx.simplify import simplify

STEPS, BATCH, FEATURES, HIDDEN = 4, 2, 5, 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def layer(
    kind: str,
    *,
    inputs: tuple[str, ...] = ("bias",),
    opset: int = 17,
    steps: int = STEPS,
    **attributes: Any,
) -> Any:
    """A model of one layer; ``inputs`` are those that it has beside its weights."""
    ways = 2 if attributes.get("direction") == "bidirectional" else 1
    first = attributes.get("layout", 0)
    s = Sketch(*((BATCH, steps) if first else (steps, BATCH)), FEATURES, opset=opset)
    gates = GATES[kind]

    def state() -> str:
        shape = (BATCH, ways, HIDDEN) if first else (ways, BATCH, HIDDEN)
        return s.normal(*shape)

    optional = {
        "bias": lambda: s.normal(ways, 2 * gates * HIDDEN),
        "lengths": lambda: s.const(np.full(BATCH, steps, np.int32)),
        "state": state,
        "memory": state,
        "peepholes": lambda: s.normal(ways, 3 * HIDDEN),
    }
    weights = [s.normal(ways, gates * HIDDEN, extent) for extent in (FEATURES, HIDDEN)]
    rest = [make() if name in inputs else "" for name, make in optional.items()]
    rest = rest if kind == "LSTM" else rest[:3]
    outputs = s.op(
        kind, "x", *weights, *rest, outputs=3 if kind == "LSTM" else 2, hidden_size=HIDDEN,
        **attributes,
    )  # fmt: skip
    return s.model(*outputs)


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "LSTM"},
        {"kind": "LSTM", "inputs": ()},
        {"kind": "LSTM", "steps": 1},
        {"kind": "LSTM", "inputs": ("bias", "lengths", "state", "memory", "peepholes")},
        {"kind": "LSTM", "inputs": ("state",), "direction": "reverse"},
        {"kind": "LSTM", "direction": "bidirectional", "inputs": ("state", "memory", "bias")},
        {"kind": "LSTM", "input_forget": 1, "inputs": ("memory",)},
        {"kind": "LSTM", "clip": 0.3},
        {"kind": "LSTM", "opset": 11},
        {"kind": "LSTM", "opset": 9, "clip": 0.5},
        {
            "kind": "LSTM",
            "activations": ["HardSigmoid", "ScaledTanh", "Affine"],
            "activation_alpha": [0.3, 0.8, 0.7],
            "activation_beta": [0.4, 0.9, 0.1],
        },
        {"kind": "GRU"},
        {"kind": "GRU", "inputs": ("bias", "state"), "linear_before_reset": 1},
        {"kind": "GRU", "linear_before_reset": 1, "direction": "bidirectional"},
        {"kind": "GRU", "inputs": ("state",), "direction": "bidirectional"},
        {"kind": "GRU", "activations": ["Softsign", "relu"], "direction": "reverse"},
        {"kind": "RNN", "inputs": ("bias", "state")},
        {"kind": "RNN", "activations": ["LeakyRelu"], "activation_alpha": [0.2]},
        {
            "kind": "RNN",
            "direction": "bidirectional",
            "activations": ["Elu", "ThresholdedRelu"],
            "activation_alpha": [0.5, 0.1],
        },
    ],
    ids=str,
)
@pytest.mark.parametrize("cells", [True, False])
def test_a_layer_computes_the_same(options: dict[str, Any], cells: bool) -> None:
    model = layer(**options)
    simplified = simplify_checked(model, cells=cells)
    assert not GATES.keys() & set(kinds(simplified))
    assert [o.name for o in simplified.graph.output] == [o.name for o in model.graph.output]


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    ("kind", "inputs", "direction"),
    [
        ("LSTM", ("bias",), "bidirectional"),
        ("LSTM", ("bias", "state", "memory", "peepholes"), "bidirectional"),
        ("GRU", ("state",), "reverse"),
        ("GRU", (), "forward"),
        ("RNN", ("bias", "state"), "bidirectional"),
    ],
)
def test_sequences_may_be_of_several_lengths(
    kind: str, inputs: tuple[str, ...], direction: str, given: bool
) -> None:
    """Past its end a sequence is zeros, and its last state is that of its end."""
    model = layer(kind, inputs=(*inputs, "lengths"), direction=direction)
    lengths = np.array([STEPS - 1, 1], np.int32)
    (weight,) = (w for w in model.graph.initializer if w.data_type == TensorProto.INT32)
    name = weight.name
    feeds: dict[str, Any] = {"x": np.random.default_rng(0).random((4, 2, 5), np.float32)}
    if given:
        model.graph.initializer.remove(weight)
        value = helper.make_tensor_value_info(name, TensorProto.INT32, (BATCH,))
        model.graph.input.append(value)
        feeds[name] = lengths
    else:
        weight.CopyFrom(numpy_helper.from_array(lengths, name))
    simplified = simplify_checked(model, feeds)
    assert not GATES.keys() & set(kinds(simplified))


def test_of_an_lstm_only_gates_are_clipped() -> None:
    """The memory is not, where it is the larger one, in ONNX Runtime and others."""
    model = layer("LSTM", clip=0.4)
    simplified = simplify(model)
    for seed in range(6):
        assert relative_error(run(simplified, seed), run(model, seed)) < 1e-5


@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("kind", GATES)
def test_the_batch_may_come_first(kind: str, cells: bool) -> None:
    """ONNX Runtime does not know this layout."""
    inputs = ("bias", "state", "memory")
    outputs = run(simplify(layer(kind, inputs=inputs, layout=1), cells=cells))
    other = layer(kind, inputs=inputs)
    # Of one direction the states have the same numbers in either order.
    x = np.random.default_rng(0).standard_normal((BATCH, STEPS, FEATURES), dtype=np.float32)
    expected = run_on(other, {"x": x.transpose(1, 0, 2)})
    assert np.allclose(outputs[0], expected[0].transpose(2, 0, 1, 3), atol=1e-6)
    for ours, theirs in zip(outputs[1:], expected[1:], strict=True):
        assert np.allclose(ours, theirs.transpose(1, 0, 2), atol=1e-6)


def test_an_lstm_is_one_product_and_a_unit_for_each_cell() -> None:
    simplified = simplify(layer("LSTM", steps=6), cells=True)
    units = form_units(graph_from_onnx(simplified, already_simplified=True))
    counts = Counter("dense" in op.kind for op in units.operators)
    assert counts[True] == 6, "the first cell goes with the product of all inputs"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("weights", "weights"),
        ("activation", "(Sine, Tanh, Tanh)"),
    ],
)
def test_what_cannot_be_unrolled_is_refused(change: str, named: str) -> None:
    s = Sketch(STEPS, BATCH, FEATURES)
    weights = [s.normal(1, 4 * HIDDEN, extent) for extent in (FEATURES, HIDDEN)]
    attributes: dict[str, Any] = {"hidden_size": HIDDEN}
    if change == "weights":
        sliced = s.op("Slice", "x", s.const(np.array([0])), s.const(np.array([1])))
        weights[1] = s.op("Reshape", sliced, s.const(np.array([1, -1, FEATURES])))
    else:
        attributes["activations"] = ["Sine", "Tanh", "Tanh"]
    model = s.model(s.op("LSTM", "x", *weights, outputs=2, **attributes)[0])
    output = model.graph.node[-1].output[0]
    with refused(GraphError, "LSTM", f"'{output}'", named):
        simplify(model)


def test_many_steps_are_said_to_take_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "_MANY", 7)
    for steps in (7, 8):
        simplify(layer("GRU", steps=steps), cells=True)
    (said,) = caplog.messages
    assert said.startswith("operator GRU (node 'GRU_0', output 'v0_0') is unrolled to 8 cells")
