"""ResNet-50 v1.5, ResNet-34 (He et al., 2016) and GraphTurbo's ResNet18-Tailor."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

_WIDTHS = (64, 128, 256, 512)
#: Blocks of each stage: of both networks the same.
_BLOCKS = (3, 4, 6, 3)


def build_resnet50(seed: int = 0) -> Any:
    """Build ResNet-50: input (1, 3, 224, 224), output (1, 1000) logits.

    The stride sits in the 3x3 convolution (version 1.5).
    """
    return _build("resnet50", seed, _bottleneck)


def build_resnet34(seed: int = 0) -> Any:
    """Build ResNet-34: input (1, 3, 224, 224), output (1, 1000) logits."""
    return _build("resnet34", seed, _basic)


def build_resnet18_tailor(seed: int = 0) -> Any:
    """Build four basic blocks: input (1, 64, 56, 56), output (1, 512, 7, 7).

    GraphTurbo (section 5.6) leaves out the layers before and after ResNet-18's stages and fuses the
    remaining convolutions in pairs to four sub-graphs: a block of each stage.
    """
    net = ImageNetwork("resnet18_tailor", seed, (64, 56, 56))
    x = net.input
    for number, width in enumerate(_WIDTHS):
        with net.scope(f"layer{number + 1}.0"):
            x = _basic(net, x, width, 1 if number == 0 else 2)
    return net.finish(x.value, (1, x.channels, x.height, x.width))


def _build(name: str, seed: int, block: Any) -> Any:
    net = ImageNetwork(name, seed, (3, 224, 224))
    x = _conv_bn(net, net.input, 64, 7, 2, 3)
    x = net.max_pool(net.relu(x), 3, 2, (1, 1, 1, 1))
    for number, (width, blocks) in enumerate(zip(_WIDTHS, _BLOCKS, strict=True), 1):
        for place in range(blocks):
            with net.scope(f"layer{number}.{place}"):
                x = block(net, x, width, 2 if place == 0 and number > 1 else 1)
    return net.finish(net.dense(net.global_avg_pool(x), 1000), (1, 1000))


def _basic(net: ImageNetwork, x: Feature, width: int, stride: int) -> Feature:
    y = net.relu(_conv_bn(net, x, width, 3, stride, 1))
    return _joined(net, x, _conv_bn(net, y, width, 3, 1, 1), stride)


def _bottleneck(net: ImageNetwork, x: Feature, width: int, stride: int) -> Feature:
    y = net.relu(_conv_bn(net, x, width, 1, 1, 0))
    y = net.relu(_conv_bn(net, y, width, 3, stride, 1))
    return _joined(net, x, _conv_bn(net, y, 4 * width, 1, 1, 0), stride)


def _joined(net: ImageNetwork, x: Feature, y: Feature, stride: int) -> Feature:
    changes = stride != 1 or x.channels != y.channels
    shortcut = _conv_bn(net, x, y.channels, 1, stride, 0) if changes else x
    return net.relu(net.add(y, shortcut))


def _conv_bn(
    net: ImageNetwork, x: Feature, channels: int, kernel: int, stride: int, pad: int
) -> Feature:
    return net.batch_norm(net.conv(x, channels, kernel, stride, (pad, pad, pad, pad)), 1e-5)
