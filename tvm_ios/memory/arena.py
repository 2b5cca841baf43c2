"""Offsets, in one arena, of the tensors of an operator order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.program.arena.lifetimes import Lifetimes
from tvm_ios.program.arena.planner import PlannedMemory, plan_lifetimes
from tvm_ios.program.arena.solver import REPEATABLE, SolverLimits
from tvm_ios.program.program import ALIGNMENT


@dataclass(frozen=True)
class Blocks:
    """The blocks of memory that an order needs: the problem's buffers, then scratch areas.

    Attributes
    ----------
    homes
        For each block its number, or that of the buffer that it is written over.
    sizes
        Bytes of each block.
    first, last
        The steps of the order in which each is first and last needed; those of a home include what
        is written over it.
    """

    homes: tuple[int, ...]
    sizes: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]

    @property
    def distinct(self) -> list[int]:
        """The numbers of the blocks that are written over no other."""
        return [block for block, home in enumerate(self.homes) if block == home]


def blocks_of(problem: MemoryProblem, order: Sequence[int]) -> Blocks:
    """Return the blocks that an order needs, counted as in the footprints.

    Inputs and outputs of the graph, and operators' scratch, are included.
    """
    at = {operator: step for step, operator in enumerate(order)}
    buffers, steps = problem.memory.buffers, len(order)
    first = [0 if b.at_start else min(at[w] for w in bits(b.writers)) for b in buffers]
    last = [steps - 1 if b.at_end else max(at[u] for u in bits(b.users)) for b in buffers]
    homes = list(range(len(buffers)))
    writer = {next(bits(b.writers)): n for n, b in enumerate(buffers) if b.writers}
    for step, operator in enumerate(order):
        over = next((b for b in problem.memory.takes[operator] if last[b] == step), None)
        if over is not None:
            homes[writer[operator]] = homes[over]
            last[homes[over]] = last[writer[operator]]
    sizes = [buffer.nbytes for buffer in buffers]
    for operator, nbytes in enumerate(problem.scratch):
        if nbytes:
            homes.append(len(sizes))
            sizes.append(nbytes)
            first.append(at[operator])
            last.append(at[operator])
    return Blocks(tuple(homes), tuple(sizes), tuple(first), tuple(last))


def plan_order(
    problem: MemoryProblem, order: Sequence[int], limits: SolverLimits = REPEATABLE
) -> PlannedMemory:
    """Place the blocks that an order needs in one arena, at multiples of 64 bytes.

    A block written over another one has its offset. The arena can exceed the peak by alignment and
    gaps.
    """
    blocks = blocks_of(problem, order)
    distinct = blocks.distinct
    first, last, sizes = (
        np.asarray(each, np.int64)[distinct] for each in (blocks.first, blocks.last, blocks.sizes)
    )
    return plan_intervals(np.asarray(distinct, np.int64), sizes, first, last + 1, ALIGNMENT, limits)


def aligned(nbytes: int) -> int:
    """Return bytes rounded up to a multiple of 64: no arena of such a peak is smaller."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def plan_intervals(
    numbers: Array,
    sizes: Array,
    lower: Array,
    upper: Array,
    alignment: int,
    limits: SolverLimits = REPEATABLE,
) -> PlannedMemory:
    """Place numbered blocks, needed in steps from ``lower`` to before ``upper``, in one arena.

    Offsets are multiples of ``alignment``.
    """
    times = Lifetimes(
        buffers=numbers,
        sizes=-(-sizes // alignment) * alignment,
        last=upper[None],
        finished_before=lower[None],
        first_step=lower,
        last_step=upper - 1,
    )
    return plan_lifetimes(times, limits)
