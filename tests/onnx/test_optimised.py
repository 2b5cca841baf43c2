"""Transformers as ONNX Runtime's optimiser writes them, read from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx_sketch import Sketch, kinds, relative_error, run_on
from tvm_ios.models.load import load_onnx, read_model
from tvm_ios.models.source import ModelSource

pytest.importorskip("onnxruntime")
ROWS, WIDTH, HEADS = 6, 16, 2


class Encoder(Sketch):
    """A transformer under construction, as exporters spell it."""

    def dense(self, x: str, before: int, after: int) -> str:
        weight = self.const(self.rng.standard_normal((before, after)) / np.sqrt(before))
        return self.op("Add", self.op("MatMul", x, weight), self.normal(after))

    def heads(self, x: str, perm: list[int]) -> str:
        parts = self.op("Reshape", x, self.const(np.array([0, 0, HEADS, WIDTH // HEADS])))
        return self.op("Transpose", parts, perm=perm)

    def layer_norm(self, x: str) -> str:
        if self.opset >= 17:
            return self.op("LayerNormalization", x, self.positive(WIDTH), self.normal(WIDTH))
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        square = self.op("Pow", centred, self.const(np.array(2.0)))
        variance = self.op("ReduceMean", square, axes=[-1])
        shifted = self.op("Add", variance, self.const(np.array(1e-5)))
        scaled = self.op("Div", centred, self.op("Sqrt", shifted))
        scaled = self.op("Mul", scaled, self.positive(WIDTH))
        return self.op("Add", scaled, self.normal(WIDTH))

    def gelu(self, x: str) -> str:
        bent = self.op("Erf", self.op("Div", x, self.const(np.array(np.sqrt(2)))))
        half = self.op("Mul", x, self.op("Add", bent, self.const(np.array(1.0))))
        return self.op("Mul", half, self.const(np.array(0.5)))

    def attention(self, x: str, mask: str) -> str:
        query, key, value = (
            self.heads(self.dense(x, WIDTH, WIDTH), perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = self.op("MatMul", query, key)
        scores = self.op("Div", scores, self.const(np.array(np.sqrt(WIDTH / HEADS))))
        shares = self.op("Softmax", self.op("Add", scores, mask), axis=-1)
        read = self.op("Transpose", self.op("MatMul", shares, value), perm=[0, 2, 1, 3])
        return self.op("Reshape", read, self.const(np.array([0, 0, WIDTH])))


def encoder(opset: int, layers: int = 2) -> onnx.ModelProto:
    s = Encoder("batch", ROWS, WIDTH, opset=opset)
    s.inputs.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", ROWS]))
    wide = s.op("Reshape", "mask", s.const(np.array([0, 1, 1, -1])))
    hidden = s.op("Sub", s.const(np.array(1.0)), wide)
    mask = s.op("Mul", hidden, s.const(np.array(-10000.0)))
    x = s.layer_norm("x")
    for _ in range(layers):
        attended = s.dense(s.attention(x, mask), WIDTH, WIDTH)
        x = s.layer_norm(s.op("Add", attended, x))
        bent = s.gelu(s.dense(x, WIDTH, 4 * WIDTH))
        x = s.layer_norm(s.op("Add", s.dense(bent, 4 * WIDTH, WIDTH), x))
    return s.model(x)


def convolutions() -> onnx.ModelProto:
    s = Sketch(1, 3, 8, 8, opset=13)
    first = s.op("Relu", s.conv("x", 3, 4))
    added = s.op("Add", s.conv(first, 4, 4), first)
    clipped = s.op("LeakyRelu", s.conv(added, 4, 4), alpha=0.1)
    flat = s.op("Flatten", s.op("GlobalAveragePool", clipped))
    return s.model(s.op("Sigmoid", s.op("Gemm", flat, s.normal(4, 3), s.normal(3))))


def optimised(model: onnx.ModelProto, path: Path, level: str = "EXTENDED") -> None:
    """Write what ONNX Runtime's optimiser makes of a model."""
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    all_levels: Any = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = getattr(all_levels, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def require_read(original: onnx.ModelProto, path: Path, feeds: dict[str, Any], **given: Any) -> Any:
    """Require that the file is read, and computes what the model did from which it was made."""
    source = ModelSource(str(path), **given)
    simple = load_onnx(source)
    assert all(node.domain in ("", "ai.onnx") for node in simple.graph.node)
    assert relative_error(run_on(simple, feeds), run_on(original, feeds)) < 1e-5
    return read_model(source)


@pytest.mark.parametrize("opset", [12, 14, 17])
def test_an_encoder(opset: int, tmp_path: Path) -> None:
    model, path = encoder(opset), tmp_path / "optimised.onnx"
    optimised(model, path)
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((2, ROWS, WIDTH)).astype(np.float32),
        "mask": np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.float32),
    }
    written = require_read(model, path, feeds, batch=2)
    assert {"BiasGelu", "SkipLayerNormalization"} <= set(kinds(written))


def test_an_encoder_in_eight_bits(tmp_path: Path) -> None:
    """Quantised as it runs, and optimised after that."""
    from onnxruntime.quantization import quantize_dynamic

    onnx.save(encoder(14), tmp_path / "float.onnx")
    # Of seven bits, whose products no processor adds up wrongly.
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "quantised.onnx", reduce_range=True)
    path = tmp_path / "optimised.onnx"
    optimised(onnx.load(tmp_path / "quantised.onnx"), path)
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((2, ROWS, WIDTH)).astype(np.float32),
        "mask": np.ones((2, ROWS), np.float32),
    }
    written = require_read(onnx.load(path), path, feeds, batch=2)
    assert {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"} <= set(kinds(written))


def test_convolutions(tmp_path: Path) -> None:
    model, path = convolutions(), tmp_path / "optimised.onnx"
    optimised(model, path)
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)}
    assert "FusedConv" in kinds(require_read(model, path, feeds))


def test_weights_beside_the_file(tmp_path: Path) -> None:
    """Of a file whose operators ONNX's checker does not know."""
    model, path = encoder(14, layers=1), tmp_path / "optimised.onnx"
    optimised(model, path)
    written = onnx.load(path)
    onnx.save(written, path, save_as_external_data=True, size_threshold=0, location="weights")
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((1, ROWS, WIDTH)), "mask": np.ones((1, ROWS))}
    feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    require_read(model, path, feeds, batch=1)
