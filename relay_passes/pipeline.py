"""The phases from a module to its scheduled form, as one list in the order in which they run.

:attr:`Pipeline.phases` is that list. A model is imported before it
(:func:`relay_passes.load.load_model`), and a program is built after it: by
:func:`runtime_ext.build.build` from the scheduled module, which can be saved and changed by other
passes; in one process by ``build`` of :class:`relay_passes.measured_module.TargetUnits`, from what
:func:`applied` returns, so that nothing is written into the IR between searching and building.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tvm

from relay_passes.checks import require_same_interface
from relay_passes.dialect import dialect_of
from relay_passes.instances.apply import apply_instances
from relay_passes.ir_dump import IMPORTED, write_ir
from relay_passes.node_names import with_node_names
from relay_passes.prepared import Applied, Extracted, Planned, Prepared
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
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.schedule import ORIGINS, UNROLLED_FROM, Schedule

CANONICAL, UNITS, PLANNED, SCHEDULED = "02_canonical", "04_units", "05_schedule", "07_scheduled"


class Phase(NamedTuple):
    """A phase of the pipeline."""

    #: The name of its result, and of the file to which this is dumped.
    name: str
    #: Makes its result from that of the phase before it: a pass of TVM or a function.
    step: Callable[[Any], Any]
    #: Returns the module or the JSON data that is dumped of the result.
    shown: Callable[[Any], tvm.IRModule | Mapping[str, Any]] = lambda module: module


def _in_sequence(prepared: Prepared) -> Planned:
    """Return the plan that runs one unit after another."""
    return Planned(prepared, sequential_schedule(prepared.units))


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The phases from a module to its scheduled form."""

    #: The name of the model.
    name: str = "model"
    #: The rule that groups operators into units, instead of the default one.
    rule: UnitRule | None = None
    #: Finds a schedule, and returns it with the module fitted to the target.
    plan: Callable[[Prepared], Planned] = _in_sequence
    #: The folder into which the results of the phases are written; None for nothing.
    dump_ir: Path | None = None

    @property
    def phases(self) -> list[Phase]:
        """The phases in order."""
        return [
            Phase(IMPORTED, lambda module: module),
            # Inference only, constants folded.
            Phase(CANONICAL, canonicalise),
            # The graph of operators, with the nodes' names.
            Phase("03_operators", partial(extract, name=self.name), Extracted.to_json),
            # The graph of units: operators that run together.
            Phase(UNITS, partial(with_units, rule=self.rule), Prepared.to_json),
            # Fit the units to a target; search a schedule, or take the one that is given.
            Phase(PLANNED, self.plan, Planned.to_json),
            # Instances with units of their own.
            Phase("06_instances", lambda plan: applied(*plan), lambda made: made.prepared.module),
            # Units outlined, merged operators in the IR, the schedule attached.
            Phase(SCHEDULED, outlined),
        ]

    def run(self, value: Any, first: str = IMPORTED, last: str = SCHEDULED) -> Any:
        """Run the phases after ``first``, whose result is given, and return that of ``last``.

        Raise UserError if the module cannot be scheduled; one sentence says why.
        """
        phases = self.phases
        names = [phase.name for phase in phases]
        begin, end = names.index(first), names.index(last)
        self._dump(phases[begin], value)
        for phase in phases[begin + 1 : end + 1]:
            value = phase.step(value)
            self._dump(phase, value)
        return value

    def _dump(self, phase: Phase, result: Any) -> None:
        if self.dump_ir is not None:
            write_ir(self.dump_ir, phase.name, phase.shown(result))


def prepare(
    module: tvm.IRModule,
    name: str = "model",
    rule: UnitRule | None = None,
    dump_ir: Path | None = None,
) -> Prepared:
    """Canonicalise a module and form its units; write the phases' results into a folder, if given.

    Raises
    ------
    DialectError
        If the module cannot be scheduled; one sentence says why.
    GraphError
        If the result of a custom unit rule is not a valid partition.
    """
    return Pipeline(name=name, rule=rule, dump_ir=dump_ir).run(module, last=UNITS)


def prepare_canonical(
    module: tvm.IRModule, name: str = "model", dump_ir: Path | None = None
) -> Prepared:
    """Form the units of a module that is canonical already; parameters as in :func:`prepare`."""
    return Pipeline(name=name, dump_ir=dump_ir).run(module, CANONICAL, UNITS)


def apply_schedule(
    prepared: Prepared, schedule: Schedule, dump_ir: Path | None = None
) -> tvm.IRModule:
    """Return the scheduled module: units outlined, merged operators in the IR, schedule attached.

    Each instance has its own units. Parts of the schedule that the dialect does not support
    (:func:`relay_passes.checks.left_out_of`) are dropped. The schedule and the phases' results are
    written into the folder ``dump_ir``, if there is one.

    Raises
    ------
    ScheduleError
        If the schedule is not one of this module.
    DialectError
        If ``main`` would take or return other shapes or types than before.
    """
    return Pipeline(dump_ir=dump_ir).run(Planned(prepared, schedule), PLANNED)


def canonicalise(module: tvm.IRModule) -> tvm.IRModule:
    """Bring ``main`` into the form that ``extract`` reads."""
    return dialect_of(module).canonicalise(module)


def extract(module: tvm.IRModule, name: str) -> Extracted:
    """Read the graph of operators of a canonical module."""
    dialect = dialect_of(module)
    extraction = dialect.extract(module, name)
    graph = with_node_names(extraction.graph, module)
    return Extracted(dialect, module, replace(extraction, graph=graph))


def with_units(extracted: Extracted, rule: UnitRule | None) -> Prepared:
    """Form the units of a graph of operators."""
    dialect, module, extraction = extracted
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
    require_same_interface(prepared.dialect, prepared.module, unrolled.prepared.module)
    attached = unrolled.schedule.to_json(unrolled.prepared.units)
    attached |= {UNROLLED_FROM: schedule.to_json(prepared.units), ORIGINS: unrolled.origins}
    return Applied(unrolled.prepared, unrolled.schedule, attached)


def outlined(applied: Applied) -> tvm.IRModule:
    """Write the units as functions that ``main`` calls in schedule order; attach the schedule."""
    dialect, (prepared, schedule, attached) = applied.prepared.dialect, applied
    scheduled = dialect.outline(prepared.module, prepared.outliner, schedule)
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
