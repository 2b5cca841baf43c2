"""Rammer and its two-layered baseline on a described device, with two sets of kernels.

*RammerBase* (section 5.2.1) launches one operator after another, by its fastest kernel. *Rammer*
runs all rTasks in one persistent kernel: a launch, and waits. The kernels of an operator have the
tiles of a vendor's, or of all powers of two from 8 to 128 rows and columns. The *fastest* set has
for each operator the one that takes least time alone, the *selected* set what Rammer's policy
chooses of this one and of the most efficient one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from tvm_ios.costs.contention import Launch, launch_spans, makespans
from tvm_ios.costs.kernel_estimate import (
    Choose,
    KernelEstimate,
    KernelLibrary,
    Tile,
    fastest_alone,
    unit_kernels,
)
from tvm_ios.costs.persistent import persistent_launches, rkernel, veus
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.devices.engine import IOS, EngineDescription, load_engine
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.rammer.wavefront import leaves_free
from tvm_ios.schedule.rkernel import RKernel, most_efficient
from tvm_ios.schedule.waves import waves

#: The most threads of a block.
_THREADS = 256


def _tile(height: int, width: int) -> Tile:
    """A tile whose threads compute parts that are as square as they can be."""
    part = max(1, height * width // _THREADS)
    rows = 1 << (part.bit_length() // 2)
    return height, width, rows, part // rows


_EXTENTS = (8, 16, 32, 64, 128)
#: A vendor's tiles, and those among which a tuner looks.
TILES = (
    *KernelLibrary().tiles,
    *(_tile(height, width) for height in _EXTENTS for width in _EXTENTS),
)
#: For each unit its kernels.
KernelSet = list[tuple[KernelEstimate, ...]]
#: Chooses the most efficient of rKernels.
Measure = Callable[[tuple[RKernel, ...]], RKernel]


def least_product(kernels: tuple[RKernel, ...]) -> RKernel:
    """The one of least seconds alone times rTasks: the paper's words for the most efficient one.

    Of a kernel of more rTasks than the device holds, the seconds have grown with their number
    already, so that it counts twice. What a full device takes is the work,
    :func:`tvm_ios.schedule.rkernel.most_efficient`.
    """
    return min(kernels, key=lambda kernel: kernel.seconds * sum(kernel.tasks))


def choose_by(measure: Measure) -> Choose:
    """The kernel of a product that a measure of rKernels likes best."""

    def choose(kernels: Sequence[KernelEstimate], device: DeviceDescription) -> KernelEstimate:
        ordered = sorted(kernels, key=lambda kernel: kernel.seconds(device))
        rkernels = tuple(rkernel(str(n), (k,), device) for n, k in enumerate(ordered))
        return ordered[int(measure(rkernels).name)]

    return choose


@dataclass(frozen=True)
class Simulated:
    """A graph of units on a device."""

    #: The graph of units.
    graph: OpGraph
    #: A described one, and the engine that its figures were fitted with.
    device: DeviceDescription
    engine: EngineDescription = field(default_factory=partial(load_engine, IOS))
    #: What tells the most efficient of a unit's kernels: that of least work, or by the paper's
    #: words that of least time alone multiplied by its rTasks.
    measure: Measure = most_efficient

    @cached_property
    def fastest(self) -> KernelSet:
        """For each unit its fastest kernels."""
        return self._kernels(fastest_alone)

    @cached_property
    def selected(self) -> KernelSet:
        """For each unit the kernels that Rammer's policy selects (SelectRKernels).

        A wave whose fastest kernels fill the device has the most efficient ones, if these are
        faster; each wave is simulated by itself.
        """
        graph, device, lanes = self.graph, self.device, veus(self.device)
        efficient, chosen = self._kernels(choose_by(self.measure)), list(self.fastest)
        full = [
            (wave,)
            for wave in waves(graph.predecessors, range(len(graph)))
            if not leaves_free((rkernel("", chosen[u], device) for u in wave), lanes)
        ]
        fast, other = (
            makespans(
                [persistent_launches(graph, w, kernels.__getitem__, device) for w in full],
                device,
                self.engine.contention_overhead,
            )
            for kernels in (self.fastest, efficient)
        )
        for (wave,), is_better in zip(full, (other < fast).tolist(), strict=True):
            if is_better:
                for unit in wave:
                    chosen[unit] = efficient[unit]
        return chosen

    def base_seconds(self, kernels: KernelSet) -> float:
        """Seconds of RammerBase: kernels one after another, a launch each."""
        return sum(
            kernel.seconds(self.device) + kernel.overhead + self.engine.launch_overhead
            for unit in kernels
            for kernel in unit
        )

    def base_launch_seconds(self, kernels: KernelSet) -> float:
        """The part of it in which no kernel runs."""
        return self.engine.launch_overhead * sum(map(len, kernels))

    def launches(self, kernels: KernelSet, *, barriers: bool = False) -> list[Launch]:
        """Rammer's rProgram: all units wave by wave, with waits or with barriers."""
        order = waves(self.graph.predecessors, range(len(self.graph)))
        return persistent_launches(
            self.graph, order, kernels.__getitem__, self.device, barriers=barriers
        )

    def seconds(self, kernels: KernelSet, *, barriers: bool = False) -> float:
        """Seconds of Rammer, its one launch included."""
        launches = self.launches(kernels, barriers=barriers)
        return (
            float(makespans([launches], self.device, self.engine.contention_overhead)[0])
            + self.engine.launch_overhead
        )

    def base_utilisation(self, kernels: KernelSet) -> float:
        """The part of the processors that has a block to run while RammerBase's kernels run."""
        at, spans = 0.0, list[tuple[float, float, int]]()
        for kernel in (kernel for unit in kernels for kernel in unit):
            begin = at + kernel.overhead
            at = begin + kernel.seconds(self.device)
            spans.append((begin, at, kernel.blocks))
        return _utilisation(spans, at, self.device.processors)

    def utilisation(self, kernels: KernelSet) -> float:
        """The part of the processors that has an rTask to run while Rammer's kernel runs."""
        launches = self.launches(kernels)
        spans = [
            (begin, end, launch.kernel.blocks)
            for launch, (begin, end) in zip(
                launches,
                launch_spans(launches, self.device, self.engine.contention_overhead),
                strict=True,
            )
        ]
        return _utilisation(spans, max(end for _, end, _ in spans), self.device.processors)

    def _kernels(self, choose: Choose) -> KernelSet:
        library = KernelLibrary(TILES, choose)
        units = range(len(self.graph))
        return [unit_kernels(self.graph, unit, self.device, library) for unit in units]


def _utilisation(
    spans: Iterable[tuple[float, float, int]], seconds: float, processors: int
) -> float:
    """Of kernels with their begin, end and blocks: the processors that have one, on average."""
    changes = sorted(
        change for begin, end, blocks in spans for change in ((begin, blocks), (end, -blocks))
    )
    busy = at = 0.0
    running = 0
    for time, blocks in changes:
        busy += min(running, processors) * (time - at)
        at, running = time, running + blocks
    return busy / seconds / processors
