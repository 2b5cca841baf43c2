"""NASNet-A (Zoph et al., 2018): for ImageNet, for CIFAR, and two of its cells for tests."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.cells.stacking import (
    adjust,
    build_for_cifar,
    build_for_imagenet,
    separable,
    squeeze,
)
from tvm_ios.zoo.writing.network import Feature, ImageNetwork


def build_nasnet_a(seed: int = 0) -> Any:
    """NASNet-A large as an ``onnx.ModelProto``: input (1, 3, 331, 331), output (1, 1000) logits.

    Three times six normal cells of 168, 336 and 672 filters, two reduction cells between them,
    and two in the stem (of 42 and 84 filters). The normal cell after a change of resolution sums
    two separable convolutions of the *current* tensor first, as in the network that the IOS
    measurements were made with; every other normal cell takes one of the two from the tensor
    before it.
    """
    filters, repeats = 168, 6
    net = ImageNetwork("nasnet_a", seed, (3, 331, 331))
    stem = net.batch_norm(net.conv(net.input, 96, 3, stride=2, padding="valid"))
    with net.scope("stem0"):
        before, now = stem, _reduction_cell(net, stem, None, filters // 4)
    with net.scope("stem1"):
        before, now = now, _reduction_cell(net, now, stem, filters // 2)
    for group in range(3):
        for number in range(repeats):
            with net.scope(f"cell{group * repeats + number}"):
                quirk = before.height != now.height
                before, now = now, _normal_cell(net, now, before, filters, quirk)
        if group < 2:
            filters *= 2
            with net.scope(f"reduction{group}"):
                # `before` stays: the next cell reads what this cell read, not this cell's input.
                now = _reduction_cell(net, now, before, filters)
    x = net.dropout(net.global_avg_pool(net.relu(now)))
    return net.finish(net.dense(x, 1000), (1, 1000))


def build_nasnet_a_mobile(seed: int = 0) -> Any:
    """NASNet-A mobile (4 @ 1056): input (1, 3, 224, 224), output (1, 1000) logits.

    Filters are doubled on entering each reduction cell, from 11 in the stem: the first has 22, the
    first normal cells 44.
    """
    return build_for_imagenet("nasnet_a_mobile", seed, _normal_cell, _reduction_cell, 22)


def build_nasnet_a_cifar(seed: int = 0) -> Any:
    """NASNet-A for CIFAR (6 @ 768): input (1, 3, 32, 32), output (1, 10) logits.

    Three times six normal cells of 32, 64 and 128 filters with two reduction cells between them;
    the last concatenation has 768 channels.
    """
    return build_for_cifar("nasnet_a_cifar", seed, _normal_cell, _reduction_cell, 32)


def build_nasnet_cell(seed: int = 0) -> Any:
    """Two small normal cells, one reading the other: input (1, 3, 32, 32), output (1, 10)."""
    net = ImageNetwork("nasnet_cell", seed, (3, 32, 32))
    before = net.batch_norm(net.conv(net.input, 12, 3, stride=2, padding="valid"))
    now = net.batch_norm(net.conv(net.relu(before), 16, 3))
    for number in range(2):
        with net.scope(f"cell{number}"):
            before, now = now, _normal_cell(net, now, before, 8)
    x = net.global_avg_pool(net.relu(now))
    return net.finish(net.dense(x, 10), (1, 10))


def _normal_cell(
    net: ImageNetwork, now: Feature, before: Feature, filters: int, now_twice: bool = False
) -> Feature:
    left = adjust(net, before, now, filters)
    right = squeeze(net, now, filters)
    first = net.add(
        separable(net, right, filters, 5),
        separable(net, right if now_twice else left, filters, 3),
    )
    second = net.add(separable(net, left, filters, 5), separable(net, left, filters, 3))
    third = net.add(net.avg_pool(right, 3, 1), left)
    fourth = net.add(net.avg_pool(left, 3, 1), net.avg_pool(left, 3, 1))
    fifth = net.add(separable(net, right, filters, 3), right)
    return net.concat([left, first, second, third, fourth, fifth])


def _reduction_cell(
    net: ImageNetwork, now: Feature, before: Feature | None, filters: int
) -> Feature:
    right = squeeze(net, now, filters)
    # The stem's first cell has nothing before it: its large kernels read its input unsqueezed.
    left = now if before is None else adjust(net, before, now, filters)
    first = net.add(separable(net, right, filters, 5, 2), separable(net, left, filters, 7, 2))
    second = net.add(net.max_pool(right, 3, 2), separable(net, left, filters, 7, 2))
    third = net.add(net.avg_pool(right, 3, 2), separable(net, left, filters, 5, 2))
    fourth = net.add(net.avg_pool(first, 3, 1), second)
    fifth = net.add(separable(net, first, filters, 3), net.max_pool(right, 3, 2))
    return net.concat([second, third, fourth, fifth])
