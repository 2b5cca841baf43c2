"""SqueezeNet 1.0 with complex bypass (Iandola et al., 2016, figure 2, right)."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

#: Squeeze and expand channels of each fire module; None is a max pooling.
_FIRES = (
    (16, 64), (16, 64), (32, 128), None,
    (32, 128), (48, 192), (48, 192), (64, 256), None,
    (64, 256),
)  # fmt: skip


def build_squeezenet(seed: int = 0) -> Any:
    """Build SqueezeNet: input (1, 3, 224, 224), output (1, 1000) logits."""
    net = ImageNetwork("squeezenet", seed, (3, 224, 224))
    x = net.relu(net.conv(net.input, 96, 7, stride=2, padding="valid", bias=True))
    x = net.max_pool(x, 3, 2, "valid", ceil_mode=True)
    number = 2
    for fire in _FIRES:
        if fire is None:
            x = net.max_pool(x, 3, 2, "valid", ceil_mode=True)
            continue
        with net.scope(f"fire{number}"):
            x = _fire(net, x, *fire)
        number += 1
    x = net.relu(net.conv(net.dropout(x), 1000, 1, bias=True))
    return net.finish(net.flatten(net.global_avg_pool(x)), (1, 1000))


def _fire(net: ImageNetwork, x: Feature, squeeze: int, expand: int) -> Feature:
    squeezed = net.relu(net.conv(x, squeeze, 1, bias=True))
    wide = net.relu(net.conv(squeezed, expand, 3, bias=True))
    narrow = net.relu(net.conv(squeezed, expand, 1, bias=True))
    joined = net.concat([narrow, wide])
    # A bypass needs a convolution only where the number of channels changes.
    changes = x.channels != joined.channels
    bypass = net.relu(net.conv(x, joined.channels, 1, bias=True)) if changes else x
    return net.add(joined, bypass)
