"""Stage latencies from a device's figures alone: no hardware, no TVM, no kernels."""

from __future__ import annotations

import math

from tvm_ios.costs.merged_work import merged_work
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy


class AnalyticCost:
    """A simple device: work over peak, bytes over bandwidth, limited by how many tiles fill it.

    A unit whose tiles do not fill the processors uses only their share of the device. Side by
    side, groups use their shares at once, until these add up to the whole device; so a stage
    takes as long as its longest group, but at least as long as all its work on a full device.

    Parameters
    ----------
    device
        From :func:`tvm_ios.devices.device.load_device`.
    """

    def __init__(self, device: DeviceDescription) -> None:
        self.name = device.name
        self.device = device
        self._graph: OpGraph | None = None
        self._seconds: list[float] = []
        self._full: list[float] = []

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Seconds of a stage, barrier included; ``inf`` for what cannot be merged or is placed.

        A placement holds for the kernels of one machine only, so none is searched for with the
        figures of another: see :meth:`rkernels` for what they say of Rammer's policy.

        Parameters
        ----------
        graph
            The graph of units.
        stage
            Concurrent or merged.
        """
        if stage.strategy is Strategy.MERGE:
            return self._merged(graph, stage) + self.device.stage_overhead
        if stage.strategy is not Strategy.CONCURRENT:
            return math.inf
        if graph is not self._graph:
            self._remember(graph)
        seconds, full = self._seconds, self._full
        longest = together = 0.0
        for group in stage.groups:
            alone = 0.0
            for unit in group:
                alone += seconds[unit]
                together += full[unit]
            longest = max(longest, alone)
        return max(longest, together) + self.device.stage_overhead

    def unit_latency(self, graph: OpGraph, unit: int) -> float:
        """Seconds of a unit alone on the device, launch included."""
        if graph is not self._graph:
            self._remember(graph)
        return self._seconds[unit]

    def rkernels(self, graph: OpGraph, unit: int) -> tuple[RKernel, ...]:
        """The one way to compute a unit on the device: tiles on processors, a launch for all."""
        op = graph.operators[unit]
        tiles = self._tiles(sum(math.prod(graph.tensors[t].shape) for t in op.outputs))
        busy = self._busy(op.flops, graph.operator_bytes(unit))
        each = busy * self.device.processors / tiles
        return (RKernel("tiles", (tiles,), (each,), self.unit_latency(graph, unit)),)

    def _remember(self, graph: OpGraph) -> None:
        """Work out every unit once: a search asks for the same ones very often."""
        self._seconds, self._full = [], []
        for unit, op in enumerate(graph.operators):
            busy = self._busy(op.flops, graph.operator_bytes(unit))
            share = self._share(sum(math.prod(graph.tensors[t].shape) for t in op.outputs))
            self._seconds.append(busy / share + self.device.launch_overhead)
            self._full.append(busy)
        self._graph = graph

    def _merged(self, graph: OpGraph, stage: Stage) -> float:
        work = merged_work(graph, stage.units)
        if work is None:
            return math.inf
        # The split costs nothing: the kernel writes each output where it belongs.
        busy = self._busy(work.flops, work.bytes)
        return busy / self._share(work.output_elements) + self.device.launch_overhead

    def _busy(self, flops: int, nbytes: int) -> float:
        return max(flops / self.device.peak_flops, nbytes / self.device.bandwidth)

    def _share(self, elements: int) -> float:
        """The part of the device that an operator's tiles fill, at most 1."""
        return min(1.0, self._tiles(elements) / self.device.processors)

    def _tiles(self, elements: int) -> int:
        return max(1, math.ceil(elements / self.device.tile_elements))
