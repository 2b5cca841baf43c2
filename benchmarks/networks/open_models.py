"""Encoders of texts of any length with random weights, as PyTorch's exporter writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: Positions that an encoder knows.
POSITIONS = 512


@dataclass
class _Drawing:
    """An ONNX graph under construction."""

    generator: np.random.Generator
    nodes: list[Any] = field(default_factory=list[Any])
    weights: list[Any] = field(default_factory=list[Any])

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append a node; return its output."""
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def const(self, value: Any) -> str:
        """Add a constant; return its name."""
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


def encoder(layers: int, width: int, heads: int, words: int = 30_522, seed: int = 0) -> Any:
    """Return an encoder such as BERT (Devlin et al., 2019): words and their mask to vectors.

    Batch and length are open.
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
    for _ in range(layers):
        parts = [d.op("Reshape", d.linear(x, width, width), split) for _ in range(3)]
        query, value = (d.op("Transpose", part, perm=[0, 2, 1, 3]) for part in parts[::2])
        key = d.op("Transpose", parts[1], perm=[0, 2, 3, 1])
        scale = d.const(np.float32((width // heads) ** -0.5))
        scores = d.op("Add", d.op("Mul", d.op("MatMul", query, key), scale), hidden)
        values = d.op("MatMul", d.op("Softmax", scores, axis=-1), value)
        attended = d.op("Reshape", d.op("Transpose", values, perm=[0, 2, 1, 3]), joined)
        x = d.norm(d.op("Add", x, d.linear(attended, width, width)), width)
        wide = d.linear(x, width, 4 * width)
        half = d.op("Mul", wide, d.const(np.float32(0.5)))
        error = d.op("Erf", d.op("Mul", wide, d.const(np.float32(0.5**0.5))))
        wide = d.op("Mul", half, d.op("Add", error, d.const(np.float32(1))))
        x = d.norm(d.op("Add", x, d.linear(wide, 4 * width, width)), width)
    d.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, (*shape, width))
    graph = helper.make_graph(d.nodes, "encoder", [ids, mask], [output], d.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def save(name: str, path: str) -> None:
    """Save an encoder of a name: ``bert_small`` or ``bert_base``."""
    size = {"bert_small": (4, 512, 8), "bert_base": (12, 768, 12)}[name]
    onnx.save(encoder(*size), path)
