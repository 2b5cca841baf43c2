"""Networks of open dimensions with random weights, as PyTorch's exporter writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.networks.packaged import Packaged
from tvm_ios import zoo

#: Positions that an encoder knows.
POSITIONS = 512


@dataclass
class _Drawing:
    """An ONNX graph under construction."""

    generator: np.random.Generator
    nodes: list[Any] = field(default_factory=list[Any])
    weights: list[Any] = field(default_factory=list[Any])
    #: Names of the constants that the next ones are.
    shared: Iterator[str] = field(default_factory=lambda: iter(()))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append a node; return its output."""
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def const(self, value: Any) -> str:
        """Add a constant, or share one; return its name."""
        if same := next(self.shared, None):
            return same
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
        """Append a GELU."""
        half = self.op("Mul", x, self.const(np.float32(0.5)))
        error = self.op("Erf", self.op("Mul", x, self.const(np.float32(0.5**0.5))))
        return self.op("Mul", half, self.op("Add", error, self.const(np.float32(1))))

    def conv(self, x: str, before: int, after: int, *kernel: int, **attributes: Any) -> str:
        """Append a convolution."""
        scale = (2 / before / math.prod(kernel)) ** 0.5
        weight = self.normal(after, before, *kernel, scale=scale)
        return self.op("Conv", x, weight, self.normal(after, scale=0.1), **attributes)

    def model(self, inputs: Mapping[str, tuple[int, Sequence[int | str]]], output: str) -> Any:
        """Return the model; ``inputs`` have the type and the extents of each."""
        self.nodes.append(helper.make_node("Identity", [output], ["output"]))
        ports = [helper.make_tensor_value_info(name, *port) for name, port in inputs.items()]
        result = helper.make_tensor_value_info("output", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "drawn", ports, [result], self.weights)
        opset = helper.make_opsetid("", 17)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
        return onnx.shape_inference.infer_shapes(model)


