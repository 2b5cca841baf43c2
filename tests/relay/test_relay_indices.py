"""No index that a model is given leads beyond the data, in Relay as in Relax."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx.reference import ReferenceEvaluator
from tvm import relay

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relay.canonical.canonicalise import canonicalise
from relay_passes.relay.importer import import_onnx
from runtime_ext.relay.build import build
from tests.relay.relay_sketch import run
from tvm_ios.policies.greedy import greedy_schedule

#: Indices and what else each takes besides data, what it makes, and the extents that are indexed.
OPERATORS = {
    "GatherElements": ("[5, 2] i", "float[5, 2] y) { y = GatherElements <axis = 1> (x, i) }", 6),
    "GatherND": ("[5, 2] i", "float[5] y) { y = GatherND (x, i) }", [5, 6]),
    "ScatterElements": (
        "[5, 2] i, float[5, 2] u",
        "float[5, 6] y) { y = ScatterElements <axis = 1> (x, i, u) }",
        6,
    ),
    "ScatterND": ("[5, 2] i, float[5] u", "float[5, 6] y) { y = ScatterND (x, i, u) }", [5, 6]),
}
#: Of each row the indices still differ when they are wrapped, and so do the rows.
INDICES = np.array([[0, 1], [-1, -2], [7, 8], [10**12 + 3, -(10**12) - 4], [11, 16]])


def model_of(kind: str) -> onnx.ModelProto:
    given, made, _ = OPERATORS[kind]
    head = '<ir_version: 8, opset_import: ["": 16]>'
    return onnx.parser.parse_model(f"{head} g (float[5, 6] x, int64{given}) => ({made}")


@pytest.mark.parametrize("kind", OPERATORS)
def test_indices_out_of_range_wrap_around(kind: str) -> None:
    model, extents = model_of(kind), OPERATORS[kind][2]
    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {
        port.name: rng.standard_normal([d.dim_value for d in port.type.tensor_type.shape.dim])
        for port in model.graph.input
    }
    inputs = {name: array.astype(np.float32) for name, array in inputs.items()}
    inputs["i"] = INDICES
    wrapped = {**inputs, "i": np.mod(INDICES, extents)}
    (expected,) = ReferenceEvaluator(model).run(None, wrapped)
    module = import_onnx(model)
    (found,) = run(module, inputs)
    np.testing.assert_array_equal(found, expected)
    prepared = prepare(module)
    scheduled = apply_schedule(prepared, greedy_schedule(prepared.units))
    session = build(scheduled, lanes=2).session()
    session.run(**inputs)
    np.testing.assert_array_equal(session.get_output(0), expected)


@pytest.mark.parametrize("kind", OPERATORS)
def test_indices_are_wrapped_once(kind: str) -> None:
    once = import_onnx(model_of(kind))
    assert once.astext(show_meta_data=False).count("floor_mod(") == 1
    tvm.ir.assert_structural_equal(canonicalise(once), once)


def test_known_indices_are_wrapped_at_once() -> None:
    x = relay.var("x", shape=(5, 6))
    data = relay.gather_nd(x, relay.const(np.array([[-1, 7], [6, -8]])))
    made = canonicalise(tvm.IRModule.from_expr(data))["main"].body
    np.testing.assert_array_equal(made.args[1].data.numpy(), [[4, 2], [0, 4]])


def test_takes_that_trust_their_indices_wrap() -> None:
    x, i = relay.var("x", shape=(5, 6)), relay.var("i", shape=(3,), dtype="int64")
    made = canonicalise(tvm.IRModule.from_expr(relay.take(x, i, axis=1, mode="fast")))
    data = np.arange(30, dtype=np.float32).reshape(5, 6)
    (found,) = run(made, {"x": data, "i": np.array([-1, 6, 13])})
    np.testing.assert_array_equal(found, data[:, [5, 0, 1]])
