"""Random operators: replace them by zeros if they have no effect, or by numbers drawn once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.edit import constant, is_of_onnx
from tvm_ios.onnx.rewrites.steps import Steps, static_shape
from tvm_ios.onnx.shape_inference import infer_shapes

#: Operators that make other numbers in each run.
RANDOM = frozenset(
    {
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
        "RandomUniformLike",
    }
)

#: Operators whose result is zeros where their first input is, or that only move it.
_PASSES = frozenset(
    {"Cast", "Expand", "Identity", "Mul", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)


def leave_out_random(graph: Any, node: Any, opset: int) -> None:
    """Replace random numbers that are all multiplied by a constant zero by zeros."""
    if node.op_type not in RANDOM or not is_of_onnx(node):
        return
    steps, (result,) = Steps(graph, node, opset), node.outputs
    shape = static_shape(result)
    if shape is not None and result.dtype is not None and _is_multiplied_by_zero(result):
        steps.stand_for(steps.number(np.zeros(shape, result.dtype.numpy())))


def draw_once(model: Any, seed: int) -> Any:
    """Return a model whose normal and uniform random numbers are constants drawn with a seed.

    The ``onnx.ModelProto``, of static inputs, is not changed. Seeds of operators are ignored, since
    each runtime draws different numbers from them.
    """
    work: Any = ir.serde.deserialize_model(model)
    infer_shapes(work)
    generator = np.random.default_rng(seed)
    for node in list(work.graph):
        result, number = node.outputs[0], node.attributes.get_float
        shape = static_shape(result)
        if not is_of_onnx(node) or shape is None or result.dtype is None:
            continue
        if node.op_type.startswith("RandomNormal"):
            drawn = generator.normal(number("mean", 0.0), number("scale", 1.0), shape)
        elif node.op_type.startswith("RandomUniform"):
            drawn = generator.uniform(number("low", 0.0), number("high", 1.0), shape)
        else:
            continue
        steps = Steps(work.graph, node, work.opset_imports[""])
        steps.stand_for(steps.op("Identity", steps.number(drawn.astype(result.dtype.numpy()))))
    return ir.serde.serialize_model(work)


def _is_multiplied_by_zero(value: Any) -> bool:
    """Return whether all uses of a value eventually multiply it by zero."""
    if value.is_graph_output():
        return False
    for node, place in value.uses():
        if node.op_type == "Mul" and is_of_onnx(node):
            factor = constant(node.inputs[1 - place])
            if factor is not None and not np.any(factor):
                continue
        elif place > 0:
            return False
        passes = node.op_type in _PASSES and is_of_onnx(node)
        if not passes or not _is_multiplied_by_zero(node.outputs[0]):
            return False
    return True
