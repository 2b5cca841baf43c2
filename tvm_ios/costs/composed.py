"""Optimistic stage latencies, composed from those of units measured alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from tvm_ios.errors import UserError
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.program.lanes import team_sizes
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy


class CostError(UserError):
    """Raised when a cost cannot be computed, with one sentence that says what is missing."""


class ComposedCost:
    """A lower bound of the seconds of stages on a CPU, as if groups did not disturb each other.

    One group runs on all lanes, each unit on as many of them as are fastest. Up to as many groups
    as lanes run on disjoint teams: the fastest division of the lanes counts. More groups take one
    lane each: all their work divided evenly, but at least the longest group. Merged units take at
    least as long as the slowest of them. Co-scheduled units take at least their critical path, each
    on as many lanes as are fastest, and all their work on one lane divided evenly; in both with the
    rKernels that are best for it. Streams take at least as much, with the kernels that their units
    have in other stages. This is a lower bound as long as units take no less time in company than
    alone.

    ``latencies`` holds for each unit key the seconds alone on 1, 2, ... lanes. ``rkernels`` returns
    the rKernels of a unit in a co-scheduled stage, besides its usual kernels. Where co-scheduled
    units are not placed on lanes but on vEUs of one kernel, ``placed`` returns for a unit the
    seconds that its work takes on all of them, and those that it takes alone. Stages that
    ``can_co_schedule`` rejects take infinitely long. Raise CostError if a unit's latencies do not
    cover all lanes.
    """

    name = "composed"

    def __init__(
        self,
        latencies: Mapping[str, Sequence[float]],
        unit_key: Callable[[OpGraph, int], str],
        lanes: int,
        rkernels: Callable[[int], tuple[RKernel, ...]] = lambda _: (),
        placed: Callable[[int], tuple[float, float]] | None = None,
        can_co_schedule: Callable[[tuple[int, ...]], bool] = lambda _: True,
    ) -> None:
        for key, seconds in latencies.items():
            if len(seconds) < lanes:
                raise CostError(f"unit {key!r} was measured on {len(seconds)} of {lanes} lanes")
        self._latencies = latencies
        self._unit_key = unit_key
        self._lanes = lanes
        self._rkernels = rkernels
        self._placed = placed or self._on_lanes
        self._can_co_schedule = can_co_schedule
        self._graph: OpGraph | None = None
        self._units: dict[int, tuple[float, ...]] = {}
        self._groups: dict[tuple[int, ...], tuple[float, ...]] = {}
        self._least: dict[int, tuple[float, float]] = {}

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Return the seconds of a stage. Raise CostError if a unit was not measured alone."""
        self._look_at(graph)
        if stage.strategy is Strategy.MERGE:
            # The merged operator does the work of each unit.
            return max(self._unit(graph, unit)[-1] for unit in stage.units)
        if stage.strategy is Strategy.CO_SCHEDULE:
            return self._co_scheduled(graph, stage.units)
        if stage.strategy is Strategy.STREAMS:
            return self._on_streams(graph, stage)
        return self._concurrent(graph, stage.groups)

    def group_latencies(self, graph: OpGraph, group: tuple[int, ...]) -> tuple[float, ...]:
        """Return the seconds of a group alone on at most 1, 2, ... lanes.

        Raise CostError if a unit was not measured alone.
        """
        self._look_at(graph)
        if group not in self._groups:
            units = [self._unit(graph, unit) for unit in group]
            self._groups[group] = tuple(sum(on) for on in zip(*units, strict=True))
        return self._groups[group]

    def _look_at(self, graph: OpGraph) -> None:
        if graph is not self._graph:
            self._graph, self._units, self._groups, self._least = graph, {}, {}, {}

    def _concurrent(self, graph: OpGraph, groups: tuple[tuple[int, ...], ...]) -> float:
        if len(groups) == 1:
            return self.group_latencies(graph, groups[0])[-1]
        seconds = [self.group_latencies(graph, group) for group in groups]
        if len(groups) > self._lanes:
            alone = [on[0] for on in seconds]
            return max(sum(alone) / self._lanes, max(alone))
        teams = team_sizes(seconds, self._lanes)
        return max(on[size - 1] for on, size in zip(seconds, teams, strict=True))

    def _co_scheduled(self, graph: OpGraph, units: tuple[int, ...]) -> float:
        if not self._can_co_schedule(units):
            return math.inf
        work = 0.0
        ends: dict[int, float] = {}
        for unit in units:
            if unit not in self._least:
                self._least[unit] = self._placed(unit)
            share, alone = self._least[unit]
            work += share
            before = (ends[p] for p in bits(graph.predecessors[unit]) if p in ends)
            ends[unit] = max(before, default=0.0) + alone
        return max(work, *ends.values())

    def _on_streams(self, graph: OpGraph, stage: Stage) -> float:
        """Return the greater of a stage's evenly divided work and its longest path, in seconds."""
        ends: dict[int, float] = {}
        for unit in stage.units:
            before = (ends[p] for p in bits(graph.predecessors[unit]) if p in ends)
            ends[unit] = max(before, default=0.0) + self._unit(graph, unit)[-1]
        # A unit may take less than half as long on two lanes, where each finds its part in a cache.
        work = sum(
            min(lanes * seconds for lanes, seconds in enumerate(self._unit(graph, unit), 1))
            for unit in stage.units
        )
        return max(work / self._lanes, *ends.values())

    def _on_lanes(self, unit: int) -> tuple[float, float]:
        """Return the seconds that a unit's work takes on all lanes, and those of the unit alone."""
        assert self._graph is not None
        seconds, kernels = self._unit(self._graph, unit), self._rkernels(unit)
        return (
            min([seconds[0], *(kernel.work for kernel in kernels)]) / self._lanes,
            min([seconds[-1], *(kernel.seconds for kernel in kernels)]),
        )

    def _unit(self, graph: OpGraph, unit: int) -> tuple[float, ...]:
        """Return the seconds of a unit alone on at most 1, 2, ... lanes."""
        if unit not in self._units:
            key = self._unit_key(graph, unit)
            if key not in self._latencies:
                raise CostError(
                    f"unit {graph.operators[unit].name!r} was not measured alone: "
                    "measure every unit before composing stages"
                )
            # A unit uses fewer lanes where more of them are slower.
            self._units[unit] = tuple(accumulate(self._latencies[key][: self._lanes], min))
        return self._units[unit]
