"""A transformer encoder that classifies a sequence of tokens (Vaswani et al., 2017, pre-LN)."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from tvm_ios.zoo.writing.encoder import Encoder, EncoderSize

_CLASSES = 10


def build_transformer(seed: int = 0) -> Any:
    """Build four layers, width 256, four heads: token ids (1, 64), output (1, 10) logits."""
    return _build("transformer", seed, EncoderSize(layers=4, tokens=64, width=256, heads=4))


def build_bert_small(seed: int = 0) -> Any:
    """Build BERT-Small (Turc et al., 2019): token ids (1, 128), output (1, 10) logits.

    Its vocabulary is left out. It has four layers, width 512, eight heads, and layer norms after
    the sums.
    """
    size = EncoderSize(layers=4, tokens=128, width=512, heads=8)
    net = Encoder("bert_small", seed, size)
    x = net.norm(net.embed(net.new_input("tokens", (1, size.tokens), ir.DataType.INT64)))
    for layer in range(size.layers):
        with net.scope(f"layer{layer}"):
            x = net.post_norm(x)
    return net.finish(net.classify(x, _CLASSES), (1, _CLASSES))


def build_transformer_small(seed: int = 0) -> Any:
    """Build two narrow layers for tests: token ids (1, 12), output (1, 10) logits.

    Its layer norms are spelled out, as exporters did before opset 17.
    """
    size = EncoderSize(layers=2, tokens=12, width=24, heads=3, words=50)
    return _build("transformer_small", seed, size, spelled_out=True)


def _build(name: str, seed: int, size: EncoderSize, spelled_out: bool = False) -> Any:
    net = Encoder(name, seed, size, spelled_out)
    tokens = net.new_input("tokens", (1, size.tokens), ir.DataType.INT64)
    x = net.embed(tokens)
    for layer in range(size.layers):
        with net.scope(f"layer{layer}"):
            x = net.pre_norm(x)
    return net.finish(net.classify(net.norm(x), _CLASSES), (1, _CLASSES))
