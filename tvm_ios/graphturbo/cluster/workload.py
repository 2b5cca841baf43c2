"""The same network for another batch or in another precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import cast

from tvm_ios.graph.elements import AttrValue, GraphError, Operator
from tvm_ios.graph.op_graph import OpGraph

_ALONG_AN_AXIS = frozenset({"concat", "softmax", "split", "gather"})


def with_batch(graph: OpGraph, batch: int) -> OpGraph:
    """Return a network of operators for another batch than one.

    Raise GraphError if the first axis of a tensor is no batch of one, or an operator mixes it with
    another axis.
    """
    scaled = set(graph.inputs)
    operators: list[Operator] = []
    for op in graph.operators:
        if not scaled.intersection(op.inputs):
            operators.append(op)
            continue
        _require_separate(graph, op, scaled)
        scaled.update(op.outputs)
        if op.kind == "concat":  # a constant among the parts, as a class token, is repeated
            scaled.update(op.inputs)
        operators.append(
            replace(op, flops=op.flops * batch, attrs=MappingProxyType(_attributes(op, batch)))
        )
    for tensor in scaled:
        shape = graph.tensors[tensor].shape
        if not shape or shape[0] != 1:
            raise GraphError(
                f"tensor {graph.tensors[tensor].name!r} has no batch of one as its first axis: "
                "export the model with the batch that it is to run with"
            )
    tensors = tuple(
        replace(t, shape=(batch, *t.shape[1:])) if i in scaled else t
        for i, t in enumerate(graph.tensors)
    )
    return OpGraph(graph.name, tuple(operators), tensors, graph.inputs, graph.outputs)


def in_half_precision(graph: OpGraph) -> OpGraph:
    """Return the same network with float16 in place of float32."""
    tensors = tuple(
        replace(t, dtype="float16") if t.dtype == "float32" else t for t in graph.tensors
    )
    return replace(graph, tensors=tensors)


def _require_separate(graph: OpGraph, op: Operator, scaled: set[int]) -> None:
    attrs = op.attrs
    mixes = (
        (op.kind in _ALONG_AN_AXIS and attrs["axis"] == 0 and op.inputs[0] in scaled)
        or 0 in cast(tuple[int, ...], attrs.get("axes", ()))
        or cast(tuple[int, ...], attrs.get("perm", (0,)))[0] != 0
        or (op.kind == "pad" and _pads_first(attrs))
        or any(
            len(graph.tensors[t].shape) < len(graph.tensors[op.outputs[0]].shape)
            for t in op.inputs
            if t in scaled and op.kind not in ("reshape", "gather")
        )
    )
    if mixes:
        raise GraphError(
            f"operator {op.name!r} mixes the batch with another axis: "
            "export the model with the batch that it is to run with"
        )


def _pads_first(attrs: Mapping[str, AttrValue]) -> bool:
    pads = cast(tuple[int, ...], attrs["pads"])
    return bool(pads[0] or pads[len(pads) // 2])


def _attributes(op: Operator, batch: int) -> dict[str, AttrValue]:
    attrs = dict(op.attrs)
    if op.kind == "reshape":
        attrs["shape"] = (batch, *cast(tuple[int, ...], attrs["shape"])[1:])
    return attrs
