"""Stage latencies computed from a device's figures alone: no hardware, no TVM, no kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from tvm_ios.costs.composed import CostError
from tvm_ios.costs.contention import Launch, launch_spans, makespans
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu, target_gpu
from tvm_ios.costs.cuda_kernels.unit_kernels import cuda_kernels, merged_cuda_kernels
from tvm_ios.costs.kernel_estimate import (
    KernelEstimate,
    KernelLibrary,
    copy_kernel,
    merged_kernel,
    unit_kernels,
)
from tvm_ios.costs.persistent import persistent_launches, rkernel, veus
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.devices.engine import EngineDescription, edge_seconds, engine_of
from tvm_ios.graph.merge_rule import plan_merge
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.streams import synchronisations

#: The key of a stage's latency: its strategy, and the classes of its units.
_Key = tuple[Strategy, tuple[object, ...]]


class AnalyticCost:
    """A cost model of kernels that run as waves of blocks and share processors and bandwidth.

    A stage of one group takes as long as its kernels and their launches one after another. The
    groups of a concurrent stage are chains of launches that run side by side
    (:mod:`tvm_ios.costs.contention`); forking and joining them costs the engine's stage overhead.
    Streams are such chains whose launches also wait for what they read on other streams; each wait
    for an event is one more call of the host's thread.
    A merged stage is one kernel, and the copies that the engine makes. Co-scheduled units are one
    launch, in which a unit's tiles begin a wait after the last tile of what it reads: the same
    rules, with other delays. The engine is by default that of this project's programs.
    """

    def __init__(self, device: DeviceDescription, engine: EngineDescription | None = None) -> None:
        self.name = device.name
        self.device = device
        self.engine = engine or engine_of(device)
        self._library = KernelLibrary(overhead=self.engine.library_overhead)
        #: Seconds that an edge to a kernel that follows another takes, and others besides.
        self._edge = edge_seconds(self.engine, device, follows=True)
        self._more = self.engine.launch_overhead - self._edge
        self._gpu: TargetGpu | None = None
        if self.engine.kernels == "cuda":
            self._gpu = target_gpu(device, self.engine.launch_overhead)
        self._graph: OpGraph | None = None
        self._kernels: list[tuple[KernelEstimate, ...]] = []
        #: The kernels of each unit, each with its delay on a stream.
        self._launched: list[list[tuple[KernelEstimate, float]]] = []
        self._seconds: list[float] = []
        #: For each unit a number that units of equal kernels share.
        self._classes: list[int] = []
        self._numbers: dict[tuple[KernelEstimate, ...], int] = {}
        self._known: dict[_Key, float] = {}

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Return the seconds of a stage; ``inf`` if it merges units that cannot be merged."""
        return float(self.stage_latencies(graph, (stage,))[0])

    def stage_latencies(self, graph: OpGraph, stages: Sequence[Stage]) -> npt.NDArray[np.float64]:
        """Return the seconds of several stages, faster than one by one."""
        self._remember(graph)
        seconds = np.empty(len(stages))
        unknown: dict[_Key, list[int]] = {}
        for place, stage in enumerate(stages):
            if stage.strategy is Strategy.MERGE:
                seconds[place] = self._merged(graph, stage)
            elif len(stage.groups) == 1 and stage.strategy is not Strategy.CO_SCHEDULE:
                seconds[place] = sum(self._seconds[unit] for unit in stage.groups[0])
            elif (known := self._known.get(key := self._key(graph, stage))) is not None:
                seconds[place] = known
            else:
                unknown.setdefault(key, []).append(place)
        programs = [self._program(graph, stages[places[0]]) for places in unknown.values()]
        overhead = {
            Strategy.CONCURRENT: self.engine.stage_overhead,
            Strategy.STREAMS: self.engine.stage_overhead,
            Strategy.CO_SCHEDULE: self.engine.launch_overhead,
        }
        slower = self.engine.contention_overhead
        for (key, places), alone in zip(
            unknown.items(), makespans(programs, self.device, slower).tolist(), strict=True
        ):
            # What comes after such a stage waits for several kernels, or a cooperative one.
            after = self._more if alone else 0.0
            self._known[key] = alone + overhead[key[0]] + after
            seconds[places] = self._known[key]
        return seconds

    def unit_latency(self, graph: OpGraph, unit: int) -> float:
        """Return the seconds of a unit alone on the device, launches included."""
        self._remember(graph)
        return self._seconds[unit]

    def stage_spans(self, graph: OpGraph, stage: Stage) -> list[tuple[int, float, float]]:
        """Return for each unit with kernels of a stage that is not merged when these run.

        These are its number, its begin and its end, in seconds from the begin of the stage. The
        launches of the stage itself, its fork and join, come first.
        """
        self._remember(graph)
        if len(stage.groups) == 1 and stage.strategy is not Strategy.CO_SCHEDULE:
            ends = list(accumulate(self._seconds[unit] for unit in stage.units))
            begins = [0.0, *ends[:-1]]
            return list(zip(stage.units, begins, ends, strict=True))
        program = self._program(graph, stage)
        whole = self.stage_latency(graph, stage)
        spans = self._launch_spans(program)
        first = whole - max((end for _, end in spans), default=0.0)
        units = (unit for unit in self._launch_order(stage) for _ in self._kernels[unit])
        merged: dict[int, tuple[float, float]] = {}
        for unit, (begin, end) in zip(units, spans, strict=True):
            earlier = merged.get(unit, (begin, end))
            merged[unit] = min(earlier[0], begin), max(earlier[1], end)
        return [(unit, first + begin, first + end) for unit, (begin, end) in merged.items()]

    def kernel_seconds(self, graph: OpGraph, stage: Stage) -> list[tuple[KernelEstimate, float]]:
        """Return the kernels of a stage, each with the seconds from its first block to its last.

        Raise CostError if the stage merges units that cannot be merged.
        """
        self._remember(graph)
        if stage.strategy is Strategy.MERGE:
            kernels = self._merged_kernels(graph, stage)
            if kernels is None:
                raise CostError("the units of a stage cannot be merged")
            return [(kernel, kernel.seconds(self.device)) for kernel in kernels]
        program = self._program(graph, stage)
        spans = self._launch_spans(program)
        return [(launch.kernel, b - a) for launch, (a, b) in zip(program, spans, strict=True)]

    @property
    def veus(self) -> int:
        """The number of virtual execution units (vEUs) that rTasks are placed on."""
        return veus(self.device)

    def rkernels(self, graph: OpGraph, unit: int) -> tuple[RKernel, ...]:
        """Return the only rKernel of a unit on the device."""
        self._remember(graph)
        return (rkernel("tiles", self._kernels[unit], self.device),)

    def _remember(self, graph: OpGraph) -> None:
        """Estimate the kernels of all units of a new graph once, for a search needs them often."""
        if graph is self._graph:
            return
        device = self.device
        self._graph, self._known = graph, {}
        self._kernels = [self._unit_kernels(graph, unit) for unit in range(len(graph))]
        self._classes = [self._numbers.setdefault(k, len(self._numbers)) for k in self._kernels]
        self._launched = [
            [(kernel, self._edge + kernel.overhead) for kernel in kernels]
            for kernels in self._kernels
        ]
        self._seconds = [
            sum(kernel.seconds(device) + delay for kernel, delay in launched)
            for launched in self._launched
        ]

    def _key(self, graph: OpGraph, stage: Stage) -> _Key:
        if stage.strategy is not Strategy.CONCURRENT:
            # The latency also depends on the order and wiring of units, and on their streams.
            places = {unit: place for place, unit in enumerate(stage.units)}
            wiring = tuple(
                (self._classes[unit], *(places[p] for p in self._inside(graph, unit, places)))
                for unit in stage.units
            )
            streams = tuple(tuple(places[unit] for unit in group) for group in stage.groups)
            return stage.strategy, (wiring, streams)
        chains = sorted(tuple([self._classes[unit] for unit in group]) for group in stage.groups)
        return stage.strategy, tuple(chains)

    def _program(self, graph: OpGraph, stage: Stage) -> list[Launch]:
        launches: list[Launch] = []
        if stage.strategy is Strategy.CONCURRENT:
            host = self.engine.host_overhead
            for group in self._groups_in_order(stage):
                after: tuple[int, ...] = ()
                for unit in group:
                    for kernel, delay in self._launched[unit]:
                        place = len(launches)
                        begin = delay if after else delay + self._more
                        launches.append(Launch(kernel, after, begin, place * host))
                        after = (place,)
            return launches
        if stage.strategy is Strategy.STREAMS:
            return self._on_streams(graph, stage)
        waves = (stage.units,)
        return persistent_launches(graph, waves, self._kernels.__getitem__, self.device)

    def _on_streams(self, graph: OpGraph, stage: Stage) -> list[Launch]:
        waits = synchronisations(graph, stage)
        before = {unit: earlier for group in stage.groups for earlier, unit in pairwise(group)}
        launches: list[Launch] = []
        #: The launches that end a unit; of one without kernels those that end what it waits for.
        last: dict[int, tuple[int, ...]] = {}
        calls = 0
        for unit in stage.units:
            awaited = [*waits[unit], *(before[u] for u in (unit,) if u in before)]
            after = tuple(sorted({launch for source in awaited for launch in last[source]}))
            calls += len(waits[unit])
            more = 0.0 if unit in before and not waits[unit] else self._more
            for kernel, delay in self._launched[unit]:
                host = calls * self.engine.host_overhead
                launches.append(Launch(kernel, after, delay + more, host))
                after, calls, more = (len(launches) - 1,), calls + 1, 0.0
            last[unit] = after
        return launches

    def _groups_in_order(self, stage: Stage) -> list[tuple[int, ...]]:
        return sorted(stage.groups, key=self._longest_first)

    def _launch_order(self, stage: Stage) -> tuple[int, ...]:
        """Return the units in the order in which :meth:`_program` has their kernels."""
        if stage.strategy is not Strategy.CONCURRENT:
            return stage.units
        return tuple(unit for group in self._groups_in_order(stage) for unit in group)

    def _longest_first(self, group: tuple[int, ...]) -> tuple[float, list[int]]:
        return -sum([self._seconds[unit] for unit in group]), [self._classes[u] for u in group]

    @staticmethod
    def _inside(graph: OpGraph, unit: int, stage: Iterable[int]) -> list[int]:
        """Return the predecessors of a unit that are in a stage."""
        return [source for source in bits(graph.predecessors[unit]) if source in stage]

    def _merged(self, graph: OpGraph, stage: Stage) -> float:
        kernels = self._merged_kernels(graph, stage)
        if kernels is None:
            return math.inf
        return sum(kernel.seconds(self.device) + kernel.overhead + self._edge for kernel in kernels)

    def _merged_kernels(self, graph: OpGraph, stage: Stage) -> tuple[KernelEstimate, ...] | None:
        """Return the kernels of merged units with their copies; None if they cannot be merged."""
        plan, work = plan_merge(graph, stage.units), merged_work(graph, stage.units)
        if plan is None or work is None:
            return None
        if self._gpu is not None:
            return merged_cuda_kernels(graph, plan, self._gpu)
        outputs = [graph.tensors[graph.operators[unit].outputs[0]] for unit in plan.units]
        copied = self.engine.copy_overhead if outputs[0].shape[0] > 1 else 0.0
        copies = [copy_kernel(round(copied * output.nbytes), self.device) for output in outputs]
        merged = merged_kernel(graph, plan, work.bytes, self.device, self._library)
        return (merged, *(copies if copied else ()))

    def _unit_kernels(self, graph: OpGraph, unit: int) -> tuple[KernelEstimate, ...]:
        if self._gpu is not None:
            return cuda_kernels(graph, unit, self._gpu)
        return unit_kernels(graph, unit, self.device, self._library)

    def _launch_spans(self, program: Sequence[Launch]) -> tuple[tuple[float, float], ...]:
        return launch_spans(program, self.device, self.engine.contention_overhead)


