"""Inception V3 without its auxiliary head (Szegedy et al., 2016, table 1)."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork, Padding


def build_inception_v3(seed: int = 0) -> Any:
    """Build Inception V3: input (1, 3, 299, 299), output (1, 1000) logits."""
    net = ImageNetwork("inception_v3", seed, (3, 299, 299))
    x = _conv(net, net.input, 32, 3, 2, "valid")
    x = _conv(net, x, 32, 3, 1, "valid")
    x = _conv(net, x, 64, 3)
    x = net.max_pool(x, 3, 2, "valid")
    x = _conv(net, x, 80, 1)
    x = _conv(net, x, 192, 3, 1, "valid")
    x = net.max_pool(x, 3, 2, "valid")
    for number, pooled in enumerate((32, 64, 64)):
        with net.scope(f"mixed_5{'bcd'[number]}"):
            x = _inception_a(net, x, pooled)
    with net.scope("mixed_6a"):
        x = _inception_b(net, x)
    for number, width in enumerate((128, 160, 160, 192)):
        with net.scope(f"mixed_6{'bcde'[number]}"):
            x = _inception_c(net, x, width)
    with net.scope("mixed_7a"):
        x = _inception_d(net, x)
    for name in ("mixed_7b", "mixed_7c"):
        with net.scope(name):
            x = _inception_e(net, x)
    x = net.dropout(net.global_avg_pool(x))
    return net.finish(net.dense(x, 1000), (1, 1000))


def _conv(
    net: ImageNetwork,
    x: Feature,
    channels: int,
    kernel: int | tuple[int, int],
    stride: int = 1,
    padding: Padding = "same",
) -> Feature:
    return net.relu(net.batch_norm(net.conv(x, channels, kernel, stride, padding)))


def _pooled(net: ImageNetwork, x: Feature, channels: int) -> Feature:
    return _conv(net, net.avg_pool(x, 3, 1), channels, 1)


def _inception_a(net: ImageNetwork, x: Feature, pooled: int) -> Feature:
    one = _conv(net, x, 64, 1)
    five = _conv(net, _conv(net, x, 48, 1), 64, 5)
    three = _conv(net, _conv(net, _conv(net, x, 64, 1), 96, 3), 96, 3)
    return net.concat([one, five, three, _pooled(net, x, pooled)])


def _inception_b(net: ImageNetwork, x: Feature) -> Feature:
    three = _conv(net, x, 384, 3, 2, "valid")
    double = _conv(net, _conv(net, _conv(net, x, 64, 1), 96, 3), 96, 3, 2, "valid")
    return net.concat([three, double, net.max_pool(x, 3, 2, "valid")])


def _inception_c(net: ImageNetwork, x: Feature, width: int) -> Feature:
    one = _conv(net, x, 192, 1)
    seven = _conv(net, x, width, 1)
    seven = _conv(net, seven, width, (1, 7))
    seven = _conv(net, seven, 192, (7, 1))
    double = _conv(net, x, width, 1)
    for kernel in ((7, 1), (1, 7), (7, 1)):
        double = _conv(net, double, width, kernel)
    double = _conv(net, double, 192, (1, 7))
    return net.concat([one, seven, double, _pooled(net, x, 192)])


def _inception_d(net: ImageNetwork, x: Feature) -> Feature:
    three = _conv(net, _conv(net, x, 192, 1), 320, 3, 2, "valid")
    seven = _conv(net, x, 192, 1)
    seven = _conv(net, seven, 192, (1, 7))
    seven = _conv(net, seven, 192, (7, 1))
    seven = _conv(net, seven, 192, 3, 2, "valid")
    return net.concat([three, seven, net.max_pool(x, 3, 2, "valid")])


def _inception_e(net: ImageNetwork, x: Feature) -> Feature:
    one = _conv(net, x, 320, 1)
    three = _split(net, _conv(net, x, 384, 1))
    double = _split(net, _conv(net, _conv(net, x, 448, 1), 384, 3))
    return net.concat([one, three, double, _pooled(net, x, 192)])


def _split(net: ImageNetwork, x: Feature) -> Feature:
    return net.concat([_conv(net, x, 384, (1, 3)), _conv(net, x, 384, (3, 1))])
