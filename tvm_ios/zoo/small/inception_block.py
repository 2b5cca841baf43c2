"""A small block with every kind of convolution that merging has to handle."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork, Padding


def build_inception_block(seed: int = 0) -> Any:
    """Build an Inception-E-like block: input (1, 3, 19, 19), output (1, 10) logits.

    Besides the branches of Inception V3's last blocks it has a 5x5 convolution, an even kernel
    (2x2) and asymmetric pads; all read the same tensor, so they may be merged.
    """
    net = ImageNetwork("inception_block", seed, (3, 19, 19))
    stem = _conv(net, net.input, 16, 3, "valid")
    one = _conv(net, stem, 12, 1)
    five = _conv(net, stem, 8, 5)
    even = _conv(net, stem, 8, 2, (1, 0, 0, 1))
    skewed = _conv(net, stem, 8, 3, (2, 1, 0, 1))
    three = _split(net, _conv(net, stem, 12, 1))
    double = _split(net, _conv(net, _conv(net, stem, 14, 1), 12, 3))
    pooled = _conv(net, net.avg_pool(stem, 3, 1), 8, 1)
    x = net.concat([one, five, even, skewed, three, double, pooled])
    return net.finish(net.dense(net.global_avg_pool(x), 10), (1, 10))


def _conv(
    net: ImageNetwork,
    x: Feature,
    channels: int,
    kernel: int | tuple[int, int],
    padding: Padding = "same",
) -> Feature:
    return net.relu(net.batch_norm(net.conv(x, channels, kernel, padding=padding)))


def _split(net: ImageNetwork, x: Feature) -> Feature:
    return net.concat([_conv(net, x, 10, (1, 3)), _conv(net, x, 10, (3, 1))])
