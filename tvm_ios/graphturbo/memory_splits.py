"""Splits into instances that need less memory, because parts of large tensors are made in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Any

from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.graphturbo.footprint import exits, whole_part
from tvm_ios.graphturbo.grouping import SubGraph, group
from tvm_ios.graphturbo.instance_memory import schedule_peak
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.lanes import LanePlace, place_instances
from tvm_ios.graphturbo.layers import unit_layers
from tvm_ios.graphturbo.orders import order_instances
from tvm_ios.graphturbo.planned import planned_schedule
from tvm_ios.graphturbo.split_info import Splitter
from tvm_ios.memory.buffers import Buffers, TensorBuffer
from tvm_ios.memory.exact.optimal import schedule_optimal
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.schedule.schedule import Schedule

#: The number of steps, each with less memory for a part; two steps halve it.
_STEPS = 16
#: Shares of their work that parts may do again where they overlap; only rows of images do.
_RECOMPUTATION = (0.1, 0.5)
#: The time to start a kernel, as a part of the time of an average unit.
_START = 0.02
#: Seconds to order the units of one sub-graph.
_SECONDS = 1.0


@dataclass(frozen=True)
class MemorySplit:
    """A schedule with instances, its peak memory, and an estimate of its time.

    Units run one after another, those of some sub-graphs instance by instance. ``peak`` is in
    bytes, as :func:`tvm_ios.graphturbo.instance_memory.schedule_peak` counts them. ``time`` is a
    multiple of the time without instances: elements that several instances compute, and more
    kernels to start.
    """

    schedule: Schedule
    peak: int
    time: float

    @property
    def on_lanes(self) -> bool:
        """True if lanes run instances of their own."""
        plan = self.schedule.instances
        return plan is not None and any(place.lane is not None for place in plan.order)

    def __str__(self) -> str:
        plan = self.schedule.instances
        assert plan is not None
        factors = sorted({s.factor for s in plan.subgraphs})
        kinds = {"the batch" if not any(s.axes) else "rows" for s in plan.subgraphs}
        units = sum(len(s.units) for s in plan.subgraphs)
        parts = " to ".join(map(str, dict.fromkeys((factors[0], factors[-1]))))
        return f"{units} units in {parts} parts of {' or '.join(sorted(kinds))}"


class MemorySplits:
    """Splits of one graph, from few and large instances to many small ones.

    Sub-graphs are those that GraphTurbo would choose for a local buffer of so many bytes (Algorithm
    2); of a batch, all that can be split too, into more and more parts. ``lanes`` are those of the
    programs: they run an instance together, or each lane its own ones, which takes more memory.
    """

    def __init__(self, operators: OpGraph, units: OpGraph, lanes: int = 1) -> None:
        self._layers = unit_layers(operators, units)
        self._units = units
        self._lanes = lanes
        self._orders: dict[int, tuple[int, ...]] = {}
        self._seen: set[tuple[tuple[int, int, int], ...]] = set()

    @property
    def step_count(self) -> int:
        """The number of steps."""
        return _STEPS

    def steps(self) -> Iterator[list[MemorySplit]]:
        """Yield step by step the splits that were not in earlier steps."""
        batch = self._layers.graph.batch
        peak = whole_part(self._layers, self._units.all_operators).peak
        axes = [(0,), (0, 2), (2,)] if batch > 1 else [(0, 2)]
        for step in range(_STEPS):
            splitters = [
                self._splitter(int(peak / 2 ** (step / 2)), cut, recomputation=again)
                for cut in axes
                for again in (_RECOMPUTATION if 2 in cut else _RECOMPUTATION[:1])
            ]
            splitters += [
                self._splitter(peak, (0,), least_factor=parts)
                for parts in range(2, batch + 1)
                if batch % parts == 0 and step - 1 < 2 * log2(parts) <= step
            ]
            yield [split for each in splitters for split in self._split(group(each))]

    def _splitter(self, capacity: int, axes: tuple[int, ...], **limits: Any) -> Splitter:
        return Splitter(self._layers, max(1, capacity), 1, axes=axes, spills=True, **limits)

    def _split(self, subgraphs: tuple[SubGraph, ...]) -> list[MemorySplit]:
        key = tuple((s.layers, s.factor, s.split.axis if s.split else 0) for s in subgraphs)
        factors = [s.factor for s in subgraphs if s.factor > 1]
        if key in self._seen or not factors:
            return []
        self._seen.add(key)
        instances = split_into_instances(self._layers, subgraphs)
        places = [(LanePlace(1, None),) * len(instances)]
        if self._lanes > 1 and not any(factor % self._lanes for factor in factors):
            places.append(place_instances(instances, self._lanes))
        return [self._placed(instances, each) for each in places]

    def _placed(self, instances: Instances, places: Sequence[LanePlace]) -> MemorySplit:
        units = self._units
        order = order_instances(instances, exact=False)[0].order
        schedule = planned_schedule(units, instances, order, places, self._unit_order)
        peak = schedule_peak(units, schedule, self._layers.graph)
        whole = whole_part(self._layers, units.all_operators).flops
        work = sum(instance.work.flops for instance in instances.instances)
        starts = sum(s.factor * s.layers.bit_count() for s in instances.subgraphs)
        time = work / max(1, whole) + _START * (starts / len(units) - 1)
        return MemorySplit(replace(schedule, policy="memory"), peak, time)

    def _unit_order(self, subgraph: int) -> tuple[int, ...]:
        """Return the units of a sub-graph in the order in which they need the least memory."""
        if subgraph not in self._orders:
            numbers = tuple(bits(subgraph))
            order = schedule_optimal(self._problem(subgraph, numbers), _SECONDS).order
            self._orders[subgraph] = tuple(numbers[place] for place in order)
        return self._orders[subgraph]

    def _problem(self, subgraph: int, numbers: Sequence[int]) -> MemoryProblem:
        layers, graph = self._layers, self._layers.graph
        place = {unit: number for number, unit in enumerate(numbers)}

        def places(mask: int) -> int:
            return mask_of(place[unit] for unit in bits(mask & subgraph))

        tensors = dict.fromkeys(t for u in numbers for t in (*layers.inputs[u], *layers.outputs[u]))
        results = exits(layers, subgraph)
        buffers: list[TensorBuffer] = []
        for tensor in tensors:
            if tensor in graph.inputs or tensor in graph.outputs:
                continue
            maker, readers = layers.maker(tensor), places(layers.readers(tensor))
            written = 1 << place[maker] if maker in place else 0
            buffers.append(
                TensorBuffer(
                    graph.tensors[tensor].nbytes,
                    written,
                    written | readers,
                    at_start=not written,
                    at_end=tensor in results,
                )
            )
        return MemoryProblem(
            tuple(places(layers.predecessors[unit]) for unit in numbers),
            Buffers(tuple(buffers), ((),) * len(numbers)),
            (0,) * len(numbers),
        )
