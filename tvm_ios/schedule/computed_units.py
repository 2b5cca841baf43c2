"""Map the names of a program's units to the units of its schedule."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy


def computed_units(schedule: Schedule, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return for each possible name of a program's unit the units of the schedule it computes.

    ``names`` are those of the schedule's units. The units of a merged stage are one operator, those
    of a co-scheduled stage one kernel on GPUs; both, and chains, are called by their units' names
    joined by ``+``.
    """
    computed: dict[str, tuple[int, ...]] = {name: (unit,) for unit, name in enumerate(names)}
    for stage in schedule.stages:
        if stage.strategy is not Strategy.CONCURRENT:
            computed["+".join(names[unit] for unit in stage.units)] = stage.units
    for chain in schedule.chains:
        computed["+".join(names[unit] for unit in chain)] = chain
    return computed
