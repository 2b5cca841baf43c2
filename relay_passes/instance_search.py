"""The policies that run units as instances, chosen by measuring whole programs.

What an instance gains is that its tensors are still in the cache of its lane, which no stage
measured alone would show: candidates are built, and run in turn.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from relay_passes.dialect import DialectError
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.session import Session
from runtime_ext.machine.cpu_hierarchy import cpu_hierarchy
from tvm_ios.contest.rounds import Samples, run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.verdict import kept_policy
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.explain.timeline import read_timeline
from tvm_ios.graphturbo.planned import planned_instances
from tvm_ios.graphturbo.policy import choose_instances, instances_schedule
from tvm_ios.graphturbo.unrolled_names import origin
from tvm_ios.graphturbo.worth import lane_capacities
from tvm_ios.ios.lazy import LazyStatistics
from tvm_ios.ios.strategies import GRAPHTURBO, HOLISTIC
from tvm_ios.policies.mixing import Candidate, by_sub_graph, mix, segments_of, with_merges
from tvm_ios.program.program_builder import LoweringError
from tvm_ios.schedule.schedule import Schedule, ScheduleError, Strategy

if TYPE_CHECKING:
    from relay_passes.module_search import ModuleSearch

#: What ``holistic`` chooses from, block by block, beside instances; the last two place tiles.
_OTHERS = ("sequential", "greedy", "ios-both", "rammer", "ios-holistic")

#: The one of these whose merged convolutions are tried inside instances.
_MERGES = "ios-both"

#: Bytes that hold any instance: then each lane runs its part of the batch from start to end.
_EVERYTHING = 1 << 60

#: Seconds that the runs of a contest of candidates take, about.
_SECONDS = 8.0


class InstanceSearch:
    """Finds the schedules of ``graphturbo`` and ``holistic`` of one module on this machine.

    Parameters
    ----------
    search
        Compiles its units, and finds the schedules of the other policies.
    """

    def __init__(self, search: ModuleSearch) -> None:
        self._search = search
        self._built: dict[Schedule, BuiltModel] = {}
        self._split: dict[_Split, Schedule | None] = {}
        self._left_out: dict[Schedule, str] = {}

    def graphturbo(self) -> tuple[Schedule, LazyStatistics]:
        """The fastest split into instances; the sequential schedule where nothing can be split."""
        watch = _Watch(self._search)
        candidates = self._splits(watch)
        if not candidates:
            made = self._search.schedule("sequential")[0]
            return replace(made, policy=GRAPHTURBO), self._took(watch, 0)
        return self._fastest(candidates, GRAPHTURBO), self._took(watch, len(candidates))

    def holistic(self) -> tuple[Schedule, LazyStatistics]:
        """The best of all policies between any two places where they have done the same units."""
        watch = _Watch(self._search)
        places = self._search.prepared.dialect.places_tiles
        others = _OTHERS if places else _OTHERS[: _OTHERS.index(_MERGES) + 1]
        found = [self._search.schedule(policy)[0] for policy in others]
        merging = found[others.index(_MERGES)]
        splits = self._splits(watch)
        found += splits + [by_sub_graph(schedule) for schedule in splits]
        merged = [with_merges(schedule, merging) for schedule in splits]
        found += [schedule for schedule in merged if not watch.spent() and self._builds(schedule)]
        distinct = {self._timed(schedule).content: schedule for schedule in found}
        measured = self._profile(list(distinct.values()))
        mixed = mix(self._search.graph, measured, HOLISTIC)
        # Profiles cost each program something else: what came out best as a whole competes too.
        whole = [
            min(measured, key=lambda c: sum(c.seconds)).schedule,
            measured[0].schedule,
            self._search.schedule(GRAPHTURBO)[0],
        ]
        if self._builds(mixed):
            whole.append(mixed)
        return self._fastest(whole, HOLISTIC), self._took(watch, len(distinct))

    def _took(self, watch: _Watch, programs: int) -> LazyStatistics:
        return replace(watch.statistics(programs), left_out=tuple(self._left_out.values()))

    def _splits(self, watch: _Watch) -> list[Schedule]:
        """Schedules with instances, each of another split.

        What a model of the caches predicts to be best, rows of images included, and of the batch
        all splits into instances of some sizes, whatever it predicts.
        """
        lanes = self._search.options.lanes
        device = cpu_hierarchy(lanes)
        predicted = _Split(None, (0, 2), 1, device)
        batch = self._search.graph.batch
        sizes = (*lane_capacities(device)[::2], _EVERYTHING) if batch > 1 else ()
        tried = [
            _Split(size, (0,), least, None) for least in dict.fromkeys((lanes, 1)) for size in sizes
        ]
        found: dict[Schedule, None] = {}
        for split in (predicted, *tried):
            if watch.spent():
                break
            if split not in self._split:
                self._split[split] = self._instances(split)
            made = self._split[split]
            if made is not None:
                found[made] = None
        return list(found)

    def _instances(self, split: _Split) -> Schedule | None:
        """The schedule of a split, if there is one that can be built."""
        units, lanes = self._search.graph, self._search.options.lanes
        instances = choose_instances(
            self._search.prepared.outliner.extraction.graph,
            units,
            lanes=lanes,
            capacity=split.capacity,
            axes=split.axes,
            least_factor=split.least_factor,
            device=split.device,
        )
        made = instances_schedule(units, instances, lanes, self._search.device)
        return made if made.instances is not None and self._builds(made) else None

    def _builds(self, schedule: Schedule) -> bool:
        """Whether there is a program of a schedule; if not, why is reported."""
        try:
            self._model(self._timed(schedule))
        except (DialectError, ScheduleError, LoweringError) as error:
            # An operator may have extents written down that no part of it has; parts of units
            # that are to be merged may be different rows; a unit that reads what instances made
            # where it lies may be other tiles than those that a stage of the mixture places.
            self._left_out[schedule.content] = str(error)
        return schedule.content not in self._left_out

    def _fastest(self, schedules: Sequence[Schedule], policy: str) -> Schedule:
        """The fastest; the sequential one, if it competes, unless the interval is below one."""
        different: dict[Schedule, Schedule] = {}
        for made in map(self._timed, schedules):
            different.setdefault(made.content, made)
        timed = list(different.values())
        if len(timed) == 1:
            return replace(timed[0], policy=policy)
        plain = self._timed(self._search.schedule("sequential")[0]).content
        names = ["sequential" if key == plain else str(n) for n, key in enumerate(different)]
        runners = {name: self._session(made) for name, made in zip(names, timed, strict=True)}

        def contest(competing: Sequence[str], rounds: int, minimum: int) -> Samples:
            return run_in_turn(
                {name: runners[name].run for name in competing},
                Rules(rounds=rounds, seconds=_SECONDS, minimum=minimum, warm_up=1),
                self._report(f"{policy}: comparing programs", rounds),
            )

        samples = contest(names, 15, 5)
        best = min(samples, key=lambda name: statistics.median(samples[name]))
        if "sequential" in samples and best != "sequential":
            # Of the best of several some luck is a part.
            best, _ = kept_policy(best, [contest([best, "sequential"], 30, 9)])
        for session in runners.values():
            session.close()
        return replace(timed[names.index(best)], policy=policy)

    def _profile(self, schedules: Sequence[Schedule]) -> list[Candidate]:
        """Measure the segments of schedules, whose programs run in turn."""
        timed = list(map(self._timed, schedules))
        sessions = [self._session(made) for made in timed]
        segments = [self._segments(made) for made in timed]
        samples: list[list[list[float]]] = [[] for _ in timed]
        rounds, begin = 12, time.perf_counter()
        report = self._report(f"{HOLISTIC}: profiling blocks", rounds)
        for number in range(rounds):
            if number >= 5 and time.perf_counter() - begin > _SECONDS:
                break
            for place in random.Random(number).sample(range(len(timed)), len(timed)):
                # The run before leaves another program's data in the caches.
                sessions[place].run()
                program = self._model(timed[place]).program
                steps = read_timeline(program, sessions[place].profile()).steps
                ends = [0.0] * (max(segments[place].values()) + 1)
                for step in steps:
                    segment = segments[place][program.units[step.unit]]
                    ends[segment] = max(ends[segment], step.end)
                samples[place].append(_differences(ends))
            report(number + 1)
        for session in sessions:
            session.close()
        return [
            Candidate(made, tuple(map(statistics.median, zip(*runs, strict=True))))
            for made, runs in zip(timed, samples, strict=True)
        ]

    def _segments(self, schedule: Schedule) -> Mapping[str, int]:
        """For each unit of the built program, by name, the segment that it runs in."""
        segment_of: dict[int, int] = {}
        segments = segments_of(schedule)
        for number, segment in enumerate(segments):
            for stage in segment.stages:
                segment_of |= dict.fromkeys(schedule.stages[stage].units, number)
        attached = self._model(schedule).schedule
        names = attached["units"]
        if schedule.instances is None:
            found = {name: segment_of[unit] for unit, name in enumerate(names)}
        else:
            found = self._segments_of_instances(schedule, segment_of, names, len(segments) - 1)
        for stage in Schedule.from_json(attached).stages:
            if stage.strategy is Strategy.MERGE:
                members = [names[unit] for unit in stage.units]
                found["+".join(members)] = found[members[0]]
        return found

    def _segments_of_instances(
        self, schedule: Schedule, segment_of: Mapping[int, int], names: Sequence[str], last: int
    ) -> dict[str, int]:
        extraction = self._search.prepared.outliner.extraction
        planned = planned_instances(extraction.graph, self._search.graph, schedule).instances
        found: dict[str, int] = {}
        for name in names:
            instance = origin(name).instance
            if instance is not None:
                layers = planned.subgraphs[planned.instances[instance].subgraph].layers
                found[name] = segment_of[layers.bit_length() - 1]
            else:
                found[name] = last
        return found

    def _timed(self, schedule: Schedule) -> Schedule:
        return self._search.timer.timed(schedule)

    def _session(self, schedule: Schedule) -> Session:
        session = self._model(schedule).session()
        session.set_input(**session.random_inputs(0))
        return session

    def _model(self, schedule: Schedule) -> BuiltModel:
        key = schedule.content
        if key not in self._built:
            self._built[key] = self._search.build(schedule)
        return self._built[key]

    def _report(self, what: str, total: int) -> Callable[[int], None]:
        progress = self._search.progress

        def report(done: int) -> None:
            if progress is not None:
                progress(what, done, total)

        return report


class _Split(NamedTuple):
    """How :func:`choose_instances` is asked to split."""

    capacity: int | None
    axes: tuple[int, ...]
    least_factor: int
    device: MemoryHierarchy | None


def _differences(ends: Sequence[float]) -> list[float]:
    """Seconds of each segment: from when all before it had ended to when it had, too."""
    found: list[float] = []
    before = 0.0
    for end in ends:
        found.append(max(0.0, end - before))
        before = max(before, end)
    return found


class _Watch:
    """What a search took."""

    def __init__(self, search: ModuleSearch) -> None:
        self._limit = search.options.budget.time_limit
        self._blocks = len(search.blocks)
        self._begin = time.perf_counter()
        self._complete = True

    def spent(self) -> bool:
        """Whether the time limit has passed; what is left out then makes a search incomplete."""
        if self._limit is not None and time.perf_counter() - self._begin > self._limit:
            self._complete = False
        return not self._complete

    def statistics(self, programs: int) -> LazyStatistics:
        """Of a search that measured so many programs."""
        return LazyStatistics(
            seconds=time.perf_counter() - self._begin,
            states=0,
            transitions=0,
            candidates=programs,
            stages_measured=0,
            rounds=1,
            complete=self._complete,
            lower_bound=0.0,
            blocks=self._blocks,
            blocks_searched=0,
        )
