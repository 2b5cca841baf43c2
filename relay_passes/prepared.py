"""A module ready for a schedule, and a module together with the schedule that runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tvm

from relay_passes.dialect import Dialect
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.schedule import Schedule


@dataclass(frozen=True)
class Prepared:
    """A module ready for a schedule.

    Attributes
    ----------
    dialect
        The dialect of its functions.
    module
        The canonical module: inference only, constants folded.
    units
        The graph of units.
    outliner
        Builds the units' functions.
    """

    dialect: Dialect
    module: tvm.IRModule
    units: OpGraph
    outliner: Any


class Applied(NamedTuple):
    """A module and the schedule of the units that run.

    Attributes
    ----------
    prepared
        The module, in which every instance has its own units.
    schedule
        The schedule of its units, without instances.
    attached
        The same as JSON data, for executables and scheduled modules. Where there were instances
        it has the original schedule as ``unrolled_from`` and the origin of each unit as
        ``origins``.
    """

    prepared: Prepared
    schedule: Schedule
    attached: dict[str, Any]
