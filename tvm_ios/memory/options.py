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
    """Options of all memory schedulers; each scheduler ignores those of the others."""

    #: End of the graph where reverse post-order begins, for all that start with it.
    rpo_from: Direction = "inputs"
    #: Largest number of parts of fusion-ilp's partition; None for one per some 40 nodes.
    parts: int | None = None
    #: Solver of fusion-ilp's integer programs.
    solver: Solver = "cp-sat"
    #: Whether fusion-ilp leaves out variables that the topology decides.
    pruning: bool = True
    #: Whether fusion-ilp fuses before it divides.
    fusion: bool = True
    #: Whether fusion-ilp divides where few bytes cross; else into parts of equal size.
    memory_aware: bool = True
    #: Whether fusion-ilp takes starts and bounds of its parts from the exact search: where they
    #: meet, no integer program is left to solve.
    exact_start: bool = True


#: Default options of every scheduler.
DEFAULT = SchedulerOptions()
