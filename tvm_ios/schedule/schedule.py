"""A schedule: stages of units in order, and how they run (plain, frozen data)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import write_atomically
from tvm_ios.files.json_text import JsonError, json_object, natural, naturals
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.schedule.chains import Chain
from tvm_ios.schedule.chains import fault_of as fault_of_chains
from tvm_ios.schedule.chains import from_json as chains_of_json
from tvm_ios.schedule.first_difference import describe, first_difference
from tvm_ios.schedule.instance_plan import InstancePlan
from tvm_ios.schedule.instance_plan import fault_of as fault_of_plan
from tvm_ios.schedule.named_kernels import fault_of as fault_of_kernels
from tvm_ios.schedule.named_kernels import from_json as kernels_of_json
from tvm_ios.schedule.placement import Share
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.stage import fault_of as fault_of_stage

#: Key of a schedule over units of instances: the schedule of the original model.
UNROLLED_FROM = "unrolled_from"
#: Key beside it: for each unit its instance, original unit, and whether it keeps pieces for others.
ORIGINS = "origins"


class ScheduleError(UserError):
    """The error that a schedule does not fit or cannot be read, with the first violated rule."""


@dataclass(frozen=True)
class Schedule:
    """Stages over a graph of units, with data to check that they fit the graph.

    Attributes
    ----------
    fingerprint
        :attr:`OpGraph.fingerprint` of the graph of units.
    stages
        The stages in the order of execution; each unit stands in exactly one.
    policy
        The policy that made it, e.g. ``"ios-both"``.
    device
        The device that it was made for, e.g. ``"x86-64-v4, 2 lanes"``.
    batch
        The batch size that it was made for.
    kernels
        The name of the :class:`~tvm_ios.schedule.rkernel.RKernel` of each unit that does not run in
        its usual way. Merged units share one, which is named for each.
    unit_latencies
        For measured units the seconds alone on 1, 2, ... lanes, by which the lanes of a stage are
        divided among its groups. Without them FLOPs and bytes decide.
    instances
        The units that run as instances of sub-graphs, or None.
    chains
        Units that one kernel computes together (:mod:`tvm_ios.schedule.chains`); none where there
        are instances.
    described
        The graph by :func:`tvm_ios.schedule.first_difference.describe`, if the schedule is from a
        file.
    """

    fingerprint: str
    stages: tuple[Stage, ...]
    policy: str
    device: str = ""
    batch: int = 1
    kernels: Mapping[int, str] = field(default_factory=dict[int, str], hash=False)
    unit_latencies: Mapping[int, tuple[float, ...]] = field(
        default_factory=dict[int, tuple[float, ...]], repr=False, hash=False
    )
    instances: InstancePlan | None = None
    chains: tuple[Chain, ...] = ()
    described: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    @property
    def latencies(self) -> tuple[float, ...]:
        """Expected seconds of each stage; empty if those of a stage are not known."""
        known = tuple(stage.latency for stage in self.stages if stage.latency is not None)
        return known if len(known) == len(self.stages) else ()

    @property
    def latency(self) -> float:
        """Expected seconds of all stages."""
        return sum(self.latencies)

    def with_latencies(self, latencies: Sequence[float]) -> Schedule:
        """Return the schedule with the expected seconds of each stage, or of none if empty.

        Raises
        ------
        ScheduleError
            If there is not one latency a stage.
        """
        if latencies and len(latencies) != len(self.stages):
            raise ScheduleError("the schedule has not one latency a stage")
        stages = zip(self.stages, latencies or [None] * len(self.stages), strict=True)
        return replace(self, stages=tuple(replace(stage, latency=s) for stage, s in stages))

    @property
    def content(self) -> Schedule:
        """The schedule without policy, device and batch: a program depends on nothing else."""
        return replace(self, policy="", device="", batch=0)

    @property
    def of_stages_alone(self) -> Schedule:
        """Return the same stages without chosen kernels, placed rTasks and chains.

        Co-scheduled units run one after another, each on all lanes.
        """
        stages = tuple(
            stage
            if stage.placement is None
            else replace(stage, strategy=Strategy.CONCURRENT, placement=None)
            for stage in self.stages
        )
        return replace(self, stages=stages, kernels={}, chains=())

    def validate(self, graph: OpGraph) -> None:
        """Require that this schedule fits a graph of units.

        Raises
        ------
        ScheduleError
            Naming the first violated rule.
        """
        if self.fingerprint != graph.fingerprint:
            if self.batch != graph.batch and self.instances is not None:
                raise ScheduleError(
                    f"the schedule splits a batch of {self.batch}, and that of {graph.name} is "
                    f"{graph.batch}: give the model that batch, or search again"
                )
            difference = first_difference(self.described, graph) or (
                f"its fingerprint is {graph.fingerprint}, there {self.fingerprint}"
            )
            raise ScheduleError(
                f"the schedule was made for another graph than {graph.name}: {difference}; "
                "search again for this model"
            )
        done = 0
        for position, stage in enumerate(self.stages):
            if fault := fault_of_stage(graph, position, stage, done):
                raise ScheduleError(fault)
            done |= stage.mask
        missing = graph.all_operators & ~done
        if missing:
            first = graph.operators[next(bits(missing))].name
            raise ScheduleError(f"unit {first!r} is in no stage")
        if fault := fault_of_kernels(graph, self.stages, self.kernels):
            raise ScheduleError(fault)
        for unit, seconds in self.unit_latencies.items():
            if not 0 <= unit < len(graph):
                raise ScheduleError(f"the schedule times unit {unit}, which does not exist")
            if not seconds or not all(0 < s < float("inf") for s in seconds):
                name = graph.operators[unit].name
                raise ScheduleError(f"the latencies of unit {name!r} are not all positive seconds")
        if fault := fault_of_chains(graph, self.stages, self.chains):
            raise ScheduleError(fault)
        plan = self.instances
        if plan is not None and self.chains:
            raise ScheduleError("the schedule has both instances and chains")
        if plan is not None and (fault := fault_of_plan(graph, self.stages, self.kernels, plan)):
            raise ScheduleError(fault)

    def to_json(self, graph: OpGraph) -> dict[str, Any]:
        """Return plain data with unit numbers. Names, kinds and FLOPs are for human readers."""
        data: dict[str, Any] = {
            "format": "tvm-ios schedule",
            "version": 1,
            "fingerprint": self.fingerprint,
            "policy": self.policy,
            "device": self.device,
            "batch": self.batch,
            "units": [op.name for op in graph.operators],
            "graph": describe(graph),
            "flops": [op.flops for op in graph.operators],
            "stages": [_stage_json(stage) for stage in self.stages],
            "latencies": self.latencies,
        }
        if self.kernels:
            data["kernels"] = {str(unit): self.kernels[unit] for unit in sorted(self.kernels)}
        placements = [
            [position, [[s.unit, s.phase, s.lane, s.begin, s.end] for s in stage.placement]]
            for position, stage in enumerate(self.stages)
            if stage.placement is not None
        ]
        if placements:
            data["placements"] = placements
        if self.unit_latencies:
            data["unit_latencies"] = {
                str(unit): self.unit_latencies[unit] for unit in sorted(self.unit_latencies)
            }
        if self.chains:
            data["chains"] = self.chains
        if self.instances is not None:
            data["instances"] = self.instances.to_json()
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Schedule:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        ScheduleError
            If the data is not a schedule of this version.
        """
        if data.get("format") != "tvm-ios schedule" or data.get("version") != 1:
            raise ScheduleError("this is not a tvm-ios schedule of version 1")
        try:
            latencies = tuple(float(x) for x in data["latencies"])
            untimed = Schedule(
                fingerprint=str(data["fingerprint"]),
                policy=str(data["policy"]),
                device=str(data["device"]),
                batch=natural(data["batch"]),
                stages=_stages(data["stages"], data.get("placements", ())),
                kernels=kernels_of_json(data.get("kernels", {})),
                unit_latencies={
                    int(unit): tuple(float(s) for s in seconds)
                    for unit, seconds in dict(data.get("unit_latencies", {})).items()
                },
                instances=_instances(data.get("instances")),
                chains=chains_of_json(data.get("chains", ())),
                described=dict(data.get("graph", {})),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ScheduleError(f"the schedule file lacks or misstates {error}") from error
        return untimed.with_latencies(latencies)

    def save(self, path: Path, graph: OpGraph) -> None:
        """Write the schedule as JSON, atomically."""
        write_atomically(path, json.dumps(self.to_json(graph), indent=1).encode())

    @staticmethod
    def load(path: Path | str) -> Schedule:
        """Read a schedule from a file that :meth:`save` wrote, or from an executable's file.

        The schedule of an unrolled model with instances is read as that of the original model.

        Raises
        ------
        ScheduleError
            If the file is not a schedule.
        """
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise ScheduleError(f"cannot read the schedule {path}: {error}") from error
        return Schedule.from_text(text, str(path))

    @staticmethod
    def from_text(text: bytes | str, name: str = "text") -> Schedule:
        """Read a schedule from the text of a file; ``name`` is used in errors."""
        try:
            data = json_object(text)
        except JsonError as error:
            raise ScheduleError(f"cannot read the schedule {name}: {error}") from error
        unrolled_from = data.get(UNROLLED_FROM, data)
        if not isinstance(unrolled_from, dict):
            raise ScheduleError(f"{name} is not a tvm-ios schedule: {UNROLLED_FROM!r} is none")
        return Schedule.from_json(cast(dict[str, Any], unrolled_from))


def _stage_json(stage: Stage) -> dict[str, Any]:
    data: dict[str, Any] = {"strategy": stage.strategy.value, "groups": stage.groups}
    return {**data, "order": stage.order} if stage.order else data


def _stages(data: Any, placements: Any) -> tuple[Stage, ...]:
    placement_of = {
        natural(position): tuple(Share(*naturals(share)) for share in placement)
        for position, placement in placements
    }
    stages = tuple(
        Stage(
            Strategy(stage["strategy"]),
            tuple(map(naturals, stage["groups"])),
            naturals(stage.get("order", ())),
            placement_of.pop(position, None),
        )
        for position, stage in enumerate(data)
    )
    for position in placement_of:
        raise ScheduleError(f"stage {position} has a placement but does not exist")
    return stages


def _instances(data: Any) -> InstancePlan | None:
    return None if data is None else InstancePlan.from_json(data)
