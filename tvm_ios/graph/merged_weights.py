"""The weights of a merged convolution: kernels stacked, each at its place in the common window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.graph.merge_rule import MergePlan


def merged_weights(plan: MergePlan, weights: Sequence[Sequence[Array]]) -> tuple[Array, Array]:
    """Return the kernel (O, I, kh, kw) and bias (1, O, 1, 1) of a merged convolution.

    ``weights`` has for each unit its kernel, and its bias if it has one. The bias has the type of
    the results.
    """
    stacked = np.concatenate(
        [
            _place(kernel, plan.kernel, offset)
            for (kernel, *_), offset in zip(weights, plan.offsets, strict=True)
        ]
    )
    biases = [
        bias[0].reshape(-1) if bias else np.zeros(channels, plan.out_dtype or stacked.dtype)
        for (_, *bias), channels in zip(weights, plan.out_channels, strict=True)
    ]
    return stacked, np.concatenate(biases).reshape(1, -1, 1, 1)


def _place(kernel: Array, window: tuple[int, int], offset: tuple[int, int]) -> Array:
    """Return the kernel at its offset in a window of zeros."""
    placed = np.zeros((*kernel.shape[:2], *window), kernel.dtype)
    (top, left), (height, width) = offset, kernel.shape[2:]
    placed[:, :, top : top + height, left : left + width] = kernel
    return placed
