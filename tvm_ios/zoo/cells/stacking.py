"""What cells of searched networks (NASNet, AmoebaNet, DARTS) have in common, and their stacking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

#: Appends a cell of so many filters, which reads the tensor now and the one before.
NormalCell = Callable[[ImageNetwork, Feature, Feature, int], Feature]
#: The first cell of a network may be one, and has no tensor before.
ReductionCell = Callable[[ImageNetwork, Feature, Feature | None, int], Feature]


def build_for_imagenet(
    name: str, seed: int, normal: NormalCell, reduction: ReductionCell, filters: int
) -> Any:
    """A network of 16 cells: input (1, 3, 224, 224), output (1, 1000) logits.

    A stem of 3x3/2 with 32 filters, two reduction cells, and three times four normal cells with
    a reduction cell between them. Each reduction cell has twice the filters of the one before;
    the first one has ``filters``.
    """
    net = ImageNetwork(name, seed, (3, 224, 224))
    before = net.batch_norm(net.conv(net.input, 32, 3, stride=2))
    with net.scope("reduction0"):
        now = reduction(net, before, None, filters)
    for group in range(1, 4):
        filters *= 2
        with net.scope(f"reduction{group}"):
            before, now = now, reduction(net, now, before, filters)
        for number in range(4):
            with net.scope(f"cell{group * 4 + number - 4}"):
                before, now = now, normal(net, now, before, filters)
    return _classify(net, now, 1000)


def build_for_cifar(
    name: str, seed: int, normal: NormalCell, reduction: ReductionCell, filters: int
) -> Any:
    """A network of 20 cells: input (1, 3, 32, 32), output (1, 10) logits.

    A stem of 3x3 with three times the filters, and three times six normal cells with a reduction
    cell between them, which doubles the filters.
    """
    net = ImageNetwork(name, seed, (3, 32, 32))
    before = now = net.batch_norm(net.conv(net.input, 3 * filters, 3))
    for group in range(3):
        for number in range(6):
            with net.scope(f"cell{group * 6 + number}"):
                before, now = now, normal(net, now, before, filters)
        if group < 2:
            filters *= 2
            with net.scope(f"reduction{group}"):
                before, now = now, reduction(net, now, before, filters)
    return _classify(net, now, 10)


def squeeze(net: ImageNetwork, x: Feature, filters: int) -> Feature:
    """A tensor at the cell's channels."""
    return net.batch_norm(net.conv(net.relu(x), filters, 1))


def adjust(net: ImageNetwork, before: Feature, now: Feature, filters: int) -> Feature:
    """The tensor before, at this cell's channels and resolution."""
    if before.height == now.height:
        return squeeze(net, before, filters)
    return factorised_reduction(net, before, filters)


def factorised_reduction(net: ImageNetwork, x: Feature, filters: int) -> Feature:
    """A tensor at half its resolution: a half of the channels from each of two shifts."""
    halves = [
        net.conv(net.avg_pool(path, 1, 2, "valid"), filters // 2, 1)
        for path in (net.relu(x), net.shift(net.relu(x)))
    ]
    return net.batch_norm(net.concat(halves))


def separable(net: ImageNetwork, x: Feature, filters: int, kernel: int, stride: int = 1) -> Feature:
    """A separable convolution, applied twice; the first one has the stride."""
    for step in (stride, 1):
        x = net.conv(net.relu(x), x.channels, kernel, step, groups=x.channels)
        x = net.batch_norm(net.conv(x, filters, 1))
    return x


def _classify(net: ImageNetwork, x: Feature, classes: int) -> Any:
    x = net.dropout(net.global_avg_pool(net.relu(x)))
    return net.finish(net.dense(x, classes), (1, classes))
