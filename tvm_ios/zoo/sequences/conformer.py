"""The encoder of Conformer (S) (Gulati et al., 2020, table 1)."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.zoo.writing.encoder import Encoder, EncoderSize

_MELS, _KERNEL = 80, 32


def build_conformer(seed: int = 0) -> Any:
    """Build Conformer (S): a spectrogram (1, 1, 1000, 80), ten seconds; output (1, 249, 144).

    It has sixteen layers of width 144 with four heads and convolutions over 32 steps. GraphTurbo
    does not say which of the three sizes it ran.
    """
    return _build("conformer", seed, frames=1000, layers=16, width=144)


def build_conformer_small(seed: int = 0) -> Any:
    """Build a Conformer of two layers of width 16, for tests: spectrogram (1, 1, 47, 80)."""
    return _build("conformer_small", seed, frames=47, layers=2, width=16)


def _build(name: str, seed: int, frames: int, layers: int, width: int) -> Any:
    size = EncoderSize(layers, _halved(_halved(frames)), width, heads=4)
    net = _Conformer(name, seed, size)
    x = net.subsample(net.new_input("input", (1, 1, frames, _MELS)))
    for layer in range(layers):
        with net.scope(f"layer{layer}"):
            x = net.conform(x)
    return net.finish(x, (1, size.tokens, width))


def _halved(extent: int) -> int:
    return (extent - 3) // 2 + 1


class _Conformer(Encoder):
    @cached_property
    def _distances(self) -> Any:
        """Constant vectors of the distances between tokens."""
        return self._weight("distances.fixed", _sinusoids(self._size.tokens, self._size.width))

    def subsample(self, image: Any) -> Any:
        """Return a vector of every fourth frame: two convolutions of 3x3/2, and a dense layer."""
        size, x, channels = self._size, image, 1
        for number in range(2):
            with self.scope(f"subsample{number}"):
                x = self._conv(x, (size.width, channels, 3, 3), strides=(2, 2))
                x = self._op("Relu", self._fresh("relu"), [x])
            channels = size.width
        turned = self._op("Transpose", "turned", [x], {"perm": (0, 2, 1, 3)})
        features = size.width * _halved(_halved(_MELS))
        rows = self._reshape(turned, (1, size.tokens, features))
        return self.linear("subsampled", rows, features, size.width)

    def conform(self, x: Any) -> Any:
        """Append a block: half a feed-forward layer, attention, a convolution, the other half."""
        x = self.add(x, self._half_feed_forward(x))
        x = self.add(x, self.relative_attention(self.norm(x)))
        x = self.add(x, self.convolved(self.norm(x)))
        return self.norm(self.add(x, self._half_feed_forward(x)))

    def _half_feed_forward(self, x: Any) -> Any:
        width = self._size.width
        wide = self._swish(self.linear("wide", self.norm(x), width, 4 * width))
        narrow = self.linear("narrow", wide, 4 * width, width)
        return self._op("Mul", self._fresh("half"), [narrow, self._number(0.5)])

    def relative_attention(self, x: Any) -> Any:
        """Append attention with relative positions (Dai et al., 2019)."""
        size = self._size
        tokens, head, far = size.tokens, size.width // size.heads, 2 * size.tokens - 1
        query, key, value = (
            self._reshape(
                self.linear(name, x, size.width, size.width), (1, tokens, size.heads, head)
            )
            for name in ("query", "key", "value")
        )
        key, value = self._turn(key, (0, 2, 3, 1)), self._turn(value, (0, 2, 1, 3))
        weight = self._normal((size.width, size.width), size.width**-0.5)
        placed = self._op(
            "MatMul",
            self._fresh("placed"),
            [self._distances, self._weight(self._fresh("place.weight"), weight)],
        )
        places = self._turn(self._reshape(placed, (1, far, size.heads, head)), (0, 2, 3, 1))
        by_content, by_place = (
            self._op(
                "MatMul",
                self._fresh(f"{name}.scores"),
                [self._turn(self.add(query, self._head_bias(name)), (0, 2, 1, 3)), other],
            )
            for name, other in (("content", key), ("place", places))
        )
        scores = self.add(by_content, self._shifted(by_place))
        scaled = self._op("Div", self._fresh("scaled"), [scores, self._number(math.sqrt(head))])
        weights = self._op("Softmax", self._fresh("softmax"), [scaled], {"axis": -1})
        seen = self._op("MatMul", self._fresh("seen"), [weights, value])
        merged = self._reshape(self._turn(seen, (0, 2, 1, 3)), (1, tokens, size.width))
        return self.linear("output", merged, size.width, size.width)

    def convolved(self, x: Any) -> Any:
        """Append a gated product, a depthwise convolution over steps with batch norm, a product."""
        size = self._size
        gated = self._turn(self.linear("gated", x, size.width, 2 * size.width), (0, 2, 1))
        names = [self._fresh(name) for name in ("signal", "gate")]
        signal, gate = self._parts("split", gated, names)
        opened = self._op("Sigmoid", self._fresh("opened"), [gate])
        signal = self._op("Mul", self._fresh("let"), [signal, opened])
        image = self._reshape(signal, (1, size.width, 1, size.tokens))
        before = (_KERNEL - 1) // 2
        pads = (0, before, 0, _KERNEL - 1 - before)
        y = self._conv(image, (size.width, 1, 1, _KERNEL), pads=pads, group=size.width)
        y = self._swish(self._batch_norm(y))
        rows = self._turn(self._reshape(y, (1, size.width, size.tokens)), (0, 2, 1))
        return self.linear("mixed", rows, size.width, size.width)

    def _shifted(self, scores: Any) -> Any:
        """Return the scores of each pair of tokens from those by (heads, tokens, distances)."""
        size = self._size
        tokens, far = size.tokens, 2 * size.tokens - 1
        widths = self._weight(self._fresh("pads"), np.array([0, 0, 0, 1, 0, 0, 0, 0], np.int64))
        padded = self._op("Pad", self._fresh("padded"), [scores, widths])
        skewed = self._reshape(padded, (1, size.heads, far + 1, tokens))
        rows = self._reshape(self._slice(skewed, 1, far + 1, 2), (1, size.heads, tokens, far))
        return self._slice(rows, 0, tokens, 3)

    def _slice(self, x: Any, start: int, end: int, axis: int) -> Any:
        name = self._fresh("slice")
        bounds = [
            self._weight(f"{name}.{label}", np.array([limit], np.int64))
            for label, limit in (("start", start), ("end", end), ("axis", axis))
        ]
        return self._op("Slice", name, [x, *bounds])

    def _head_bias(self, name: str) -> Any:
        size = self._size
        shape = (size.heads, size.width // size.heads)
        return self._weight(self._fresh(f"{name}.bias"), self._normal(shape, 0.1))

    def _turn(self, x: Any, perm: tuple[int, ...]) -> Any:
        return self._op("Transpose", self._fresh("turn"), [x], {"perm": perm})

    def _swish(self, x: Any) -> Any:
        gate = self._op("Sigmoid", self._fresh("sigmoid"), [x])
        return self._op("Mul", self._fresh("swish"), [x, gate])

    def _conv(self, x: Any, shape: tuple[int, int, int, int], **attributes: Any) -> Any:
        name = self._fresh("conv")
        scale = math.sqrt(2.0 / math.prod(shape[1:]))
        weight = self._weight(f"{name}.weight", self._normal(shape, scale))
        bias = self._weight(f"{name}.bias", self._normal((shape[0],), 0.1))
        return self._op("Conv", name, [x, weight, bias], {"kernel_shape": shape[2:], **attributes})

    def _batch_norm(self, x: Any) -> Any:
        name, shape = self._fresh("batch_norm"), (self._size.width,)
        statistics = [
            self._weight(f"{name}.scale", self._uniform(shape, 0.8, 1.2)),
            self._weight(f"{name}.bias", self._normal(shape, 0.1)),
            self._weight(f"{name}.mean", self._normal(shape, 0.1)),
            self._weight(f"{name}.var", self._uniform(shape, 0.6, 1.4)),
        ]
        return self._op("BatchNormalization", name, [x, *statistics], {"epsilon": 1e-5})


def _sinusoids(tokens: int, width: int) -> Array:
    """Return sinusoids of all distances, largest first, of shape (1, 2 tokens - 1, width)."""
    distances = np.arange(tokens - 1, -tokens, -1, dtype=np.float32)[:, None]
    angles = distances / 10_000 ** (np.arange(0, width, 2, dtype=np.float32) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(1, -1, width)
