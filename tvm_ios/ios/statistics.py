"""The statistics of a search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStatistics:
    """Statistics of a search; a figure that it does not have is None."""

    #: Wall time, measuring included.
    seconds: float
    #: Sums over the different blocks.
    states: int | None = None
    transitions: int | None = None
    endings: int | None = None
    #: Stages that the full search would measure, equal blocks once; or programs that were compared.
    candidates: int | None = None
    #: Stage keys that were measured, or found in the log.
    stages_measured: int | None = None
    #: How many times the blocks were solved.
    rounds: int | None = None
    #: False if the budget ended the search early: the schedule is then the best of what was
    #: measured.
    complete: bool = True
    #: Seconds that no schedule can beat if the optimistic costs are lower bounds.
    lower_bound: float | None = None
    #: The number of blocks, and of different ones.
    blocks: int | None = None
    blocks_searched: int | None = None
