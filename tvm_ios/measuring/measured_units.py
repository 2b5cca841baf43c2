"""What is measured, and with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm_ios.costs.log import MeasurementLog
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.device import Device, Kernels
from tvm_ios.program.program import Part

#: Gives what the kernels' maker takes for one unit, or for several merged ones.
Source = Callable[[tuple[int, ...]], Any]


@dataclass(frozen=True)
class MeasuredUnits:
    """The units of a graph, what makes their code, and where this is timed.

    Attributes
    ----------
    graph
        The graph of units.
    source
        What ``kernels`` takes for units and merged units.
    kernels
        Makes their code.
    device
        Where it is timed.
    log
        Where samples are kept; a run measures equal stages of any model once.
    parts
        Tensors that lie in others, as the sources have it.
    """

    graph: OpGraph
    source: Source
    kernels: Kernels
    device: Device
    log: MeasurementLog
    parts: Mapping[int, Part]
