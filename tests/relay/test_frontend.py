"""TVM's importer visits each expression once, and what it makes is what it makes otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx.reference import ReferenceEvaluator
from tvm import relay
from tvm.relay.frontend import common
from tvm.relay.frontend import onnx as onnx_frontend

from relay_passes.relay import frontend
from relay_passes.relay.canonical.canonicalise import canonicalise
from relay_passes.relay.canonical.fold_constants import folded
from relay_passes.relay.expressions import operator_name
from relay_passes.relay.frontend import visiting_once
from relay_passes.relay.importer import import_onnx
from tests.onnx_sketch import Sketch, relative_error
from tests.refusals import refused
from tests.relay.relay_sketch import RelaySketch, module_of, run
from tests.same_graphs import small_model
from tvm_ios.graph.elements import GraphError
from tvm_ios.models.load import load_onnx
from tvm_ios.onnx.simplify import simplify


def _gathered(sketch: Sketch) -> str:
    """Indices are data: the importer asks for shapes and takes of them, which TVM folds itself."""
    indices = sketch.op("Cast", sketch.op("ReduceMax", "x", axes=[1, 3], keepdims=0), to=7)
    return sketch.op("Gather", sketch.normal(5, 4), indices)


def _models() -> dict[str, Any]:
    sketch = Sketch(1, 6, 8, 8)
    made = {name: small_model(name) for name in ("split", "shuffled", "moved", "multiplied")}
    return made | {"gathered": sketch.model(_gathered(sketch))}


@pytest.mark.parametrize("name", _models())
def test_it_makes_what_it_makes_otherwise(name: str) -> None:
    model = _models()[name]
    with visiting_once():
        ours, _ = relay.frontend.from_onnx(model, freeze_params=True)
    theirs, _ = relay.frontend.from_onnx(model, freeze_params=True)
    tvm.ir.assert_structural_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceSum", "ReduceL2"])
@pytest.mark.parametrize("axes", [[2, 3], [-1], []])
def test_axes_of_a_reduction_given_as_an_input(kind: str, axes: list[int]) -> None:
    sketch = Sketch(1, 3, 4, 5, opset=18)
    made = sketch.op(kind, "x", sketch.const(np.array(axes, "int64")), keepdims=0)
    model = sketch.model(made)
    x = np.random.default_rng(0).standard_normal((1, 3, 4, 5)).astype("float32")
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    assert relative_error(run(import_onnx(simplify(model)), {"x": x}), expected) <= 1e-6


@pytest.mark.parametrize("name", ["transformer_small", "lstm_small"])
def test_nothing_is_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fold(node: Any) -> Any:
        assert operator_name(node) == "shape_of"
        return fold_constant(node)

    fold_constant = common.fold_constant
    monkeypatch.setattr(frontend, "_fold_constant", fold)
    import_onnx(load_onnx(name))


def test_the_importer_is_left_as_it_was() -> None:
    before = common.fold_constant, onnx_frontend.infer_type
    with visiting_once():
        assert onnx_frontend.fold_constant is not before[0]
    assert (common.fold_constant, onnx_frontend.infer_type) == before


def _slice(begins: list[int], ends: list[int], *strides: Any, **attributes: Any) -> Any:
    return lambda x: relay.strided_slice(x, begins, ends, *strides, **attributes)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize(
    "made",
    [
        _slice([1, 0], [2, 9]),
        _slice([0, 1], [2, 3], [2]),
        _slice([-1], [-9], [-1], axes=[1]),
        _slice([0, 1], [2, 4], [1, 2], axes=[0, 2]),
        lambda x: relay.take(x, relay.const([[-1, 1], [5, 0]]), axis=1),
        lambda x: relay.take(x, relay.const(7)),
        lambda x: relay.concatenate([x, relay.const(np.ones((2, 3, 1)), x.data.dtype)], axis=-1),
    ],
)
def test_a_fold_is_what_tvm_computes(made: Any, dtype: str) -> None:
    call = made(relay.const(2.0**40 + np.arange(24).reshape(2, 3, 4), dtype))
    relay.transform.InferTypeLocal(call)
    ours, theirs = folded(call, call), relay.transform.FoldConstantExpr(call, tvm.IRModule())
    assert ours is not None
    tvm.ir.assert_structural_equal(ours, theirs)


def test_wide_and_scalar_constants_stay_what_they_are() -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        large = relay.const(2**40, "int64") + relay.const(1, "int64")
        return relay.cast(relay.sum(x), "int64") + large

    module = module_of([(2, 2)], body)
    inputs = {"x0": np.ones((2, 2), "float32")}
    result = run(canonicalise(module), inputs)[0]
    assert (result.shape, result.dtype, int(result)) == ((), np.int64, 2**40 + 5)


def test_what_an_older_onnx_cannot_write_out_is_refused() -> None:
    sketch = Sketch(1, 3, 4, 5)
    with refused(GraphError, "Celu", "1.18.0"):
        simplify(sketch.model(sketch.op("Celu", "x")))
