"""AmoebaNet-A (Real et al., 2019): for ImageNet and for CIFAR."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.cells.genotype import genotype
from tvm_ios.zoo.cells.stacking import build_for_cifar, build_for_imagenet

# As in `model_specs.py` of TensorFlow's TPU models, whose state 0 is the tensor now. The reduction
# cell concatenates all its sums, those too that others have read.
_NORMAL = genotype(
    "avg3 1, max3 1; sep3 0, skip 0; skip 1, avg3 0; sep3 1, sep5 2; avg3 5, sep3 1", (0, 3, 4, 6)
)
_REDUCTION = genotype(
    "sep3 0, avg3 1; max3 1, sep7 2; max3 0, max3 1; sep3 4, 1x7_7x1 1; avg3 0, sep7 1",
    (2, 3, 4, 5, 6),
)


def build_amoebanet_a(seed: int = 0) -> Any:
    """Build AmoebaNet-A (4, 50): input (1, 3, 224, 224), output (1, 1000) logits.

    The stem's cells have 12 and 25 filters, the normal cells 50, 100 and 200.
    """
    return build_for_imagenet("amoebanet_a", seed, _NORMAL.normal, _REDUCTION.reduction, 50)


def build_amoebanet_a_cifar(seed: int = 0) -> Any:
    """Build AmoebaNet-A for CIFAR (6, 36): input (1, 3, 32, 32), output (1, 10) logits."""
    return build_for_cifar("amoebanet_a_cifar", seed, _NORMAL.normal, _REDUCTION.reduction, 36)
