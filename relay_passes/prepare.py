"""From a TVM module to its graph of units, and back with a schedule."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

import tvm

from relay_passes.dialect import Dialect, DialectError, dialect_of
from relay_passes.instances.apply import apply_instances
from relay_passes.node_names import with_node_names
from relay_passes.prepared import Prepared
from relay_passes.search_options import SearchOptions
from runtime_ext.ir_form import OUTPUT_NAMES, SCHEDULE
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
        If a unit rule of the user's is none.
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
    """The same, but schedules are applied to it as the kernels of a target want it.

    Raises
    ------
    UserError
        If the options name a tuning log that cannot be used.
    """
    made = prepared.dialect.for_target(prepared.outliner, options)
    return replace(prepared, outliner=made)


def require_computed_outputs(prepared: Prepared) -> None:
    """Refuse a module of which TVM alone can make a program.

    Raises
    ------
    DialectError
        If an output is a constant, nothing is computed, or values are of a type that NumPy lacks.
    """
    module, graph = prepared.module, prepared.outliner.extraction.graph
    for tensor in graph.tensors:
        if tensor.dtype == "bfloat16":
            raise DialectError(
                f"value {tensor.name!r} of {graph.name} is of type bfloat16, which TVM alone can "
                "run: export the model in float32 or float16"
            )
    names = json.loads(str(module.attrs[OUTPUT_NAMES])) if _has(module, OUTPUT_NAMES) else []
    for place, tensor in enumerate(graph.outputs):
        if graph.tensors[tensor].constant:
            name = names[place] if place < len(names) else f"output{place}"
            raise DialectError(
                f"output {name!r} of {graph.name} is a constant, the same for every input: "
                "remove it from the model's outputs"
            )
    if not graph.operators:
        raise DialectError(f"{graph.name} computes nothing: its outputs are its inputs")


def _has(module: tvm.IRModule, attribute: str) -> bool:
    return bool(module.attrs) and attribute in module.attrs


class Applied(NamedTuple):
    """A schedule of the units that run.

    Attributes
    ----------
    prepared
        The module in which every instance has units of its own.
    schedule
        Of its units, without instances.
    attached
        That as plain data, for executables and scheduled modules; of instances with the schedule
        that was given as ``unrolled_from``, and with where each unit comes from as ``origins``.
    """

    prepared: Prepared
    schedule: Schedule
    attached: dict[str, Any]


def applied(prepared: Prepared, schedule: Schedule) -> Applied:
    """A schedule without instances, which are units now, nor what the dialect cannot do.

    Raises
    ------
    ScheduleError
        If the schedule is not one of this module.
    DialectError
        If an operator has extents written down that no instance has.
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
    """The scheduled module: units outlined, merged operators in the IR, the schedule attached.

    With instances each of these has units of its own (:class:`Applied`). What a dialect cannot do
    (:func:`left_out_of`) is not in it.

    Raises
    ------
    ScheduleError
        If the schedule is not one of this module.
    DialectError
        If ``main`` would take or return other shapes or types than before.
    """
    dialect, of = prepared.dialect, applied(prepared, schedule)
    scheduled = dialect.outline(of.prepared.module, of.prepared.outliner, of.schedule)
    _require_same_interface(dialect, prepared.module, scheduled)
    return scheduled.with_attr(SCHEDULE, dialect.attribute(json.dumps(of.attached)))


def _require_same_interface(dialect: Dialect, before: tvm.IRModule, after: tvm.IRModule) -> None:
    """Refuse a module whose ``main`` takes or returns something else than before."""
    for old, new in zip_longest(dialect.interface(before), dialect.interface(after)):
        if old != new:
            raise DialectError(
                f"scheduling would make {_described(old)} of main {_described(new)}: report this "
                "as a bug, with the module"
            )


def _described(entry: tuple[str, tuple[int, ...], str] | None) -> str:
    if entry is None:
        return "nothing"
    name, shape, dtype = entry
    return f"{name} of shape {list(shape)} and type {dtype}"


def left_out_of(schedule: Schedule, dialect: Dialect) -> str | None:
    """What a schedule chooses that a dialect's programs have no choice of; None if that is nothing.

    One sentence for people.
    """
    if dialect.places_tiles or schedule.of_stages_alone == schedule:
        return None
    return (
        f"of the schedule {schedule.policy!r} the stages and groups apply, but the kernels that it "
        f"names of {len(schedule.kernels)} units and the places of tiles in "
        f"{len(schedule.placements)} stages are for Relax"
    )


def schedule_of(module: tvm.IRModule) -> Schedule | None:
    """The schedule that a module carries, if any."""
    if not _has(module, SCHEDULE):
        return None
    return Schedule.from_json(json.loads(str(module.attrs[SCHEDULE])))
