"""Tune contractions in rounds of trials, each where the model's latency may fall most."""

# TVM's nodes get their attributes at run time.
# pyright: reportArgumentType=false
from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from tvm.s_tir import meta_schedule

from runtime_ext.kernels.cut import ContractionCut
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning.contraction_task import ContractionTask
from runtime_ext.tuning.speed_model import SpeedModel
from runtime_ext.tuning_log.folder import OpenLog, recorded, workload_name
from runtime_ext.tuning_log.space import Notes, Space, noted, recut
from tvm_ios.measuring.tuning import TunedKernel, TuningLimits

#: Trials a round, and how many of them are random instead of predicted. Rounds are short because
#: the model knows more before each.
_ROUND, _RANDOM = 8, 1
#: The weight of the last round's gain in the choice of the next contraction. The rest is an
#: optimistic estimate, which every round lowers.
_RECENT = 0.2
#: The weight of gains of merge candidates, which may never be used.
_MERGED_SHARE = 0.25
#: Floating-point operations a second, assumed to choose the first tasks.
_GUESS = 2e11


class Timer(Protocol):
    """A timer of contractions, such as :class:`runtime_ext.cpu.kernel_timer.KernelTimer`."""

    def measure(self, specs: Sequence[Contraction]) -> list[float]:
        """Return the seconds of each contraction; the others are timed beside the first.

        Infinite for a contraction that could not be timed.
        """
        ...


#: Called after every round with trials done, the most trials that there can be, and the seconds
#: saved of a run of the model.
TrialProgress = Callable[[int, int, float], None]


def tune(
    tasks: Sequence[ContractionTask],
    log: OpenLog,
    target: Any,
    space: Space,
    timer: Timer,
    model: SpeedModel,
    limits: TuningLimits,
    progress: TrialProgress,
) -> tuple[TunedKernel, ...]:
    """Tune the contractions of a model into a log; do not time again what the log already holds.

    Every trial is recorded at once. Each contraction of a unit has at least its default timed;
    then every round times cuts of the contraction that promises most, until the limits are
    reached. ``model`` predicts which cuts are fast; ``progress`` is called after every round.
    """
    begin = time.perf_counter()
    trials = _recorded(log)
    rng = np.random.default_rng(sum(map(len, trials.values())))
    states = [_State.of(task, space, log, trials) for task in tasks]

    def report() -> None:
        done = sum(state.trials for state in states)
        total = sum(max(state.trials, min(limits.trials, state.most)) for state in states)
        timed = (state for state in states if state.seconds)
        progress(done, total, sum(s.task.weight * (s.default - s.best) for s in timed))

    report()
    fresh = [state for state in states if state.task.weight and not state.seconds]
    for first in range(0, len(fresh), _ROUND):
        batch = fresh[first : first + _ROUND]
        specs = [state.spec_of(state.reference) for state in batch]
        for state, seconds in zip(batch, timer.measure(specs), strict=True):
            if math.isinf(seconds) and len(batch) > 1:
                # All are compared with the first, which may have failed: time this one alone.
                (seconds,) = timer.measure([state.spec_of(state.reference)])
            state.refer_to(seconds, target)
        report()
    while open_states := [state for state in states if state.room(limits.trials)]:
        if time.perf_counter() - begin >= limits.seconds:
            break
        state = max(open_states, key=lambda s: s.promise)
        model.fit([s.samples for s in states if s.seconds])
        chosen = state.choose(model, min(_ROUND, state.room(limits.trials)), rng)
        reference, *seconds = timer.measure([state.spec_of(p) for p in (state.reference, *chosen)])
        state.refer_to(reference, target)
        if not state.given_up:
            state.record(seconds, chosen, target)
        report()
    return tuple(state.result() for state in states if state.seconds)


