"""Where the tensors of an order lie in one block of memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.program.arena.lifetimes import Lifetimes
from tvm_ios.program.arena.planner import PlannedMemory, plan_lifetimes
from tvm_ios.program.program import ALIGNMENT


def plan_order(problem: MemoryProblem, order: Sequence[int]) -> PlannedMemory:
    """Give all that the footprints of an order count bytes of one arena.

    Inputs and outputs of the graph are among it, and the scratch of operators. An arena can be
    larger than the peak: tensors begin at multiples of 64 bytes, and gaps may be too small for
    what comes next. The offsets are of buffers of the problem, and of scratch after these; what
    is written over another buffer has its offset.

    Parameters
    ----------
    problem
        Whose counting decides what shares memory.
    order
        One of the problem's.
    """
    at = {operator: step for step, operator in enumerate(order)}
    buffers, steps = problem.memory.buffers, len(order)
    first = [0 if b.at_start else min(at[w] for w in bits(b.writers)) for b in buffers]
    last = [steps - 1 if b.at_end else max(at[u] for u in bits(b.users)) for b in buffers]
    #: For each buffer the one whose memory it takes over, or itself.
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
