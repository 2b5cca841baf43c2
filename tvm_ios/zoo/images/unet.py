"""A U-Net (Ronneberger et al., 2015) with padded convolutions and an eighth of the channels."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

_WIDTHS = (8, 16, 32, 64, 128)


def build_unet(seed: int = 0, size: int = 128, upsampling: str = "transpose") -> Any:
    """Build a U-Net: input (1, 3, size, size), output (1, 2, size, size).

    ``size`` is a multiple of 16. ``upsampling`` is ``"transpose"``, a transposed convolution as
    published; or ``"nearest"`` or ``"linear"`` with a 1x1 convolution after it.
    """
    net = ImageNetwork("unet", seed, (3, size, size))
    x, skipped = net.input, list[Feature]()
    for level, width in enumerate(_WIDTHS):
        with net.scope(f"down{level}"):
            x = _double_conv(net, x if level == 0 else net.max_pool(x, 2, 2, "valid"), width)
        skipped.append(x)
    for level, width in reversed(list(enumerate(_WIDTHS[:-1]))):
        with net.scope(f"up{level}"):
            if upsampling == "transpose":
                wide = net.conv_transpose(x, width, 2, 2)
            else:
                wide = net.conv(net.upsample(x, 2, upsampling), width, 1, bias=True)
            x = _double_conv(net, net.concat([skipped[level], wide]), width)
    return net.finish(net.conv(x, 2, 1, bias=True).value, (1, 2, size, size))


def _double_conv(net: ImageNetwork, x: Feature, channels: int) -> Feature:
    for _ in range(2):
        x = net.relu(net.batch_norm(net.conv(x, channels, 3)))
    return x
