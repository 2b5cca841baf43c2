"""A schedule with instances, over the units of the module in which each instance has its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.origins import Origin
from tvm_ios.graphturbo.planned import Planned
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


def unrolled_schedule(
    schedule: Schedule, planned: Planned, units: OpGraph, origins: Sequence[Origin]
) -> Schedule:
    """Return the schedule of an unrolled graph, in which every instance has its own units.

    An instance on a lane of its own is part of a group; one that all lanes share runs the stages of
    its sub-graph on its own units. Units that it merges are one unit, in the place of the first.

    ``planned`` are the instances of the original schedule; ``units`` is the unrolled graph, and
    ``origins`` say where each of its units comes from.
    """
    writer = _Writer(schedule, planned, origins)
    for stages, instances in planned.regions:
        writer.region(stages, instances)
    writer.one_by_one(writer.others.get((None, False), ()))
    copies = writer.copies
    # Merged units have no measured latencies.
    merged = {unit for units in planned.merged(schedule) for unit in units}
    factor = [planned.instances.subgraphs[i.subgraph].factor for i in planned.instances.instances]
    return replace(
        schedule,
        fingerprint=units.fingerprint,
        stages=tuple(writer.stages),
        kernels={
            copies[place]: kernel
            for place in copies
            if (kernel := schedule.kernels.get(place[1])) is not None
        },
        unit_latencies={
            number: tuple(seconds / factor[instance] for seconds in latency)
            for (instance, unit), number in copies.items()
            if (latency := schedule.unit_latencies.get(unit)) is not None and unit not in merged
        },
        instances=None,
        described={},
    )


class _Writer:
    def __init__(self, schedule: Schedule, planned: Planned, origins: Sequence[Origin]) -> None:
        self._schedule = schedule
        self._planned = planned
        self.stages: list[Stage] = []
        self.copies: dict[tuple[int, int], int] = {}
        #: Units that cut and join pieces, by instance and whether they come after its other units.
        self.others: dict[tuple[int | None, bool], list[int]] = {}
        for number, origin in enumerate(origins):
            if origin.instance is None or origin.unit is None:
                self.others.setdefault((origin.instance, origin.for_others), []).append(number)
            else:
                self.copies[origin.instance, origin.unit] = number

    def region(self, stages: Sequence[int], instances: Sequence[int]) -> None:
        everything = self._planned.instances
        if everything.subgraphs[everything.instances[instances[0]].subgraph].split is None:
            self._whole(stages[0], instances)
            return
        phases = self._planned.phases(instances)
        for phase in sorted(set(phases.values())):
            in_phase = [i for i in instances if phases[i] == phase]
            if phase % 2:
                for instance in in_phase:
                    self._shared(stages, instance)
            else:
                self._on_lanes(stages, in_phase)

    def one_by_one(self, units: Sequence[int]) -> None:
        self.stages += [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in units]

    def _whole(self, number: int, instances: Sequence[int]) -> None:
        """Append a stage without instances, each of whose units is an instance."""
        stage = self._schedule.stages[number]
        copies = {
            unit: self.copies[i, unit]
            for unit, i in zip(stage.units, instances, strict=True)
            if (i, unit) in self.copies
        }
        for instance in instances:
            self.one_by_one(self.others.get((instance, False), ()))
        self._append(stage, copies)
        for instance in instances:
            self.one_by_one(self.others.get((instance, True), ()))

    def _shared(self, stages: Sequence[int], instance: int) -> None:
        self.one_by_one(self.others.get((instance, False), ()))
        for number in stages:
            stage = self._schedule.stages[number]
            copies = {
                u: self.copies[instance, u] for u in stage.units if (instance, u) in self.copies
            }
            if stage.strategy is Strategy.MERGE:
                self.one_by_one(tuple(copies.values()))
            else:
                self._append(stage, copies)
        self.one_by_one(self.others.get((instance, True), ()))

    def _on_lanes(self, stages: Sequence[int], instances: Sequence[int]) -> None:
        lanes: dict[int, list[int]] = {}
        for instance in instances:
            lane = self._planned.lanes[instance]
            assert lane is not None
            stage_units = (u for number in stages for u in self._schedule.stages[number].units)
            units = [self.copies[instance, u] for u in stage_units if (instance, u) in self.copies]
            before, after = (self.others.get((instance, late), ()) for late in (False, True))
            lanes.setdefault(lane, []).extend([*before, *units, *after])
        groups = tuple(tuple(lanes[lane]) for lane in sorted(lanes))
        self.stages.append(Stage(Strategy.CONCURRENT, groups))

    def _append(self, stage: Stage, copies: Mapping[int, int]) -> None:
        """Append a stage of the copies of its units; units without a copy are left out.

        A slice that takes all of its input has no copy.
        """
        groups = (tuple(copies[u] for u in group if u in copies) for group in stage.groups)
        if present := tuple(filter(None, groups)):
            shares = (share for share in stage.placement or () if share.unit in copies)
            placed = tuple(replace(share, unit=copies[share.unit]) for share in shares)
            self.stages.append(Stage(stage.strategy, present, placement=placed or None))
