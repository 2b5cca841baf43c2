"""Offsets, in one arena, of the tensors of an operator order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.program.arena.lifetimes import Lifetimes
from tvm_ios.program.arena.planner import PlannedMemory, plan_lifetimes
from tvm_ios.program.program import ALIGNMENT


def plan_order(problem: MemoryProblem, order: Sequence[int]) -> PlannedMemory:
    """Place every buffer and scratch area of an order in one arena.

    Counted as in the footprints: inputs and outputs of the graph, and operators' scratch, are
    included. Blocks are numbered as the problem's buffers, then the scratch areas; a buffer written
    over another one has its offset. The arena can exceed the peak by alignment to 64 bytes and
    gaps.
    """
    at = {operator: step for step, operator in enumerate(order)}
    buffers, steps = problem.memory.buffers, len(order)
    first = [0 if b.at_start else min(at[w] for w in bits(b.writers)) for b in buffers]
    last = [steps - 1 if b.at_end else max(at[u] for u in bits(b.users)) for b in buffers]
    #: For each buffer the buffer that it overwrites, or itself.
    home = list(range(len(buffers)))
    writer = {next(bits(b.writers)): n for n, b in enumerate(buffers) if b.writers}
    for step, operator in enumerate(order):
        over = next((b for b in problem.memory.takes[operator] if last[b] == step), None)
        if over is not None:
            home[writer[operator]] = home[over]
            last[home[over]] = last[writer[operator]]
    sizes = [buffer.nbytes for buffer in buffers]
    for operator, nbytes in enumerate(problem.scratch):
        if nbytes:
            home.append(len(sizes))
            sizes.append(nbytes)
            first.append(at[operator])
            last.append(at[operator])
    distinct = [buffer for buffer, where in enumerate(home) if buffer == where]
    begin, end = np.asarray(first, np.int64)[distinct], np.asarray(last, np.int64)[distinct]
    return plan_lifetimes(
        Lifetimes(
            buffers=np.asarray(distinct, np.int64),
            sizes=-(-np.asarray(sizes, np.int64)[distinct] // ALIGNMENT) * ALIGNMENT,
            last=end[None] + 1,
            finished_before=begin[None],
            first_step=begin,
            last_step=end,
        )
    )
