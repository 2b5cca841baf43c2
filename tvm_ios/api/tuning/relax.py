"""Tune a model's kernels into a log, or go on where an earlier run stopped."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from relay_passes.load import load_model
from relay_passes.measured import MeasuredSearch
from relay_passes.measuring_options import MeasuringOptions
from relay_passes.prepare import prepare
from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.vector_unit import VectorUnit
from runtime_ext.machine.this_machine import available_lanes
from runtime_ext.tuning.cost_model import CostModel, Features, features_of
from runtime_ext.tuning.kernel_timer import KernelTimer
from runtime_ext.tuning.tuner import Limits, Timer, tune
from runtime_ext.tuning.tuning_folder import compact, open_log
from tvm_ios.api.tuning.relax_tasks import tuning_tasks
from tvm_ios.api.tuning.result import Tuning, TuningResult
from tvm_ios.models.source import AnyModel
from tvm_ios.progress import Progress


def tune_model(
    model: AnyModel,
    log: Path,
    *,
    options: MeasuringOptions | None = None,
    trials: int = 64,
    time_limit: float | None = None,
    compacted: bool = False,
    progress: Progress | None = None,
    tuning: Tuning | None = None,
) -> TuningResult:
    """Tune the kernels of a model into a log, or go on where an earlier run stopped.

    Parameters
    ----------
    model
        A zoo name, a file, or how one is to be read.
    log
        Folder of the log; written after every round.
    options
        Lanes, target, and the limits of the search whose merge candidates are tuned too.
    trials
        Variants of each kernel that are timed, at most, earlier runs included.
    time_limit
        Seconds after which no further round begins; None for no limit.
    compacted
        Keep only each kernel's default and best at the end.
    progress
        Called with (what, done, total) while the model is prepared.
    tuning
        Called with trials done, all of them, and the model's seconds as tuned and by default.

    Raises
    ------
    UserError
        If the model cannot be read, xgboost is missing, the log belongs to another target, TVM
        or running process, or the target is a GPU that is not here.
    """
    options = replace(options or MeasuringOptions(), database=None)
    loaded = load_model(model)
    search = MeasuredSearch(prepare(loaded.module, loaded.name), options, progress)
    search.backend.require_here("tuning kernels")
    timer, features = _instruments(search)
    cost_model = CostModel(available_lanes(), features)
    target = search.compiler.target
    with open_log(log, target) as opened:
        tasks = tuning_tasks(search)
        default = search.sequential_latency()
        search.end_run()
        begin = time.perf_counter()

        def report(done: int, total: int, saved: float) -> None:
            if tuning is not None:
                tuning(done, total, default - saved, default)

        kernels = tune(
            tasks,
            opened,
            target,
            search.compiler.space,
            timer,
            cost_model,
            Limits(trials, time_limit),
            report,
        )
        if compacted:
            compact(opened)
    saved = sum(row.task.weight * (row.default - row.best) for row in kernels)
    return TuningResult(
        model=loaded.name,
        log=log,
        kernels=kernels,
        default=default,
        tuned=default - saved,
        missing=0,  # each of them has its default timed
        untouched=len(tasks) - len(kernels),
        mended=opened.mended,
        seconds=time.perf_counter() - begin,
    )


def _instruments(search: MeasuredSearch) -> tuple[Timer, Features]:
    """What times the kernels of a search's target, and what tells fast ones from slow ones."""
    compiler = search.compiler
    if isinstance(compiler, KernelCompiler):
        timer = KernelTimer(compiler.target, compiler.lanes)
        return timer, partial(features_of, VectorUnit.of(compiler.target))
    from runtime_ext.cuda.kernel_timer import GpuKernelTimer

    return GpuKernelTimer(compiler, search.backend.device), compiler.space.features
