"""Two small networks for tests: one of two inputs, one of several outputs."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork


def build_two_inputs(seed: int = 0) -> Any:
    """Build a network of two images, (1, 3, 16, 16) and (1, 1, 32, 32), with 10 logits.

    The inputs are ``"input"`` and ``"detail"``.
    """
    net = ImageNetwork("two_inputs", seed, (3, 16, 16))
    left = _conv(net, net.input, 12)
    right = _conv(net, net.image("detail", (1, 32, 32)), 8, 2)
    x = net.concat([left, right])
    x = net.add(_conv(net, x, 20), x)
    return net.finish(net.dense(net.global_avg_pool(x), 10), (1, 10))


def build_several_outputs(seed: int = 0) -> Any:
    """Build a network of input (1, 3, 16, 16) and three outputs.

    They are ``"output"`` (1, 10), logits; ``"features"`` (1, 16, 16, 16), which two branches read;
    and ``"mask"`` (1, 4, 16, 16), the end of one branch.
    """
    net = ImageNetwork("several_outputs", seed, (3, 16, 16))
    features = _conv(net, net.input, 16)
    mask = net.activation("Sigmoid", net.conv(features, 4, 3, bias=True))
    x = net.concat([_conv(net, features, 12), _conv(net, features, 8)])
    logits = net.dense(net.global_avg_pool(x), 10)
    return net.finish_all(
        {
            "output": (logits, (1, 10)),
            "features": (features.value, (1, 16, 16, 16)),
            "mask": (mask.value, (1, 4, 16, 16)),
        }
    )


def _conv(net: ImageNetwork, x: Feature, channels: int, stride: int = 1) -> Feature:
    return net.relu(net.batch_norm(net.conv(x, channels, 3, stride)))
