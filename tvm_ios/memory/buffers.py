"""Which tensors share memory whatever the order is, and who may write over whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.graph.operators import ELEMENT_WISE

#: Operators whose result may take the place of an input of its size.
_OVER_AN_INPUT = ELEMENT_WISE | {
    *("bias_add", "prelu", "batchnormalization", "sum", "max", "min", "identity")
}


@dataclass(frozen=True, slots=True)
class TensorBuffer:
    """Memory that one tensor needs, or several that lie in one.

    Attributes
    ----------
    nbytes
        Its size.
    writers
        The bit set of operators that write into it: it is taken from the first of them on.
    users
        The bit set of operators that write into it or read it: it is free after the last of them.
    at_start, at_end
        Whether it is taken before the first operator (a graph input), and after the last one.
    """

    nbytes: int
    writers: int
    users: int
    at_start: bool = False
    at_end: bool = False


@dataclass(frozen=True)
class Buffers:
    """The memory of a graph's tensors.

    Attributes
    ----------
    buffers
        Constants, and inputs that nobody reads, have none.
    takes
        For each operator the buffers that its result may be written over, in order of its inputs.
    """

    buffers: tuple[TensorBuffer, ...]
    takes: tuple[tuple[int, ...], ...]


def buffers_by_user(buffers: Sequence[TensorBuffer], operators: int) -> tuple[tuple[int, ...], ...]:
    """For each operator, of so many, the buffers that it reads or writes, by number."""
    used: list[list[int]] = [[] for _ in range(operators)]
    for number, buffer in enumerate(buffers):
        for user in bits(buffer.users):
            used[user].append(number)
    return tuple(map(tuple, used))


def buffers_of(graph: OpGraph, *, in_place: bool, zero_copy_concat: bool) -> Buffers:
    """Give tensors memory.

    Parameters
    ----------
    graph
        A graph of operators or units.
    in_place
        Whether an element-wise operator may write over an input of its result's shape, if the
        buffer holds nothing else; the order decides whether someone reads that input later.
    zero_copy_concat
        Whether what is concatenated lies in the result: all but graph inputs and outputs,
        constants, what is joined twice and what lies in another concatenation already. Of two
        concatenations that join a tensor the later one has it.
    """
    home = _homes(graph) if zero_copy_concat else tuple(range(len(graph.tensors)))
    # Of each tensor that has memory: what writes and reads it and all that lie in it.
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
    """For each tensor the one in whose memory it lies, which may be itself."""
    home = list(range(len(graph.tensors)))
    outside = {*graph.inputs, *graph.outputs}
    # What is concatenated again comes after the concatenation that reads it.
    for op in reversed(graph.operators):
        if op.kind != "concat":
            continue
        for tensor, times in Counter(op.inputs).items():
            free = home[tensor] == tensor and tensor not in outside
            if times == 1 and free and graph.producer[tensor] is not None:
                home[tensor] = home[op.outputs[0]]
    return tuple(home)
