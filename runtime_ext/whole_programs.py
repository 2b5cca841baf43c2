"""Measure whole programs, which are built, and then run in turn on this machine."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from runtime_ext.cpu.hierarchy import cpu_hierarchy
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.session import Session
from tvm_ios.contest import rules
from tvm_ios.contest.rounds import run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.explain.timeline import read_timeline
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.planned import planned_instances
from tvm_ios.policies.mixing import segments_of
from tvm_ios.schedule.schedule import ORIGINS, Schedule
from tvm_ios.schedule.stage import Strategy


class WholePrograms:
    """A timer of schedules' whole programs; see :class:`tvm_ios.costs.costs.ProgramCosts`.

    ``refuses`` are the errors by which ``build`` refuses a schedule: an operator may have extents
    as attributes, which no part of it has; parts of units to be merged may have different rows; a
    unit that reads the results of instances in place may have other tiles than those that a stage
    of a mixture places.
    """

    def __init__(
        self,
        operators: OpGraph,
        units: OpGraph,
        lanes: int,
        build: Callable[[Schedule], BuiltModel],
        refuses: tuple[type[Exception], ...],
    ) -> None:
        self.lanes = lanes
        self._operators = operators
        self._units = units
        self._build = build
        self._refuses = refuses
        self._built: dict[Schedule, BuiltModel] = {}
        self._refused: dict[Schedule, str] = {}

    @property
    def hierarchy(self) -> MemoryHierarchy:
        """The memory hierarchy of this machine with ``lanes`` lanes."""
        return cpu_hierarchy(self.lanes)

    def refusal(self, schedule: Schedule) -> str:
        """Return why there is no program of a schedule, in one sentence; empty if there is one."""
        key = schedule.content
        if key not in self._built and key not in self._refused:
            try:
                self._model(schedule)
            except self._refuses as error:
                self._refused[key] = str(error)
        return self._refused.get(key, "")

    def contest(
        self, schedules: Mapping[str, Schedule], limits: Rules, report: Callable[[int], None]
    ) -> Mapping[str, Sequence[float]]:
        """Return seconds of runs of the schedules' programs, which run in turn."""
        sessions = {name: self._session(schedule) for name, schedule in schedules.items()}
        samples = run_in_turn({name: s.run for name, s in sessions.items()}, limits, report)
        for session in sessions.values():
            session.close()
        return samples

    def profile(
        self, schedules: Sequence[Schedule], report: Callable[[int, int], None]
    ) -> list[tuple[float, ...]]:
        """Return the median seconds of each segment of each schedule; the programs run in turn."""
        sessions = [self._session(schedule) for schedule in schedules]
        segments = [self._segments(schedule) for schedule in schedules]
        samples: list[list[list[float]]] = [[] for _ in schedules]
        begin = time.perf_counter()
        for number in range(rules.PROFILE.rounds):
            spent = time.perf_counter() - begin
            if number >= rules.PROFILE.minimum and spent > rules.PROFILE.seconds:
                break
            for place in random.Random(number).sample(range(len(schedules)), len(schedules)):
                # The run before leaves another program's data in the caches.
                sessions[place].run()
                program = self._model(schedules[place]).program
                steps = read_timeline(program, sessions[place].profile()).steps
                ends = [0.0] * (max(segments[place].values()) + 1)
                for step in steps:
                    segment = segments[place][program.units[step.unit]]
                    ends[segment] = max(ends[segment], step.end)
                samples[place].append(_differences(ends))
            report(number + 1, rules.PROFILE.rounds)
        for session in sessions:
            session.close()
        return [tuple(map(statistics.median, zip(*runs, strict=True))) for runs in samples]

    def _segments(self, schedule: Schedule) -> Mapping[str, int]:
        """Return the segment in which each unit of the built program, by name, runs."""
        segment_of: dict[int, int] = {}
        segments = segments_of(schedule)
        for number, segment in enumerate(segments):
            for stage in segment.stages:
                segment_of |= dict.fromkeys(schedule.stages[stage].units, number)
        built_schedule = self._model(schedule).schedule
        names = built_schedule["units"]
        if schedule.instances is None:
            segment_by_name = {name: segment_of[unit] for unit, name in enumerate(names)}
        else:
            origins = [instance for instance, *_ in built_schedule[ORIGINS]]
            last = len(segments) - 1
            segments_of_units = self._segments_of_instances(schedule, segment_of, origins, last)
            segment_by_name = dict(zip(names, segments_of_units, strict=True))
        built_units = Schedule.from_json(built_schedule)
        merged = (s.units for s in built_units.stages if s.strategy is Strategy.MERGE)
        for units in (*merged, *built_units.chains):
            members = [names[unit] for unit in units]
            segment_by_name["+".join(members)] = segment_by_name[members[0]]
        return segment_by_name

    def _segments_of_instances(
        self,
        schedule: Schedule,
        segment_of: Mapping[int, int],
        instances: Sequence[int | None],
        last: int,
    ) -> list[int]:
        """Return the segment of each unit by its instance; the last one for others."""
        planned = planned_instances(self._operators, self._units, schedule).instances
        segments: list[int] = []
        for instance in instances:
            if instance is None:
                segments.append(last)
                continue
            layers = planned.subgraphs[planned.instances[instance].subgraph].layers
            segments.append(segment_of[layers.bit_length() - 1])
        return segments

    def _session(self, schedule: Schedule) -> Session:
        session = self._model(schedule).session()
        session.set_input(**session.random_inputs(0))
        return session

    def _model(self, schedule: Schedule) -> BuiltModel:
        key = schedule.content
        if key not in self._built:
            self._built[key] = self._build(schedule)
        return self._built[key]


def _differences(ends: Sequence[float]) -> list[float]:
    """Return the seconds of each segment: from the latest end of all before it to its own end."""
    differences: list[float] = []
    ended = 0.0
    for end in ends:
        differences.append(max(0.0, end - ended))
        ended = max(ended, end)
    return differences
