"""Tune the operators of a Relay model into an AutoTVM log."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm
from tvm import autotvm

from runtime_ext.relay.autotvm_task import AutotvmTask
from runtime_ext.relay.tuning_file import open_autotvm_log
from runtime_ext.target_architecture import cuda_arch
from tvm_ios.errors import UserError
from tvm_ios.measuring.tuning import ModelToTune, TuningLimits, TuningProgress, TuningResult
from tvm_ios.progress import Progress, silent


def tune_model(
    model: ModelToTune,
    log: Path,
    target: tvm.target.Target,
    lanes: int,
    limits: TuningLimits,
    progress: TuningProgress,
    *,
    tuned_latency: Callable[[], float],
    extracting: Progress,
    all_blocks: bool = False,
) -> TuningResult:
    """Tune the operators of a model, and those that a search may merge, by AutoTVM.

    ``model`` has Relay functions in its own layouts as sources, with weights as constants, or else
    nothing is merged. ``log`` is an AutoTVM log of format 0.2, which is created or continued.
    ``lanes`` are threads of the model; trials have one. ``tuned_latency`` measures all units one
    after another with the log's kernels, in seconds. With ``all_blocks`` half of the trials go to
    other channel blocks than TVM's own; without :class:`relay_passes.IOSSchedule` such a log gives
    each convolution its fastest kernel, whatever the layout transforms cost. Raise UserError if
    xgboost is missing, the target is a GPU, or the log belongs to another target or running
    process.
    """
    if importlib.util.find_spec("xgboost") is None:
        raise UserError(
            "AutoTVM's tuner needs xgboost, which is not installed: pip install xgboost"
        )
    if cuda_arch(target) is not None:
        raise UserError(
            "AutoTVM's kernels are tuned here for CPUs only: tune for a GPU by TVM's own "
            "autotvm.XGBTuner where the GPU is, and give its log to --log"
        )
    from runtime_ext.relay.autotvm_tuner import tune
    from runtime_ext.relay.trial_timer import TrialTimer

    with open_autotvm_log(log, target) as opened:
        tasks = tuning_tasks(model, target, extracting)
        default = model.sequential_latency()
        begin = time.perf_counter()

        def report(done: int, total: int, saved: float) -> None:
            progress(done, total, default - saved / lanes, default)

        with TrialTimer() as timer:
            kernels = tune(tasks, opened, timer, limits, report, all_blocks=all_blocks)
        seconds = time.perf_counter() - begin
    missing = sum(task.weight > 0 for task in tasks) - sum(row.task.weight > 0 for row in kernels)
    return TuningResult(
        model=model.name,
        log=log,
        kernels=kernels,
        default=default,
        tuned=tuned_latency() if kernels else default,
        missing=missing,
        untouched=len(tasks) - len(kernels) - missing,
        mended=opened.mended,
        seconds=seconds,
    )


def tuning_tasks(
    model: ModelToTune, target: tvm.target.Target, progress: Progress = silent
) -> tuple[AutotvmTask, ...]:
    """Return the different tasks of all units, and then of all units that can be merged.

    The model's sources are Relay functions in its own layouts.
    """
    merges = {units: len(places) for units, places in model.merges.items()}
    merges_by_units = {(unit,): 0 for unit in range(len(model.graph))} | merges
    tasks: dict[tuple[Any, ...], AutotvmTask] = {}
    extracted: dict[int, list[Any]] = {}
    for done, (units, places) in enumerate(merges_by_units.items()):
        for autotvm_task in _extracted(model.source(units), target, extracted):
            key = (autotvm_task.name, autotvm_task.args)
            task = tasks.setdefault(key, AutotvmTask(model.named(units), autotvm_task, 0, 0))
            weight = task.weight + (len(units) == 1)
            tasks[key] = replace(task, weight=weight, merged=task.merged + places)
        progress("extracting tasks", done + 1, len(merges_by_units))
    return tuple(tasks.values())


def _extracted(
    function: Any, target: tvm.target.Target, tasks_by_digest: dict[int, list[Any]]
) -> list[Any]:
    """Return AutoTVM's tasks of a function; those of equal functions are cached."""
    digest = tvm.ir.structural_hash(function)
    if digest not in tasks_by_digest:
        tasks_by_digest[digest] = autotvm.task.extract_from_program(
            function, target=target, params={}
        )
    return tasks_by_digest[digest]
