"""Common parts of cells of searched networks (NASNet, AmoebaNet, DARTS), and their stacking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork

#: Appends a cell of so many filters, which reads the tensor now and the one before. The first cell
#: of a network has no tensor before; its operations read the tensor now unsqueezed instead.
AppendedCell = Callable[[ImageNetwork, Feature, Feature | None, int], Feature]
#: Makes a tensor of so many channels at half the resolution.
Halving = Callable[[ImageNetwork, Feature, int], Feature]


def build_for_imagenet(
    name: str, seed: int, normal: AppendedCell, reduction: AppendedCell, filters: int
) -> Any:
    """Build a network of 16 cells: input (1, 3, 224, 224), output (1, 1000) logits.

    It has an unpadded stem of 3x3/2 with 32 filters, two reduction cells of a quarter and a half of
    the filters, and three times four normal cells, of ``filters`` at first; between them reduction
    cells double the filters (as the networks of Zoph et al. were published in TF-Slim).
    """
    net = ImageNetwork(name, seed, (3, 224, 224))
    before = net.batch_norm(net.conv(net.input, 32, 3, stride=2, padding="valid"))
    with net.scope("stem0"):
        now = reduction(net, before, None, filters // 4)
    with net.scope("stem1"):
        before, now = now, reduction(net, now, before, filters // 2)
    now = _stacked(net, now, before, normal, reduction, filters, 4)
    return classify(net, now, 1000)


def build_for_cifar(
    name: str, seed: int, normal: AppendedCell, reduction: AppendedCell, filters: int
) -> Any:
    """Build a network of 20 cells: input (1, 3, 32, 32), output (1, 10) logits.

    It has a stem of 3x3 with three times the filters, and three times six normal cells; between
    them reduction cells double the filters.
    """
    net = ImageNetwork(name, seed, (3, 32, 32))
    before, now = None, net.batch_norm(net.conv(net.input, 3 * filters, 3))
    now = _stacked(net, now, before, normal, reduction, filters, 6)
    return classify(net, now, 10)


def _stacked(
    net: ImageNetwork,
    now: Feature,
    before: Feature | None,
    normal: AppendedCell,
    reduction: AppendedCell,
    filters: int,
    cells: int,
) -> Feature:
    """Append three groups of normal cells, with a reduction cell between them."""
    for group in range(3):
        for number in range(cells):
            with net.scope(f"cell{group * cells + number}"):
                before, now = now, normal(net, now, before, filters)
        if group < 2:
            filters *= 2
            with net.scope(f"reduction{group}"):
                before, now = now, reduction(net, now, before, filters)
    return now


def squeeze(net: ImageNetwork, x: Feature, filters: int) -> Feature:
    """Append a ReLU, a 1x1 convolution to the cell's channels, and a batch norm."""
    return net.batch_norm(net.conv(net.relu(x), filters, 1))


def fit(net: ImageNetwork, x: Feature, filters: int) -> Feature:
    """Append a 1x1 convolution to the cell's channels, if the tensor has others."""
    return x if x.channels == filters else net.batch_norm(net.conv(x, filters, 1))


def factorised_reduction(net: ImageNetwork, x: Feature, filters: int) -> Feature:
    """Halve the resolution; two shifts of the tensor give half of the filters each.

    The second has one more of an odd number.
    """
    rectified = net.relu(x)
    first = net.conv(net.avg_pool(rectified, 1, 2, "valid"), filters // 2, 1)
    shifted = net.avg_pool(net.shift(rectified), 1, 2, "valid")
    second = net.conv(shifted, filters - filters // 2, 1)
    return net.batch_norm(net.concat([first, second]))


def adjust(
    net: ImageNetwork,
    before: Feature | None,
    now: Feature,
    filters: int,
    halving: Halving = factorised_reduction,
) -> Feature:
    """Return the previous tensor at this cell's channels and resolution, or the current if None."""
    if before is None:
        return now
    if before.height == now.height:
        return squeeze(net, before, filters)
    return halving(net, before, filters)


def separable(net: ImageNetwork, x: Feature, filters: int, kernel: int, stride: int = 1) -> Feature:
    """Append a separable convolution twice; the first has the stride."""
    for step in (stride, 1):
        x = net.conv(net.relu(x), x.channels, kernel, step, groups=x.channels)
        x = net.batch_norm(net.conv(x, filters, 1))
    return x


def classify(net: ImageNetwork, x: Feature, classes: int, rectified: bool = True) -> Any:
    """Append a dense layer on the mean of all pixels, and return the model."""
    x = net.global_avg_pool(net.relu(x) if rectified else x)
    return net.finish(net.dense(net.dropout(x), classes), (1, classes))
