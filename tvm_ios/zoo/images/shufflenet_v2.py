"""ShuffleNet V2, 1x (Ma et al., 2018, table 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

#: Units and channels of each stage.
_STAGES = ((4, 116), (8, 232), (4, 464))


class _Network(ImageNetwork):
    def shuffle(self, x: Feature, groups: int) -> Feature:
        """Interleave groups of channels, by the reshapes and the transpose that exporters write."""
        name = self._fresh("shuffle")
        apart = (1, groups, x.channels // groups, x.height, x.width)
        shapes = [
            self._weight(f"{name}.shape{number}", np.array(shape, np.int64))
            for number, shape in enumerate((apart, (1, x.channels, x.height, x.width)))
        ]
        value = self._op("Reshape", f"{name}.apart", [x.value, shapes[0]])
        value = self._op("Transpose", f"{name}.transpose", [value], {"perm": (0, 2, 1, 3, 4)})
        return replace(x, value=self._op("Reshape", f"{name}.joined", [value, shapes[1]]))


def build_shufflenet_v2(seed: int = 0) -> Any:
    """Build ShuffleNet V2: input (1, 3, 224, 224), output (1, 1000) logits."""
    net = _Network("shufflenet_v2", seed, (3, 224, 224))
    x = net.relu(_conv(net, net.input, 24, 3, 2))
    x = net.max_pool(x, 3, 2, (1, 1, 1, 1))
    for number, (units, channels) in enumerate(_STAGES, 2):
        for unit in range(units):
            with net.scope(f"stage{number}.{unit}"):
                x = _unit(net, x, channels // 2, downsamples=unit == 0)
    x = net.relu(_conv(net, x, 1024, 1))
    return net.finish(net.dense(net.global_avg_pool(x), 1000), (1, 1000))


def _unit(net: _Network, x: Feature, channels: int, downsamples: bool) -> Feature:
    if downsamples:
        left = _conv(net, x, x.channels, 3, 2, x.channels)
        left, right = net.relu(_conv(net, left, channels, 1)), x
    else:
        left, right = net.split(x, 2)
    right = net.relu(_conv(net, right, channels, 1))
    right = _conv(net, right, channels, 3, 2 if downsamples else 1, channels)
    right = net.relu(_conv(net, right, channels, 1))
    return net.shuffle(net.concat([left, right]), 2)


def _conv(
    net: ImageNetwork, x: Feature, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> Feature:
    pad = kernel // 2
    return net.batch_norm(net.conv(x, channels, kernel, stride, (pad, pad, pad, pad), groups), 1e-5)
