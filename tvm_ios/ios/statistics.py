"""The statistics of a search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStatistics:
    """Statistics of a search; a figure that it does not have is None.

    Attributes
    ----------
    seconds
        Wall time, measuring included.
    states, transitions, endings
        Sums over the different blocks.
    candidates
        Stages that the full search would measure, equal blocks once; or programs that were
        compared.
    stages_measured
        Stage keys that were measured, or found in the log.
    rounds
        How many times the blocks were solved.
    complete
        False if the budget ended the search early: the schedule is then the best of what was
        measured.
    lower_bound
        Seconds that no schedule can beat if the optimistic costs are lower bounds.
    blocks, blocks_searched
        The number of blocks, and of different ones.
    """

    seconds: float
    states: int | None = None
    transitions: int | None = None
    endings: int | None = None
    candidates: int | None = None
    stages_measured: int | None = None
    rounds: int | None = None
    complete: bool = True
    lower_bound: float | None = None
    blocks: int | None = None
    blocks_searched: int | None = None
