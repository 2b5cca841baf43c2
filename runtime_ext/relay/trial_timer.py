"""Build and time configurations of AutoTVM's tasks on this machine, in separate processes."""

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

#: Time limits of building one kernel, and of running it, in seconds.
_BUILD_SECONDS, _RUN_SECONDS = 30, 20
#: Number of passes in which all configurations take turns.
_PASSES = 3
#: Timings of a kernel in each pass, besides the fastest and the slowest, which AutoTVM drops,
#: and milliseconds of runs per timing.
_REPEATS, _REPEAT_MS = 2, 5


class TrialTimer:
    """A context manager that, called with a task and configurations, returns a record of each.

    A kernel has one thread: two of TVM's threads often share a core throughout a trial and double
    its time, and tiles spread over lanes in the same way for all configurations. Caches are not
    flushed, because in a run of the model most of a kernel's data is in them. Configurations take
    turns, so that a slow moment of the machine does not decide between them, and the mean of the
    faster half of the times counts. A configuration that crashes or takes too long gets an error
    record.
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
        """Build and time configurations, which may take half a minute for each."""
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
                # The runner's server removes a kernel that has run.
                shutil.copytree(backup, self._builder.tmp_dir, dirs_exist_ok=True)
                passes.append(runner.run(inputs, built))
        del servers  # They run while they are referred to.
        return list(zip(inputs, map(_faster_half, zip(*passes, strict=True)), strict=True))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Make servers started in a ``with`` block run kernels on one thread."""
    thread_count = os.environ.get("TVM_NUM_THREADS")
    os.environ["TVM_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        del os.environ["TVM_NUM_THREADS"]
        if thread_count is not None:
            os.environ["TVM_NUM_THREADS"] = thread_count


def _faster_half(results: tuple[Any, ...]) -> Any:
    """Return the faster half of the costs of all passes as one result, or the first error."""
    if failed := next((result for result in results if result.error_no), None):
        return failed
    costs = sorted(cost for result in results for cost in result.costs)
    return results[0]._replace(costs=tuple(costs[: (len(costs) + 1) // 2]))
