"""An operator is a line for its FLOPs and one for each way in: LogSoftmax, which has none yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from relay_passes import same_attributes
from relay_passes.relax.importer import import_onnx
from tests.kernels.kernel_harness import check, make_unit
from tests.onnx_sketch import Sketch
from tests.same_graphs import require_same_graphs
from tvm_ios.graph import operators
from tvm_ios.onnx import operators as onnx_operators
from tvm_ios.onnx.canonical import Canonical


def log_softmax(node: Any, opset: int) -> Canonical:
    """As Softmax has it."""
    axis = node.attributes.get_int("axis", -1 if opset >= 13 else 1) % len(node.inputs[0].shape)
    return Canonical("log_softmax", node.inputs, {"axis": axis})


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operators._PER_ELEMENT, "log_softmax", 6)
    monkeypatch.setitem(onnx_operators._HANDLERS, "LogSoftmax", log_softmax)
    reader = ("log_softmax", same_attributes._along)
    monkeypatch.setitem(same_attributes._READERS, "nn.log_softmax", reader)


@pytest.fixture
def model() -> Any:
    sketch = Sketch(2, 3, 4, 5)
    return sketch.model(sketch.op("LogSoftmax", sketch.op("Relu", "x"), axis=-2))


def test_without_these_lines_the_ways_differ(model: Any) -> None:
    with pytest.raises(AssertionError):
        require_same_graphs(model, import_onnx)


@pytest.mark.usefixtures("added")
def test_both_ways_give_one_fingerprint(model: Any) -> None:
    graph = require_same_graphs(model, import_onnx)
    (operator,) = (operator for operator in graph.operators if operator.kind == "log_softmax")
    assert operator.attrs == {"axis": 2}
    assert operator.flops == 6 * 2 * 3 * 4 * 5


def test_it_runs_with_tvms_own_code(kernels_folder: Path) -> None:
    function = make_unit([(2, 3, 4, 5)], [], lambda emit, x: emit(relax.op.nn.log_softmax(x, 2)))
    check(str(kernels_folder), function, ("", ""))
