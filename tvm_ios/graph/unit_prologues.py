"""What a unit takes that comes before its convolution, pooling or dense layer."""

from __future__ import annotations

from tvm_ios.graph.operators import ACTIVATIONS, is_pointwise
from tvm_ios.graph.unit_partition import Partition

_WINDOWED = frozenset({"conv2d", "max_pool2d", "avg_pool2d"})
_ROUND = frozenset({"round"})
_VIEWS = frozenset({"slice", "reshape"})


def take_prologues(partition: Partition) -> None:
    """A convolution takes the activation that only it reads; any window takes its padding."""
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


def take_views(partition: Partition) -> None:
    """A dense layer reads a slice of what others read too without a copy."""
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
    """The activation that only an operator reads; the limits of what is rounded stay with that."""
    activation = partition.maker(op, ACTIVATIONS)
    if activation is None or partition.maker(activation, _ROUND) is not None:
        return None
    return activation


def _path_adjustment(partition: Partition, op: int) -> list[int]:
    """Activation, shift and average pooling before a 1x1 convolution (NASNet)."""
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
    """The activation, with a batch norm before it that no convolution could take (DenseNet)."""
    activation = activation_read_by(partition, op)
    if activation is None or not partition.alone(activation):
        return []
    path = [activation]
    while True:
        before = partition.maker(path[-1], frozenset({"add", "bias_add", "multiply"}))
        if before is None or len(partition.sources(before)) != 1 or not partition.alone(before):
            return path
        path.append(before)
