"""What peers of ``bench`` read: the model as its user wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from relay_passes.load import load_model
from relay_passes.search_options import SearchOptions
from runtime_ext.execution.bound_model import bind_onnx
from tests.brief import shorten
from tests.onnx_sketch import kinds
from tests.quantised_models import SHAPES, rounded_convolution
from tvm_ios.api import Options
from tvm_ios.api.fallback import runtime_files
from tvm_ios.bench.bench import bench
from tvm_ios.contest.rules import Rules
from tvm_ios.models.source import ModelSource
from tvm_ios.onnx.as_written import beginning_as_written, with_static_inputs

pytest.importorskip("onnxruntime")


def require_as_written(model: onnx.ModelProto) -> None:
    """Require the operators of the drawn model before its end, and static inputs."""
    assert {"QuantizeLinear", "QLinearConv", "DequantizeLinear"} <= {*kinds(model)}
    inputs: Any = model.graph.input
    declared = {v.name: tuple(e.dim_value for e in v.type.tensor_type.shape.dim) for v in inputs}
    assert declared == SHAPES


@pytest.mark.slow
def test_peers_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch.setattr)
    onnx.save(rounded_convolution(), tmp_path / "model.onnx")
    result = bench(
        ModelSource(str(tmp_path / "model.onnx"), shapes=SHAPES),
        ["onnxruntime"],
        tmp_path / "kept",
        rules=Rules(rounds=2, seconds=0.0, minimum=2),
        options=Options(search=SearchOptions(lanes=1), policies=()),
    )
    assert result.reference == "onnxruntime"
    assert result.failed == {}
    require_as_written(onnx.load(tmp_path / "kept" / "model.onnx"))
    assert "QLinearConv" not in kinds(onnx.load(tmp_path / "kept" / "simplified.onnx"))


def test_what_is_before_a_tail_is_of_its_operators(tmp_path: Path) -> None:
    onnx.save(rounded_convolution("p = NonZero (y)", "int64[4, m] p"), tmp_path / "model.onnx")
    loaded = load_model(ModelSource(str(tmp_path / "model.onnx"), shapes=SHAPES))
    assert loaded.tail is not None
    assert isinstance(loaded.original, onnx.ModelProto)
    require_as_written(loaded.original)
    assert "NonZero" not in kinds(loaded.original)


def test_what_has_another_name_or_type_is_taken_as_it_was_cut() -> None:
    """Of ``q`` the simplified model has the integers in floats."""
    model = with_static_inputs(rounded_convolution(), SHAPES)
    for name, kind in (("q", TensorProto.FLOAT), ("unheard of", TensorProto.UINT8)):
        head = onnx.ModelProto()
        head.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
        assert beginning_as_written(model, head) is head


def test_onnx_runtime_keeps_it_too(tmp_path: Path) -> None:
    onnx.save(rounded_convolution(), tmp_path / "model.onnx")
    loaded = load_model(ModelSource(str(tmp_path / "model.onnx"), shapes=SHAPES))
    files = runtime_files(("onnxruntime",), tmp_path / "tvm.so", loaded, tmp_path)
    require_as_written(onnx.load(files["onnxruntime"]))
    # Of "like" only the shape is read, so programs have no such input.
    bound = bind_onnx(files["onnxruntime"], 1)({"x": np.zeros(SHAPES["x"], np.float32)})
    assert bound.outputs(bound.run())[0].shape == (2, 4, 6, 6)
