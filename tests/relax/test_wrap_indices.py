"""No index that a model is given leads beyond the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.canonical.canonicalise import canonicalise
from relay_passes.relax.expressions import bindings_of, operator_name
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from tests.onnx_sketch import relative_error, run_on
from tvm_ios.onnx.simplify import simplify
from tvm_ios.policies.greedy import greedy_schedule

#: What each takes besides data and indices, what it makes, and the extents that are indexed.
OPERATORS = {
    "Gather": ("", "float[4, 2, 6] y) { y = Gather(x, i) }", 5),
    "GatherElements": ("", "float[4, 2] y) { y = GatherElements <axis = 1> (x, i) }", 6),
    "GatherND": ("", "float[4] y) { y = GatherND (x, i) }", [5, 6]),
    "ScatterElements": (", float[4, 2] u", "float[5, 6] y) { y = ScatterElements (x, i, u) }", 5),
    "ScatterND": (", float[4] u", "float[5, 6] y) { y = ScatterND (x, i, u) }", [5, 6]),
}


def model_of(kind: str) -> Any:
    more, result, _ = OPERATORS[kind]
    head = '<ir_version: 8, opset_import: ["": 18]>'
    return onnx.parser.parse_model(f"{head} g (float[5, 6] x, int64[4, 2] i{more}) => ({result}")


@pytest.mark.parametrize("kind", OPERATORS)
def test_indices_out_of_range_wrap_around(kind: str) -> None:
    model, extents = model_of(kind), OPERATORS[kind][2]
    prepared = prepare(import_onnx(simplify(model)))
    session = build(apply_schedule(prepared, greedy_schedule(prepared.units)), lanes=1).session()
    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {
        port.name: rng.standard_normal(port.shape, dtype=np.float32) for port in session.inputs
    }
    # Wrapped, each row of them still names another element.
    inputs["i"] = np.array([[0, 0], [-1, -1], [7, 8], [10**12 + 3, -(10**12) - 4]])
    session.run(**inputs)
    wrapped = {**inputs, "i": np.mod(inputs["i"], extents)}
    assert relative_error([session.get_output(0)], run_on(model, wrapped)) == 0
    session.close()


@pytest.mark.parametrize("kind", [kind for kind in OPERATORS if kind != "Gather"])
def test_indices_are_wrapped_once_and_no_guard_of_the_importer_stays(kind: str) -> None:
    again = canonicalise(import_onnx(model_of(kind)))
    first, *rest = (operator_name(binding.value) for binding in bindings_of(again["main"]))
    assert first == "relax.floor_mod"
    assert len(rest) == 1
