"""Quantised models, as ONNX Runtime's quantiser draws them from three small networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, parser

from tests.onnx_sketch import Sketch

_CHANNELS = 16
#: How many words :func:`text_encoder` knows, and the shape of what it reads.
WORDS = (384, (1, 40))
#: Of the inputs of :func:`rounded_convolution`.
SHAPES = {"x": (2, 3, 8, 8), "like": (2, 5)}


def image_network() -> onnx.ModelProto:
    """Convolutions, one of them depthwise, joined, added, pooled and classified."""
    sketch = Sketch(1, 3, 12, 12, opset=13)

    def layer(x: str, before: int, after: int, kernel: int, group: int = 1) -> str:
        scale = np.sqrt(2 * group / before) / kernel
        shape = (after, before // group, kernel, kernel)
        weight = sketch.const(scale * sketch.rng.standard_normal(shape))
        pads = [kernel // 2] * 4
        bias = sketch.normal(after)
        return sketch.op("Relu", sketch.op("Conv", x, weight, bias, pads=pads, group=group))

    c = _CHANNELS
    first = layer("x", 3, c, 3)
    joined = sketch.op("Concat", layer(first, c, c, 3), layer(first, c, c, 1), axis=1)
    added = sketch.op("Add", layer(joined, 2 * c, 2 * c, 3), joined)
    pooled = sketch.op("MaxPool", added, kernel_shape=[2, 2], strides=[2, 2])
    last = layer(layer(pooled, 2 * c, 2 * c, 3, group=2 * c), 2 * c, 2 * c, 1)
    flat = sketch.op("Flatten", sketch.op("GlobalAveragePool", last))
    return sketch.model(sketch.op("Gemm", flat, sketch.normal(2 * c, 10), sketch.normal(10)))


def attention_network() -> onnx.ModelProto:
    """One head of attention and the two layers after it."""
    rows, width = 8, 32
    sketch = Sketch(1, rows, width, opset=13)

    def product(x: str, before: int, after: int) -> str:
        weight = sketch.rng.standard_normal((before, after)) / np.sqrt(before)
        return sketch.op("MatMul", x, sketch.const(weight))

    query, key, value = (product("x", width, width) for _ in range(3))
    scores = sketch.op("MatMul", query, sketch.op("Transpose", key, perm=[0, 2, 1]))
    read = sketch.op("MatMul", sketch.op("Softmax", scores, axis=-1), value)
    added = sketch.op("Add", "x", read)
    hidden = sketch.op("Add", product(added, width, 4 * width), sketch.normal(4 * width))
    return sketch.model(product(sketch.op("Relu", hidden), 4 * width, width))


def text_encoder() -> onnx.ModelProto:
    """A layer of T5's encoder, of which some channels are large beside all others.

    Trained ones are like this: what is rounded to 255 steps of the largest number is mostly zero
    or one, and a step more is much. Embeddings that are quantised lie far from zero, too.
    """
    words, (_, rows) = WORDS
    width, heads = 128, 4
    sketch = Sketch(opset=13)
    sketch.inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, [1, rows])]
    rng, op = sketch.rng, sketch.op
    part = sketch.const(np.array([1, rows, heads, width // heads]))
    whole = sketch.const(np.array([1, rows, width]))
    two, epsilon, one = (sketch.const(np.array(number)) for number in (2.0, 1e-6, 1.0))

    def normalised(x: str) -> str:
        mean = op("ReduceMean", op("Pow", x, two), axes=[-1], keepdims=1)
        factor = op("Div", one, op("Sqrt", op("Add", mean, epsilon)))
        weights = sketch.const(0.3 * np.exp(0.7 * rng.standard_normal(width)))
        return op("Mul", op("Mul", x, factor), weights)

    def product(x: str, before: int, after: int, gain: float) -> str:
        weight = gain * rng.standard_t(4, (before, after)) / np.sqrt(before)
        return op("MatMul", x, sketch.const(weight))

    def head(x: str, gain: float, perm: tuple[int, ...]) -> str:
        return op("Transpose", op("Reshape", product(x, width, width, gain), part), perm=perm)

    embedding = 8 * rng.standard_t(2.5, (words, width))
    embedding[:, 3] *= 20
    embedding[:, 17] *= -9
    x = op("Gather", sketch.const(embedding), "x")
    y = normalised(x)
    query, key = head(y, 1.5, (0, 2, 1, 3)), head(y, 1.5, (0, 2, 3, 1))
    read = op("Softmax", op("MatMul", query, key), axis=-1)
    heard = op("Transpose", op("MatMul", read, head(y, 3, (0, 2, 1, 3))), perm=[0, 2, 1, 3])
    x = op("Add", x, product(op("Reshape", heard, whole), width, width, 4))
    hidden = op("Relu", product(normalised(x), width, 2 * width, 3))
    return sketch.model(normalised(op("Add", x, product(hidden, 2 * width, width, 4))))


def rounded_convolution(end: str = "", output: str = "float[n, 4, 6, 6] y") -> onnx.ModelProto:
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


def _static(network: Callable[[], onnx.ModelProto], **options: Any) -> Callable[[Path], Path]:
    def draw(folder: Path) -> Path:
        from onnxruntime.quantization import CalibrationDataReader, quantize_static

        model = network()
        shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
        rng = np.random.default_rng(1)

        class Samples(CalibrationDataReader):
            """Four inputs to find the ranges of all tensors."""

            def __init__(self) -> None:
                self.left = [{"x": rng.standard_normal(shape, np.float32)} for _ in range(4)]

            def get_next(self) -> Any:
                return self.left.pop() if self.left else None

        onnx.save(model, folder / "float.onnx")
        quantised = folder / "quantised.onnx"
        quantize_static(folder / "float.onnx", quantised, Samples(), **options)
        return quantised

    return draw


def _dynamic(network: Callable[[], onnx.ModelProto]) -> Callable[[Path], Path]:
    def draw(folder: Path) -> Path:
        from onnxruntime.quantization import quantize_dynamic

        onnx.save(network(), folder / "float.onnx")
        quantize_dynamic(folder / "float.onnx", folder / "quantised.onnx")
        return folder / "quantised.onnx"

    return draw


def models() -> Mapping[str, Callable[[Path], Path]]:
    """By what they are, what draws a file in a folder."""
    from onnxruntime.quantization import QuantFormat

    return {
        "static, Q/DQ, per tensor": _static(image_network, quant_format=QuantFormat.QDQ),
        "static, Q/DQ, per channel": _static(
            image_network, quant_format=QuantFormat.QDQ, per_channel=True
        ),
        "static, QOperator": _static(image_network, quant_format=QuantFormat.QOperator),
        "dynamic, MatMulInteger": _dynamic(attention_network),
        "dynamic, ConvInteger": _dynamic(image_network),
        "dynamic, text": _dynamic(text_encoder),
    }
