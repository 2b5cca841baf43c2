"""Networks without branches: AlexNet as Rammer ran it, and VGG-16."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork


def build_alexnet(seed: int = 0) -> Any:
    """Build AlexNet (Krizhevsky et al., 2012): input (1, 3, 227, 227), output (1, 1000).

    It has one column, and 384 channels in the fourth convolution, as in TensorFlow's benchmarks.
    """
    net = ImageNetwork("alexnet", seed, (3, 227, 227))
    x = net.relu(net.conv(net.input, 64, 11, 4, "valid", bias=True))
    x = net.max_pool(x, 3, 2, "valid")
    x = net.max_pool(_conv(net, x, 192, 5), 3, 2, "valid")
    for channels in (384, 384, 256):
        x = _conv(net, x, channels, 3)
    return _classify(net, net.max_pool(x, 3, 2, "valid"))


def build_vgg16(seed: int = 0) -> Any:
    """Build VGG-16 (Simonyan and Zisserman, 2015): input (1, 3, 224, 224), output (1, 1000)."""
    net = ImageNetwork("vgg16", seed, (3, 224, 224))
    x = net.input
    for channels, layers in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(layers):
            x = _conv(net, x, channels, 3)
        x = net.max_pool(x, 2, 2, "valid")
    return _classify(net, x)


def _conv(net: ImageNetwork, x: Feature, channels: int, kernel: int) -> Feature:
    return net.relu(net.conv(x, channels, kernel, bias=True))


def _classify(net: ImageNetwork, x: Feature) -> Any:
    for _ in range(2):
        x = net.dropout(net.hidden(x, 4096))
    return net.finish(net.dense(x, 1000), (1, 1000))
