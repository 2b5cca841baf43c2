"""HRNet for classification (Wang et al., 2020): branches of four resolutions with exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork


@dataclass(frozen=True, slots=True)
class _Shape:
    """The sizes of a network of the family.

    ``size`` is the image's height and width. ``stem`` has the blocks and filters of the bottlenecks
    before the branches. ``channels`` are those of the branches, the finest first. ``blocks`` is the
    number of basic blocks of a branch between two exchanges, ``modules`` that of exchanges in the
    stages of two, three and four branches.
    """

    size: int
    stem: tuple[int, int]
    channels: tuple[int, int, int, int]
    blocks: int
    modules: tuple[int, int, int]


_W18_SMALL_V1 = _Shape(224, (1, 32), (16, 32, 64, 128), 2, (1, 1, 1))
_W18_SMALL_V2 = _Shape(224, (2, 64), (18, 36, 72, 144), 2, (1, 3, 2))
_W32 = _Shape(224, (4, 64), (32, 64, 128, 256), 4, (1, 4, 3))


def build_hrnet_w18_small_v1(seed: int = 0) -> Any:
    """Build HRNet-W18-C-Small-v1: input (1, 3, 224, 224), output (1, 1000) logits."""
    return _build("hrnet_w18_small_v1", seed, _W18_SMALL_V1)


def build_hrnet_w18_small_v2(seed: int = 0) -> Any:
    """Build HRNet-W18-C-Small-v2: input (1, 3, 224, 224), output (1, 1000) logits."""
    return _build("hrnet_w18_small_v2", seed, _W18_SMALL_V2)


def build_hrnet_w32(seed: int = 0) -> Any:
    """Build HRNet-W32-C: input (1, 3, 224, 224), output (1, 1000) logits."""
    return _build("hrnet_w32", seed, _W32)


def build_hrnet_w18_small_v1_256(seed: int = 0) -> Any:
    """Build HRNet-W18-C-Small-v1 for images of 256 x 256, with a narrow stem."""
    return _build("hrnet_w18_small_v1_256", seed, _narrow(_W18_SMALL_V1))


def build_hrnet_w18_small_v2_256(seed: int = 0) -> Any:
    """Build HRNet-W18-C-Small-v2 for images of 256 x 256, with a narrow stem."""
    return _build("hrnet_w18_small_v2_256", seed, _narrow(_W18_SMALL_V2))


def build_hrnet_w32_256(seed: int = 0) -> Any:
    """Build HRNet-W32-C for images of 256 x 256, with a narrow stem."""
    return _build("hrnet_w32_256", seed, _narrow(_W32))


def _narrow(shape: _Shape) -> _Shape:
    """Return the sizes for images of 256 x 256, with stem bottlenecks of 32 filters.

    Its peak memory with fused activations is the one that "Memory-aware Scheduling for Complex
    Wired Networks" has in table II; that of the published stems of 64 filters is larger.
    """
    return replace(shape, size=256, stem=(shape.stem[0], 32))


def _build(name: str, seed: int, shape: _Shape) -> Any:
    net = ImageNetwork(name, seed, (3, shape.size, shape.size))
    x = net.input
    for _ in range(2):
        x = _conv(net, x, 64, 3, 2)
    repeats, filters = shape.stem
    for number in range(repeats):
        with net.scope(f"stem{number}"):
            x = _bottleneck(net, x, filters)
    branches = [x]
    for stage, modules in enumerate(shape.modules):
        channels = shape.channels[: stage + 2]
        with net.scope(f"stage{stage + 2}"):
            branches = _transition(net, branches, channels)
            for module in range(modules):
                with net.scope(f"module{module}"):
                    branches = [_blocks(net, branch, shape.blocks) for branch in branches]
                    branches = [_exchange(net, branches, n) for n in range(len(branches))]
    return net.finish(_classify(net, branches), (1, 1000))


def _transition(
    net: ImageNetwork, branches: Sequence[Feature], channels: Sequence[int]
) -> list[Feature]:
    """Return branches of these channels. The last is new, from the coarsest that there was."""
    same_resolution = [
        branch if branch.channels == count else _conv(net, branch, count, 3)
        for branch, count in zip(branches, channels, strict=False)
    ]
    return [*same_resolution, _conv(net, branches[-1], channels[-1], 3, 2)]


def _blocks(net: ImageNetwork, x: Feature, count: int) -> Feature:
    for _ in range(count):
        y = net.batch_norm(net.conv(_conv(net, x, x.channels, 3), x.channels, 3))
        x = net.relu(net.residual(y, x))
    return x


def _exchange(net: ImageNetwork, branches: Sequence[Feature], target: int) -> Feature:
    """Return the sum of all branches at the resolution of one."""
    channels = branches[target].channels
    terms: list[Feature] = []
    for source, x in enumerate(branches):
        if source > target:
            x = net.batch_norm(net.conv(x, channels, 1))
            x = net.upsample(x, 1 << (source - target))
        for _ in range(target - source - 1):
            x = _conv(net, x, x.channels, 3, 2)
        if source < target:
            x = net.batch_norm(net.conv(x, channels, 3, 2))
        terms.append(x)
    total = terms[0]
    for term in terms[1:]:
        total = net.residual(total, term)
    return net.relu(total)


def _classify(net: ImageNetwork, branches: Sequence[Feature]) -> Any:
    wide = [
        _bottleneck(net, branch, 32 << number, f"head{number}")
        for number, branch in enumerate(branches)
    ]
    x = wide[0]
    for finer in wide[1:]:
        x = net.residual(_conv(net, x, finer.channels, 3, 2), finer)
    return net.dense(net.global_avg_pool(_conv(net, x, 2048, 1)), 1000)


def _bottleneck(net: ImageNetwork, x: Feature, filters: int, scope: str = "bottleneck") -> Feature:
    with net.scope(scope):
        y = _conv(net, _conv(net, x, filters, 1), filters, 3)
        y = net.batch_norm(net.conv(y, 4 * filters, 1))
        if x.channels != 4 * filters:
            x = net.batch_norm(net.conv(x, 4 * filters, 1))
        return net.relu(net.residual(y, x))


def _conv(net: ImageNetwork, x: Feature, channels: int, kernel: int, stride: int = 1) -> Feature:
    return net.relu(net.batch_norm(net.conv(x, channels, kernel, stride)))
