"""Buffers of a graph: tensors that share memory whatever the order, and in-place candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.graph.operators import ELEMENT_WISE

#: Operators whose result may overwrite an input of its size.
_OVER_AN_INPUT = ELEMENT_WISE | {
    *("bias_add", "prelu", "batchnormalization", "sum", "max", "min", "identity")
}


@dataclass(frozen=True, slots=True)
class TensorBuffer:
    """Memory of one tensor, or of several that lie in it (parts of a concatenation)."""

    #: Its size.
    nbytes: int
    #: Bit set of the operators that write into it: it is allocated by the first of them.
    writers: int
    #: Bit set of the operators that write or read it: it is freed after the last of them.
    users: int
    #: Whether it is live before the first operator (a graph input), and after the last one.
    at_start: bool = False
    at_end: bool = False


@dataclass(frozen=True)
class Buffers:
    """The buffers of a graph; constants and inputs that no operator reads have none.

    Of each operator, ``takes`` has the buffers that its result may overwrite, in order of its
    inputs.
    """

    buffers: tuple[TensorBuffer, ...]
    takes: tuple[tuple[int, ...], ...]


def buffers_by_user(buffers: Sequence[TensorBuffer], operators: int) -> tuple[tuple[int, ...], ...]:
    """Return, for each of so many operators, the numbers of the buffers that it reads or writes."""
    used: list[list[int]] = [[] for _ in range(operators)]
    for number, buffer in enumerate(buffers):
        for user in bits(buffer.users):
            used[user].append(number)
    return tuple(map(tuple, used))


def buffers_of(graph: OpGraph, *, in_place: bool, zero_copy_concat: bool) -> Buffers:
    """Return the buffers of a graph of operators or units.

    With ``in_place``, an element-wise operator may overwrite an input of its result's shape whose
    buffer holds no other tensor; whether another operator still reads it depends on the order. With
    ``zero_copy_concat``, inputs of a concatenation lie in its result, except graph inputs and
    outputs, constants, inputs that occur twice, and those that lie in another concatenation; of two
    concatenations of one tensor the later gets it.
    """
    home = _homes(graph) if zero_copy_concat else tuple(range(len(graph.tensors)))
    # For each tensor with memory: writers and users of it and of all tensors that lie in it.
    writers, users, sharing = Counter[int](), Counter[int](), Counter(home)
    for tensor, where in enumerate(home):
        maker = graph.producer[tensor]
        maker_mask = 0 if maker is None else 1 << maker
        writers[where] |= maker_mask
        users[where] |= maker_mask | mask_of(graph.consumers[tensor])
    number: dict[int, int] = {}
    buffers: list[TensorBuffer] = []
    inputs, outputs = set(graph.inputs), set(graph.outputs)
    for tensor, described in enumerate(graph.tensors):
        at_start, at_end = tensor in inputs, tensor in outputs
        used = users[tensor] or (at_start and at_end)
        if home[tensor] != tensor or described.constant or not used:
            continue
        number[tensor] = len(buffers)
        buffers.append(
            TensorBuffer(described.nbytes, writers[tensor], users[tensor], at_start, at_end)
        )

    def fits(tensor: int, result: int) -> bool:
        same = graph.tensors[tensor].shape == graph.tensors[result].shape
        sizes = graph.tensors[tensor].nbytes == graph.tensors[result].nbytes
        alone = sharing[home[tensor]] == 1 == sharing[home[result]]
        return same and sizes and alone and tensor in number and not buffers[number[tensor]].at_end

    takes = tuple(
        tuple(number[t] for t in dict.fromkeys(op.inputs) if fits(t, op.outputs[0]))
        if in_place and op.kind in _OVER_AN_INPUT and len(op.outputs) == 1
        else ()
        for op in graph.operators
    )
    return Buffers(tuple(buffers), takes)


def _homes(graph: OpGraph) -> tuple[int, ...]:
    """Return, for each tensor, the tensor in whose memory it lies (often itself)."""
    home = list(range(len(graph.tensors)))
    outside = {*graph.inputs, *graph.outputs}
    # In reverse order, so that an outer concatenation gets a tensor before an inner one.
    for op in reversed(graph.operators):
        if op.kind != "concat":
            continue
        for tensor, times in Counter(op.inputs).items():
            free = home[tensor] == tensor and tensor not in outside
            if times == 1 and free and graph.producer[tensor] is not None:
                home[tensor] = home[op.outputs[0]]
    return tuple(home)
