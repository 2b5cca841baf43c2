"""Operators that a unit takes from before its convolution, pooling, dense layer or sum."""

from __future__ import annotations

from tvm_ios.graph.operators import ACTIVATIONS, is_pointwise
from tvm_ios.graph.unit_partition import Partition

_WINDOWED = frozenset({"conv2d", "max_pool2d", "avg_pool2d"})
_ROUND = frozenset({"round"})
#: Kinds whose results hold only numbers that they read.
_CHOOSE = frozenset({"concat", "max_pool2d", "reshape"})
_VIEWS = frozenset({"slice", "reshape"})


def take_prologues(partition: Partition) -> None:
    """Join to convolutions the activation, and to any window the padding, that only they read."""
    for op in range(len(partition.graph)):
        if partition.op(op).kind not in _WINDOWED or partition.members(op)[0] != op:
            continue
        pad = partition.maker(op, frozenset({"pad"}))
        if pad is not None and partition.alone(pad):
            partition.join(pad, op)
        elif partition.op(op).kind == "conv2d":
            path = _path_adjustment(partition, op) or _activation_before(partition, op)
            if path:
                partition.join(op, *path)


def take_scales(partition: Partition) -> None:
    """Join to a sum the products of rounded values and numbers that only the sum reads.

    So a rounded value that convolutions read as it is is stored only in this form.
    """
    for op in range(len(partition.graph)):
        if not partition.is_sum(op):
            continue
        for source in partition.sources(op):
            if source is None or partition.op(source).kind != "multiply":
                continue
            scaled = partition.reader(source) == op and partition.alone(source)
            if scaled and _is_rounded(partition, partition.op(source).inputs[0]):
                partition.join(source, op)


def _is_rounded(partition: Partition, tensor: int) -> bool:
    """Return whether a tensor has rounded, clipped values, perhaps concatenated or pooled."""
    makers = [partition.graph.producer[tensor]]
    while makers:
        op = makers.pop()
        if op is None:
            return False
        kind, inputs = partition.op(op).kind, partition.op(op).inputs
        if kind in _CHOOSE:
            makers += [partition.graph.producer[read] for read in inputs]
            continue
        before = partition.graph.producer[inputs[0]]
        if kind != "clip" or before is None or partition.op(before).kind not in _ROUND:
            return False
    return True


def take_views(partition: Partition) -> None:
    """Join to a dense layer the slices and views that it alone reads, so nothing is copied."""
    for op in range(len(partition.graph)):
        if partition.op(op).kind == "dense" and partition.members(op)[0] == op:
            view = partition.maker(op, _VIEWS)
            path: list[int] = []
            while view is not None and view not in path:
                path += partition.members(view)
                view = partition.maker(view, _VIEWS)
            if all(partition.op(member).kind in _VIEWS for member in path):
                partition.join(op, *path)


def activation_read_by(partition: Partition, op: int) -> int | None:
    """Return the activation that only an operator reads; None if it clips rounded values."""
    activation = partition.maker(op, ACTIVATIONS)
    if activation is None or partition.maker(activation, _ROUND) is not None:
        return None
    return activation


def _path_adjustment(partition: Partition, op: int) -> list[int]:
    """Return the activation, shift and average pooling before a 1x1 convolution (NASNet)."""
    pool = partition.maker(op, frozenset({"avg_pool2d"}))
    if pool is None or not is_pointwise(partition.graph, partition.op(op)):
        return []
    path = [pool]
    while (move := partition.maker(path[-1], frozenset({"slice", "pad"}))) is not None:
        path.append(move)
    activation = activation_read_by(partition, path[-1])
    if activation is not None:
        path.append(activation)
    elif partition.op(pool).attrs["kernel"] != (1, 1):
        return []  # a real pooling without activation is a unit of its own (Inception)
    return path if all(partition.members(member) == [member] for member in path) else []


def _activation_before(partition: Partition, op: int) -> list[int]:
    """Return the activation, and a batch norm before it that no convolution took (DenseNet)."""
    activation = activation_read_by(partition, op)
    if activation is None or not partition.alone(activation):
        return []
    path = [activation]
    while True:
        before = partition.maker(path[-1], frozenset({"add", "bias_add", "multiply"}))
        if before is None or len(partition.sources(before)) != 1 or not partition.alone(before):
            return path
        path.append(before)
