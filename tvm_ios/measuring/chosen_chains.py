"""Choose the chains of a schedule: units whose joint code is measured to be faster."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from tvm_ios.costs.stage_key import stage_key
from tvm_ios.measuring.chosen_forms import ChosenForms
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.measurer import Measurement, Measurer, Samples
from tvm_ios.program.lower import UnitLatency, group_teams, lower_stages
from tvm_ios.program.program import Program
from tvm_ios.schedule.chained_schedule import best_disjoint, possible_chains, with_chains
from tvm_ios.schedule.chains import Chain
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

_LOGGER = logging.getLogger(__name__)

#: A chain, and the number of lanes that it runs on.
_Placed = tuple[Chain, int]


class ChosenChains:
    """Chooses the chains of schedules of one graph, by measuring each chain once.

    ``timing`` turns a program into a function that times it on the device.
    """

    def __init__(
        self,
        units: MeasuredUnits,
        forms: ChosenForms,
        measurer: Measurer,
        timing: Callable[[Program], Callable[[], Samples]],
    ) -> None:
        self._units, self._forms, self._measurer = units, forms, measurer
        self._timing = timing
        self._kernels: dict[Chain, int] = {}
        self._gain: dict[_Placed, float] = {}

    def chained(self, schedule: Schedule, unit_latency: UnitLatency | None) -> Schedule:
        """Return the schedule with those chains that save time on their lanes.

        ``schedule`` has no chains. Groups share the lanes by ``unit_latency``.
        """
        if schedule.instances is not None:
            return schedule
        graph, lanes = self._units.graph, self._units.device.lanes
        placed: dict[Chain, int] = {}
        for number, chain in possible_chains(graph, schedule.stages, self.kernels):
            if not {*chain} & schedule.kernels.keys():
                stage = schedule.stages[number]
                teams = group_teams(graph, stage, len(stage.groups), lanes, unit_latency)
                (team,) = (
                    t for t, group in zip(teams, stage.groups, strict=True) if chain[-1] in group
                )
                placed[chain] = len(team)
        self._measure(list(placed.items()))
        gains = {chain: self._gain[chain, width] for chain, width in placed.items()}
        chains = best_disjoint({chain: gain for chain, gain in gains.items() if gain > 0})
        return with_chains(schedule, chains, sum(gains[chain] for chain in chains))

    def kernels(self, chain: Chain) -> int:
        """Return the number of kernels of a chain; 0 if no kernel computes several of its units."""
        if chain not in self._kernels:
            source = self._units.source(chain)
            self._kernels[chain] = self._units.kernels.chain_kernels(source)
        return self._kernels[chain]

    def _measure(self, placed: list[_Placed]) -> None:
        """Time units apart and as a chain, and keep the gain of each chain."""
        missing = [each for each in placed if each not in self._gain]
        self._forms.require(
            piece for chain, _ in missing for piece in (chain, *((unit,) for unit in chain))
        )
        outcomes = self._measurer.outcomes(
            self._measurement(chain, lanes, joined)
            for chain, lanes in missing
            for joined in (False, True)
        )
        for chain, lanes in missing:
            (apart,), (joined,) = next(outcomes).required(), next(outcomes).required()
            # No margin: at equal time a chain still takes less memory.
            self._gain[chain, lanes] = apart - joined
            names = " and ".join(self._units.graph.operators[unit].name for unit in chain)
            _LOGGER.debug(
                "units %s on %d lanes: %.4f ms, as a chain %.4f ms",
                names,
                lanes,
                apart * 1e3,
                joined * 1e3,
            )

    def _measurement(self, chain: Chain, lanes: int, joined: bool) -> Measurement:
        graph, stage = self._units.graph, Stage(Strategy.CONCURRENT, (chain,))
        conditions = f"{lanes} lanes, warm"
        if joined:
            conditions += f", chain {self._forms(chain).key}"
        key = stage_key(graph, stage, lambda _, unit: self._forms((unit,)).key, conditions)
        names = ",".join(graph.operators[unit].name for unit in chain)
        label = f"{'chain' if joined else stage.strategy.value} {names}"
        return Measurement({key: label}, partial(self._prepared, stage, lanes, joined))

    def _prepared(self, stage: Stage, lanes: int, joined: bool) -> Callable[[], Samples]:
        code = {unit: self._forms((unit,)).code for unit in stage.units}
        chain = {stage: self._forms(stage.units).code} if joined else {}
        program = lower_stages(
            self._units.graph, (stage,), code, chain, lanes=lanes, parts=self._units.parts
        )
        return self._timing(program)
