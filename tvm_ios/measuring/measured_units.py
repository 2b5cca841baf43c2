"""The units that are measured, with their compiler, device and log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm_ios.costs.log import MeasurementLog
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.device import Device, Kernels
from tvm_ios.program.program import Part

#: Returns the compiler's source of one unit, or of several merged ones.
Source = Callable[[tuple[int, ...]], Any]


@dataclass(frozen=True)
class MeasuredUnits:
    """The units of a graph, with the compiler, device and log that measure them.

    ``source`` returns, for a unit or several merged ones, the source that ``kernels`` compiles.
    ``parts`` says which tensors lie in others, as the sources have it. Equal stages of any model
    are measured once in a run.
    """

    graph: OpGraph
    source: Source
    kernels: Kernels
    device: Device
    log: MeasurementLog
    parts: Mapping[int, Part]
