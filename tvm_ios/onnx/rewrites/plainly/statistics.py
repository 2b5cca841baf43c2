"""Rewrite layer norms whose means and inverse deviations are read."""

from __future__ import annotations

import onnx_ir as ir

from tvm_ios.onnx.rewrites.steps import Steps


def layer_norm_statistics(steps: Steps) -> None:
    """Compute the mean and inverse deviation, which TVM sets to zero, beside the layer norm."""
    node = steps.node
    source, outputs = node.inputs[0], node.outputs
    if not any(output.uses() or output.is_graph_output() for output in outputs[1:]):
        return
    if source.shape is None or source.dtype is None:
        return
    rank = len(source.shape)
    axes = range(node.attributes.get_int("axis", -1) % rank, rank)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    # The type that they are computed in, and have.
    stash = ir.DataType(node.attributes.get_int("stash_type", 1))
    normalised = steps.op("LayerNormalization", *node.inputs, like=outputs[0], **steps.attributes)
    data = steps.cast(source, stash)
    mean = steps.reduced("ReduceMean", data, axes, keepdims=1)
    deviation = steps.op("Sub", data, mean)
    square = steps.op("Mul", deviation, deviation)
    variance = steps.reduced("ReduceMean", square, axes, keepdims=1)
    shifted = steps.op("Add", variance, steps.number(stash.numpy().type(epsilon)))
    steps.stand_for(normalised, mean, steps.op("Reciprocal", steps.op("Sqrt", shifted)))
