"""What is said of tensors that hold integers, checked against what units compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tvm import relax

from relay_passes.pipeline import prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.units.integers import Bounds, integer_constant, integer_tensors
from tests.kernels.kernel_harness import make_unit, reference
from tests.quantised_models import models
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.onnx.simplify import simplify


def one_unit(body: Any, known: Bounds | None = None) -> Bounds | None:
    """What is known of the output of a unit, of which a unit before it makes the input."""
    shape = (1, 4, 6, 6)
    low, high = known or (0.0, 0.0)

    def before(emit: Any, x: Any) -> Any:
        if known is None:
            return emit(relax.op.exp(x))
        return emit(relax.op.minimum(rounded(emit, x, low), relax.const(high, "float32")))

    def rounded(emit: Any, x: Any, least: float) -> Any:
        return emit(relax.op.maximum(emit(relax.op.round(x)), relax.const(least, "float32")))

    functions = [make_unit([shape], [], before), make_unit([shape], [], body)]
    tensors = tuple(Tensor(name, shape, "float32") for name in ("x", "between", "y"))
    operators = (Operator("a", "unit", (0,), (1,)), Operator("b", "unit", (1,), (2,)))
    graph = OpGraph("units", operators, tensors, (0,), (2,))
    return integer_tensors(graph, functions)[2]


def test_what_moves_integers_keeps_them() -> None:
    relu = lambda emit, x: emit(relax.op.nn.relu(x))  # noqa: E731
    assert one_unit(relu, (-120.0, 135.0)) == (0.0, 135.0)
    assert one_unit(relu) is None
    pooled = lambda emit, x: emit(relax.op.nn.max_pool2d(x, (2, 2)))  # noqa: E731
    assert one_unit(pooled, (-3.0, 4.0)) == (-3.0, 4.0)
    flat = lambda emit, x: emit(relax.op.flatten(x))  # noqa: E731
    assert one_unit(flat, (-3.0, 4.0)) == (-3.0, 4.0)


@pytest.mark.parametrize(("number", "expected"), [(5.0, (2.0, 9.0)), (0.5, None)])
def test_what_is_added_counts(number: float, expected: Bounds | None) -> None:
    shifted = lambda emit, x: emit(relax.op.add(x, relax.const(number, "float32")))  # noqa: E731
    assert one_unit(shifted, (-3.0, 4.0)) == expected


def test_what_makes_other_numbers_is_not_known() -> None:
    halved = lambda emit, x: emit(relax.op.multiply(x, relax.const(0.5, "float32")))  # noqa: E731
    mean = lambda emit, x: emit(relax.op.nn.avg_pool2d(x, (2, 2)))  # noqa: E731
    assert one_unit(halved, (-3.0, 4.0)) is None
    assert one_unit(mean, (-3.0, 4.0)) is None


def test_constants() -> None:
    assert integer_constant(np.array([-3, 0, 7], np.float32)) == (-3.0, 7.0)
    assert integer_constant(np.array([-3, 0.5], np.float32)) is None
    assert integer_constant(np.array([np.nan, 1], np.float32)) is None
    assert integer_constant(np.array([np.inf, 1], np.float32)) is None
    assert integer_constant(np.zeros((0, 3), np.float32)) is None


def test_a_quantised_model_holds_what_is_said(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = onnx.load(models()["static, Q/DQ, per channel"](tmp_path))
    prepared = prepare(import_onnx(simplify(model)), "quantised")
    graph, outliner = prepared.units, prepared.outliner
    units = [outliner.unit(u) for u in range(len(graph))]
    bounds = integer_tensors(graph, [unit.function for unit in units])
    rng = np.random.default_rng(0)
    values: dict[int, Any] = {
        t: rng.standard_normal(graph.tensors[t].shape, np.float32) for t in graph.inputs
    }
    for unit in units:
        arguments = [values[t] for t in unit.data]
        arguments += [constant.value.numpy() for constant in unit.constants]
        values |= zip(unit.outputs, reference(unit.function, arguments), strict=True)
    claims = [t for t, known in enumerate(bounds) if known is not None]
    assert len(claims) > 4
    for tensor in claims:
        least, most = bounds[tensor] or (0.0, 0.0)
        value = values[tensor]
        assert (np.rint(value) == value).all()
        assert least <= value.min()
        assert value.max() <= most
