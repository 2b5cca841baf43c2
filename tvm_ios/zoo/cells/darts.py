"""DARTS, second order (Liu et al., 2019): for ImageNet and for CIFAR."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.cells.genotype import genotype
from tvm_ios.zoo.cells.stacking import build_for_cifar, build_for_imagenet

_NORMAL = genotype("sep3 0, sep3 1; sep3 0, sep3 1; sep3 1, skip 0; skip 0, dil3 2", (2, 3, 4, 5))
_REDUCTION = genotype(
    "max3 0, max3 1; skip 2, max3 1; max3 0, skip 2; skip 2, max3 1", (2, 3, 4, 5)
)


def build_darts(seed: int = 0) -> Any:
    """DARTS of 48 channels: input (1, 3, 224, 224), output (1, 1000) logits.

    The reduction cells have 24, 48, 96 and 192 filters.
    """
    return build_for_imagenet("darts", seed, _NORMAL.normal, _REDUCTION.reduction, 24)


def build_darts_cifar(seed: int = 0) -> Any:
    """DARTS for CIFAR (20 cells, 36 channels): input (1, 3, 32, 32), output (1, 10) logits."""
    return build_for_cifar("darts_cifar", seed, _NORMAL.normal, _REDUCTION.reduction, 36)
