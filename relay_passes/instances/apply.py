"""A schedule with instances, applied: the module in which each of them has units of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relay_passes.instances.merged_part import merged_units
from relay_passes.instances.unroll import unroll_instances
from relay_passes.prepare import Prepared, prepare_canonical
from tvm_ios.graphturbo.planned import planned_instances
from tvm_ios.graphturbo.unrolled_names import Origin, origin, unrolled_units
from tvm_ios.graphturbo.unrolled_stages import unrolled_schedule
from tvm_ios.schedule.schedule import Schedule


def unroll_schedule(prepared: Prepared, schedule: Schedule) -> tuple[Prepared, Schedule]:
    """The unrolled module, and the schedule of its units.

    Parameters
    ----------
    prepared
        The module that the schedule is of.
    schedule
        Valid there, with instances.

    Raises
    ------
    ScheduleError
        If instances run in an order that their data forbids, or are no equal parts, or units
        are to be merged that cannot be.
    DialectError
        If an operator has extents written down that no part of it has.
    """
    extraction = prepared.outliner.extraction
    planned = planned_instances(extraction.graph, prepared.units, schedule)
    merged = [merged_units(prepared.outliner, units) for units in planned.merged(schedule)]
    instances, order = planned.instances, planned.order
    module = unroll_instances(prepared, instances, order, merged)
    unrolled = prepare_canonical(module, extraction.graph.name, unrolled_units)
    extraction = unrolled.outliner.extraction
    unrolled = replace(unrolled, outliner=prepared.outliner.of(extraction, unrolled.units))
    operators = extraction.graph.operators
    origins = [
        _origin([origin(operators[member].name) for member in unit.members])
        for unit in unrolled.units.operators
    ]
    return unrolled, unrolled_schedule(schedule, planned, unrolled.units, origins)


def _origin(members: Sequence[Origin]) -> Origin:
    """Of a unit that may hold a slice of what it reads."""
    return next((member for member in members if member.unit is not None), members[0])
