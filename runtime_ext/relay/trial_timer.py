"""Builds and times configurations of AutoTVM's tasks on this machine, in processes of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from tvm import autotvm

from runtime_ext.relay.tuning_file import AutotvmRecord
from tvm_ios.files.atomic import temporary_folder

#: Seconds that building one kernel may take, and running it.
_BUILD_SECONDS, _RUN_SECONDS = 30, 20
#: Times that all configurations are run in turn.
_PASSES = 3
#: Times that a kernel is timed in each of them, besides the fastest and the slowest, which AutoTVM
#: leaves out, and milliseconds of runs each time.
_REPEATS, _REPEAT_MS = 2, 5


class TrialTimer:
    """A context manager that, called with a task and configurations, gives the record of each.

    A kernel has one thread: two of TVM's threads often share a core for as long as a trial takes,
    which then counts for twice its time, and how tiles spread over lanes is the same for all
    configurations. Caches are not flushed: in a run of the model most of what a kernel reads is
    there. Configurations take turns, so that a slow moment of the machine does not decide between
    them, and the faster half of what is timed counts. What crashes or takes too long is a record of
    an error.
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

    def __call__(self, task: Any, configs: Sequence[Any]) -> list[AutotvmRecord]:
        """Build and time configurations; may take half a minute for each."""
        runner = autotvm.LocalRunner(
            timeout=_RUN_SECONDS,
            number=1,
            repeat=_REPEATS + 2,
            min_repeat_ms=_REPEAT_MS,
            cooldown_interval=0,
        )
        with _one_thread():
            servers = runner.set_task(task)
        self._builder.set_task(task, runner.get_build_kwargs())
        inputs = [autotvm.MeasureInput(task.target, task, config) for config in configs]
        built = self._builder.build(inputs)
        with temporary_folder() as backup:
            shutil.copytree(self._builder.tmp_dir, backup, dirs_exist_ok=True)
            passes: list[list[Any]] = []
            for _ in range(_PASSES):
                # Its server removes a kernel that has run.
                shutil.copytree(backup, self._builder.tmp_dir, dirs_exist_ok=True)
                passes.append(runner.run(inputs, built))
        del servers  # They run while they are referred to.
        return list(zip(inputs, map(_faster_half, zip(*passes, strict=True)), strict=True))


@contextmanager
def _one_thread() -> Iterator[None]:
    """A context in which servers are started that run kernels on one thread."""
    thread_count = os.environ.get("TVM_NUM_THREADS")
    os.environ["TVM_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        del os.environ["TVM_NUM_THREADS"]
        if thread_count is not None:
            os.environ["TVM_NUM_THREADS"] = thread_count


def _faster_half(results: tuple[Any, ...]) -> Any:
    """The results of all passes as one, or the first error."""
    if failed := next((result for result in results if result.error_no), None):
        return failed
    costs = sorted(cost for result in results for cost in result.costs)
    return results[0]._replace(costs=tuple(costs[: (len(costs) + 1) // 2]))
