"""ResNet-50 v1.5: the stride sits in the 3x3 convolution (He et al., 2016)."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


def build_resnet50(seed: int = 0) -> Any:
    """ResNet-50 as an ``onnx.ModelProto``: input (1, 3, 224, 224), output (1, 1000) logits."""
    net = ImageNetwork("resnet50", seed, (3, 224, 224))
    x = _conv_bn(net, net.input, 64, 7, 2, 3)
    x = net.max_pool(net.relu(x), 3, 2, (1, 1, 1, 1))
    for number, (width, blocks) in enumerate(_STAGES, 1):
        for block in range(blocks):
            with net.scope(f"layer{number}.{block}"):
                x = _bottleneck(net, x, width, 2 if block == 0 and number > 1 else 1)
    return net.finish(net.dense(net.global_avg_pool(x), 1000), (1, 1000))


def _bottleneck(net: ImageNetwork, x: Feature, width: int, stride: int) -> Feature:
    y = net.relu(_conv_bn(net, x, width, 1, 1, 0))
    y = net.relu(_conv_bn(net, y, width, 3, stride, 1))
    y = _conv_bn(net, y, 4 * width, 1, 1, 0)
    changes = stride != 1 or x.channels != y.channels
    shortcut = _conv_bn(net, x, 4 * width, 1, stride, 0) if changes else x
    return net.relu(net.add(y, shortcut))


def _conv_bn(
    net: ImageNetwork, x: Feature, channels: int, kernel: int, stride: int, pad: int
) -> Feature:
    return net.batch_norm(net.conv(x, channels, kernel, stride, (pad, pad, pad, pad)), 1e-5)
