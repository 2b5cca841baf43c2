"""Tune the contractions of a model into a MetaSchedule database."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from runtime_ext.backend import Backend
from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.vector_unit import VectorUnit
from runtime_ext.machine.this_machine import available_lanes
from runtime_ext.tuning.cost_model import CostModel, Features, features_of
from runtime_ext.tuning.interface import (
    ModelToTune,
    TuningLimits,
    TuningProgress,
    TuningResult,
)
from runtime_ext.tuning.kernel_timer import KernelTimer
from runtime_ext.tuning.model_tasks import tuning_tasks
from runtime_ext.tuning.tuner import Timer, tune
from runtime_ext.tuning.tuning_folder import compact, open_log


def tune_model(
    model: ModelToTune,
    log: Path,
    backend: Backend,
    limits: TuningLimits,
    progress: TuningProgress,
    *,
    compacted: bool = False,
) -> TuningResult:
    """Tune the kernels of a model into a log, or go on where an earlier run stopped.

    Parameters
    ----------
    model
        Whose sources are :class:`runtime_ext.units.unit.UnitSource`.
    log
        Folder of the log; written after every round.
    backend
        Of the target.
    limits
        When to end.
    progress
        Told how it goes.
    compacted
        Keep only each kernel's default and best at the end.

    Raises
    ------
    UserError
        If xgboost is missing, the log belongs to another target, TVM or running process, or the
        target is a GPU that is not here.
    """
    backend.require_here("tuning kernels")
    compiler = backend.compiler
    timer, features = _instruments(backend)
    cost_model = CostModel(available_lanes(), features)
    with open_log(log, compiler.target) as opened:
        tasks = tuning_tasks(model, compiler.space)
        default = model.sequential_latency()
        begin = time.perf_counter()
        kernels = tune(
            tasks,
            opened,
            compiler.target,
            compiler.space,
            timer,
            cost_model,
            limits,
            lambda done, total, saved: progress(done, total, default - saved, default),
        )
        if compacted:
            compact(opened)
    saved = sum(row.task.weight * (row.default - row.best) for row in kernels if row.default)
    return TuningResult(
        model=model.name,
        log=log,
        kernels=kernels,
        default=default,
        tuned=default - saved,
        missing=0,  # each of them has its default timed
        untouched=len(tasks) - len(kernels),
        mended=opened.mended,
        seconds=time.perf_counter() - begin,
    )


def _instruments(backend: Backend) -> tuple[Timer, Features]:
    """What times kernels of a target, and what tells fast ones from slow ones."""
    compiler = backend.compiler
    if isinstance(compiler, KernelCompiler):
        timer = KernelTimer(compiler.target, compiler.lanes)
        return timer, partial(features_of, VectorUnit.of(compiler.target))
    from runtime_ext.cuda.kernel_timer import GpuKernelTimer

    return GpuKernelTimer(compiler, backend.device), compiler.space.features
