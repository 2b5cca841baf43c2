"""DARTS, second order (Liu et al., 2019): for ImageNet and for CIFAR, as its authors wrote it."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.cells.genotype import CellGenotype, genotype
from tvm_ios.zoo.cells.stacking import classify
from tvm_ios.zoo.writing.network import Feature, ImageNetwork

#: The stride of two takes the pixel before, not the one behind.
_POOL_PADDING = (1, 1, 1, 1)


def build_darts(seed: int = 0) -> Any:
    """Build DARTS of 14 cells, 48 channels: input (1, 3, 224, 224), output (1, 1000) logits.

    Three convolutions of 3x3/2 come first; the first cell reads the results of the last two.
    """
    net = ImageNetwork("darts", seed, (3, 224, 224))
    x = net.batch_norm(net.conv(net.input, 24, 3, 2, _POOL_PADDING))
    before = net.batch_norm(net.conv(net.relu(x), 48, 3, 2, _POOL_PADDING))
    now = net.batch_norm(net.conv(net.relu(before), 48, 3, 2, _POOL_PADDING))
    return classify(net, _cells(net, before, now, 14, 48), 1000, rectified=False)


def build_darts_cifar(seed: int = 0) -> Any:
    """Build DARTS of 20 cells, 36 channels: input (1, 3, 32, 32), output (1, 10) logits."""
    net = ImageNetwork("darts_cifar", seed, (3, 32, 32))
    stem = net.batch_norm(net.conv(net.input, 3 * 36, 3))
    return classify(net, _cells(net, stem, stem, 20, 36), 10, rectified=False)


def _cells(net: ImageNetwork, before: Feature, now: Feature, count: int, filters: int) -> Feature:
    """Append ``count`` cells; those after a third and two thirds are reduction cells.

    These double the filters.
    """
    for number in range(count):
        append = _NORMAL.normal
        if number in (count // 3, 2 * count // 3):
            filters *= 2
            append = _REDUCTION.reduction
        with net.scope(f"cell{number}"):
            before, now = now, append(net, now, before, filters)
    return now


def _factorised_reduction(net: ImageNetwork, x: Feature, filters: int) -> Feature:
    """Halve the resolution; the even and the odd pixels give half of the filters each."""
    x = net.relu(x)
    even = net.conv(x, filters // 2, 1, 2, "valid")
    odd = net.conv(net.without_first_pixels(x), filters - filters // 2, 1, 2, "valid")
    return net.batch_norm(net.concat([even, odd]))


def _cell(text: str) -> CellGenotype:
    return genotype(text, (2, 3, 4, 5), _factorised_reduction, _POOL_PADDING)


_NORMAL = _cell("sep3 0, sep3 1; sep3 0, sep3 1; sep3 1, skip 0; skip 0, dil3 2")
_REDUCTION = _cell("max3 0, max3 1; skip 2, max3 1; max3 0, skip 2; skip 2, max3 1")
