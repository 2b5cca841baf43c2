"""Bytes that an operator order needs while each operator runs, and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.errors import UserError
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.memory.buffers import Buffers, buffers_of


class OrderError(UserError):
    """Raised for a sequence of operators that is not an order of the graph, with the reason."""


@dataclass(frozen=True, slots=True)
class Counting:
    """The way bytes are counted. Orders are comparable only under the same counting."""

    #: An element-wise operator writes its result over the first input of its shape that no operator
    #: reads later (HMCOS's count).
    in_place: bool = False
    #: Inputs of a concatenation are written directly into its result, whose memory is taken from
    #: the first input on.
    zero_copy_concat: bool = False


@dataclass(frozen=True, slots=True)
class Footprints:
    """The memory of an order, step by step."""

    #: Bytes while each operator runs: all live buffers, its inputs and outputs included, and its
    #: scratch.
    stable: tuple[int, ...]
    #: Bytes after each operator: the buffers that are still needed.
    transient: tuple[int, ...]

    @property
    def peak(self) -> int:
        """The most bytes in use while an operator runs."""
        return max(self.stable, default=0)


def footprints(
    graph: OpGraph,
    order: Sequence[int],
    counting: Counting | None = None,
    scratch: Mapping[int, int] | None = None,
) -> Footprints:
    """Return the bytes of an order, step by step; raise OrderError if it is not the graph's.

    A tensor lives from its producer's step to its last consumer's; graph inputs live from the
    start, graph outputs to the end, and constants are not counted ("Memory-aware Scheduling for
    Complex Wired Networks", Definition 2). ``scratch`` has the bytes that operators need beside
    their tensors; by default there is none, and no tensors share memory.
    """
    counting = counting or Counting()
    check_order(graph.predecessors, order)
    memory = buffers_of(
        graph, in_place=counting.in_place, zero_copy_concat=counting.zero_copy_concat
    )
    extra = tuple((scratch or {}).get(operator, 0) for operator in range(len(graph)))
    return count(memory, extra, order)


def count(memory: Buffers, scratch: Sequence[int], order: Sequence[int]) -> Footprints:
    """Compute footprints from the lifetimes of buffers; the order is not checked."""
    steps = len(order)
    at = {operator: step for step, operator in enumerate(order)}
    # Changes of what is live, at the step before whose operator they happen.
    while_running, between = [0] * (steps + 1), [0] * (steps + 1)
    last: list[int] = []
    for buffer in memory.buffers:
        first = 0 if buffer.at_start else min(at[writer] for writer in bits(buffer.writers))
        end = steps if buffer.at_end else max(at[user] for user in bits(buffer.users))
        last.append(end)
        while_running[first] += buffer.nbytes
        between[first] += buffer.nbytes
        between[min(end, steps)] -= buffer.nbytes
        while_running[min(end + 1, steps)] -= buffer.nbytes
    stable: list[int] = []
    transient: list[int] = []
    live = needed = 0
    for step, operator in enumerate(order):
        live += while_running[step]
        needed += between[step]
        over = next((b for b in memory.takes[operator] if last[b] == step), None)
        stable.append(
            live + scratch[operator] - (0 if over is None else memory.buffers[over].nbytes)
        )
        transient.append(needed)
    return Footprints(tuple(stable), tuple(transient))


def check_order(
    predecessors: Sequence[int], order: Sequence[int], names: Sequence[object] | None = None
) -> None:
    """Raise OrderError if operators are missing or repeated, or stand before one they read from.

    The message has their numbers if they have no names.
    """
    names = range(len(predecessors)) if names is None else names
    if sorted(order) != list(range(len(predecessors))):
        raise OrderError(
            f"an order of this graph has each of its {len(predecessors)} operators once, "
            f"but this one has {len(order)} entries that are not these"
        )
    done = 0
    for operator in order:
        if missing := predecessors[operator] & ~done:
            raise OrderError(
                f"operator {names[operator]} stands before operator {names[next(bits(missing))]}, "
                "from which it reads"
            )
        done |= 1 << operator
