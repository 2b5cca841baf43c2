"""Rewrites of ONNX Runtime's layer norms, of sums and of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.rewrites.other_domains.deferred import (
    finish,
    input_of,
    is_read,
    shape_of,
    type_of,
)
from tvm_ios.onnx.rewrites.steps import Steps

#: What ONNX Runtime adds to variances unless a node says otherwise.
_EPSILON = {
    "EmbedLayerNormalization": 1e-12,
    "QEmbedLayerNormalization": 1e-12,
    "SkipLayerNormalization": 1e-12,
}


def _epsilon(steps: Steps) -> float:
    default = _EPSILON.get(steps.node.op_type, 1e-5)
    return float(steps.node.attributes.get_float("epsilon", default))


def _normalised(steps: Steps, value: Any, scale: Any, bias: Any) -> list[Any]:
    """Return the layer norm of a value, its mean and its inverse deviation (None if unread)."""
    inputs = (value, scale) if bias is None else (value, scale, bias)
    stated: dict[str, Any] = {"axis": steps.integer("axis", -1), "epsilon": _epsilon(steps)}
    moments = not steps.node.op_type.endswith("EmbedLayerNormalization")
    if moments and (is_read(steps, 1) or is_read(steps, 2)):
        return steps.op("LayerNormalization", *inputs, outputs=3, **stated)
    return [steps.op("LayerNormalization", *inputs, **stated), None, None]


def _by_root_mean_square(steps: Steps, value: Any, scale: Any) -> list[Any]:
    """Return a value over the root of its mean square, times a scale; and the inverse root.

    Both are computed in float32, or in float64 for doubles.
    """
    narrow = steps.node.outputs[0].dtype
    wide = value if narrow in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else None
    if wide is None:
        wide = steps.op("Cast", value, to=int(ir.DataType.FLOAT))
    dtype = np.float64 if narrow == ir.DataType.DOUBLE else np.float32
    axis = steps.integer("axis", -1)
    axes = [axis] if axis == -1 else list(range(axis, 0)) or None
    if axes is None:
        axes = list(range(axis, len(shape_of(steps.node.inputs[0]))))
    mean = steps.reduced("ReduceMean", steps.op("Mul", wide, wide), axes, keepdims=1)
    shifted = steps.op("Add", mean, steps.number(np.array(_epsilon(steps), dtype)))
    inverse = steps.op("Div", steps.number(np.array(1, dtype)), steps.op("Sqrt", shifted))
    result = steps.op("Mul", wide, inverse)
    if wide is not value:
        result = steps.op("Cast", result, to=int(narrow))
    return [steps.op("Mul", result, scale), inverse]


def _layer_norm(steps: Steps) -> None:
    """Rewrite ONNX Runtime's ``LayerNormalization``, whose scale may be of a wider type."""
    value, scale, bias = (input_of(steps, place) for place in range(3))
    if type_of(scale) == type_of(value):
        finish(steps, *_normalised(steps, value, scale, bias))
        return
    wide = steps.cast(value, scale.dtype)
    result, *rest = _normalised(steps, wide, scale, bias)
    result = steps.op("Cast", result, to=int(value.dtype))
    finish(steps, result, *rest)


def _simplified_layer_norm(steps: Steps) -> None:
    value, scale = steps.node.inputs
    if type_of(scale) != type_of(value):
        scale = steps.cast(scale, value.dtype)
    finish(steps, *_by_root_mean_square(steps, value, scale))


def _total(steps: Steps, bias: Any) -> Any:
    """Return the sum of the first two inputs and an optional bias."""
    total = steps.op("Add", *steps.node.inputs[:2])
    return total if bias is None else steps.op("Add", total, bias)


def _skip_layer_norm(steps: Steps) -> None:
    scale, shift, bias = (input_of(steps, place) for place in (2, 3, 4))
    total = _total(steps, bias)
    finish(steps, *_normalised(steps, total, scale, shift), total)


def _skip_simplified_layer_norm(steps: Steps) -> None:
    total = _total(steps, input_of(steps, 3))
    result, inverse = _by_root_mean_square(steps, total, input_of(steps, 2))
    finish(steps, result, None, inverse, total)


def _embedded(steps: Steps) -> None:
    _embed(steps, lambda _, value: value, input_of(steps, 8))


def _embedded_in_eight_bits(steps: Steps) -> None:
    """Rewrite ``QEmbedLayerNormalization``, whose tables have a scale and a zero point each."""

    def numbers(place: int, value: Any) -> Any:
        zero = input_of(steps, place + 11)
        wide, origin = (steps.op("Cast", v, to=int(ir.DataType.FLOAT)) for v in (value, zero))
        return steps.op("Mul", steps.op("Sub", wide, origin), input_of(steps, place + 6))

    _embed(steps, numbers, None)


def _embed(steps: Steps, numbers: Callable[[int, Any], Any], places: Any) -> None:
    """Write the normalised sum of word, position and segment rows, and the number of words.

    ``numbers`` converts rows gathered from the input at a given place to floats.
    """
    inputs = [input_of(steps, place) for place in range(8)]
    words, segments, word_rows, place_rows, segment_rows, scale, shift, mask = inputs
    total = numbers(2, steps.op("Gather", word_rows, words, axis=0))
    if places is None:
        bounds = (steps.number(bound) for bound in ([0], [shape_of(words)[1]], [0]))
        of_places = steps.op("Slice", place_rows, *bounds)
    else:
        of_places = steps.op("Gather", place_rows, places, axis=0)
    total = steps.op("Add", total, numbers(3, of_places))
    if segments is not None and segment_rows is not None:
        of_segments = steps.op("Gather", segment_rows, segments, axis=0)
        total = steps.op("Add", total, numbers(4, of_segments))
    counted = None
    if is_read(steps, 1):
        counted = steps.number(np.zeros(shape_of(words)[0], np.int32))
        if mask is not None:
            ones = steps.op("Equal", mask, steps.number(np.array(1, type_of(mask).numpy())))
            truths = steps.op("Cast", ones, to=int(ir.DataType.INT32))
            counted = steps.reduced("ReduceSum", truths, [1], keepdims=0)
        counted.dtype = ir.DataType.INT32
    result = _normalised(steps, total, numbers(5, scale), numbers(6, shift))[0]
    finish(steps, result, counted, total)


#: By the operators' names.
NORMALISATIONS: Mapping[str, Callable[[Steps], None]] = {
    "EmbedLayerNormalization": _embedded,
    "LayerNormalization": _layer_norm,
    "QEmbedLayerNormalization": _embedded_in_eight_bits,
    "SimplifiedLayerNormalization": _simplified_layer_norm,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_simplified_layer_norm,
}
