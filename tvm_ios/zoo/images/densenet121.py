"""DenseNet-121 (Huang et al., 2017, table 1): batch norm and activation before convolutions."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

_LAYERS = (6, 12, 24, 16)
_GROWTH = 32


def build_densenet121(seed: int = 0) -> Any:
    """Build DenseNet-121: input (1, 3, 224, 224), output (1, 1000) logits."""
    net = ImageNetwork("densenet121", seed, (3, 224, 224))
    x = net.relu(net.batch_norm(net.conv(net.input, 2 * _GROWTH, 7, 2, (3, 3, 3, 3)), 1e-5))
    x = net.max_pool(x, 3, 2, (1, 1, 1, 1))
    for number, layers in enumerate(_LAYERS, 1):
        features = [x]
        for layer in range(1, layers + 1):
            with net.scope(f"block{number}.{layer}"):
                y = _activated_conv(net, _joined(net, features), 4 * _GROWTH, 1)
                features.append(_activated_conv(net, y, _GROWTH, 3))
        x = _joined(net, features)
        if number < len(_LAYERS):
            with net.scope(f"transition{number}"):
                x = net.avg_pool(_activated_conv(net, x, x.channels // 2, 1), 2, 2, "valid")
    x = net.relu(net.batch_norm(x, 1e-5))
    return net.finish(net.dense(net.global_avg_pool(x), 1000), (1, 1000))


def _joined(net: ImageNetwork, parts: list[Feature]) -> Feature:
    return parts[0] if len(parts) == 1 else net.concat(parts)


def _activated_conv(net: ImageNetwork, x: Feature, channels: int, kernel: int) -> Feature:
    return net.conv(net.relu(net.batch_norm(x, 1e-5)), channels, kernel)
