"""Measure how much rounding alone changes a model's outputs in its own framework.

Every float32 of inputs and weights goes to one of its two neighbours, as rounding moves the result
of an operation: the outputs then differ by about as much as rounding changes them in any program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from runtime_ext.verification.expected import Original
from runtime_ext.verification.onnx_outputs import runtime_outputs
from runtime_ext.verification.torch_outputs import torch_outputs
from tvm_ios.contest.outputs import output_errors
from tvm_ios.files.array_files import Array

_DRAWS = 2


def own_error(original: Original, inputs: Mapping[str, Array]) -> float:
    """Return by how much rounding changes a model's outputs, relative to the largest of each.

    Infinite if NaN or infinities come and go. ``inputs`` are in the model's order. Raise
    NotComputed if ONNX Runtime or PyTorch does not run the model.
    """
    right = _outputs(original, inputs)
    others = (_outputs(original, inputs, np.random.default_rng(seed)) for seed in range(_DRAWS))
    return max(output_errors(outputs, right)[1] for outputs in others)


def _outputs(original: Original, inputs: Mapping[str, Array], draw: Any = None) -> list[Array]:
    """Return a model's outputs; with ``draw`` those from inputs and weights one step off."""

    def moved(array: Array) -> Array:
        return array if draw is None else _one_step_off(array, draw)

    sample = {name: moved(array) for name, array in inputs.items()}
    if isinstance(original, Path):
        outputs, _ = torch_outputs(original, [sample], moved)
    else:
        outputs, _ = runtime_outputs(_with_weights(original, moved), [sample])
    return outputs[0]


def _with_weights(model: onnx.ModelProto, moved: Callable[[Array], Array]) -> onnx.ModelProto:
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for weight in other.graph.initializer:
        # Others can be extents, scales of images and the like.
        if weight.data_type == TensorProto.FLOAT and len(weight.dims) > 1:
            array = moved(numpy_helper.to_array(weight))
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    return other


def _one_step_off(array: Array, draw: Any) -> Array:
    if array.dtype != np.float32:
        return array
    towards = np.where(draw.random(array.shape) < 0.5, -math.inf, math.inf)
    return np.nextafter(array, towards.astype(np.float32))
