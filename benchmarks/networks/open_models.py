"""Networks with open dimensions and random weights, as PyTorch's exporter writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_ios import zoo

#: Positions that an encoder knows.
POSITIONS = 512


@dataclass
class _Drawing:
    """An ONNX graph under construction."""

    generator: np.random.Generator
    nodes: list[Any] = field(default_factory=list[Any])
    weights: list[Any] = field(default_factory=list[Any])
    #: Names of constants that are taken instead of new ones.
    again: list[str] = field(default_factory=list[str])

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append a node; return its output."""
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def const(self, value: Any) -> str:
        """Add a constant; return its name."""
        if self.again:
            return self.again.pop(0)
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def ints(self, *values: int) -> str:
        """Add a vector of integers; return its name."""
        return self.const(np.array(values, np.int64))

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        """Add normal random numbers; return their name."""
        return self.const((self.generator.standard_normal(shape) * scale).astype(np.float32))

    def linear(self, x: str, before: int, after: int) -> str:
        """Append a dense layer."""
        weight = self.normal(before, after, scale=before**-0.5)
        return self.op("Add", self.op("MatMul", x, weight), self.normal(after, scale=0.1))

    def norm(self, x: str, width: int) -> str:
        """Append a layer normalisation."""
        scale, bias = self.const(np.ones(width, np.float32)), self.normal(width, scale=0.1)
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def gelu(self, x: str) -> str:
        """Append the activation of Hendrycks and Gimpel (2016)."""
        half = self.op("Mul", x, self.const(np.float32(0.5)))
        error = self.op("Erf", self.op("Mul", x, self.const(np.float32(0.5**0.5))))
        return self.op("Mul", half, self.op("Add", error, self.const(np.float32(1))))

    def finished(self, name: str, inputs: Sequence[Any], result: str, shape: Sequence[Any]) -> Any:
        """Return the model whose output is a node's result."""
        self.nodes.append(helper.make_node("Identity", [result], ["last_hidden_state"]))
        output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, name, list(inputs), [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def encoder(
    layers: int, width: int, heads: int, words: int = 30_522, seed: int = 0, *, shared: bool = False
) -> Any:
    """Return an encoder such as BERT (Devlin et al., 2019): words and their mask to vectors.

    Batch and length are open. With ``shared`` weights it is such as ALBERT (Lan et al., 2020).
    """
    d = _Drawing(np.random.default_rng(seed))
    shape = ("batch", "length")
    ids, mask = (
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask")
    )
    extents = d.op("Shape", "input_ids")
    batch, length = (d.op("Gather", extents, d.ints(axis), axis=0) for axis in (0, 1))
    places = d.op("Slice", d.normal(POSITIONS, width, scale=0.1), d.ints(0), length, d.ints(0))
    x = d.op("Gather", d.normal(words, width), "input_ids")
    x = d.norm(d.op("Add", x, places), width)
    kept = d.op("Cast", d.op("Unsqueeze", "attention_mask", d.ints(1, 2)), to=TensorProto.FLOAT)
    dropped = d.op("Sub", d.const(np.float32(1)), kept)
    hidden = d.op("Mul", dropped, d.const(np.float32(-1e4)))
    split = d.op("Concat", batch, length, d.ints(heads, width // heads), axis=0)
    joined = d.op("Concat", batch, length, d.ints(width), axis=0)
    first = len(d.weights)
    for layer in range(layers):
        if shared and layer:
            d.again = [f"w{number}" for number in range(first, len(d.weights))]
        parts = [d.op("Reshape", d.linear(x, width, width), split) for _ in range(3)]
        query, value = (d.op("Transpose", part, perm=[0, 2, 1, 3]) for part in parts[::2])
        key = d.op("Transpose", parts[1], perm=[0, 2, 3, 1])
        scale = d.const(np.float32((width // heads) ** -0.5))
        scores = d.op("Add", d.op("Mul", d.op("MatMul", query, key), scale), hidden)
        values = d.op("MatMul", d.op("Softmax", scores, axis=-1), value)
        attended = d.op("Reshape", d.op("Transpose", values, perm=[0, 2, 1, 3]), joined)
        x = d.norm(d.op("Add", x, d.linear(attended, width, width)), width)
        wide = d.linear(x, width, 4 * width)
        wide = d.gelu(wide)
        x = d.norm(d.op("Add", x, d.linear(wide, 4 * width, width)), width)
    return d.finished("encoder", [ids, mask], x, (*shape, width))


def speech_front(channels: int = 512, width: int = 768, seed: int = 0) -> Any:
    """Return the convolutions over samples of wav2vec 2.0 (Baevski et al., 2020).

    The number of samples is open.
    """
    d = _Drawing(np.random.default_rng(seed))
    samples = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, "samples"))
    x, before = d.op("Unsqueeze", "x", d.ints(1)), 1
    for number, (kernel, stride) in enumerate(((10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2)):
        weight = d.normal(channels, before, kernel, scale=(before * kernel) ** -0.5)
        x = d.op("Conv", x, weight, kernel_shape=[kernel], strides=[stride])
        if number == 0:
            ones, bias = d.const(np.ones(channels, np.float32)), d.normal(channels, scale=0.1)
            x = d.op("InstanceNormalization", x, ones, bias, epsilon=1e-5)
        x, before = d.gelu(x), channels
    x = d.norm(d.op("Transpose", x, perm=[0, 2, 1]), channels)
    x = d.linear(x, channels, width)
    return d.finished("speech_front", [samples], x, (1, "frames", width))


def opened(model: onnx.ModelProto, axes: Mapping[int, str]) -> onnx.ModelProto:
    """Return a model with names for axes of its inputs, and outputs of any shape."""
    del model.graph.value_info[:]
    for port in model.graph.input:
        for axis, name in axes.items():
            port.type.tensor_type.shape.dim[axis].dim_param = name
    for port in model.graph.output:
        for dimension in port.type.tensor_type.shape.dim:
            dimension.Clear()
    return model


DRAWN: Mapping[str, Callable[[], Any]] = {
    "bert_small": lambda: encoder(4, 512, 8),
    "bert_base": lambda: encoder(12, 768, 12),
    "albert": lambda: encoder(12, 256, 4, 600, shared=True),
    "wav2vec2": speech_front,
    "unet": lambda: opened(zoo.build("unet"), {2: "height", 3: "width"}),
    "resnet50": lambda: opened(zoo.build("resnet50"), {0: "batch"}),
    "mobilenet_v2": lambda: opened(zoo.build("mobilenet_v2"), {0: "batch"}),
}


def save(name: str, path: str) -> None:
    """Save a network by its name."""
    onnx.save(DRAWN[name](), path)
