"""The four convolutions of IOS's figure 2 (Ding et al., MLSys 2021)."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork


def build_ios_figure_2(seed: int = 0) -> Any:
    """Build the convolutions: input (1, 384, 15, 15), output (1, 1920, 15, 15).

    Of three convolutions that read the input one has twice its channels, and another is read by a
    fourth; the sizes are those of the authors' published experiment.
    """
    net = ImageNetwork("ios_figure_2", seed, (384, 15, 15))
    a, c, d = (_conv(net, net.input, channels) for channels in (384, 384, 768))
    x = net.concat([_conv(net, a, 768), d, c])
    return net.finish(x.value, (1, x.channels, 15, 15))


def _conv(net: ImageNetwork, x: Feature, channels: int) -> Feature:
    return net.relu(net.conv(x, channels, 3, bias=True))