@dataclass(frozen=True, slots=True)
class MergedWork:
    """The work of a merged convolution that writes its outputs to separate tensors.

    ``flops`` include the zeros of padded kernels. ``bytes`` count the shared input, the stacked
    weights and the outputs once each. ``output_elements`` are those of all outputs.
    """

    flops: int
    bytes: int
    output_elements: int


def merged_work(graph: OpGraph, units: Sequence[int]) -> MergedWork | None:
    """Return the work of two or more units merged into one, or None if they cannot be merged."""
    plan = plan_merge(graph, units)
    if plan is None:
        return None
    window = math.prod(plan.kernel)
    flops = total_bytes = output_elements = 0
    for unit in plan.units:
        op = graph.operators[unit]
        output = graph.tensors[op.outputs[0]]
        weight = graph.tensors[op.inputs[1]]
        _, channels, *kernel = weight.shape
        taps = math.prod(kernel)
        elements = math.prod(output.shape)
        convolution = 2 * elements * channels * taps
        flops += op.flops - convolution + convolution * window // taps
        grown = weight.nbytes * window // taps
        constants = sum(graph.tensors[t].nbytes for t in dict.fromkeys(op.inputs[2:]))
        total_bytes += grown + constants + output.nbytes
        output_elements += elements
    shared = graph.tensors[graph.operators[plan.units[0]].inputs[0]]
    return MergedWork(flops, total_bytes + shared.nbytes, output_elements)
