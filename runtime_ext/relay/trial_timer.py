"""Builds and times configurations of AutoTVM's tasks on this machine, in processes of their own."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from tvm import autotvm
from tvm.autotvm.measure import create_measure_batch

from runtime_ext.relay.tuning_file import Record

#: Seconds that building one kernel may take, and running it.
_BUILD_SECONDS, _RUN_SECONDS = 30, 20
#: Times that a kernel is timed, of which the mean counts, and milliseconds of runs each time.
_REPEATS, _REPEAT_MS = 4, 10


class TrialTimer:
    """A context: called with a task and configurations it tells what came of each.

    As in a run of the model a kernel has all threads, ``TVM_NUM_THREADS`` of them, awake from the
    run before. So caches are not flushed, as AutoTVM offers: meanwhile threads fall asleep, and
    most of what a small kernel takes would be to wake them. What crashes or takes too long is a
    record of an error.
    """

    def __enter__(self) -> TrialTimer:
        self._builder = autotvm.LocalBuilder(timeout=_BUILD_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._builder.tmp_dir, ignore_errors=True)

    def __call__(self, task: Any, configs: Sequence[Any]) -> list[Record]:
        """Build and time; may take half a minute for each of them."""
        runner = autotvm.LocalRunner(
            timeout=_RUN_SECONDS, number=1, repeat=_REPEATS, min_repeat_ms=_REPEAT_MS
        )
        option = autotvm.measure_option(builder=self._builder, runner=runner)
        measure = create_measure_batch(task, option)
        inputs = [autotvm.MeasureInput(task.target, task, config) for config in configs]
        return list(zip(inputs, measure(inputs), strict=True))