@dataclass
class _State:
    """A contraction while it is tuned.

    ``reference`` is the cut with which others are compared, and ``seconds`` are by index into
    ``points``. ``forgotten`` counts trials that were removed from the log, ``new`` the trials of
    this run, and ``gain`` is the seconds saved by the last round. ``failed`` are the points that
    could not be timed in this run; the contraction is ``given_up`` if its reference could not.
    """

    task: ContractionTask
    space: Space
    log: OpenLog
    workload: Any
    points: tuple[ContractionCut, ...]
    reference: ContractionCut
    forgotten: int
    seconds: dict[int, float]
    features: Any
    new: int = 0
    gain: float = 0.0
    given_up: bool = False
    failed: set[int] = field(default_factory=set)
    _index: dict[ContractionCut, int] = field(default_factory=dict)

    @staticmethod
    def of(
        task: ContractionTask,
        space: Space,
        log: OpenLog,
        trials: dict[str, list[tuple[Notes, float]]],
    ) -> _State:
        """Return the state of a task, with the trials of it that the log holds."""
        workload = space.workload(task.spec)
        name = workload_name(workload)
        earlier = ((space.point(notes), measured) for notes, measured in trials.get(name, []))
        valid = [trial for trial in earlier if space.holds(task.spec, trial[0])]
        # Points of the log count as well: under earlier rules of thumb, another one of two cuts of
        # equal code may have been listed.
        recorded_points = (point for point, _ in valid)
        points = tuple(dict.fromkeys((*space.points(task.spec), *recorded_points)))
        index = {point: i for i, point in enumerate(points)}
        seconds: dict[int, float] = {}
        for point, measured in valid:
            i = index[point]
            seconds[i] = min(measured, seconds.get(i, measured))
        return _State(
            task=task,
            space=space,
            log=log,
            workload=workload,
            points=points,
            reference=valid[0][0] if valid else points[0],
            forgotten=log.forgotten.get(name, 0),
            seconds=seconds,
            features=space.features(task.spec, points),
            _index=index,
        )

    @property
    def trials(self) -> int:
        """The number of blockings timed so far, forgotten ones included."""
        return len(self.seconds) + self.forgotten

    @property
    def most(self) -> int:
        """The number of blockings that can be timed."""
        return len(self.points)

    @property
    def default(self) -> float:
        """Seconds of the reference, which was timed first."""
        return self.seconds[self._index[self.reference]]

    @property
    def best(self) -> float:
        """Seconds of the fastest blocking."""
        return min(self.seconds.values())

    @property
    def promise(self) -> float:
        """An estimate of the seconds of the model's latency that another round may save."""
        weight = self.task.weight + _MERGED_SHARE * self.task.merged
        best = self.best if self.seconds else self.task.flops / _GUESS
        hope = best / (1 + self.trials / _ROUND) ** 2
        return weight * (_RECENT * self.gain + (1 - _RECENT) * hope)

    @property
    def samples(self) -> tuple[Any, Any]:
        """Features and seconds of the blockings that were timed."""
        return self.features[list(self.seconds)], np.array([*self.seconds.values()])

    def room(self, trials: int) -> int:
        """Return how many trials are left, if each contraction may have ``trials``."""
        if self.given_up:
            return 0
        timed = max(1, len(self.seconds)) + len(self.failed)
        return max(0, min(trials - timed - self.forgotten, len(self.points) - timed))

    def spec_of(self, point: ContractionCut) -> Contraction:
        """Return the contraction with the cut of a point."""
        return recut(self.task.spec, point, self.space)

    def choose(
        self, model: SpeedModel, count: int, rng: np.random.Generator
    ) -> list[ContractionCut]:
        """Return points to time next: those predicted fastest, and a few at random."""
        timed = {*self.seconds, *self.failed, self._index[self.reference]}
        remaining = np.array([i for i in range(len(self.points)) if i not in timed])
        order = rng.permutation(remaining)
        speeds = model.predict(self.features[order])
        if speeds is not None:
            drawn = min(_RANDOM, count - 1) if count > 1 else 0
            ranked = order[np.argsort(-speeds, kind="stable")]
            order = np.concatenate([order[:drawn], ranked[~np.isin(ranked, order[:drawn])]])
        return [self.points[i] for i in order[:count]]

    def refer_to(self, seconds: float, target: Any) -> None:
        """Record a time of the reference, if it is the fastest; give up if it is infinite."""
        if math.isinf(seconds):
            self.given_up = True
        elif not self.seconds or seconds < self.default:
            # Other work only adds time: the fastest time is the true one.
            self.record([seconds], [self.reference], target)

    def record(
        self, seconds: Sequence[float], chosen: Sequence[ContractionCut], target: Any
    ) -> None:
        """Add trials here and to the log.

        Points that could not be timed only count as failed, so the next run tries them again.
        """
        best_before = self.best if self.seconds else None
        database = self.log.database
        workload = database.commit_workload(self.workload)
        arguments = meta_schedule.arg_info.ArgInfo.from_entry_func(self.workload, False)
        for point, measured in zip(chosen, seconds, strict=True):
            if math.isinf(measured):
                self.failed.add(self._index[point])
                continue
            trace = self.space.schedule(self.task.spec, self.workload, point).trace
            database.commit_tuning_record(
                meta_schedule.database.TuningRecord(trace, workload, [measured], target, arguments)
            )
            number = self._index[point]
            self.new += number not in self.seconds
            self.seconds[number] = min(measured, self.seconds.get(number, measured))
        self.gain = best_before - self.best if best_before is not None else 0.0

    def result(self) -> TunedKernel:
        """Return the best kernel of the trials so far."""
        return TunedKernel(self.task, self.default, self.best, self.trials, self.new)


def _recorded(log: OpenLog) -> dict[str, list[tuple[Notes, float]]]:
    """Return the trials of a log by workload, in the order in which they were made."""
    trials: dict[str, list[tuple[Notes, float]]] = {}
    for record in recorded(log.folder):
        notes = noted(record.trace)
        if notes is not None:
            trials.setdefault(record.workload, []).append((notes, record.seconds))
    return trials
