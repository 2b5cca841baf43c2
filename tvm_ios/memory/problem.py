"""The problem that memory schedulers solve: a graph reduced to bit sets and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.memory.buffers import Buffers, TensorBuffer, buffers_by_user, buffers_of
from tvm_ios.memory.footprint import Counting, Footprints, count
from tvm_ios.memory.precedence import Precedence


@dataclass(frozen=True)
class MemoryProblem(Precedence):
    """A graph reduced to precedence, buffers and scratch bytes, whose peak is to be minimised.

    Operators are numbered in topological order. A *state* is the set of executed operators; with an
    operator it contains all its ancestors (a down-set). Operator sets are bit sets.
    """

    predecessors: tuple[int, ...]
    memory: Buffers
    scratch: tuple[int, ...]

    @cached_property
    def touched(self) -> tuple[tuple[int, ...], ...]:
        """For each operator the numbers of the buffers that it reads or writes."""
        return buffers_by_user(self.memory.buffers, len(self))

    def footprints(self, order: Sequence[int]) -> Footprints:
        """Return the bytes of an order, step by step."""
        return count(self.memory, self.scratch, order)

    def live(self, state: int) -> int:
        """Return the transient footprint of a state: the bytes still needed after it."""
        return sum(b.nbytes for b in self.memory.buffers if is_live(b, state))


def is_live(buffer: TensorBuffer, state: int) -> bool:
    """Return whether a buffer is live after a set of operators has been executed."""
    begun = buffer.at_start or bool(buffer.writers & state)
    return begun and (buffer.at_end or bool(buffer.users & ~state))


def memory_problem(
    graph: OpGraph, counting: Counting | None = None, scratch: Mapping[int, int] | None = None
) -> MemoryProblem:
    """Return the memory problem of a graph of operators or units.

    By default no tensors share memory and no operator needs scratch bytes.
    """
    counting = counting or Counting()
    return MemoryProblem(
        graph.predecessors,
        buffers_of(graph, in_place=counting.in_place, zero_copy_concat=counting.zero_copy_concat),
        tuple((scratch or {}).get(operator, 0) for operator in range(len(graph))),
    )


def part_of(problem: MemoryProblem, low: int, high: int) -> MemoryProblem:
    """Return the problem of ordering only the operators between two states, renumbered."""
    inside = high & ~low
    members = tuple(bits(inside))
    place = {operator: number for number, operator in enumerate(members)}

    def placed(operators: int) -> int:
        return mask_of(place[operator] for operator in bits(operators & inside))

    kept: dict[int, TensorBuffer] = {}
    for number, buffer in enumerate(problem.memory.buffers):
        begun, needed = is_live(buffer, low), buffer.at_end or bool(buffer.users & ~high)
        if begun or buffer.users & inside:
            writers, users = placed(buffer.writers), placed(buffer.users)
            stays = needed or not users
            kept[number] = TensorBuffer(buffer.nbytes, writers, users, begun, stays)
    number_of = {buffer: number for number, buffer in enumerate(kept)}
    takes = tuple(
        tuple(number_of[b] for b in problem.memory.takes[operator]) for operator in members
    )
    return MemoryProblem(
        tuple(placed(problem.predecessors[operator]) for operator in members),
        Buffers(tuple(kept.values()), takes),
        tuple(problem.scratch[operator] for operator in members),
    )
