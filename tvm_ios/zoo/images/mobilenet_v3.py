"""MobileNet V3, large (Howard et al., 2019, table 1)."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

#: Kernel, expanded channels, channels, squeeze-and-excite?, activation and stride of each block.
_BLOCKS = (
    (3, 16, 16, False, "Relu", 1), (3, 64, 24, False, "Relu", 2),
    (3, 72, 24, False, "Relu", 1), (5, 72, 40, True, "Relu", 2),
    (5, 120, 40, True, "Relu", 1), (5, 120, 40, True, "Relu", 1),
    (3, 240, 80, False, "HardSwish", 2), (3, 200, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1), (3, 184, 80, False, "HardSwish", 1),
    (3, 480, 112, True, "HardSwish", 1), (3, 672, 112, True, "HardSwish", 1),
    (5, 672, 160, True, "HardSwish", 2), (5, 960, 160, True, "HardSwish", 1),
    (5, 960, 160, True, "HardSwish", 1),
)  # fmt: skip


def build_mobilenet_v3(seed: int = 0) -> Any:
    """Build MobileNet V3: input (1, 3, 224, 224), output (1, 1000) logits."""
    net = ImageNetwork("mobilenet_v3", seed, (3, 224, 224))
    x = net.activation("HardSwish", _conv(net, net.input, 16, 3, 2))
    for number, block in enumerate(_BLOCKS):
        with net.scope(f"block{number}"):
            x = _bottleneck(net, x, *block)
    x = net.global_avg_pool(net.activation("HardSwish", _conv(net, x, 960, 1)))
    # The paper's last 1x1 convolutions, after the pooling, are two dense layers.
    x = net.activation("HardSwish", net.conv(x, 1280, 1, bias=True))
    return net.finish(net.dense(net.dropout(x), 1000), (1, 1000))


def _bottleneck(
    net: ImageNetwork,
    x: Feature,
    kernel: int,
    expanded: int,
    channels: int,
    excites: bool,
    activation: str,
    stride: int,
) -> Feature:
    y = x
    if expanded != x.channels:
        y = net.activation(activation, _conv(net, x, expanded, 1))
    y = net.activation(activation, _conv(net, y, expanded, kernel, stride, expanded))
    if excites:
        y = net.squeeze_excite(y, _rounded(expanded // 4), "Relu", "HardSigmoid")
    y = _conv(net, y, channels, 1)
    return net.residual(x, y) if stride == 1 and x.channels == channels else y


def _rounded(channels: int) -> int:
    """Return the nearest multiple of 8 that is at least 0.9 times the channels."""
    near = max(8, (channels + 4) // 8 * 8)
    return near if near >= 0.9 * channels else near + 8


def _conv(
    net: ImageNetwork, x: Feature, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> Feature:
    pad = kernel // 2
    return net.batch_norm(net.conv(x, channels, kernel, stride, (pad, pad, pad, pad), groups))
