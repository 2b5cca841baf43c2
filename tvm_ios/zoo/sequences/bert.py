"""BERT base for questions and answers (Devlin et al., 2019), at GraphTurbo's lengths."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.zoo.writing.encoder import Encoder, EncoderSize

#: Positions and kinds of segments that the embeddings know.
_PLACES, _SEGMENTS = 512, 2


def build_bert(
    tokens: int,
    seed: int = 0,
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    name: str = "bert",
) -> Any:
    """Build BERT: ``"tokens"``, ``"segments"`` (1, tokens); output (1, tokens, 2), answer ends.

    ``tokens`` is at most 512; the weights are the same for all lengths. The defaults are BERT
    base's: GraphTurbo (table 1) reports 4,052 sentences of 128 tokens a second, which BERT large
    would not reach on its accelerator.
    """
    size = EncoderSize(layers, tokens, width, heads, words=30_522)
    net = _Bert(f"{name}_{tokens}", seed, size)
    ids = net.new_input("tokens", (1, tokens), ir.DataType.INT64)
    segments = net.new_input("segments", (1, tokens), ir.DataType.INT64)
    x = net.norm(net.embed_segments(ids, segments))
    for layer in range(layers):
        with net.scope(f"layer{layer}"):
            x = net.post_norm(x)
    return net.finish(net.linear("answer", x, width, 2), (1, tokens, 2))


build_bert_128 = partial(build_bert, 128)
build_bert_256 = partial(build_bert, 256)
build_bert_384 = partial(build_bert, 384)
build_bert_512 = partial(build_bert, 512)


class _Bert(Encoder):
    """An encoder with segment embeddings."""

    def embed_segments(self, tokens: Any, segments: Any) -> Any:
        """Return the sum of token, position and segment embeddings."""
        size = self._size
        words = self._table("words", size.words, 1.0)
        places = self._table("places", _PLACES, 0.5)
        kinds = self._table("segments", _SEGMENTS, 0.5)
        used = self._weight("places.used", np.arange(size.tokens, dtype=np.int64))
        return self.add(
            self.add(self._rows("embedding", words, tokens), self._rows("place", places, used)),
            self._rows("segment", kinds, segments),
        )

    def _table(self, name: str, rows: int, scale: float) -> Any:
        return self._weight(f"{name}.table", self._normal((rows, self._size.width), scale))

    def _rows(self, name: str, table: Any, rows: Any) -> Any:
        return self._op("Gather", name, [table, rows], {"axis": 0})