def encoder(
    layers: int,
    width: int,
    heads: int,
    words: int = 30_522,
    seed: int = 0,
    *,
    wide: int | None = None,
    embedding: int | None = None,
    shared: bool = False,
) -> Any:
    """Return an encoder such as BERT (Devlin et al., 2019): words and their mask to vectors.

    Batch and length are open. ``wide`` is the width between the two dense layers of a block, and
    ``embedding`` that of words; with ``shared`` all layers have the weights of the first, as in
    ALBERT (Lan et al., 2020).
    """
    d = _Drawing(np.random.default_rng(seed))
    extents = d.op("Shape", "input_ids")
    batch, length = (d.op("Gather", extents, d.ints(axis), axis=0) for axis in (0, 1))
    wide, embedding = wide or 4 * width, embedding or width
    places = d.normal(POSITIONS, embedding, scale=0.1)
    places = d.op("Slice", places, d.ints(0), length, d.ints(0))
    x = d.op("Gather", d.normal(words, embedding), "input_ids")
    x = d.norm(d.op("Add", x, places), embedding)
    if embedding != width:
        x = d.linear(x, embedding, width)
    kept = d.op("Cast", d.op("Unsqueeze", "attention_mask", d.ints(1, 2)), to=TensorProto.FLOAT)
    dropped = d.op("Sub", d.const(np.float32(1)), kept)
    hidden = d.op("Mul", dropped, d.const(np.float32(-1e4)))
    split = d.op("Concat", batch, length, d.ints(heads, width // heads), axis=0)
    joined = d.op("Concat", batch, length, d.ints(width), axis=0)
    first = len(d.weights)
    for _ in range(layers):
        if shared:
            d.shared = iter([weight.name for weight in d.weights[first:]])
        parts = [d.op("Reshape", d.linear(x, width, width), split) for _ in range(3)]
        query, value = (d.op("Transpose", part, perm=[0, 2, 1, 3]) for part in parts[::2])
        key = d.op("Transpose", parts[1], perm=[0, 2, 3, 1])
        scale = d.const(np.float32((width // heads) ** -0.5))
        scores = d.op("Add", d.op("Mul", d.op("MatMul", query, key), scale), hidden)
        values = d.op("MatMul", d.op("Softmax", scores, axis=-1), value)
        attended = d.op("Reshape", d.op("Transpose", values, perm=[0, 2, 1, 3]), joined)
        x = d.norm(d.op("Add", x, d.linear(attended, width, width)), width)
        between = d.gelu(d.linear(x, width, wide))
        x = d.norm(d.op("Add", x, d.linear(between, wide, width)), width)
    shape = (TensorProto.INT64, ("batch", "length"))
    return d.model({"input_ids": shape, "attention_mask": shape}, x)


def crnn(letters: int = 37, hidden: int = 256) -> Any:
    """Return a CRNN (Shi et al., 2016): lines of text, 32 high, to shares of letters a column.

    Batch and width are open. Poolings that the paper pads in width have no padding.
    """
    d = _Drawing(np.random.default_rng(0))
    x = "line"
    layers = ((1, 64), (64, 128), (128, 256), (256, 256), (256, 512), (512, 512))
    pools = {0: [2, 2], 1: [2, 2], 3: [2, 1], 5: [2, 1]}
    for place, (before, after) in enumerate(layers):
        x = d.op("Relu", d.conv(x, before, after, 3, 3, pads=[1, 1, 1, 1]))
        if size := pools.get(place):
            x = d.op("MaxPool", x, kernel_shape=size, strides=size)
    x = d.op("Relu", d.conv(x, 512, 512, 2, 2))
    x = d.op("Transpose", d.op("Squeeze", x, d.ints(2)), perm=[2, 0, 1])
    columns = d.op("Slice", d.op("Shape", x), d.ints(0), d.ints(2), d.ints(0))
    joined = d.op("Concat", columns, d.ints(2 * hidden), axis=0)
    for before, after in ((512, hidden), (hidden, letters)):
        weights = [d.normal(2, 4 * hidden, n, scale=n**-0.5) for n in (before, hidden)]
        bias = d.normal(2, 8 * hidden, scale=0.1)
        x = d.op("LSTM", x, *weights, bias, hidden_size=hidden, direction="bidirectional")
        x = d.op("Reshape", d.op("Transpose", x, perm=[0, 2, 1, 3]), joined)
        x = d.linear(x, 2 * hidden, after)
    return d.model(
        {"line": (TensorProto.FLOAT, ("batch", 1, 32, "width"))}, d.op("Softmax", x, axis=-1)
    )


def speech_front() -> Any:
    """Return what wav2vec 2.0 (Baevski et al., 2020) does to samples before its encoder.

    Seven convolutions, each with a layer normalisation and a GELU, and a projection; the number of
    samples is open.
    """
    d = _Drawing(np.random.default_rng(0))
    x = d.op("Unsqueeze", "samples", d.ints(1))
    before = 1
    for kernel, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)):
        x = d.conv(x, before, 512, kernel, strides=[stride])
        x = d.norm(d.op("Transpose", x, perm=[0, 2, 1]), 512)
        x, before = d.gelu(d.op("Transpose", x, perm=[0, 2, 1])), 512
    x = d.linear(d.norm(d.op("Transpose", x, perm=[0, 2, 1]), 512), 512, 768)
    return d.model({"samples": (TensorProto.FLOAT, (1, "length"))}, x)


def opened(model: Any, names: Mapping[int, str]) -> Any:
    """Open axes of the input of a model that has no constants of its shape; return it."""
    for place, name in names.items():
        model.graph.input[0].type.tensor_type.shape.dim[place].dim_param = name
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(model)


#: Distorted characters in images.
_CAPTCHA = Packaged("ddddocr", "common.onnx")
#: Encoders of the sizes of BERT base and of RXNMapper's ALBERT (Schwaller et al., 2021).
MODELS: Mapping[str, Callable[[], Any]] = {
    "bert_small": partial(encoder, 4, 512, 8),
    "bert_base": partial(encoder, 12, 768, 12),
    "albert": partial(encoder, 12, 256, 8, 591, wide=512, embedding=128, shared=True),
    # The file says that its output has two dimensions, of three.
    "captcha": lambda: opened(onnx.load(_CAPTCHA.required_path()), {}),
    "crnn": crnn,
    "unet": lambda: opened(zoo.build("unet"), {2: "height", 3: "width"}),
    "speech_front": speech_front,
    "resnet50": lambda: opened(zoo.build("resnet50"), {0: "batch"}),
    "mobilenet_v2": lambda: opened(zoo.build("mobilenet_v2"), {0: "batch"}),
}


def save(name: str, path: str) -> None:
    """Save one of the models."""
    onnx.save(MODELS[name](), path)
