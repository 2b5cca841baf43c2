"""Bytes that stages need, and the schedules of a block that stay within a budget.

The tensors between units are counted, as in the arena of a program: those that are live when a
stage begins, and all that its units make, as if they all ran at once. Inputs and outputs of the
graph and scratch buffers are not counted; a concatenation is counted in addition to its inputs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tvm_ios.errors import MemoryBudgetError
from tvm_ios.files.byte_sizes import kib
from tvm_ios.graph.down_sets import Masks
from tvm_ios.graph.op_graph import OpGraph, mask_of
from tvm_ios.ios.block import Block
from tvm_ios.ios.dynamic_program import levels
from tvm_ios.ios.ending_space import EndingSpace, Integers
from tvm_ios.schedule.stage import Stage


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor that is made or read in a block, in the block's numbers.

    ``producer`` is the unit that makes it, or None; ``readers`` is the bit set of units that read
    it; ``stays`` says whether it is needed after the block.
    """

    nbytes: int
    producer: int | None
    readers: int
    stays: bool


@dataclass(frozen=True)
class BlockMemory:
    """The tensors that are live while a block runs.

    ``outside`` are the bytes of tensors that the block neither makes nor reads; ``tensors`` are the
    others.
    """

    outside: int
    tensors: tuple[_Tensor, ...]

    @staticmethod
    def of(graph: OpGraph, block: Block, done: int) -> BlockMemory:
        """Return the tensors that are live around a block, after the units in ``done`` have run."""
        local = {unit: number for number, unit in enumerate(block.units)}
        later = graph.all_operators & ~done & ~mask_of(block.units)
        ports = {*graph.inputs, *graph.outputs}
        outside, tensors = 0, list[_Tensor]()
        for tensor, described in enumerate(graph.tensors):
            maker = graph.producer[tensor]
            if maker is None or tensor in ports or later >> maker & 1:
                continue
            readers = mask_of(graph.consumers[tensor])
            stays = bool(readers & later)
            inside = mask_of(local[u] for u in graph.consumers[tensor] if u in local)
            if maker in local or inside:
                tensors.append(_Tensor(described.nbytes, local.get(maker), inside, stays))
            elif stays:
                outside += described.nbytes
        return BlockMemory(outside, tuple(tensors))

    @property
    def key(self) -> str:
        """A hash; blocks of equal units that share it have the same schedules within a budget."""
        rows = [(t.nbytes, t.producer, t.readers, t.stays) for t in self.tensors]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def needs(self, space: EndingSpace) -> Integers:
        """Return for each transition of a space the bytes of its stage, without ``outside``."""
        live = np.zeros(len(space.states), np.int64)
        written = np.zeros(len(space.endings), np.int64)
        for tensor in self.tensors:
            live += tensor.nbytes * self._is_live(tensor, space.states)
            if tensor.producer is not None:
                written += tensor.nbytes * _holds(space.endings, 1 << tensor.producer)
        return live[space.remaining] + written[space.ending]

    @staticmethod
    def _is_live(tensor: _Tensor, states: Masks) -> npt.NDArray[np.bool_]:
        begun = np.ones(len(states), np.bool_)
        if tensor.producer is not None:
            begun = _holds(states, 1 << tensor.producer)
        if tensor.stays:
            return begun
        finished = np.asarray((states & tensor.readers) == tensor.readers, np.bool_)
        return begun & ~finished


def stages_peak(graph: OpGraph, stages: Sequence[Stage]) -> int:
    """Return the most bytes that a stage needs, of stages in the order of execution."""
    last = [-1] * len(graph.tensors)
    for place, stage in enumerate(stages):
        for unit in stage.units:
            for tensor in (*graph.operators[unit].inputs, *graph.operators[unit].outputs):
                last[tensor] = place
    ports = {*graph.inputs, *graph.outputs}
    largest = live = 0
    for place, stage in enumerate(stages):
        written = {t for u in stage.units for t in graph.operators[u].outputs} - ports
        live += sum(graph.tensors[t].nbytes for t in written)
        largest = max(largest, live)
        read = {t for u in stage.units for t in graph.operators[u].inputs} - ports
        live -= sum(
            graph.tensors[t].nbytes
            for t in read | written
            if last[t] == place and graph.producer[t] is not None
        )
    return largest


def least_need(space: EndingSpace, needs: Integers) -> int:
    """Return the least peak in bytes, of all schedules of a space."""
    least = np.zeros(len(space.states), np.int64)
    for begin, end in levels(space):
        edges = slice(int(space.starts[begin]), int(space.starts[end]))
        need = np.maximum(needs[edges], least[space.remaining[edges]])
        least[begin:end] = np.minimum.reduceat(need, space.starts[begin:end] - edges.start)
    return int(least[-1])


def within_budget(space: EndingSpace, needs: Integers, budget: int) -> EndingSpace:
    """Return the space without stages above a budget, and without states not reachable then.

    ``needs`` are the bytes of each stage of the space, in its order.
    Raise MemoryBudgetError if nothing is left.
    """
    if (needs <= budget).all():
        return space
    if (least := least_need(space, needs)) > budget:
        if not space.complete:
            raise MemoryBudgetError(
                "the time limit ended the search before a schedule within the memory budget was "
                "found: give more time"
            )
        raise MemoryBudgetError(
            "no schedule fits into the memory budget: the tensors between units need at least "
            f"{kib(least - budget)} KiB more"
        )
    reached = np.zeros(len(space.states), np.bool_)
    reached[0] = True
    allowed = needs <= budget
    for begin, end in levels(space):
        edges = slice(int(space.starts[begin]), int(space.starts[end]))
        allowed[edges] &= reached[space.remaining[edges]]
        offsets = space.starts[begin:end] - edges.start
        reached[begin:end] = np.logical_or.reduceat(allowed[edges], offsets)
    number = np.cumsum(reached) - 1
    transitions = np.add.reduceat(allowed, space.starts[1:-1], dtype=np.int64)[reached[1:]]
    return replace(
        space,
        states=space.states[reached],
        starts=np.concatenate([[0, 0], np.cumsum(transitions)]).astype(np.int64),
        ending=space.ending[allowed],
        remaining=number[space.remaining[allowed]].astype(np.int32),
        leaving=space.leaving if space.symmetry is None else space.leaving[allowed],
    )


def _holds(masks: Masks, unit: int) -> npt.NDArray[np.bool_]:
    return np.asarray((masks & unit) != 0, np.bool_)


def blocks_memory(graph: OpGraph, blocks: Sequence[Block]) -> tuple[BlockMemory, ...]:
    """Return the memory of all blocks of a graph, in the order of execution."""
    memories: list[BlockMemory] = []
    done = 0
    for block in blocks:
        memories.append(BlockMemory.of(graph, block, done))
        done |= mask_of(block.units)
    return tuple(memories)


def budgeted_blocks(
    graph: OpGraph, blocks: Sequence[Block], budget: int | None
) -> list[tuple[BlockMemory | None, int | None]]:
    """Return for each block its memory, and the budget left beside the tensors around it."""
    if budget is None:
        return [(None, None)] * len(blocks)
    return [(memory, budget - memory.outside) for memory in blocks_memory(graph, blocks)]
