"""ResNeXt-29, 16x64d, for CIFAR (Xie et al., 2017, section 5.2)."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

_GROUPS, _GROUP_WIDTH = 16, 64
_STAGES, _BLOCKS = 3, 3


def build_resnext29(seed: int = 0) -> Any:
    """Build ResNeXt-29: input (1, 3, 32, 32), output (1, 10) logits."""
    net = ImageNetwork("resnext29", seed, (3, 32, 32))
    x = net.relu(net.batch_norm(net.conv(net.input, 64, 3)))
    for stage in range(_STAGES):
        for block in range(_BLOCKS):
            with net.scope(f"stage{stage + 1}.{block}"):
                x = _bottleneck(net, x, 1 << stage, 2 if block == 0 and stage > 0 else 1)
    return net.finish(net.dense(net.global_avg_pool(x), 10), (1, 10))


def _bottleneck(net: ImageNetwork, x: Feature, scale: int, stride: int) -> Feature:
    inner, outer = _GROUPS * _GROUP_WIDTH * scale, 256 * scale
    y = net.relu(net.batch_norm(net.conv(x, inner, 1)))
    y = net.conv(y, inner, 3, stride, (1, 1, 1, 1), groups=_GROUPS)
    y = net.batch_norm(net.conv(net.relu(net.batch_norm(y)), outer, 1))
    changes = x.channels != outer
    shortcut = net.batch_norm(net.conv(x, outer, 1, stride, "valid")) if changes else x
    return net.relu(net.add(y, shortcut))
