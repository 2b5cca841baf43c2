"""Which units of a schedule a unit of its program computes, by name."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy


def computed_units(schedule: Schedule, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """For each name that a unit of a program may have, the units of the schedule that it computes.

    Units of a merged stage are one operator, and on GPUs those of a co-scheduled stage one kernel;
    both are called by the names of all, and so are chains.

    Parameters
    ----------
    schedule
        Whose units they are.
    names
        Of each unit of the schedule.
    """
    computed: dict[str, tuple[int, ...]] = {name: (unit,) for unit, name in enumerate(names)}
    for stage in schedule.stages:
        if stage.strategy is not Strategy.CONCURRENT:
            computed["+".join(names[unit] for unit in stage.units)] = stage.units
    for chain in schedule.chains:
        computed["+".join(names[unit] for unit in chain)] = chain
    return computed
