"""Decide which convolutions can be merged into one, and plan their common window.

IOS, section 3.1: smaller kernels are padded with zeros to fit the larger ones and stacked, so that
one convolution computes all outputs and a split recovers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph.elements import AttrValue, Operator
from tvm_ios.graph.op_graph import OpGraph

#: Activations without parameters, which can be applied again after a split.
ACTIVATIONS = ("none", "relu", "sigmoid", "tanh")


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The merged convolution of some units."""

    #: The units, in the order in which their kernels are stacked.
    units: tuple[int, ...]
    #: Height and width of the smallest window that holds all kernels.
    kernel: tuple[int, int]
    #: Top, left, bottom, right of the merged convolution.
    pads: tuple[int, int, int, int]
    #: The strides and dilations of every member.
    strides: tuple[int, int]
    dilations: tuple[int, int]
    #: For each unit the window's (row, column) at which its kernel begins.
    offsets: tuple[tuple[int, int], ...]
    #: For each unit, in order.
    out_channels: tuple[int, ...]
    #: For each unit; if all are equal it is applied before the split.
    activations: tuple[str, ...]
    #: Type of the results where it is not that of the data, as of 8-bit convolutions that are
    #: summed in 32 bits; empty otherwise, as TVM's convolutions have it.
    out_dtype: str = ""


def mergeable(graph: OpGraph, units: Sequence[int]) -> bool:
    """Return whether :func:`plan_merge` finds a merged convolution."""
    return plan_merge(graph, units) is not None


def plan_merge(graph: OpGraph, units: Sequence[int]) -> MergePlan | None:
    """Return the merged convolution of two or more units of a graph, or None.

    Every unit must be one convolution (groups = 1, constant weights) with at most a bias and an
    activation. All must read the same tensor with equal stride, dilation and output extents; all
    kernels must be of one type, and all results.
    """
    ordered = tuple(sorted(units))
    operators = [graph.operators[unit] for unit in ordered]
    if len(ordered) < 2 or not all(_is_plain_convolution(graph, unit) for unit in ordered):
        return None
    first = operators[0]
    extents = graph.tensors[first.outputs[0]].shape[2:]
    for op in operators[1:]:
        same_attrs = all(op.attrs[key] == first.attrs[key] for key in ("strides", "dilations"))
        if op.inputs[0] != first.inputs[0] or not same_attrs:
            return None
        if graph.tensors[op.outputs[0]].shape[2:] != extents:
            return None
        if _types(graph, op) != _types(graph, first):
            return None
    strides = _pair(first.attrs["strides"])
    dilations = _pair(first.attrs["dilations"])
    in_extents = graph.tensors[first.inputs[0]].shape[2:]
    data_type, _, out_type = _types(graph, first)
    windows = [
        _window(
            in_extents[axis],
            extents[axis],
            strides[axis],
            dilations[axis],
            [(_ints(op.attrs["pads"])[axis], _pair(op.attrs["kernel"])[axis]) for op in operators],
        )
        for axis in (0, 1)
    ]
    rows, columns = windows
    if rows is None or columns is None:
        return None
    return MergePlan(
        units=ordered,
        kernel=(rows.size, columns.size),
        pads=(rows.leading, columns.leading, rows.trailing, columns.trailing),
        strides=strides,
        dilations=dilations,
        offsets=tuple(zip(rows.offsets, columns.offsets, strict=True)),
        out_channels=tuple(graph.tensors[op.outputs[0]].shape[1] for op in operators),
        activations=tuple(str(op.attrs["activation"]) for op in operators),
        out_dtype="" if out_type == data_type else out_type,
    )


@dataclass(frozen=True, slots=True)
class _Window:
    size: int
    leading: int
    trailing: int
    offsets: tuple[int, ...]


def _window(
    in_extent: int, out_extent: int, stride: int, dilation: int, kernels: list[tuple[int, int]]
) -> _Window | None:
    """Return the smallest window along one axis for kernels given as (leading pad, taps).

    Output ``y`` of a kernel reads input ``y * stride - pad + tap * dilation``, so two kernels line
    up only if their pads are equal modulo the dilation; otherwise return None.
    """
    leading = max(pad for pad, _ in kernels)
    if any((leading - pad) % dilation for pad, _ in kernels):
        return None
    offsets = tuple((leading - pad) // dilation for pad, _ in kernels)
    size = max(offset + taps for offset, (_, taps) in zip(offsets, kernels, strict=True))
    reach = (out_extent - 1) * stride + (size - 1) * dilation + 1
    return _Window(size, leading, max(0, reach - in_extent - leading), offsets)


def _is_plain_convolution(graph: OpGraph, unit: int) -> bool:
    op = graph.operators[unit]
    return (
        op.kind.split("+")[0] == "conv2d"
        and op.attrs.get("activation") in ACTIVATIONS
        and op.attrs.get("group") == 1
        and len(op.outputs) == 1
        and len(op.inputs) > 1
        and graph.tensors[op.inputs[1]].constant
        # A graph from a file may say anything.
        and all(len(graph.tensors[t].shape) == 4 for t in (*op.inputs[:2], op.outputs[0]))
        and all(_counts(op.attrs.get(key), 2) for key in ("strides", "dilations", "kernel"))
        and _counts(op.attrs.get("pads"), 4, least=0)
    )


def _types(graph: OpGraph, op: Operator) -> tuple[str, str, str]:
    """Return the element types of a convolution's data, kernel and result."""
    data, kernel, result = (graph.tensors[t].dtype for t in (*op.inputs[:2], op.outputs[0]))
    return data, kernel, result


def _counts(value: AttrValue | None, length: int, least: int = 1) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == length
        and all(isinstance(extent, int) and extent >= least for extent in value)
    )


def _ints(value: AttrValue) -> tuple[int, ...]:
    assert isinstance(value, tuple)
    return tuple(v for v in value if isinstance(v, int))


def _pair(value: AttrValue) -> tuple[int, int]:
    first, second = _ints(value)
    return first, second
