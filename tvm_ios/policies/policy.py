"""The interface of policies: the problem, the request to a policy, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from tvm_ios.costs.costs import Costs, Offer, ProgramCosts, RTaskCosts
from tvm_ios.costs.model import CostModel
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.merge_rule import mergeable as any_mergeable
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.lazy import Budget
from tvm_ios.ios.memory_front import FrontPoint
from tvm_ios.ios.statistics import SearchStatistics
from tvm_ios.ios.strategies import Mergeable
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Problem:
    """The units to schedule, cut into blocks."""

    #: The graph of units.
    units: OpGraph
    #: Bit sets of units, in the order of execution.
    blocks: tuple[int, ...]
    #: The graph of operators that the units are made of, or None if it is not known.
    operators: OpGraph | None = None
    #: Returns whether units can be merged into one operator.
    mergeable: Mergeable = any_mergeable
    #: The most units of a block, or None if the blocks were cut in another way.
    max_block: int | None = None

    @staticmethod
    def of(units: OpGraph, max_block: int, operators: OpGraph | None = None) -> Problem:
        """Return the problem of a graph that is cut into blocks of at most ``max_block`` units."""
        return Problem(units, cut_blocks(units, max_block), operators, max_block=max_block)

    @cached_property
    def wide_blocks(self) -> tuple[int, ...]:
        """The blocks for a search that counts equal branches as one; they may have more units."""
        if self.max_block is None:
            return self.blocks
        return cut_blocks(self.units, self.max_block, branches_as_one=True)

    def schedule(self, stages: tuple[Stage, ...]) -> Schedule:
        """Return a schedule of these stages; the search notes the policy and the device in it."""
        return Schedule(self.units.fingerprint, stages, policy="", batch=self.units.batch)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a search."""

    #: The most units of a group, and the most groups of a stage; greedy's stages are exempt.
    pruning: Pruning = field(default_factory=lambda: Pruning(3, 8))
    #: The most units of a block.
    max_block: int = 40
    #: The most measurements and seconds, and the gain that is too small to measure for.
    budget: Budget = field(default_factory=lambda: Budget(max_measurements=400))
    #: Bytes that the tensors between units may take at any time, as :mod:`tvm_ios.ios.stage_memory`
    #: counts them; None for no limit.
    memory_budget: int | None = None
    #: Whether equal blocks are searched once, and equal branches of a block as one where the costs
    #: allow it.
    reuse: bool = True


@dataclass(frozen=True)
class Found:
    """The result of a policy."""

    #: The best schedule.
    schedule: Schedule
    #: Statistics of the search, or None if the policy does not search.
    statistics: SearchStatistics | None = None
    #: For each program that was not tried because it cannot be built, a sentence that says why.
    left_out: tuple[str, ...] = ()
    #: The schedules whose programs were compared.
    tried: tuple[Schedule, ...] = ()
    #: Half a sentence that says why the schedule is not worth a program; empty if it may be.
    why_not: str = ""


@dataclass(frozen=True)
class Request:
    """A request to a policy to find a schedule."""

    #: The name of the policy.
    policy: str
    #: The units to schedule.
    problem: Problem
    #: Execution times on a device; they offer all that the policy needs.
    costs: Costs
    #: Limits of the search.
    limits: Limits
    #: Called with (what, done, total).
    progress: Progress
    #: Returns what the policy of a name finds for the same problem, and searches at most once.
    found: Callable[[str], Found]
    #: Returns what the policy of a name has found for the same problem, or None; never searches.
    known: Callable[[str], Found | None]

    @property
    def stages(self) -> CostModel:
        """The costs of stages. Raise LookupError if there are none."""
        return _offered(self.costs.stages, Offer.STAGES)

    @property
    def rtasks(self) -> RTaskCosts:
        """The costs of rTasks. Raise LookupError if there are none."""
        return _offered(self.costs.rtasks, Offer.RTASKS)

    @property
    def programs(self) -> ProgramCosts:
        """The costs of whole programs. Raise LookupError if there are none."""
        return _offered(self.costs.programs, Offer.PROGRAMS)


def _offered(part: _Part | None, offer: Offer) -> _Part:
    if part is None:
        raise LookupError(f"the costs do not say {offer.value}: Policy.needs has to name {offer}")
    return part


@dataclass(frozen=True)
class Policy:
    """A scheduling policy."""

    #: The name by which users choose it.
    name: str
    #: Half a sentence that says what it does.
    summary: str
    #: Finds the schedule.
    find: Callable[[Request], Found]
    #: Offers that the costs must have.
    needs: frozenset[Offer] = frozenset()
    #: The strategies that it may give a stage, if it searches over stages.
    strategies: frozenset[Strategy] = frozenset()
    #: Whether it finds schedules within ``limits.memory_budget``.
    keeps_memory_budget: bool = False
    #: Returns all trades of latency for memory, the fastest first; None if they are found by
    #: searching with smaller and smaller budgets.
    front: Callable[[Request], tuple[FrontPoint, ...]] | None = None
    #: Whether ``optimize`` tries it by default.
    tried: bool = True
    #: Returns whether ``optimize`` tries it for a graph of units; None for every graph.
    tried_for: Callable[[OpGraph], bool] | None = None
