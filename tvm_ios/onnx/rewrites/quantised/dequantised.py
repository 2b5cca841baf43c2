"""Products of dequantised tensors: of the integers themselves, and their scales after the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.quantised.integer_products import keep_sums_exact
from tvm_ios.onnx.rewrites.steps import Steps

#: What adds up products of two tensors.
PRODUCTS = ("Conv", "Gemm", "MatMul")
_SCALED = "tvm_ios.scaled_integers"
#: All integers up to this are exact in float32.
_EXACT = 1 << 24


@dataclass(frozen=True)
class ScaledIntegers:
    """A tensor of floats as the product of integers, which floats hold, and known scales.

    Attributes
    ----------
    values
        The integers, a value of the graph.
    scale
        What they are multiplied by: of a shape that broadcasts over them.
    """

    values: Any
    scale: Array


def know_scaled(result: Any, values: Any, scale: Any) -> None:
    """Remember the integers of which a tensor is the product, if their scale is known."""
    array = constant(scale)
    if array is not None:
        result.meta[_SCALED] = ScaledIntegers(values, np.asarray(array, np.float32))


def product_of_scaled(steps: Steps) -> None:
    """``Conv``, ``Gemm`` or ``MatMul`` of dequantised data and weights, as of their integers.

    So sums are of integers, as in the operators of ONNX Runtime that stand for such a pattern, and
    what is computed with the integers before and after needs no scale in between.
    """
    node = steps.node
    data, weight, *rest = (*node.inputs, None)[:3]
    bias = rest[0]
    of_data, of_weight = _scaled(data), _scaled(weight)
    if of_data is None or of_weight is None or not _is_plain(steps):
        return
    scale = _of_results(steps, of_weight)
    if of_data.scale.size != 1 or constant(of_weight.values) is None or scale is None:
        return
    factor = of_data.scale.reshape(()) * scale
    inputs = [of_data.values, of_weight.values]
    whole = None if bias is None else _integer_bias(bias)
    if whole is not None:
        inputs.append(steps.number(whole))
    total = steps.op(node.op_type, *inputs, **steps.attributes)
    total.shape, total.dtype = node.outputs[0].shape, node.outputs[0].dtype
    keep_sums_exact(total.producer())
    result = steps.op("Mul", total, steps.number(factor))
    if bias is not None and whole is None:
        channels = [-1] + [1] * (len(weight.shape) - 2) if node.op_type == "Conv" else [-1]
        array = constant(bias)
        result = steps.op(
            "Add", result, bias if array is None else steps.number(array.reshape(channels))
        )
    steps.stand_for(result)


def _scaled(value: Any) -> ScaledIntegers | None:
    """What is known of a tensor; a constant stands behind an identity."""
    maker = value.producer()
    if maker is not None and maker.op_type == "Identity":
        value = maker.inputs[0]
    return value.meta.get(_SCALED)


def _is_plain(steps: Steps) -> bool:
    """Whether the operator is a product and a sum without factors of its own."""
    node = steps.node
    if node.op_type != "Gemm":
        return True
    factors = (node.attributes.get_float(name, 1.0) for name in ("alpha", "beta"))
    return all(f == 1.0 for f in factors) and not steps.integer("transA", 0)


def _of_results(steps: Steps, weight: ScaledIntegers) -> Array | None:
    """The scales of weights as those of what they make; None if they differ within a sum."""
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
    """A bias as it is added to what a product makes."""
    array = constant(bias)
    if steps.node.op_type != "Conv":
        return bias
    extents = [-1] + [1] * (rank - 2)
    if array is None:
        return steps.op("Reshape", bias, steps.number(extents))
    return steps.number(array.reshape(extents))


def _integer_bias(bias: Any) -> Array | None:
    """A bias as integers of the sum's scale, where it was dequantised from such."""
    scaled = _scaled(bias)
    array = None if scaled is None else constant(scaled.values)
    if array is None or np.abs(array).max(initial=0) >= _EXACT:
        return None
    return array
