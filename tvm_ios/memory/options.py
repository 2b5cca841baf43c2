"""Options of memory schedulers, mostly for ablations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Where a depth-first search of reverse post-order begins.
Direction = Literal["inputs", "outputs"]
#: Solvers of integer programs.
Solver = Literal["cp-sat", "scip"]


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Options of all memory schedulers; each scheduler ignores those of the others.

    Attributes
    ----------
    rpo_from
        End of the graph where reverse post-order begins, for all that start with it.
    parts
        Largest number of parts of fusion-ilp's partition; None for one per some 40 nodes.
    solver
        Solver of fusion-ilp's integer programs.
    pruning
        Whether fusion-ilp leaves out variables that the topology decides.
    fusion
        Whether fusion-ilp fuses before it divides.
    memory_aware
        Whether fusion-ilp divides where few bytes cross; else into parts of equal size.
    """

    rpo_from: Direction = "inputs"
    parts: int | None = None
    solver: Solver = "cp-sat"
    pruning: bool = True
    fusion: bool = True
    memory_aware: bool = True


#: Default options: the schedulers as published.
DEFAULT = SchedulerOptions()
