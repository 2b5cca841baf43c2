"""MobileNet V2, width 1 (Sandler et al., 2018, table 2)."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

#: Expansion, channels, blocks and first stride of each stage.
_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def build_mobilenet_v2(seed: int = 0) -> Any:
    """Build MobileNet V2: input (1, 3, 224, 224), output (1, 1000) logits."""
    net = ImageNetwork("mobilenet_v2", seed, (3, 224, 224))
    x = _conv(net, net.input, 32, 3, 2)
    for number, (expansion, channels, blocks, stride) in enumerate(_STAGES, 1):
        for block in range(blocks):
            with net.scope(f"stage{number}.{block}"):
                x = _inverted_residual(net, x, expansion, channels, 1 if block else stride)
    x = net.dropout(net.global_avg_pool(_conv(net, x, 1280, 1)))
    return net.finish(net.dense(x, 1000), (1, 1000))


def _inverted_residual(
    net: ImageNetwork, x: Feature, expansion: int, channels: int, stride: int
) -> Feature:
    y = _conv(net, x, expansion * x.channels, 1) if expansion > 1 else x
    y = _conv(net, y, y.channels, 3, stride, y.channels)
    y = net.batch_norm(net.conv(y, channels, 1))
    return net.residual(x, y) if stride == 1 and x.channels == channels else y


def _conv(
    net: ImageNetwork, x: Feature, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> Feature:
    pad = kernel // 2
    y = net.conv(x, channels, kernel, stride, (pad, pad, pad, pad), groups)
    return net.relu6(net.batch_norm(y, 1e-5))
