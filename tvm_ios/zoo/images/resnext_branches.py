"""ResNeXt with blocks of separate branches, as Rammer ran it (Ma et al., OSDI 2020).

A block is that of Xie et al. (2017), figure 3, form (b): each branch has two convolutions of its
own, and their results are concatenated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork


def build_resnext29_branches(seed: int = 0) -> Any:
    """Build ResNeXt-29 of 16 branches of 64 channels: input (1, 3, 32, 32), output (1, 10).

    Blocks end in 64, 128 and 256 channels; where these double, the shortcut is an average pooling
    and channels of zeros.
    """
    net = ImageNetwork("resnext29_branches", seed, (3, 32, 32))
    x = net.relu(net.batch_norm(net.conv(net.input, 64, 3)))
    for stage, channels in enumerate((64, 128, 256)):
        for block in range(3):
            with net.scope(f"stage{stage + 1}.{block}"):
                halves = x.channels != channels
                y = _branches(net, x, [64] * 16, channels, 2 if halves else 1)
                added = (channels - x.channels) // 2
                shortcut = net.zero_channels(net.avg_pool(x, 2, 2), added) if halves else x
                x = net.relu(net.add(y, shortcut))
    return net.finish(net.dense(net.global_avg_pool(x), 10, bias=False), (1, 10))


def build_resnext101_branches(seed: int = 0) -> Any:
    """Build ResNeXt-101 of 64 branches: input (1, 3, 224, 224), output (1, 1000) logits.

    Branches have 4 channels in the first stage and twice as many in each next one.
    """
    net = ImageNetwork("resnext101_branches", seed, (3, 224, 224))
    x = net.relu(net.batch_norm(net.conv(net.input, 64, 7, 2, (3, 3, 3, 3))))
    x = net.max_pool(x, 3, 2)
    for stage, blocks in enumerate((3, 4, 23, 3)):
        channels = 256 << stage
        for block in range(blocks):
            with net.scope(f"stage{stage + 1}.{block}"):
                stride = 2 if block == 0 and stage else 1
                y = _branches(net, x, [channels // 64] * 64, channels, stride)
                shortcut = x
                if x.channels != channels:
                    shortcut = net.batch_norm(net.conv(x, channels, 1, stride, "valid"))
                x = net.relu(net.add(y, shortcut))
    return net.finish(net.dense(net.global_avg_pool(x), 1000, bias=False), (1, 1000))


def _branches(
    net: ImageNetwork, x: Feature, widths: Sequence[int], channels: int, stride: int
) -> Feature:
    """Append two convolutions per branch, and a 1x1 convolution of their concatenation."""
    made: list[Feature] = []
    for number, width in enumerate(widths):
        with net.scope(f"branch{number}"):
            y = net.relu(net.batch_norm(net.conv(x, width, 1, stride, "valid")))
            made.append(net.relu(net.batch_norm(net.conv(y, width, 3))))
    return net.batch_norm(net.conv(net.concat(made), channels, 1))
