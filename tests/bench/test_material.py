"""What peers of ``bench`` read: the model as its user wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, parser

from relay_passes.load import load_model
from relay_passes.search_options import SearchOptions
from runtime_ext.execution.bound_model import bind_onnx
from tests.brief import shorten
from tests.onnx_sketch import kinds
from tvm_ios.api.fallback import runtime_files
from tvm_ios.bench.bench import bench
from tvm_ios.contest.rules import Rules
from tvm_ios.models.source import ModelSource
from tvm_ios.onnx.as_written import beginning_as_written, with_static_inputs

pytest.importorskip("onnxruntime")


def quantised(end: str = "", output: str = "float[n, 4, 6, 6] y") -> onnx.ModelProto:
    """One convolution between rounded numbers, an input that is read for its shape, and an end."""
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        drawn (float[n, 3, 8, 8] x, int64[n, 5] like) => ({output})
        <float s = {{0.02}}, uint8 z = {{128}}, float ws = {{0.01}}, int8 wz = {{0}}>
        {{
            q = QuantizeLinear (x, s, z)
            c = QLinearConv (q, s, z, w, ws, wz, s, z)
            d = DequantizeLinear (c, s, z)
            h = Shape <end = 1> (like)
            t = Concat <axis = 0> (h, rest)
            y = Reshape (d, t)
            {end}
        }}
    """)
    weights = np.random.default_rng(0).integers(-50, 50, (4, 3, 3, 3)).astype(np.int8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    rest = np.array([4, 6, 6])
    model.graph.initializer.append(onnx.numpy_helper.from_array(rest, "rest"))
    return model


SHAPES = {"x": (2, 3, 8, 8), "like": (2, 5)}


def require_as_written(model: onnx.ModelProto) -> None:
    """Require the operators of the drawn model before its end, and static inputs."""
    assert {"QuantizeLinear", "QLinearConv", "DequantizeLinear"} <= {*kinds(model)}
    inputs: Any = model.graph.input
    declared = {v.name: tuple(e.dim_value for e in v.type.tensor_type.shape.dim) for v in inputs}
    assert declared == SHAPES


def test_peers_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch.setattr)
    onnx.save(quantised(), tmp_path / "model.onnx")
    result = bench(
        ModelSource(str(tmp_path / "model.onnx"), shapes=SHAPES),
        ["onnxruntime"],
        tmp_path / "kept",
        rules=Rules(rounds=2, seconds=0.0, minimum=2),
        options=SearchOptions(lanes=1),
        policies=(),
    )
    assert result.reference == "onnxruntime"
    assert result.failed == {}
    require_as_written(onnx.load(tmp_path / "kept" / "model.onnx"))
    assert "QLinearConv" not in kinds(onnx.load(tmp_path / "kept" / "simplified.onnx"))


def test_what_is_before_a_tail_is_of_its_operators(tmp_path: Path) -> None:
    onnx.save(quantised("p = NonZero (y)", "int64[4, m] p"), tmp_path / "model.onnx")
    loaded = load_model(ModelSource(str(tmp_path / "model.onnx"), shapes=SHAPES))
    assert loaded.tail is not None
    assert isinstance(loaded.original, onnx.ModelProto)
    require_as_written(loaded.original)
    assert "NonZero" not in kinds(loaded.original)


def test_what_has_another_name_or_type_is_taken_as_it_was_cut() -> None:
    """Of ``q`` the simplified model has the integers in floats."""
    model = with_static_inputs(quantised(), SHAPES)
    for name, kind in (("q", TensorProto.FLOAT), ("unheard of", TensorProto.UINT8)):
        head = onnx.ModelProto()
        head.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
        assert beginning_as_written(model, head) is head


def test_onnx_runtime_keeps_it_too(tmp_path: Path) -> None:
    onnx.save(quantised(), tmp_path / "model.onnx")
    loaded = load_model(ModelSource(str(tmp_path / "model.onnx"), shapes=SHAPES))
    files = runtime_files(("onnxruntime",), tmp_path / "tvm.so", loaded, tmp_path)
    require_as_written(onnx.load(files["onnxruntime"]))
    # Of "like" only the shape is read, so programs have no such input.
    bound = bind_onnx(files["onnxruntime"], 1)({"x": np.zeros(SHAPES["x"], np.float32)})
    assert bound.outputs(bound.run())[0].shape == (2, 4, 6, 6)
