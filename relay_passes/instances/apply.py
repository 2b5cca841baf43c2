"""Apply a schedule with instances: unroll the module so that each instance has its own units."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from relay_passes.instances.merged_part import merged_units
from relay_passes.instances.unroll import unroll_instances
from relay_passes.node_names import renamed
from relay_passes.prepared import Prepared
from tvm_ios.graph.units import form_units
from tvm_ios.graphturbo.origins import Origin, origin_of_unit, unrolled_units
from tvm_ios.graphturbo.planned import planned_instances
from tvm_ios.graphturbo.unrolled_stages import unrolled_schedule
from tvm_ios.schedule.schedule import Schedule


class Unrolled(NamedTuple):
    """A module whose instances have their own units, the units' schedule, and their origins."""

    prepared: Prepared
    schedule: Schedule
    origins: tuple[Origin, ...]


def apply_instances(prepared: Prepared, schedule: Schedule) -> Unrolled:
    """Return the unrolled module and the schedule of its units.

    Raise ScheduleError if the order of instances violates their data dependences, instances are not
    equal parts, or units cannot be merged; raise DialectError if an operator fixes extents that no
    part has.
    """
    graph = prepared.outliner.extraction.graph
    planned = planned_instances(graph, prepared.units, schedule)
    merged = [merged_units(prepared.outliner, units) for units in planned.merged(schedule)]
    module, origins_of = unroll_instances(prepared, planned.instances, planned.order, merged)
    extraction = prepared.dialect.extract(module, graph.name)
    origins = origins_of(extraction)
    names = [origin.name(number, prepared.units) for number, origin in enumerate(origins)]
    extraction = replace(extraction, graph=renamed(extraction.graph, names))
    units = form_units(extraction.graph, partial(unrolled_units, origins=origins))
    outliner = prepared.outliner.of(extraction, units)
    of_units = tuple(
        origin_of_unit([origins[member] for member in unit.members]) for unit in units.operators
    )
    return Unrolled(
        Prepared(prepared.dialect, module, units, outliner),
        unrolled_schedule(schedule, planned, units, of_units),
        of_units,
    )
