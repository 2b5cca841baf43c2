"""Replace constant-valued weights, which hide wrong results, by random ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as passes

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant, free_weights_from_inputs

#: What each input of an operator is: a weight stored by rows or columns of outputs, a factor, a
#: shift, or data.
_ROLES: dict[str, tuple[str, ...]] = {
    "Conv": ("data", "rows", "shift"),
    "ConvTranspose": ("data", "columns", "shift"),
    "Gemm": ("data", "columns", "shift"),
    "MatMul": ("data", "columns"),
    "BatchNormalization": ("data", "factor", "shift", "shift", "variance"),
    "InstanceNormalization": ("data", "factor", "shift"),
    "LayerNormalization": ("data", "factor", "shift"),
    "PRelu": ("data", "factor"),
    "Mul": ("factor", "factor"),
    "Div": ("factor", "factor"),
    "Add": ("shift", "shift"),
    "Sub": ("shift", "shift"),
}

#: Operators that only rearrange a weight on its way to its reader.
_CARRIERS = frozenset({"Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Flatten"})
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16})


def randomize_constant_weights(model: Any, seed: int) -> Any:
    """Return a copy of an ``onnx.ModelProto`` with random weights for those of equal elements.

    The light models of the onnx package hold every weight as one repeated number, so that every
    output is the same whatever is computed; trained biases and statistics that belong to them are
    replaced as well. Weights of convolutions and matrix products become normal with He's scale,
    divided by the estimated mean square of their data, so that a deep network neither fades nor
    saturates its softmax; variances follow the same estimate, biases are small and factors
    positive. Constants that are no weights (shapes, axes, limits, single numbers) stay. New weights
    are initializers that are not inputs; the same seed gives the same weights.
    """
    work: Any = ir.serde.deserialize_model(model)
    graph: Any = work.graph
    work.ir_version = max(work.ir_version, 4)  # before, every initializer had to be an input
    free_weights_from_inputs(graph)
    rng = np.random.default_rng(seed)
    moments: dict[Any, float] = {}
    fresh: set[Any] = set()
    for node in list(graph):
        roles = _roles(node)
        data = [moments[value] for value in node.inputs if value in moments]
        before = data[0] if data else 1.0
        # Trained statistics beside random weights would drown the signal: they go as well.
        stale = any(value in fresh for value in node.inputs) and node.op_type not in _WEIGHTED
        for index in range(min(len(roles), len(node.inputs))):
            if roles[index] != "data" and node.inputs[index] is not None:
                source, turned = _source(node.inputs[index])
                shape = _constant_shape(source, stale)
                if shape is not None:
                    drawn = _draw(rng, roles[index], turned, shape, before)
                    _replace(graph, source, drawn)
                    stale = True
        if stale:
            fresh.update(node.outputs)
        # Nothing is so small that weights should blow it up without limit.
        moment = max(1e-6, _moment(node, moments))
        for value in node.outputs if data or not _is_constant(node) else ():
            moments[value] = moment
    passes.RemoveUnusedNodesPass()(work)
    return ir.serde.serialize_model(work)


def _roles(node: Any) -> tuple[str, ...]:
    roles = _ROLES.get(node.op_type, ())
    if node.op_type == "Gemm" and node.attributes.get_int("transB", 0):
        return ("data", "rows", "shift")
    return roles


def _is_constant(node: Any) -> bool:
    constants = [v is None or v.const_value is not None for v in node.inputs]
    return node.op_type in ("Constant", "ConstantOfShape") or (bool(constants) and all(constants))


def _source(value: Any) -> tuple[Any, bool]:
    """Return the value that a weight is made from by carrier nodes, and if it is transposed."""
    node, turned = value.producer(), False
    while node is not None and node.op_type in _CARRIERS:
        turned ^= node.op_type == "Transpose"
        value = node.inputs[0]
        node = value.producer()
    return value, turned


def _constant_shape(value: Any, any_elements: bool) -> tuple[int, ...] | None:
    """Return the shape of a float constant of several equal elements (or any elements, if asked).

    Return None for anything else.
    """
    node, tensor = value.producer(), value.const_value
    if node is not None and node.op_type == "ConstantOfShape":
        fill = node.attributes.get("value")
        shape = node.inputs[0].const_value
        if shape is None or (fill is not None and fill.as_tensor().dtype not in _FLOATS):
            return None
        extents = tuple(int(extent) for extent in shape.numpy())
        return extents if math.prod(extents) > 1 else None
    if node is not None and node.op_type == "Constant" and "value" in node.attributes:
        tensor = node.attributes["value"].as_tensor()
    if tensor is None or tensor.dtype not in _FLOATS or tensor.size < 2:
        return None
    array = tensor.numpy()
    return tuple(array.shape) if any_elements or np.all(array == array.flat[0]) else None


def _replace(graph: Any, value: Any, array: Array) -> None:
    name, node = value.name, value.producer()
    if value.dtype is not None:
        array = array.astype(value.dtype.numpy(), copy=False)
    tensor = ir.tensor(array, name=name)
    weight = ir.Value(
        name=name,
        shape=ir.Shape(array.shape),
        type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )
    ir.convenience.replace_all_uses_with(value, weight)
    if node is None:
        del graph.initializers[name]
    else:
        graph.remove(node, safe=True)
    graph.register_initializer(weight)


def _draw(
    rng: np.random.Generator, role: str, turned: bool, shape: tuple[int, ...], moment: float
) -> Array:
    """Draw random values for a weight whose data has the mean square ``moment``."""
    if role in ("factor", "variance"):
        array = rng.random(shape, dtype=np.float32) * np.float32(0.8) + np.float32(0.6)
        return array * np.float32(moment) if role == "variance" else array
    array = rng.standard_normal(shape, dtype=np.float32)
    if role == "shift":
        return array * np.float32(0.1)
    if (role == "rows") != turned:
        fan_in = math.prod(shape[1:])
    else:
        # A matrix keeps its outputs last, a transposed convolution second.
        fan_in = math.prod(shape) // shape[-1 if len(shape) == 2 else 1]
    return array * np.float32(math.sqrt(2.0 / (max(1, fan_in) * moment)))


def _moment(node: Any, moments: dict[Any, float]) -> float:
    """Estimate the mean square of a node's results from that of its data and its constants."""
    kind = node.op_type
    data = [moments[value] for value in node.inputs if value in moments]
    before = max(data, default=1.0)
    constants = [constant(_source(v)[0]) for v in node.inputs if v is not None and v not in moments]
    arrays = [c.astype(np.float64) for c in constants if c is not None]
    if kind == "BatchNormalization" and len(arrays) == 4:
        gamma, beta, mean, variance = arrays
        factor: Array = gamma / np.sqrt(variance + node.attributes.get_float("epsilon", 1e-5))
        return float(np.mean(factor**2 * before + (beta - mean * factor) ** 2))
    if kind.endswith("Normalization"):
        return 1.0
    if kind in _WEIGHTED and arrays:
        rows = math.prod(arrays[0].shape[:1] if _roles(node)[1] == "rows" else arrays[0].shape[1:2])
        return before * float(np.sum(arrays[0] ** 2)) / max(1, rows)
    if kind in ("Mul", "Div"):
        return math.prod((*data, *(float(np.mean(a**2)) for a in arrays if kind == "Mul")))
    if kind in ("Add", "Sub", "Sum"):
        return sum((*data, *(float(np.mean(a**2)) for a in arrays)))
    if kind == "Relu":
        return before * (1.0 if _joins_data(node.inputs[0].producer()) else 0.5)
    if kind == "Concat":
        return sum(data) / max(1, len(data))
    # A maximum over a window about doubles a square.
    return before * (2.0 if kind == "MaxPool" else 1.0)


def _joins_data(maker: Any) -> bool:
    """Return whether a node adds computed values, such as a residual shortcut.

    A sum may contain a rectified shortcut and be mostly positive; half of any other signal is
    negative.
    """
    if maker is None or maker.op_type not in ("Add", "Sum"):
        return False
    return all(_source(value)[0].const_value is None for value in maker.inputs)
