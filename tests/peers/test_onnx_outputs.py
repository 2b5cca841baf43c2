"""What is right is what ONNX says, not what TVM makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from relay_passes import SearchOptions
from runtime_ext.peers.onnx_outputs import onnx_outputs
from tests.brief import shorten
from tests.onnx_sketch import Sketch
from tests.refusals import refused
from tvm_ios.api import optimize
from tvm_ios.contest import contest
from tvm_ios.contest.outputs import VerificationError

pytest.importorskip("onnxruntime")


def with_nan() -> onnx.ModelProto:
    """Of negative numbers a logarithm is NaN, which TVM's own relu makes zero."""
    sketch = Sketch(1, 3, 8, 8)
    return sketch.model(sketch.op("Relu", sketch.op("Log", sketch.conv("x", 3, 4))))


def test_outputs_are_those_of_the_operators() -> None:
    x = np.array([[-1.0, 2.0]], np.float32)
    sketch = Sketch(1, 2)
    result = onnx_outputs(sketch.model(sketch.op("Neg", "x")), [x])
    assert result is not None
    (output,), source = result
    assert np.array_equal(output, -x)
    assert source.startswith("ONNX Runtime")


def test_a_model_that_it_refuses_has_none() -> None:
    sketch = Sketch(1, 2)
    model = sketch.model(sketch.op("Neg", "x"))
    model.graph.node[0].op_type = "NoSuchOperator"
    assert onnx_outputs(model, [np.zeros((1, 2), np.float32)]) is None


def test_a_model_is_kept_that_tvm_computes_wrongly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch.setattr)
    onnx.save(with_nan(), tmp_path / "model.onnx")
    done = optimize(
        tmp_path / "model.onnx",
        tmp_path / "out",
        options=SearchOptions(lanes=1),
        policies=(),
    )
    errors = {row.policy: row.max_rel_error for row in done.policies}
    assert errors.keys() == {"sequential"}
    assert errors["sequential"] < 1e-5
    assert any(note.startswith("TVM's own build differs") for note in done.notes)
    assert done.reference.startswith("ONNX Runtime")


def test_what_differs_from_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch.setattr)
    before = contest.verify_outputs
    monkeypatch.setattr(
        contest, "verify_outputs", lambda p, outputs, r: before(p, [2 * o for o in outputs], r)
    )
    sketch = Sketch(1, 3, 8, 8)
    onnx.save(sketch.model(sketch.conv("x", 3, 4)), tmp_path / "model.onnx")
    with refused(VerificationError, "sequential", "ONNX Runtime"):
        optimize(
            tmp_path / "model.onnx",
            tmp_path / "out",
            options=SearchOptions(lanes=1),
            policies=(),
        )
    assert not (tmp_path / "out").exists()
