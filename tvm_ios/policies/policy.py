"""What a policy is, what it is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from tvm_ios.costs.costs import Costs, Offer
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


@dataclass(frozen=True)
class Problem:
    """What is to be scheduled.

    Attributes
    ----------
    units
        The graph of units.
    blocks
        Bit sets of units, in the order of execution.
    operators
        The graph that the units are made of, where it is known.
    mergeable
        Tells which units can become one operator.
    max_block
        The most units of a block, if the blocks were cut for it.
    """

    units: OpGraph
    blocks: tuple[int, ...]
    operators: OpGraph | None = None
    mergeable: Mergeable = any_mergeable
    max_block: int | None = None

    @staticmethod
    def of(units: OpGraph, max_block: int, operators: OpGraph | None = None) -> Problem:
        """Cut a graph into blocks of so many units at most."""
        return Problem(units, cut_blocks(units, max_block), operators, max_block=max_block)

    @cached_property
    def wide_blocks(self) -> tuple[int, ...]:
        """The blocks for a search that takes equal branches for one: it need not cut as many."""
        if self.max_block is None:
            return self.blocks
        return cut_blocks(self.units, self.max_block, branches_as_one=True)

    def schedule(self, stages: tuple[Stage, ...]) -> Schedule:
        """Stages as a schedule of the units; who searches notes the policy and the device."""
        return Schedule(self.units.fingerprint, stages, policy="", batch=self.units.batch)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far to search.

    Attributes
    ----------
    pruning
        The most units of a group, and groups of a stage other than greedy's.
    max_block
        The most units of a block.
    budget
        When measuring ends.
    memory_budget
        Bytes that the tensors between units may take at any time, as
        :mod:`tvm_ios.ios.stage_memory` counts them; None for no limit.
    reuse
        Whether equal blocks are searched once, and equal branches of a block as one where the costs
        allow it.
    """

    pruning: Pruning = field(default_factory=lambda: Pruning(3, 8))
    max_block: int = 40
    budget: Budget = field(default_factory=lambda: Budget(max_measurements=400))
    memory_budget: int | None = None
    reuse: bool = True


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes
    ----------
    schedule
        The best one.
    statistics
        What was counted; None where nothing was searched.
    left_out
        Why programs were not tried that cannot be built, a sentence each.
    tried
        The schedules of the programs that were compared.
    why_not
        Why it is not worth a program, in half a sentence; empty if it may be.
    """

    schedule: Schedule
    statistics: SearchStatistics | None = None
    left_out: tuple[str, ...] = ()
    tried: tuple[Schedule, ...] = ()
    why_not: str = ""


@dataclass(frozen=True)
class Request:
    """What a policy is asked.

    Attributes
    ----------
    policy
        The name of the policy.
    problem
        What to schedule.
    costs
        What is known of a device; all that the policy needs.
    limits
        How far to search.
    progress
        Called with (what, done, total).
    found
        What another policy finds for the same problem, searched once.
    known
        What another policy has found for it, or None; nothing is searched.
    """

    policy: str
    problem: Problem
    costs: Costs
    limits: Limits
    progress: Progress
    found: Callable[[str], Found]
    known: Callable[[str], Found | None]


@dataclass(frozen=True)
class Policy:
    """A way to schedule.

    Attributes
    ----------
    name
        How people ask for it.
    summary
        What it does, in half a sentence.
    find
        Makes the schedule.
    needs
        What the costs must offer.
    strategies
        What it may do with a stage, if it searches over stages.
    keeps_memory_budget
        Whether it finds schedules within ``limits.memory_budget``.
    front
        All trades of latency for memory, the fastest first; None if these are found by searching
        with smaller and smaller budgets.
    tried
        Whether ``optimize`` tries it without being told to.
    tried_for
        The graphs of units for which it does; None for all.
    """

    name: str
    summary: str
    find: Callable[[Request], Found]
    needs: frozenset[Offer] = frozenset()
    strategies: frozenset[Strategy] = frozenset()
    keeps_memory_budget: bool = False
    front: Callable[[Request], tuple[FrontPoint, ...]] | None = None
    tried: bool = True
    tried_for: Callable[[OpGraph], bool] | None = None
