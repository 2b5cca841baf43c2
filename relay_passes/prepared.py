"""A module ready for a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm

from relay_passes.dialect import Dialect
from tvm_ios.graph.op_graph import OpGraph


@dataclass(frozen=True)
class Prepared:
    """A module ready for a schedule.

    Attributes
    ----------
    dialect
        Of its functions.
    module
        Canonical: inference only, constants folded.
    units
        The graph of units.
    outliner
        Makes the units' functions.
    """

    dialect: Dialect
    module: tvm.IRModule
    units: OpGraph
    outliner: Any
