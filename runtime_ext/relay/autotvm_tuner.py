"""Tune AutoTVM's tasks with its ``XGBTuner``: rounds of trials where the model gains most."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import autotvm
from tvm.autotvm.tuner import XGBTuner

from runtime_ext.relay.autotvm_task import AutotvmTask, default_index, free_layout, keep_layout
from runtime_ext.relay.tuning_file import AutotvmRecord, OpenAutotvmLog
from tvm_ios.measuring.tuning import TunedKernel, TuningLimits

#: Trials of a round. Each round starts a server for the runs and fits the cost model.
_ROUND = 16
#: Share that gains of merge candidates count, because these may never be used.
_MERGED_SHARE = 0.25
#: Floating-point operations a second, assumed to choose the first tasks.
_GUESS = 5e10

#: Tries configurations of a task and returns the record of each.
MeasureConfigs = Callable[[Any, Sequence[Any]], list[AutotvmRecord]]
#: Called after every round with trials done, the most that there may be, and the seconds saved
#: in a run of the model.
TrialProgress = Callable[[int, int, float], None]


def tune(
    tasks: Sequence[AutotvmTask],
    log: OpenAutotvmLog,
    measure: MeasureConfigs,
    limits: TuningLimits,
    progress: TrialProgress,
    *,
    all_blocks: bool = False,
) -> tuple[TunedKernel, ...]:
    """Tune the different tasks of a model into a log; return the best kernel of each.

    Trials that the log holds already are not repeated, and tasks without a successful trial are
    left out. Operators of the model that are not in the log get a round first, those with the most
    arithmetic before the others; then rounds go where the model may gain most. A task's first trial
    is TVM's default configuration, and the others keep its data layouts, so that a kernel that is
    faster alone is also faster in the model. With ``all_blocks`` every second round of a task tries
    all channel blocks, for use with :mod:`relay_passes.relay.layouts.channel_blocks`. ``measure``
    times configurations, as :class:`runtime_ext.relay.trial_timer.TrialTimer` does.
    """
    begin = time.perf_counter()
    states = [_State.of(task, log.records, all_blocks) for task in tasks]

    def report() -> None:
        total = sum(len(state.tried) + state.room(limits.trials) for state in states)
        progress(sum(len(state.tried) for state in states), total, sum(s.saved for s in states))

    report()
    while open_states := [state for state in states if state.room(limits.trials)]:
        if time.perf_counter() - begin >= limits.seconds:
            break
        state = max(open_states, key=lambda s: (bool(s.task.weight and not s.tried), s.promise))
        records = state.run_round(min(_ROUND, state.room(limits.trials)), measure)
        log.append(records)
        report()
    return tuple(state.result() for state in states if state.times)


@dataclass
class _State:
    """A task while it is tuned: its records, and the times of its configurations by index."""

    task: AutotvmTask
    default: int | None
    all_blocks: bool = False
    records: list[AutotvmRecord] = field(default_factory=list)
    times: dict[int, float] = field(default_factory=dict)
    tried: set[int] = field(default_factory=set)
    new: int = 0

    @staticmethod
    def of(task: AutotvmTask, records: Sequence[AutotvmRecord], all_blocks: bool) -> _State:
        """Return the state of a task with its records from a log."""
        inner = task.task
        state = _State(task, default_index(inner), all_blocks)
        if state.default is not None and not all_blocks:
            keep_layout(inner, state.default)
        known_records: list[AutotvmRecord] = []
        for measure_input, result in records:
            if (measure_input.task.name, measure_input.task.args) != (inner.name, inner.args):
                continue
            index = measure_input.config.index
            # The space may differ in another version of TVM, and have other layouts.
            space = inner.config_space
            if 0 <= index < space.range_length and space.is_index_valid(index):
                config = inner.config_space.get(index)
                if config.to_json_dict()["entity"] == measure_input.config.to_json_dict()["entity"]:
                    known_records.append(
                        (autotvm.MeasureInput(inner.target, inner, config), result)
                    )
        state.take(known_records)
        return state

    @property
    def promise(self) -> float:
        """Estimated seconds of the model that another round may save."""
        weight = self.task.weight + _MERGED_SHARE * self.task.merged
        best = min(self.times.values(), default=self.task.flops / _GUESS)
        return weight * best / (1 + len(self.tried) / _ROUND) ** 2

    @property
    def saved(self) -> float:
        """Seconds that the best kernel saves in a run of the model."""
        if self.default not in self.times:
            return 0.0
        return self.task.weight * (self.times[self.default] - min(self.times.values()))

    def room(self, trials: int) -> int:
        """Return the number of trials that are left."""
        return max(0, min(trials, len(self.task.task.config_space)) - len(self.tried))

    def take(self, records: Sequence[AutotvmRecord]) -> None:
        """Add records to the known trials."""
        self.records += records
        for measure_input, result in records:
            index = measure_input.config.index
            self.tried.add(index)
            if not result.error_no:
                seconds = float(np.mean(result.costs))
                self.times[index] = min(seconds, self.times.get(index, seconds))

    def run_round(self, count: int, measure: MeasureConfigs) -> list[AutotvmRecord]:
        """Try ``count`` configurations, TVM's default first of all; return their records."""
        task = self.task.task
        configs: list[Any] = []
        if self.all_blocks and self.default is not None and len(self.tried) // _ROUND % 2 == 0:
            keep_layout(task, self.default)
            configs = self._choose(count)
            free_layout(task)
        records = measure(task, configs or self._choose(count))
        self.new += len(records)
        self.take(records)
        return records

    def _choose(self, count: int) -> list[Any]:
        """Return up to ``count`` untried configurations of the space as it is restricted now."""
        task, space = self.task.task, self.task.task.config_space
        configs: list[Any] = []
        if self.default is not None and self.default not in self.tried:
            configs.append(space.get(self.default))
        tried = set(filter(space.is_index_valid, self.tried))
        chosen = {config.index for config in configs} | tried
        if len(space) <= count + len(tried):
            remaining = filter(space.is_index_valid, range(space.range_length))
            return configs + [space.get(index) for index in remaining if index not in chosen]
        tuner = XGBTuner(task, plan_size=_ROUND, feature_type="knob", num_threads=1)
        if records := [record for record in self.records if record[0].config.index in tried]:
            tuner.update(*zip(*records, strict=True))
        tuner.visited |= chosen
        return configs + tuner.next_batch(count - len(configs))

    def result(self) -> TunedKernel:
        """Return the best kernel of the trials so far."""
        default = None if self.default is None else self.times.get(self.default)
        return TunedKernel(self.task, default, min(self.times.values()), len(self.tried), self.new)
