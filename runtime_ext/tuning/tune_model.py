"""Tune the contractions of a model into a MetaSchedule database."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime_ext.backend import Backend
from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.kernel_timer import KernelTimer
from runtime_ext.fleet.device import FleetDevice
from runtime_ext.fleet.kernel_timer import FleetKernelTimer
from runtime_ext.kernels.spec import Contraction
from runtime_ext.machine.this_machine import available_lanes
from runtime_ext.tuning.contraction_task import ContractionTask
from runtime_ext.tuning.speed_model import SpeedModel
from runtime_ext.tuning.tuner import Timer, tune
from runtime_ext.tuning_log.folder import compact, open_log, workload_name
from runtime_ext.tuning_log.space import Space
from runtime_ext.units.plans import plan_unit
from tvm_ios.measuring.tuning import ModelToTune, TuningLimits, TuningProgress, TuningResult


def tune_model(
    model: ModelToTune,
    log: Path,
    backend: Backend[Any],
    limits: TuningLimits,
    progress: TuningProgress,
    *,
    compacted: bool = False,
) -> TuningResult:
    """Tune the kernels of a model into a log, or go on where an earlier run stopped.

    The model's sources must be :class:`runtime_ext.units.unit.UnitSource`. The log is written and
    ``progress`` called after every round. ``compacted`` keeps only each kernel's default and best
    at the end. Raise UserError if xgboost is missing, if the log belongs to another target, TVM
    or running process, or if the target is a GPU that is not here.
    """
    backend.require_here("tuning kernels")
    compiler = backend.compiler
    cost_model = SpeedModel(available_lanes())
    with open_log(log, compiler.target) as opened:
        tasks = tuning_tasks(model, compiler.space)
        timer = _timer(backend)
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
    # Each operator has its default timed, unless that failed.
    missing = sum(task.weight > 0 for task in tasks) - sum(row.task.weight > 0 for row in kernels)
    saved = sum(row.task.weight * (row.default - row.best) for row in kernels if row.default)
    return TuningResult(
        model=model.name,
        log=log,
        kernels=kernels,
        default=default,
        tuned=default - saved,
        missing=missing,
        untouched=len(tasks) - len(kernels) - missing,
        mended=opened.mended,
        failed=timer.failed if isinstance(timer, FleetKernelTimer) else {},
        seconds=time.perf_counter() - begin,
    )


def _timer(backend: Backend[Any]) -> Timer:
    """Return the timer of contractions for a backend: of a fleet, the CPU or the local GPU."""
    compiler, device = backend.compiler, backend.device
    if isinstance(device, FleetDevice):
        return FleetKernelTimer(device)
    if isinstance(compiler, KernelCompiler):
        return KernelTimer(compiler.target, compiler.lanes)
    from runtime_ext.cuda.kernel_timer import GpuKernelTimer

    return GpuKernelTimer(compiler, device)


def tuning_tasks(model: ModelToTune, space: Space) -> tuple[ContractionTask, ...]:
    """Return the distinct contractions that a search may put into a program.

    Those of the model's units come first, then those of units that can be merged. The model's
    sources must be :class:`runtime_ext.units.unit.UnitSource`.
    """
    tasks: dict[str, ContractionTask] = {}

    def add(units: tuple[int, ...], weight: int, merged: int) -> None:
        for kernel in plan_unit(model.source(units).alone, space).kernels:
            if not isinstance(kernel.spec, Contraction):
                continue
            key = workload_name(space.workload(kernel.spec))
            task = tasks.setdefault(key, ContractionTask(model.named(units), kernel.spec, 0, 0))
            tasks[key] = replace(task, weight=task.weight + weight, merged=task.merged + merged)

    for unit in range(len(model.graph)):
        add((unit,), 1, 0)
    for units, places in model.merges.items():
        add(units, 0, len(places))
    return tuple(tasks.values())
