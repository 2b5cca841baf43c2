"""Normalizations whose means and variances are read, or are those of the data, written out."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from tvm_ios.onnx.rewrites.steps import Steps


def layer_norm_statistics(steps: Steps) -> None:
    """TVM's importer makes zeros of a layer norm's mean and inverse deviation."""
    node = steps.node
    source, outputs, attributes = node.inputs[0], node.outputs, node.attributes
    if not any(output.uses() or output.is_graph_output() for output in outputs[1:]):
        return
    if source.shape is None or source.dtype is None:
        return
    rank = len(source.shape)
    axes = range(attributes.get_int("axis", -1) % rank, rank)
    epsilon = attributes.get_float("epsilon", 1e-5)
    stash = ir.DataType(attributes.get_int("stash_type", 1))
    kept = {name: attribute.value for name, attribute in attributes.items()}
    normalised = steps.op("LayerNormalization", *node.inputs, like=outputs[0], **kept)
    mean, variance = _mean_and_variance(steps, _cast(steps, source, stash), axes)
    shifted = steps.op("Add", variance, steps.number(stash.numpy().type(epsilon)))
    inverse = steps.op("Reciprocal", steps.op("Sqrt", shifted))
    steps.stand_for(normalised, mean, inverse)


def batch_norm_in_training(steps: Steps) -> None:
    """TVM's importer knows batch norms of inference: with a mean and a variance that are given."""
    node = steps.node
    source, scale, bias, *running = node.inputs
    attributes, rank = node.attributes, len(source.shape or ())
    if not attributes.get_int("training_mode", 0) or rank < 2 or running[0].dtype is None:
        return
    kind = running[0].dtype

    def number(value: float) -> Any:
        return steps.number(kind.numpy().type(value))

    def of_channels(value: Any) -> Any:
        extents = [1, -1, *(1 for _ in range(2, rank))]
        return steps.op("Reshape", _cast(steps, value, kind), steps.number(extents))

    axes = [0, *range(2, rank)]
    data = _cast(steps, source, kind)
    statistics = mean, variance = _mean_and_variance(steps, data, axes)
    epsilon, momentum = (attributes.get_float(*d) for d in (("epsilon", 1e-5), ("momentum", 0.9)))
    deviation = steps.op("Sqrt", steps.op("Add", variance, number(epsilon)))
    scaled = steps.op("Div", steps.op("Sub", data, mean), deviation)
    scaled = steps.op("Mul", scaled, of_channels(scale))
    results = [_cast(steps, steps.op("Add", scaled, of_channels(bias)), source.dtype)]
    for before, now in zip(running, statistics, strict=True):
        flat = steps.op("Reshape", now, steps.number([-1]))
        old = steps.op("Mul", before, number(momentum))
        results.append(steps.op("Add", old, steps.op("Mul", flat, number(1 - momentum))))
    steps.stand_for(*results)


def _mean_and_variance(steps: Steps, value: Any, axes: Any) -> tuple[Any, Any]:
    """Over some axes, whose extents become 1."""
    mean = steps.mean(value, axes)
    deviation = steps.op("Sub", value, mean)
    return mean, steps.mean(steps.op("Mul", deviation, deviation), axes)


def _cast(steps: Steps, value: Any, kind: ir.DataType) -> Any:
    return value if value.dtype == kind else steps.op("Cast", value, to=int(kind))
