"""How memory schedulers may be changed, to see what their parts are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Where a depth-first search of reverse post-order begins.
Direction = Literal["inputs", "outputs"]
#: What solves integer programs.
Solver = Literal["cp-sat", "scip"]


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Each scheduler reads what is its own.

    Attributes
    ----------
    rpo_from
        Where the search of reverse post-order begins, for all that start with it.
    parts
        How many parts fusion-ilp's partition has at most; None for as many as have some 40 nodes.
    solver
        What solves the integer programs of fusion-ilp.
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


#: As published.
DEFAULT = SchedulerOptions()
