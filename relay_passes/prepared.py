"""The data between the phases: a module with its operators, its units and its schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tvm

from relay_passes.dialect import Dialect
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.schedule import Schedule


class Extracted(NamedTuple):
    """A canonical module and the operators that were read of it."""

    #: The dialect of its functions.
    dialect: Dialect
    #: The canonical module.
    module: tvm.IRModule
    #: The graph of operators (``.graph``), with the expressions that they were read from.
    extraction: Any

    def to_json(self) -> dict[str, Any]:
        """Return the graph of operators as JSON data."""
        return self.extraction.graph.to_json()


@dataclass(frozen=True)
class Prepared:
    """A module ready for a schedule."""

    #: The dialect of its functions.
    dialect: Dialect
    #: The canonical module: inference only, constants folded.
    module: tvm.IRModule
    #: The graph of units.
    units: OpGraph
    #: Builds the units' functions.
    outliner: Any

    def to_json(self) -> dict[str, Any]:
        """Return the graph of units as JSON data."""
        return self.units.to_json()


class Planned(NamedTuple):
    """A module and a schedule of its units."""

    #: The module, whose outliner writes units for the target.
    prepared: Prepared
    #: The schedule, which may have instances.
    schedule: Schedule

    def to_json(self) -> dict[str, Any]:
        """Return the schedule as JSON data; raise ScheduleError if it is of another module."""
        self.schedule.validate(self.prepared.units)
        return self.schedule.to_json(self.prepared.units)


class Applied(NamedTuple):
    """A module and the schedule of the units that run."""

    #: The module, in which every instance has its own units.
    prepared: Prepared
    #: The schedule of its units, without instances.
    schedule: Schedule
    #: The same as JSON data, for executables and scheduled modules. Where there were instances it
    #: has the original schedule as ``unrolled_from`` and the origin of each unit as ``origins``.
    attached: dict[str, Any]
