"""Rewrite products of dequantised tensors as integer products, scaled after the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.quantised.integer_products import keep_sums_exact
from tvm_ios.onnx.rewrites.quantised.integers import clipped
from tvm_ios.onnx.rewrites.steps import Steps

#: Operators that sum products of two tensors.
PRODUCTS = ("Conv", "Gemm", "MatMul")
_SCALED = "tvm_ios.scaled_integers"
#: All integers up to this are exact in float32.
_EXACT = 1 << 24


@dataclass(frozen=True)
class ScaledIntegers:
    """A float tensor as the product of integers, held as floats, and a constant scale.

    ``scale`` broadcasts over ``values``. ``limits`` are the least and the largest possible integer.
    """

    values: Any
    scale: Array
    limits: tuple[float, float]


def know_scaled(result: Any, values: Any, scale: Any, limits: tuple[float, float]) -> None:
    """Record the integers and scale of which a tensor is the product, if the scale is constant."""
    array = constant(scale)
    if array is not None:
        result.meta[_SCALED] = ScaledIntegers(values, np.asarray(array, np.float32), limits)


def product_of_scaled(steps: Steps) -> None:
    """Write ``Conv``, ``Gemm`` or ``MatMul`` of dequantised operands as a product of integers.

    So sums are exact, as in ONNX Runtime's operators for this pattern, and neighbouring integer
    operators need no scale in between.
    """
    node = steps.node
    given: list[Any] = [*node.inputs, None]
    data, weight, bias = given[:3]
    of_data, of_weight = _scaled(data), _scaled(weight)
    if of_data is None or of_weight is None or not _is_plain(steps):
        return
    scale = _of_results(steps, of_weight)
    if of_data.scale.size != 1 or constant(of_weight.values) is None or scale is None:
        return
    factor = of_data.scale.reshape(()) * scale
    inputs = [of_data.values, of_weight.values]
    whole = None if bias is None else _integer_bias(bias, factor)
    if whole is not None:
        inputs.append(steps.number(whole))
    total = steps.op(node.op_type, *inputs, **steps.attributes)
    total.shape, total.dtype = node.outputs[0].shape, node.outputs[0].dtype
    keep_sums_exact(total.producer())
    result = steps.op("Mul", total, steps.number(factor))
    if bias is not None and whole is None:
        result = steps.op("Add", result, _along_channels(steps, bias, len(weight.shape)))
    steps.stand_for(result)


def _scaled(value: Any) -> ScaledIntegers | None:
    """Return the recorded integers of a tensor, also behind an identity, or None."""
    maker = None if value is None else value.producer()
    if maker is not None and maker.op_type == "Identity":
        value = maker.inputs[0]
    return None if value is None else value.meta.get(_SCALED)


def move_scaled(steps: Steps) -> bool:
    """Apply an operator that selects elements to the integers; return whether it was rewritten.

    The result's integers are recorded, so that quantising it again is a no-op.
    """
    node = steps.node
    operands = len(node.inputs) if node.op_type == "Concat" else 1
    parts = [part for part in map(_scaled, node.inputs[:operands]) if part is not None]
    scales = {part.scale.item() if part.scale.size == 1 else 0.0 for part in parts}
    if len(parts) < operands or len(node.outputs) != 1 or len(scales) > 1 or not min(scales) > 0:
        return False
    values = [part.values for part in parts]
    moved = steps.op(node.op_type, *values, *node.inputs[operands:], **steps.attributes)
    moved.shape, moved.dtype = node.outputs[0].shape, node.outputs[0].dtype
    scale = steps.number(parts[0].scale)
    result = steps.op("Mul", moved, scale)
    lows, highs = zip(*(part.limits for part in parts), strict=True)
    know_scaled(result, moved, scale, (min(lows), max(highs)))
    steps.stand_for(result)
    return True


def requantised(steps: Steps, value: Any, scale: Any, limits: tuple[float, float]) -> Any:
    """Return a tensor divided by a scale, rounded and clipped: integers held as floats.

    A tensor dequantised by the same scale gives its integers. The parts of a concatenation are
    rounded separately, so that each rounding fuses with its producer.
    """
    scaled, divisor = _scaled(value), constant(scale)
    number = None if divisor is None or divisor.size != 1 else divisor.item()
    if scaled is not None and scaled.scale.size == 1 and scaled.scale.item() == number:
        inside = limits[0] <= scaled.limits[0] and scaled.limits[1] <= limits[1]
        return scaled.values if inside else clipped(steps, scaled.values, limits)
    maker, is_number = value.producer(), number is not None
    alone = len(value.uses()) == 1 and not value.is_graph_output()
    if maker is not None and maker.op_type == "Concat" and alone and is_number:
        parts = [requantised(steps, part, scale, limits) for part in maker.inputs]
        return steps.op("Concat", *parts, axis=maker.attributes["axis"].value)
    return clipped(steps, steps.op("Round", steps.op("Div", value, scale)), limits)


def _is_plain(steps: Steps) -> bool:
    """Return whether the operator is a product without factors or a transposed left operand."""
    node = steps.node
    if node.op_type != "Gemm":
        return True
    factors = (node.attributes.get_float(name, 1.0) for name in ("alpha", "beta"))
    return all(f == 1.0 for f in factors) and not steps.integer("transA", 0)


def _of_results(steps: Steps, weight: ScaledIntegers) -> Array | None:
    """Return the weights' scales as scales of the results; None if they vary within a sum."""
    scale = weight.scale
    if scale.size == 1:
        return scale.reshape(())
    extents = list(weight.values.shape)
    conv = steps.node.op_type == "Conv"
    first = conv or bool(steps.integer("transB", 0))
    axis = 0 if first else len(extents) - 1
    if scale.shape != tuple(e if i == axis else 1 for i, e in enumerate(extents)):
        return None
    return scale.reshape([-1] + [1] * (len(extents) - 2) if conv else [-1])


def _along_channels(steps: Steps, bias: Any, rank: int) -> Any:
    """Return a bias in a shape that broadcasts over the product's result."""
    array = constant(bias)
    if steps.node.op_type != "Conv":
        return bias
    extents = [-1] + [1] * (rank - 2)
    if array is None:
        return steps.op("Reshape", bias, steps.number(extents))
    return steps.number(array.reshape(extents))


def _integer_bias(bias: Any, factor: Array) -> Array | None:
    """Return the bias as integers of the sum's scale if it was dequantised so, or None."""
    scaled = _scaled(bias)
    array = None if scaled is None else constant(scaled.values)
    if scaled is None or array is None or np.abs(array).max(initial=0) >= _EXACT:
        return None
    same = scaled.scale.size in (1, factor.size) and np.allclose(
        scaled.scale.reshape(-1), factor.reshape(-1), rtol=1e-6, atol=0
    )
    return array if same else None
