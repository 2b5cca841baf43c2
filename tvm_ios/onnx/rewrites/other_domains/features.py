"""Rewrites of ``ai.onnx.ml`` operators that scale, select, impute and encode features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.rewrites.other_domains.deferred import refusal, shape_of, type_of
from tvm_ios.onnx.rewrites.steps import Steps


def as_float32(steps: Steps, value: Any) -> Any:
    """Return a numeric tensor cast to float32, in which these operators compute."""
    type_of(value)
    return steps.cast(value, ir.DataType.FLOAT)


def floats(steps: Steps, name: str) -> Array:
    """Return the numbers of an attribute in float32."""
    return np.array(steps.node.attributes.get_floats(name, []), np.float32)


def _scaler(steps: Steps) -> None:
    value = as_float32(steps, steps.node.inputs[0])
    moved = steps.op("Sub", value, steps.number(floats(steps, "offset")))
    steps.stand_for(steps.op("Mul", moved, steps.number(floats(steps, "scale"))))


def _normalizer(steps: Steps) -> None:
    """Rewrite ``Normalizer``: rows divided by their norm, except where it is zero."""
    value = as_float32(steps, steps.node.inputs[0])
    kind = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}
    name = steps.node.attributes.get_string("norm", "MAX")
    norm = steps.reduced(kind[name], value, [-1], keepdims=1)
    zero, one = (steps.number(np.array(n, np.float32)) for n in (0, 1))
    divisor = steps.op("Where", steps.op("Equal", norm, zero), one, norm)
    steps.stand_for(steps.op("Div", value, divisor))


def _binarizer(steps: Steps) -> None:
    (value,) = steps.node.inputs
    dtype = type_of(value)
    threshold = np.array(steps.node.attributes.get_float("threshold", 0.0), dtype.numpy())
    above = steps.op("Greater", value, steps.number(threshold))
    steps.stand_for(steps.cast(above, dtype))


def _imputer(steps: Steps) -> None:
    """Rewrite ``Imputer``: replace elements that equal a number, or NaN."""
    (value,) = steps.node.inputs
    dtype, get = type_of(value), steps.node.attributes
    if dtype.is_floating_point():
        new = floats(steps, "imputed_value_floats")
        old = get.get_float("replaced_value_float", 0.0)
    else:
        new = np.array(get.get_ints("imputed_value_int64s", []), np.int64)
        old = get.get_int("replaced_value_int64", 0)
    replaced = (
        steps.op("IsNaN", value)
        if np.isnan(old)
        else steps.op("Equal", value, steps.number(np.array(old, dtype.numpy())))
    )
    numbers = steps.number(new.astype(dtype.numpy()))
    steps.stand_for(steps.op("Where", replaced, numbers, value))


def _feature_vectorizer(steps: Steps) -> None:
    """Rewrite ``FeatureVectorizer``: join columns, each input cut or zero-padded to a width."""
    parts: list[Any] = []
    widths = steps.integers("inputdimensions")
    for value, width in zip(steps.node.inputs, widths, strict=True):
        rows, columns = [1, *shape_of(value)][-2:]
        part = as_float32(steps, value)
        part = steps.reshaped(part, shape_of(value), [rows, columns])
        if width < columns:
            part = steps.split(part, [width, columns - width], 1)[0]
        elif width > columns:
            zeros = steps.number(np.zeros((rows, width - columns), np.float32))
            part = steps.op("Concat", part, zeros, axis=1)
        parts.append(part)
    steps.stand_for(steps.op("Concat", *parts, axis=1))


def _array_feature_extractor(steps: Steps) -> None:
    value, places = steps.node.inputs
    extents = shape_of(value)
    if len(extents) == 1:
        value = steps.reshaped(value, extents, [1, *extents])
    row = steps.op("Reshape", places, steps.number([-1]))
    steps.stand_for(steps.op("Gather", value, row, axis=-1))


def _one_hot_encoder(steps: Steps) -> None:
    """Rewrite ``OneHotEncoder``: compare elements with integer categories along a new axis."""
    (value,) = steps.node.inputs
    known = steps.integers("cats_int64s")
    if not known or not steps.integer("zeros", 1):
        raise refusal(steps, "encodes strings, or fails where a category is unknown")
    type_of(value)
    column = steps.unsqueezed(steps.cast(value, ir.DataType.INT64), -1)
    steps.stand_for(steps.cast(steps.op("Equal", column, steps.number(known)), ir.DataType.FLOAT))


def _label_encoder(steps: Steps) -> None:
    """Rewrite ``LabelEncoder``: look each element up among keys, with a default for others."""
    (value,) = steps.node.inputs
    keys, values = _listed(steps, "keys"), _listed(steps, "values")
    dtype = type_of(value).numpy()
    kind = "float" if values.dtype.kind == "f" else "int64"
    default = -0.0 if kind == "float" else -1
    stated = steps.node.attributes.get(f"default_{kind}")
    if stated is not None:
        default = stated.value
    if (stated := steps.node.attributes.get("default_tensor")) is not None:
        default = stated.value.numpy().item()
    column = steps.unsqueezed(value, -1)
    column.dtype = value.dtype
    is_key = steps.op("Equal", column, steps.number(keys.astype(dtype)))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = steps.op("And", steps.op("IsNaN", column), steps.number(np.isnan(keys)))
        is_key = steps.op("Or", is_key, both)
    numbers = steps.op("Cast", is_key, to=int(ir.DataType.UINT8))
    place = steps.op("ArgMax", numbers, axis=-1, keepdims=0)
    found = steps.op("Gather", steps.number(values), place, axis=0)
    any_key = steps.reduced("ReduceMax", numbers, [-1], keepdims=0)
    there = steps.op("Cast", any_key, to=int(ir.DataType.BOOL))
    steps.stand_for(steps.op("Where", there, found, steps.number(np.array(default, values.dtype))))


def _listed(steps: Steps, which: str) -> Array:
    """Return the keys or the values of a ``LabelEncoder``."""
    get = steps.node.attributes
    tensor = get.get(f"{which}_tensor")
    if tensor is not None:
        array = tensor.value.numpy()
        if array.dtype.kind in "iufb":
            return array
    elif numbers := get.get_ints(f"{which}_int64s", []):
        return np.array(numbers, np.int64)
    elif numbers := get.get_floats(f"{which}_floats", []):
        return np.array(numbers, np.float32)
    raise refusal(steps, "encodes strings")


#: By the operators' names.
FEATURES: Mapping[str, Callable[[Steps], None]] = {
    "ArrayFeatureExtractor": _array_feature_extractor,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _feature_vectorizer,
    "Imputer": _imputer,
    "LabelEncoder": _label_encoder,
    "Normalizer": _normalizer,
    "OneHotEncoder": _one_hot_encoder,
    "Scaler": _scaler,
}
