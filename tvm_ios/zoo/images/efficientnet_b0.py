"""EfficientNet-B0 (Tan and Le, 2019, table 1): inverted residuals with squeeze-and-excite."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

#: Expansion, kernel, stride, channels and blocks of each stage.
_STAGES = (
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1),
)  # fmt: skip


def build_efficientnet_b0(seed: int = 0) -> Any:
    """Build EfficientNet-B0: input (1, 3, 224, 224), output (1, 1000) logits."""
    net = ImageNetwork("efficientnet_b0", seed, (3, 224, 224))
    x = _conv(net, net.input, 32, 3, 2)
    for number, (expansion, kernel, stride, channels, blocks) in enumerate(_STAGES, 1):
        for block in range(blocks):
            with net.scope(f"stage{number}.{block}"):
                x = _block(net, x, expansion, kernel, 1 if block else stride, channels)
    x = net.dropout(net.global_avg_pool(_conv(net, x, 1280, 1)))
    return net.finish(net.dense(x, 1000), (1, 1000))


def _block(
    net: ImageNetwork, x: Feature, expansion: int, kernel: int, stride: int, channels: int
) -> Feature:
    y = _conv(net, x, expansion * x.channels, 1) if expansion > 1 else x
    y = _conv(net, y, y.channels, kernel, stride, y.channels)
    y = net.squeeze_excite(y, x.channels // 4, "Swish", "Sigmoid")
    y = net.batch_norm(net.conv(y, channels, 1))
    return net.residual(y, x) if stride == 1 and x.channels == channels else y


def _conv(
    net: ImageNetwork, x: Feature, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> Feature:
    pad = kernel // 2
    y = net.conv(x, channels, kernel, stride, (pad, pad, pad, pad), groups)
    return net.swish(net.batch_norm(y, 1e-5))
