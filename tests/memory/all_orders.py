"""What the definitions say, word by word and slowly."""

from __future__ import annotations

from collections.abc import Iterator

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.problem import MemoryProblem


def states(problem: MemoryProblem) -> list[int]:
    """All sets of operators that hold what their members depend on, small ones first."""
    every, frontier = [0], {0}
    while frontier:
        frontier = {
            state | 1 << op
            for state in frontier
            for op in range(len(problem))
            if not state >> op & 1 and not problem.predecessors[op] & ~state
        }
        every += sorted(frontier)
    return every


def orders(problem: MemoryProblem, done: int = 0) -> Iterator[tuple[int, ...]]:
    """Every order."""
    if done == problem.all_nodes:
        yield ()
    for op in bits(problem.all_nodes & ~done):
        if not problem.predecessors[op] & ~done:
            for rest in orders(problem, done | 1 << op):
                yield (op, *rest)


def stable(problem: MemoryProblem, state: int, operator: int) -> int:
    """Bytes while an operator runs when others have been executed."""
    after = state | 1 << operator
    live = over = 0
    for number, b in enumerate(problem.memory.buffers):
        begun = b.at_start or any(after >> w & 1 for w in bits(b.writers))
        needed = b.at_end or any(not state >> u & 1 for u in bits(b.users))
        if begun and needed:
            live += b.nbytes
        dies = not b.at_end and all(after >> u & 1 for u in bits(b.users))
        if dies and number in problem.memory.takes[operator]:
            over = b.nbytes
    return live + problem.scratch[operator] - over


def best_peak(problem: MemoryProblem) -> int:
    """The smallest peak of any order."""
    best = {0: 0}
    for state in states(problem):
        for op in bits(problem.all_nodes & ~state):
            if not problem.predecessors[op] & ~state:
                peak = max(best[state], stable(problem, state, op))
                after = state | 1 << op
                best[after] = min(peak, best.get(after, peak))
    return best[problem.all_nodes]
