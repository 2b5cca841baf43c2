"""ViT with patches of 16 pixels (Dosovitskiy et al., 2021; Touvron et al., 2021)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_ios.zoo.writing.encoder import Encoder, EncoderSize

_PATCH, _CLASSES = 16, 1000


def build_vit_tiny(seed: int = 0) -> Any:
    """Build ViT of width 192, three heads: image (1, 3, 224, 224), output (1, 1000) logits."""
    return _build("vit_tiny", seed, width=192, heads=3)


def build_vit_base(seed: int = 0) -> Any:
    """Build ViT of width 768, twelve heads: image (1, 3, 224, 224), output (1, 1000) logits."""
    return _build("vit_base", seed, width=768, heads=12)


def _build(name: str, seed: int, width: int, heads: int) -> Any:
    size = EncoderSize(layers=12, tokens=(224 // _PATCH) ** 2 + 1, width=width, heads=heads)
    net = _VisionTransformer(name, seed, size)
    x = net.patches(net.new_input("input", (1, 3, 224, 224)))
    for layer in range(size.layers):
        with net.scope(f"layer{layer}"):
            x = net.pre_norm(x)
    return net.finish(net.head(net.norm(x)), (1, _CLASSES))


class _VisionTransformer(Encoder):
    """An encoder of patches, with a class token before them."""

    def patches(self, image: Any) -> Any:
        """Return the class token and patch embeddings, plus position embeddings."""
        size = self._size
        shape = (size.width, 3, _PATCH, _PATCH)
        weight = self._weight("patches.weight", self._normal(shape, (3 * _PATCH**2) ** -0.5))
        bias = self._weight("patches.bias", self._normal((size.width,), 0.1))
        attributes = {"kernel_shape": (_PATCH, _PATCH), "strides": (_PATCH, _PATCH)}
        grid = self._op("Conv", "patches", [image, weight, bias], attributes)
        rows = self._reshape(grid, (1, size.width, size.tokens - 1))
        vectors = self._op("Transpose", "vectors", [rows], {"perm": (0, 2, 1)})
        token = self._weight("class", self._normal((1, 1, size.width), 1.0))
        joined = self._op("Concat", "tokens", [token, vectors], {"axis": 1})
        places = self._normal((1, size.tokens, size.width), 0.5)
        return self.add(joined, self._weight("places", places))

    def head(self, x: Any) -> Any:
        """Append a dense layer on the class token."""
        first = self._weight("head.token", np.array(0, np.int64))
        token = self._op("Gather", "head.gather", [x, first], {"axis": 1})
        return self.linear("head", token, self._size.width, _CLASSES)
