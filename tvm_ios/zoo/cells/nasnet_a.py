"""NASNet-A (Zoph et al., 2018): for ImageNet, for CIFAR, and two of its cells for tests."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.cells.stacking import (
    Halving,
    adjust,
    build_for_cifar,
    build_for_imagenet,
    factorised_reduction,
    fit,
    separable,
    squeeze,
)
from tvm_ios.zoo.writing.network import Feature, ImageNetwork


def build_nasnet_a(seed: int = 0) -> Any:
    """Build NASNet-A large: input (1, 3, 331, 331), output (1, 1000) logits.

    It has three times six normal cells of 168, 336 and 672 filters, two reduction cells between
    them, and two in the stem (of 42 and 84 filters). The normal cell after a change of resolution
    sums two separable convolutions of the *current* tensor first, as in the network that the IOS
    measurements were made with; every other normal cell takes one of the two from the previous
    tensor.
    """
    filters, repeats = 168, 6
    net = ImageNetwork("nasnet_a", seed, (3, 331, 331))
    stem = net.batch_norm(net.conv(net.input, 96, 3, stride=2, padding="valid"))
    with net.scope("stem0"):
        before, now = stem, _reduction_cell(net, stem, None, filters // 4)
    with net.scope("stem1"):
        before, now = now, _reduction_cell(net, now, stem, filters // 2, _rectified_halves)
    for group in range(3):
        for number in range(repeats):
            with net.scope(f"cell{group * repeats + number}"):
                quirk = before.height != now.height
                cell = _normal_cell(net, now, before, filters, _rectified_halves, quirk)
                before, now = now, cell
        if group < 2:
            filters *= 2
            with net.scope(f"reduction{group}"):
                # `before` stays: the next cell reads what this cell read, not this cell's input.
                now = _reduction_cell(net, now, before, filters, _rectified_halves)
    x = net.dropout(net.global_avg_pool(net.relu(now)))
    return net.finish(net.dense(x, 1000), (1, 1000))


def build_nasnet_a_mobile(seed: int = 0) -> Any:
    """NASNet-A mobile (4 @ 1056): input (1, 3, 224, 224), output (1, 1000) logits.

    The stem's cells have 11 and 22 filters, the normal cells 44, 88 and 176.
    """
    return build_for_imagenet("nasnet_a_mobile", seed, _normal_cell, _reduction_cell, 44)


def build_nasnet_a_cifar(seed: int = 0) -> Any:
    """Build NASNet-A for CIFAR (6 @ 768): input (1, 3, 32, 32), output (1, 10) logits.

    It has three times six normal cells of 32, 64 and 128 filters with two reduction cells between
    them; the last concatenation has 768 channels. The first cell reads the stem's 96 channels
    unsqueezed, as published in TF-Slim.
    """
    return build_for_cifar("nasnet_a_cifar", seed, _normal_cell, _reduction_cell, 32)


def build_nasnet_cell(seed: int = 0) -> Any:
    """Build two small normal cells, one reading the other: input (1, 3, 32, 32), output (1, 10)."""
    net = ImageNetwork("nasnet_cell", seed, (3, 32, 32))
    before = net.batch_norm(net.conv(net.input, 12, 3, stride=2, padding="valid"))
    now = net.batch_norm(net.conv(net.relu(before), 16, 3))
    for number in range(2):
        with net.scope(f"cell{number}"):
            before, now = now, _normal_cell(net, now, before, 8)
    x = net.global_avg_pool(net.relu(now))
    return net.finish(net.dense(x, 10), (1, 10))


def _normal_cell(
    net: ImageNetwork,
    now: Feature,
    before: Feature | None,
    filters: int,
    halving: Halving = factorised_reduction,
    now_twice: bool = False,
) -> Feature:
    left = adjust(net, before, now, filters, halving)
    right = squeeze(net, now, filters)
    first = net.add(
        separable(net, right, filters, 5),
        separable(net, right if now_twice else left, filters, 3),
    )
    second = net.add(separable(net, left, filters, 5), separable(net, left, filters, 3))
    skipped = left if left.channels == filters else squeeze(net, left, filters)
    third = net.add(net.avg_pool(right, 3, 1), skipped)
    fourth = net.add(*(fit(net, net.avg_pool(left, 3, 1), filters) for _ in range(2)))
    fifth = net.add(separable(net, right, filters, 3), right)
    return net.concat([fit(net, left, filters), first, second, third, fourth, fifth])


def _reduction_cell(
    net: ImageNetwork,
    now: Feature,
    before: Feature | None,
    filters: int,
    halving: Halving = factorised_reduction,
) -> Feature:
    right = squeeze(net, now, filters)
    left = adjust(net, before, now, filters, halving)
    first = net.add(separable(net, right, filters, 5, 2), separable(net, left, filters, 7, 2))
    second = net.add(net.max_pool(right, 3, 2), separable(net, left, filters, 7, 2))
    third = net.add(net.avg_pool(right, 3, 2), separable(net, left, filters, 5, 2))
    fourth = net.add(net.avg_pool(first, 3, 1), second)
    fifth = net.add(separable(net, first, filters, 3), net.max_pool(right, 3, 2))
    return net.concat([second, third, fourth, fifth])


def _rectified_halves(net: ImageNetwork, x: Feature, filters: int) -> Feature:
    """Append a factorised reduction with a ReLU in each path: two of IOS's units."""
    paths = net.relu(x), net.shift(net.relu(x))
    halves = [net.conv(net.avg_pool(path, 1, 2, "valid"), filters // 2, 1) for path in paths]
    return net.batch_norm(net.concat(halves))
