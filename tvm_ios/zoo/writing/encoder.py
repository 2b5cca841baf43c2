"""The layers of transformer encoders, as ONNX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_ios.zoo.writing.model_writer import ModelWriter


@dataclass(frozen=True, slots=True)
class EncoderSize:
    """The size of an encoder."""

    layers: int
    tokens: int
    width: int
    heads: int
    words: int = 1000


class Encoder(ModelWriter):
    """A writer of encoders as PyTorch exports hand-written ones."""

    def __init__(self, name: str, seed: int, size: EncoderSize, spelled_out: bool = False) -> None:
        super().__init__(name, seed)
        self._size = size
        self._spelled_out = spelled_out

    def pre_norm(self, x: Any) -> Any:
        """Append a layer that normalises the input of attention and of the feed-forward part."""
        x = self.add(x, self.attention(self.norm(x)))
        return self.add(x, self.feed_forward(self.norm(x)))

    def post_norm(self, x: Any) -> Any:
        """Append a layer that normalises after each residual sum, as in BERT."""
        x = self.norm(self.add(x, self.attention(x)))
        return self.norm(self.add(x, self.feed_forward(x)))

    def embed(self, tokens: Any) -> Any:
        """Return the sum of token and position embeddings."""
        size = self._size
        words = self._weight("words", self._normal((size.words, size.width), 1.0))
        places = self._weight("places", self._normal((size.tokens, size.width), 0.5))
        return self.add(self._op("Gather", "embedding", [words, tokens], {"axis": 0}), places)

    def add(self, a: Any, b: Any) -> Any:
        """Append a broadcast sum."""
        return self._op("Add", self._fresh("add"), [a, b])

    def norm(self, x: Any) -> Any:
        """Append a layer norm over the features."""
        name, width = self._fresh("norm"), self._size.width
        scale = self._weight(f"{name}.scale", self._uniform((width,), 0.8, 1.2))
        bias = self._weight(f"{name}.bias", self._normal((width,), 0.1))
        if not self._spelled_out:
            attributes = {"axis": -1, "epsilon": 1e-5}
            return self._op("LayerNormalization", name, [x, scale, bias], attributes)
        axes = {"axes": [-1], "keepdims": 1}
        centred = self._op(
            "Sub", f"{name}.centred", [x, self._op("ReduceMean", f"{name}.mean", [x], axes)]
        )
        squared = self._op("Pow", f"{name}.squared", [centred, self._number(2.0)])
        variance = self._op("ReduceMean", f"{name}.variance", [squared], axes)
        shifted = self._op("Add", f"{name}.shifted", [variance, self._number(1e-5)])
        deviation = self._op("Sqrt", f"{name}.deviation", [shifted])
        normal = self._op("Div", f"{name}.normal", [centred, deviation])
        return self._op("Add", name, [self._op("Mul", f"{name}.scaled", [normal, scale]), bias])

    def attention(self, x: Any) -> Any:
        """Append multi-head self-attention."""
        size = self._size
        head = size.width // size.heads
        query, key, value = (
            self._heads(self.linear(name, x, size.width, size.width), perm)
            for name, perm in (
                ("query", (0, 2, 1, 3)),
                ("key", (0, 2, 3, 1)),
                ("value", (0, 2, 1, 3)),
            )
        )
        scores = self._op("MatMul", self._fresh("scores"), [query, key])
        scores = self._op("Div", self._fresh("scaled"), [scores, self._number(math.sqrt(head))])
        weights = self._op("Softmax", self._fresh("softmax"), [scores], {"axis": -1})
        seen = self._op("MatMul", self._fresh("seen"), [weights, value])
        joined = self._op("Transpose", self._fresh("joined"), [seen], {"perm": (0, 2, 1, 3)})
        merged = self._reshape(joined, (1, -1, size.width))
        return self.linear("output", merged, size.width, size.width)

    def _heads(self, x: Any, perm: tuple[int, ...]) -> Any:
        """Split features into heads, and transpose (batch, token, head, feature) by ``perm``."""
        size = self._size
        parts = self._reshape(x, (1, -1, size.heads, size.width // size.heads))
        return self._op("Transpose", self._fresh("heads"), [parts], {"perm": perm})

    def feed_forward(self, x: Any) -> Any:
        """Append two dense layers with GELU between them, by the error function."""
        width = self._size.width
        x = self.linear("wide", x, width, 4 * width)
        scaled = self._op("Div", self._fresh("gelu.scaled"), [x, self._number(math.sqrt(2))])
        erf = self._op("Erf", self._fresh("gelu.erf"), [scaled])
        shifted = self._op("Add", self._fresh("gelu.shifted"), [erf, self._number(1.0)])
        gated = self._op("Mul", self._fresh("gelu.gated"), [x, shifted])
        gelu = self._op("Mul", self._fresh("gelu"), [gated, self._number(0.5)])
        return self.linear("narrow", gelu, 4 * width, width)

    def classify(self, x: Any, classes: int) -> Any:
        """Append a dense layer on the mean of all tokens."""
        mean = self._op("ReduceMean", "mean", [x], {"axes": [1], "keepdims": 0})
        return self.linear("classifier", mean, self._size.width, classes)

    def linear(self, name: str, x: Any, features: int, results: int) -> Any:
        """Append a matrix product with a bias."""
        name = self._fresh(name)
        weight = self._normal((features, results), 1.0 / math.sqrt(features))
        product = self._op("MatMul", name, [x, self._weight(f"{name}.weight", weight)])
        bias = self._weight(f"{name}.bias", self._normal((results,), 0.1))
        return self._op("Add", f"{name}.biased", [product, bias])

    def _number(self, value: float) -> Any:
        return self._weight(self._fresh("number"), np.array(value, np.float32))
