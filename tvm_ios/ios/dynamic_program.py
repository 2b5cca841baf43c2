"""The dynamic program that finds the fastest stages of one block (IOS, Algorithm 1)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tvm_ios.errors import SearchError
from tvm_ios.graph.down_sets import sizes_of
from tvm_ios.ios.ending_space import UNPRUNED, EndingSpace, Integers, Pruning, connected_groups
from tvm_ios.ios.endings import enumerate_endings
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.waves import stage_of

Seconds = npt.NDArray[np.float64]
Groups = tuple[tuple[int, ...], ...]
#: Algorithm 1's GenerateStage: the best strategy for an ending, and its seconds.
GenerateStage = Callable[[int, Groups], tuple[float, Strategy]]

#: Strategies, the simpler ones first; search results refer to them by their place here.
STRATEGIES = (Strategy.CONCURRENT, Strategy.MERGE, Strategy.CO_SCHEDULE)

#: Relative differences up to this are ties: sums of latencies differ so by rounding.
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Solution:
    """The fastest stages of one block, in the order of execution, and the size of the search.

    ``cost`` is the sum of the stages' latencies, in seconds. Units have their numbers in the block,
    or in its graph. ``endings`` counts the distinct endings.
    """

    cost: float
    stages: tuple[Stage, ...]
    states: int
    transitions: int
    endings: int


def solve(
    predecessors: Sequence[int], generate_stage: GenerateStage, pruning: Pruning = UNPRUNED
) -> Solution:
    """Find the stages of least total latency (IOS, Algorithm 1).

    The recursion of the paper visits exactly the down-sets; here they are visited by size, so there
    is no recursion, and each distinct ending is asked for once.

    ``predecessors`` are bit sets in topological order. ``generate_stage`` is called once for each
    distinct ending with its bit set and groups; it returns seconds (``inf`` if it cannot run) and
    the strategy. Raise SearchError if the block is too large, or no schedule has a finite latency.
    """
    space = enumerate_endings(predecessors, pruning)
    latency = np.empty(len(space.endings))
    strategies = np.zeros(len(space.endings), np.int64)
    for i, (ending, groups) in enumerate(zip(space.endings.tolist(), space.groups, strict=True)):
        latency[i], strategy = generate_stage(ending, groups)
        strategies[i] = STRATEGIES.index(strategy)
    return solve_space(space, latency, strategies)


def solve_space(space: EndingSpace, latency: Seconds, strategies: Integers) -> Solution:
    """Solve a block whose endings are known; cheap enough to be repeated with other latencies.

    ``latency`` and ``strategies`` hold for each distinct ending its seconds and its best strategy,
    as a place in :data:`STRATEGIES`. Of stages that lead to the same cost the simplest is kept: the
    one with fewest units, then concurrent before merged before co-scheduled, then with fewest
    groups, then with the units that come last, so that equal costs everywhere give the sequential
    schedule.

    Raise SearchError if a latency is negative or not a number, or no schedule has a finite one.
    """
    if not (latency >= 0).all():
        raise SearchError("a stage's latency is negative or not a number")
    size, count = space.ending_sizes, space.groups_count
    by_preference = np.lexsort((-np.arange(len(size)), count, strategies, size))
    preference = np.empty(len(size), np.int64)
    preference[by_preference] = np.arange(len(size))

    cost = np.zeros(len(space.states))
    choice = np.zeros(len(space.states), np.int64)
    for begin, end in levels(space):
        edges = slice(int(space.starts[begin]), int(space.starts[end]))
        offsets = space.starts[begin:end] - edges.start
        counts = np.diff(space.starts[begin : end + 1])
        ending = space.ending[edges]
        total = cost[space.remaining[edges]] + latency[ending]
        best = np.minimum.reduceat(total, offsets)
        simplest = np.where(
            total <= np.repeat(best * (1 + _TIE), counts), preference[ending], len(size)
        )
        chosen = np.repeat(np.minimum.reduceat(simplest, offsets), counts) == simplest
        # With equal branches, one ending may represent two transitions of a state: take the first.
        place = np.flatnonzero(chosen)
        choice[begin:end] = edges.start + place[np.searchsorted(place, offsets)]
        cost[begin:end] = total[choice[begin:end] - edges.start]
    if not np.isfinite(cost[-1]):
        raise SearchError("no schedule of the block can run: the cost of some stages is infinite")

    stages: list[Stage] = []
    state, left = len(space.states) - 1, int(space.states[-1])
    while left:
        transition = int(choice[state])
        ending = int(space.ending[transition])
        units = space.units_leaving(transition, left)
        groups = space.groups[ending]
        if space.symmetry is not None:
            groups = connected_groups(space.predecessors, units)
        strategy = STRATEGIES[int(strategies[ending])]
        stage = stage_of(strategy, groups, space.predecessors)
        stages.append(replace(stage, latency=float(latency[ending])))
        state, left = int(space.remaining[transition]), left ^ units
    return Solution(
        cost=float(cost[-1]),
        stages=tuple(reversed(stages)),
        states=len(space.states),
        transitions=space.transitions,
        endings=len(space.endings),
    )


def levels(space: EndingSpace) -> list[tuple[int, int]]:
    """Return ranges of non-empty states of one size; each depends on smaller states only."""
    sizes = sizes_of(space.states)
    bounds = [*(np.flatnonzero(np.diff(sizes)) + 1), len(sizes)]
    return [(int(a), int(b)) for a, b in itertools.pairwise(bounds)]
