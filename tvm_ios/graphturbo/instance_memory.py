"""Bytes that the tensors between units need when some of these run as instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graphturbo.box import common
from tvm_ios.graphturbo.footprint import live_bytes, nbytes
from tvm_ios.graphturbo.planned import Planned, planned_instances
from tvm_ios.ios.stage_memory import stages_peak
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage


def schedule_peak(units: OpGraph, schedule: Schedule, operators: OpGraph | None = None) -> int:
    """Return the bytes that a valid schedule needs at its peak, with or without instances.

    Counted as by :func:`tvm_ios.ios.stage_memory.stages_peak`: inputs and outputs of the graph, and
    scratch, are not. Pieces that an instance reads lie side by side in one tensor, and nowhere else
    if only this instance reads them. Tensors that only one lane uses lie in a region of the lane.
    Raise ValueError if there are instances and ``operators``, which the units are made of, is None.
    """
    if schedule.instances is None:
        return stages_peak(units, schedule.stages)
    if operators is None:
        raise ValueError("parts of units are counted by their operators")
    planned = planned_instances(operators, units, schedule)
    return _Tensors(planned, _times(planned, schedule.stages)).peak()


class _Use(NamedTuple):
    """The time at which a unit of an instance runs.

    ``step`` is that of the whole schedule, where all that lanes run by themselves between two
    meetings is one step. ``lane`` runs the unit by itself, or is None; ``lane_step`` counts the
    units of this lane.
    """

    step: int
    lane: int | None
    lane_step: int


def _times(planned: Planned, stages: Sequence[Stage]) -> list[dict[int, _Use]]:
    """Return for each instance the times at which its units run, in their order."""
    instances, layers = planned.instances.instances, planned.instances.layers
    times: list[dict[int, _Use]] = [{} for _ in instances]
    steps, lane_steps = 0, Counter[int]()
    for numbers, members in planned.regions:
        phases = planned.phases(members)
        if planned.instances.subgraphs[instances[members[0]].subgraph].split is None:
            phases = dict.fromkeys(members, 0)
        units = [unit for number in numbers for unit in stages[number].units]
        for phase in sorted(set(phases.values())):
            for number in members:
                instance, lane = instances[number], planned.lanes[number]
                mask = planned.instances.subgraphs[instance.subgraph].layers
                for unit in units:
                    made = any(t in instance.work.boxes for t in layers.outputs[unit])
                    if phases[number] != phase or not mask >> unit & 1 or not made:
                        continue
                    times[number][unit] = _Use(
                        steps, lane, lane_steps[-1 if lane is None else lane]
                    )
                    if lane is not None:
                        lane_steps[lane] += 1
                    elif phase % 2:
                        steps += 1
            steps += 1
    return times


class _Tensors:
    """The tensors that instances make, with their bytes and times of use."""

    def __init__(self, planned: Planned, times: Sequence[dict[int, _Use]]) -> None:
        self._instances = planned.instances
        self._layers = planned.instances.layers
        self._times = times
        self._sizes: dict[Hashable, int] = {}
        self._uses: dict[Hashable, list[_Use]] = {}

    def peak(self) -> int:
        """Return the peak bytes of the tensors that lanes share, plus those of each lane's own."""
        graph = self._layers.graph
        for number in range(len(self._instances)):
            self._inside(number)
        for tensor in self._instances.makers:
            if tensor not in graph.outputs:
                self._between(tensor)
        shared: list[tuple[int, int, int]] = []
        own: dict[int, list[tuple[int, int, int]]] = {}
        for key, uses in self._uses.items():
            lanes = {use.lane for use in uses}
            lane = lanes.pop() if len(lanes) == 1 else None
            steps = [use.step if lane is None else use.lane_step for use in uses]
            lives = shared if lane is None else own.setdefault(lane, [])
            lives.append((min(steps), max(steps), self._sizes[key]))
        return sum(map(_peak, [shared, *own.values()]))

    def _add(self, key: Hashable, size: int, uses: Iterable[_Use]) -> None:
        self._sizes[key] = size
        self._uses.setdefault(key, []).extend(uses)

    def _inside(self, number: int) -> None:
        """Add the tensors that an instance computes, and the pieces of them that others read."""
        instance, times = self._instances.instances[number], self._times[number]
        for tensor, box in instance.work.boxes.items():
            maker = self._layers.maker(tensor)
            if maker not in times:
                continue
            readers = bits(self._layers.readers(tensor))
            uses = [times[maker], *(times[unit] for unit in readers if unit in times)]
            size = nbytes(self._layers, tensor, box)
            if instance.owned.get(tensor) == box:
                if tensor not in self._layers.graph.outputs:
                    self._add((tensor, number), size, uses)
                continue
            self._add((tensor, number, "own"), size, uses)
            if tensor in instance.owned and tensor not in self._layers.graph.outputs:
                # Others read a copy of the piece, without the overlap that they compute themselves.
                after = list(times.values())[-1:]
                uses_of_own = self._uses[tensor, number, "own"]
                uses_of_own += after
                piece = nbytes(self._layers, tensor, instance.owned[tensor])
                self._add((tensor, number), piece, after)

    def _between(self, tensor: int) -> None:
        """Add the boxes of a tensor that instances read: a piece, or several joined."""
        instances = self._instances
        makers = instances.makers[tensor]
        reads: dict[Hashable, list[int]] = {}
        for number, instance in enumerate(instances.instances):
            if tensor in instance.needs:
                split = instances.subgraphs[instance.subgraph].split is not None
                key = (tensor, "read", number if split else instance.needs[tensor])
                reads.setdefault(key, []).append(number)
        readers = Counter(
            maker for numbers in reads.values() for maker in instances.sources(numbers[0], tensor)
        )
        owned = {maker: instances.instances[maker].owned[tensor] for maker in makers}
        for key, numbers in reads.items():
            need = instances.instances[numbers[0]].needs[tensor]
            uses = [
                self._times[number][unit]
                for number in numbers
                for unit in bits(self._layers.readers(tensor))
                if unit in self._times[number]
            ]
            sources = instances.sources(numbers[0], tensor)
            if len(sources) == 1 and (need == owned[sources[0]] or len(uses) == 1):
                self._uses[tensor, sources[0]] += uses
                continue
            first = min(uses)
            self._add(key, nbytes(self._layers, tensor, need), uses)
            for maker in sources:
                whole = common(owned[maker], need) == owned[maker]
                if whole and readers[maker] == 1 and len(sources) > 1:
                    self._uses[key] += self._uses.pop((tensor, maker))
                else:
                    self._uses[tensor, maker].append(first)


def _peak(lives: Sequence[tuple[int, int, int]]) -> int:
    steps = max((last for _, last, _ in lives), default=-1) + 1
    return max(live_bytes(lives, steps), default=0)
