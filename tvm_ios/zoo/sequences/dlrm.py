"""The dense part of DLRM in MLPerf's sizes (Naumov et al., 2019): MLPs and the interaction."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tvm_ios.zoo.writing.model_writer import ModelWriter

_BOTTOM = (13, 512, 256, 128)
_TABLES = 26
_TOP = (1024, 1024, 512, 256, 1)


def build_dlrm(seed: int = 0) -> Any:
    """Build DLRM: dense (1, 13) and embeddings (1, 26, 128); output (1, 1), a probability."""
    net = _Dlrm("dlrm", seed)
    dense = net.new_input("dense", (1, _BOTTOM[0]))
    embeddings = net.new_input("embeddings", (1, _TABLES, _BOTTOM[-1]))
    with net.scope("bottom"):
        x = net.mlp(dense, _BOTTOM, "Relu")
    crossed = net.interact(x, embeddings)
    width = _BOTTOM[-1] + (_TABLES + 1) * _TABLES // 2
    with net.scope("top"):
        return net.finish(net.mlp(crossed, (width, *_TOP), "Sigmoid"), (1, _TOP[-1]))


class _Dlrm(ModelWriter):
    def mlp(self, x: Any, widths: tuple[int, ...], last: str) -> Any:
        """Append dense layers with ReLU between them, and another activation at the end."""
        for layer, (fan_in, fan_out) in enumerate(itertools.pairwise(widths), 1):
            name = self._fresh("dense")
            weight = self._normal((fan_in, fan_out), math.sqrt(2.0 / fan_in))
            bias = self._weight(f"{name}.bias", self._normal((fan_out,), 0.1))
            x = self._op("Gemm", name, [x, self._weight(f"{name}.weight", weight), bias])
            kind = last if layer == len(widths) - 1 else "Relu"
            x = self._op(kind, self._fresh(kind.lower()), [x])
        return x

    def interact(self, x: Any, embeddings: Any) -> Any:
        """Return the dense vector concatenated with the products of all pairs of vectors."""
        row = self._reshape(x, (1, 1, _BOTTOM[-1]))
        vectors = self._op("Concat", "vectors", [row, embeddings], {"axis": 1})
        turned = self._op("Transpose", "turned", [vectors], {"perm": (0, 2, 1)})
        products = self._op("MatMul", "products", [vectors, turned])
        count = _TABLES + 1
        flat = self._reshape(products, (1, count * count))
        below = np.flatnonzero(np.tri(count, k=-1).reshape(-1)).astype(np.int64)
        pairs = self._op("Gather", "pairs", [flat, self._weight("below", below)], {"axis": 1})
        # Sums of products of many numbers: scaled to the size of the other features.
        scale = self._weight("scale", np.array(_BOTTOM[-1] ** -0.5, np.float32))
        return self._op(
            "Concat", "crossed", [x, self._op("Mul", "scaled", [pairs, scale])], {"axis": 1}
        )
