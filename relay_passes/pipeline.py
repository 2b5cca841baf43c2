"""The phases from a module to its scheduled form and its program, in the order in which they run.

==================  ========================================  ====================================
Phase               Here                                      What does it
==================  ========================================  ====================================
import              :func:`relay_passes.load.load_model`      ``importer`` of a dialect
canonicalise        :func:`prepare`                           ``canonical`` of a dialect
extract             :func:`prepare_canonical`                 ``extract`` of a dialect, node names
form units          :func:`prepare_canonical`                 :mod:`tvm_ios.graph.units`
fit to a target     :func:`for_target`                        ``layouts`` of Relay
search              :mod:`relay_passes.ios_schedule`          :mod:`tvm_ios.search`
unroll instances    :func:`applied`                           :mod:`relay_passes.instances`
merge and outline   :func:`apply_schedule`                    ``merge``, ``outline`` of a dialect
build               ``build`` of ``target_units``             :mod:`runtime_ext.unit_build`
==================  ========================================  ====================================

In one process nothing is written into the IR between searching and building: what :func:`applied`
returns is built as it is. A module that :func:`apply_schedule` wrote can be saved, changed by other
passes and built by :func:`runtime_ext.build.build`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tvm

from relay_passes.checks import require_same_interface
from relay_passes.dialect import dialect_of
from relay_passes.instances.apply import apply_instances
from relay_passes.node_names import with_node_names
from relay_passes.prepared import Applied, Prepared
from relay_passes.search_options import SearchOptions
from runtime_ext.ir_form import (
    SCHEDULE,
    SCHEDULE_DATA,
    ModuleError,
    attached_schedule,
    schedule_line,
)
from tvm_ios.graph.unit_rule import default_rule
from tvm_ios.graph.units import UnitRule, form_units
from tvm_ios.schedule.schedule import ORIGINS, UNROLLED_FROM, Schedule


def prepare(module: tvm.IRModule, name: str = "model", rule: UnitRule | None = None) -> Prepared:
    """Canonicalise a module and form its units.

    Raises
    ------
    DialectError
        If the module cannot be scheduled; one sentence says why.
    GraphError
        If the result of a custom unit rule is not a valid partition.
    """
    return prepare_canonical(dialect_of(module).canonicalise(module), name, rule)


def prepare_canonical(
    module: tvm.IRModule, name: str = "model", rule: UnitRule | None = None
) -> Prepared:
    """Form the units of a module that is canonical already; parameters as in :func:`prepare`."""
    dialect = dialect_of(module)
    extraction = dialect.extract(module, name)
    extraction = replace(extraction, graph=with_node_names(extraction.graph, module))
    units = form_units(extraction.graph, rule or default_rule)
    return Prepared(dialect, module, units, dialect.outliner(extraction, units))


def for_target(prepared: Prepared, options: SearchOptions) -> Prepared:
    """Return the prepared module with an outliner that writes units for the options' target.

    Raise UserError if the options name a tuning log that cannot be used.
    """
    outliner = prepared.dialect.for_target(prepared.outliner, options)
    return replace(prepared, outliner=outliner)


def applied(prepared: Prepared, schedule: Schedule) -> Applied:
    """Return the schedule reduced to what the dialect runs, with its instances unrolled to units.

    Raise ScheduleError if the schedule is not one of this module, and DialectError if an operator
    states extents that no instance has.
    """
    schedule.validate(prepared.units)
    if not prepared.dialect.places_tiles:
        schedule = schedule.of_stages_alone
    if schedule.instances is None:
        return Applied(prepared, schedule, schedule.to_json(prepared.units))
    unrolled = apply_instances(prepared, schedule)
    attached = unrolled.schedule.to_json(unrolled.prepared.units)
    attached |= {UNROLLED_FROM: schedule.to_json(prepared.units), ORIGINS: unrolled.origins}
    return Applied(unrolled.prepared, unrolled.schedule, attached)


def apply_schedule(prepared: Prepared, schedule: Schedule) -> tvm.IRModule:
    """Return the scheduled module: units outlined, merged operators in the IR, schedule attached.

    Each instance has its own units. Parts of the schedule that the dialect does not support
    (:func:`relay_passes.checks.left_out_of`) are dropped.

    Raises
    ------
    ScheduleError
        If the schedule is not one of this module.
    DialectError
        If ``main`` would take or return other shapes or types than before.
    """
    dialect, (unrolled, unrolled_schedule, attached) = prepared.dialect, applied(prepared, schedule)
    scheduled = dialect.outline(unrolled.module, unrolled.outliner, unrolled_schedule)
    require_same_interface(dialect, prepared.module, scheduled)
    return with_schedule(scheduled, attached)


def with_schedule(module: tvm.IRModule, attached: Mapping[str, Any]) -> tvm.IRModule:
    """Attach a schedule, given as JSON data, to a module."""
    dialect = dialect_of(module)
    line = dialect.attribute(schedule_line(attached))
    data = dialect.unprinted(json.dumps(attached))
    return module.with_attrs({SCHEDULE: line, SCHEDULE_DATA: data})


def in_scheduled_form(module: tvm.IRModule) -> bool:
    """Return whether ``main`` follows the attached schedule, so that it can be built as it is."""
    try:
        dialect_of(module).stages_of(module)
    except ModuleError:
        return False
    return True


def schedule_of(module: tvm.IRModule) -> Schedule | None:
    """Return the schedule that a module carries, or None.

    Raises
    ------
    UserError
        If it is damaged.
    """
    attached = attached_schedule(module)
    return None if attached is None else Schedule.from_json(attached)
