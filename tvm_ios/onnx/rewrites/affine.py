"""Fold per-channel scales and shifts, above all batch norms, into the convolutions before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import bypass, constant, is_of_onnx, new_constant
from tvm_ios.onnx.rewrites.quantised.integer_products import has_exact_sums

_LARGEST = float(np.finfo(np.float32).max)
_SUMS = ("Add", "Sub")


def fold_affine(graph: Any) -> None:
    """Fold ``y = x * scale + shift`` with per-channel constants into the operator that makes x.

    Covers ``BatchNormalization`` and constant ``Mul``, ``Add``, ``Sub``, ``Div``. The operator may
    be a convolution, a matrix product (``Gemm``), or a ``Concat`` along the channels of such
    operators with no other reader. A batch norm that cannot be folded becomes ``Mul`` and ``Add``.
    Arithmetic is in double precision.
    """
    for node in list(graph):
        affine = _recognise(node)
        if affine is None:
            continue
        makers = _makers(affine.source, len(affine.scale))
        if makers is not None and bypass(graph, node, affine.source):
            start = 0
            for maker, channels in makers:
                part = slice(start, start + channels)
                _absorb(graph, maker, affine.scale[part], affine.shift[part])
                start += channels
    for node in list(graph):
        if node.graph is graph:
            _normalise_chain(graph, node)


@dataclass(frozen=True, slots=True)
class _Affine:
    """The expression ``source * scale + shift``; both are doubles of shape (C,)."""

    source: Any
    scale: Array
    shift: Array


def _recognise(node: Any) -> _Affine | None:
    """Return a node as a scale and a shift, or None if it is none or these are not finite."""
    with np.errstate(all="ignore"):
        affine = _read(node)
    return affine if affine is not None and _is_finite(affine) else None


def _is_finite(affine: _Affine) -> bool:
    return all(bool(np.all(np.abs(v) <= _LARGEST)) for v in (affine.scale, affine.shift))


def _read(node: Any) -> _Affine | None:
    if not is_of_onnx(node) or not node.inputs or node.inputs[0] is None:
        return None
    if node.op_type == "BatchNormalization":
        parameters = [constant(value) for value in node.inputs[1:5]]
        training = node.attributes.get_int("training_mode", 0)
        if any(p is None for p in parameters) or training or len(node.outputs) > 1:
            return None
        gamma, beta, mean, variance = (np.asarray(p, np.float64) for p in parameters)
        scale = gamma / np.sqrt(variance + node.attributes.get_float("epsilon", 1e-5))
        return _Affine(node.inputs[0], scale, beta - mean * scale)
    if node.op_type not in ("Mul", "Add", "Sub", "Div"):
        return None
    source, other = node.inputs
    if constant(other) is None and node.op_type in ("Mul", "Add"):
        source, other = other, source
    vector = _per_channel(source, constant(other))
    if vector is None or constant(source) is not None:
        return None
    ones, zeros = np.ones_like(vector), np.zeros_like(vector)
    if node.op_type == "Mul":
        return _Affine(source, vector, zeros)
    if node.op_type == "Div":
        return _Affine(source, 1.0 / vector, zeros)
    return _Affine(source, ones, vector if node.op_type == "Add" else -vector)


def _per_channel(source: Any, array: Array | None) -> Array | None:
    """Return a constant as one number per channel (axis 1), or None if it has no such form."""
    shape = source.shape
    if array is None or shape is None or len(shape) < 2 or array.ndim > len(shape):
        return None
    if array.dtype.kind != "f" or not isinstance(shape[1], int):
        return None
    extents = (1,) * (len(shape) - array.ndim) + array.shape
    if extents[1] not in (1, shape[1]) or any(e != 1 for i, e in enumerate(extents) if i != 1):
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (shape[1],)).copy()


def _makers(value: Any, channels: int) -> list[tuple[Any, int]] | None:
    """Return the operators whose weights can absorb a factor per channel, each with its channels.

    Return None if there is any other operator, or the value has another reader.
    """
    node = value.producer()
    if node is None or len(value.uses()) != 1 or value.is_graph_output():
        return None
    if node.op_type == "Concat":
        if node.attributes.get_int("axis", 1) not in (1, 1 - len(value.shape)):
            return None
        parts: list[tuple[Any, int]] = []
        for part in node.inputs:
            makers = _makers(part, part.shape[1])
            if makers is None:
                return None
            parts += makers
        return parts
    if node.op_type not in ("Conv", "Gemm") or any(constant(v) is None for v in node.inputs[1:]):
        return None
    if node.op_type == "Gemm" and (len(node.attributes) or len(value.shape) != 2):
        return None
    if has_exact_sums(node):
        return None
    return [(node, channels)]


def _absorb(graph: Any, maker: Any, scale: Array, shift: Array) -> None:
    value = maker.inputs[1]
    weight = constant(value)
    assert weight is not None
    if not np.all(scale == 1.0):
        broadcast = (-1,) + (1,) * (weight.ndim - 1) if maker.op_type == "Conv" else (1, -1)
        folded = (weight * scale.reshape(broadcast)).astype(weight.dtype)
        maker.replace_input_with(1, _renewed(graph, value, folded))
    old = maker.inputs[2] if len(maker.inputs) > 2 else None
    bias = 0.0 if old is None else np.asarray(constant(old), np.float64)
    folded = (bias * scale + shift).astype(weight.dtype)
    if old is not None:
        maker.replace_input_with(2, _renewed(graph, old, folded))
    elif folded.any():
        # A node's inputs cannot grow in place.
        maker.resize_inputs(3)
        maker.replace_input_with(2, new_constant(graph, f"{value.name}.bias", folded))


def _renewed(graph: Any, value: Any, array: Array) -> Any:
    """Replace the array of a constant, or return a new constant if others read this one."""
    if len(value.uses()) == 1 and value.name in graph.initializers:
        value.const_value = ir.tensor(np.ascontiguousarray(array), name=value.name)
        return value
    return new_constant(graph, f"{value.name}.folded", array)


def _normalise_chain(graph: Any, node: Any) -> None:
    """Compose the chain of scales and shifts that ends at a node into at most one Mul and one Add.

    A chain ends at a sum: a difference of nearly equal numbers has to be scaled after the
    subtraction, since the difference of scaled numbers loses precision.
    """
    affine = _recognise(node)
    if affine is None or affine.source.shape is None:
        return
    result = node.outputs[0]
    uses = result.uses()
    ends = node.op_type in _SUMS or len(uses) != 1 or result.is_graph_output()
    if not ends:
        after = _recognise(uses[0].node)
        if after is not None and after.source is result:
            return  # the last of the chain composes it
    kinds, chain = [node.op_type], [node]
    while True:
        before = affine.source.producer()
        value = affine.source
        if before is None or len(value.uses()) != 1 or value.is_graph_output():
            break
        inner = _recognise(before)
        if inner is None or before.op_type in _SUMS:
            break
        scale = inner.scale * affine.scale
        whole = _Affine(inner.source, scale, inner.shift * affine.scale + affine.shift)
        if not _is_finite(whole):
            break
        affine = whole
        kinds.append(before.op_type)
        chain.append(before)
    if kinds in (["Mul"], ["Add"], ["Add", "Mul"], ["Sub"], ["Div"]):
        return
    value = affine.source
    shape = (-1,) + (1,) * (len(value.shape) - 2)
    dtype = value.dtype.numpy()
    for op_type, vector, neutral in (("Mul", affine.scale, 1.0), ("Add", affine.shift, 0.0)):
        if np.all(vector == neutral) and (op_type == "Add" or np.any(affine.shift)):
            continue
        other = new_constant(
            graph, f"{result.name}.{op_type.lower()}", vector.astype(dtype).reshape(shape)
        )
        step = ir.node(op_type, [value, other], name=f"{node.name}.{op_type.lower()}")
        graph.insert_before(node, step)
        value = step.outputs[0]
        value.name, value.shape, value.dtype = f"{other.name}.out", result.shape, result.dtype
    bypass(graph, node, value)
    for dead in chain[1:]:
        graph.remove(dead, safe=True)
