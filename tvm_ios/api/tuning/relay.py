"""Tune a Relay model's kernels into an AutoTVM log, or go on where an earlier run stopped."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import replace
from pathlib import Path

import tvm

from relay_passes.load import load_model
from relay_passes.measuring_options import MeasuringOptions
from relay_passes.prepare import prepare
from relay_passes.relay.measured import MeasuredRelaySearch
from runtime_ext.relay.tuning_file import open_autotvm_log
from tvm_ios.api.tuning.relay_tasks import tuning_tasks
from tvm_ios.api.tuning.result import Tuning, TuningResult
from tvm_ios.errors import UserError
from tvm_ios.models.source import AnyModel, ModelSource
from tvm_ios.progress import Progress


def tune_model(
    model: AnyModel,
    log: Path,
    *,
    options: MeasuringOptions | None = None,
    trials: int = 64,
    time_limit: float | None = None,
    compacted: bool = False,
    all_blocks: bool = False,
    progress: Progress | None = None,
    tuning: Tuning | None = None,
) -> TuningResult:
    """Tune a model's operators by AutoTVM, as :func:`tvm_ios.api.tuning.relax.tune_model`.

    ``log`` is a file: an AutoTVM log of format 0.2, to which trials are added and which any
    ``autotvm.apply_history_best`` reads. ``all_blocks`` as of :func:`tune_module`.

    Raises
    ------
    UserError
        If the model cannot be read, xgboost is missing, or the log belongs to another target or
        running process, or should be compacted.
    """
    if compacted:
        raise UserError(
            "AutoTVM logs are only added to: leave out --compact, and make a small copy by "
            "python -m tvm.autotvm.record --mode pick --i LOG --o COPY"
        )
    loaded = load_model(replace(ModelSource.of(model), dialect="relay"))
    return tune_module(
        loaded.module,
        log,
        name=loaded.name,
        options=options,
        trials=trials,
        time_limit=time_limit,
        all_blocks=all_blocks,
        progress=progress,
        tuning=tuning,
    )


def tune_module(
    module: tvm.IRModule,
    log: Path,
    *,
    name: str = "model",
    options: MeasuringOptions | None = None,
    trials: int = 64,
    time_limit: float | None = None,
    all_blocks: bool = False,
    progress: Progress | None = None,
    tuning: Tuning | None = None,
) -> TuningResult:
    """Tune the operators of a Relay module, and those that a search may merge, by AutoTVM.

    Parameters
    ----------
    module
        Weights are constants, or nothing is merged.
    log
        A file: an AutoTVM log of format 0.2, made or continued.
    name
        Of the model.
    options
        Lanes, target, and the limits of the search whose merge candidates are tuned too.
    trials
        Configurations of each operator that are tried, at most, earlier runs included.
    time_limit
        Seconds after which no further round begins; None for no limit.
    all_blocks
        Spend half of the trials on other blocks of channels than TVM's own. Whoever then uses the
        log without :class:`relay_passes.IOSSchedule` gets the fastest kernel of each convolution,
        whatever transforms that costs.
    progress
        Called with (what, done, total) while the model is prepared.
    tuning
        Called with trials done, all of them, and the model's seconds as tuned and by default.

    Raises
    ------
    UserError
        If the module cannot be scheduled, xgboost is missing, the target is a GPU, or the log
        belongs to another target or running process.
    """
    if importlib.util.find_spec("xgboost") is None:
        raise UserError(
            "AutoTVM's tuner needs xgboost, which is not installed: pip install xgboost"
        )
    from runtime_ext.relay.autotvm_tuner import tune
    from runtime_ext.relay.trial_timer import TrialTimer

    options = replace(options or MeasuringOptions(), database=None)
    prepared = prepare(module, name)
    search = MeasuredRelaySearch(prepared, options, progress)
    if search.executor != "native":
        raise UserError(
            "AutoTVM's kernels are tuned here for CPUs only: tune for a GPU by TVM's own "
            "autotvm.XGBTuner where the GPU is, and give its log to --log"
        )
    with open_autotvm_log(log, search.target) as opened:
        tasks = tuning_tasks(search, progress)
        default = search.sequential_latency()
        search.end_run()
        begin = time.perf_counter()

        def report(done: int, total: int, saved: float) -> None:
            if tuning is not None:
                # Trials have one thread.
                tuning(done, total, default - saved / options.lanes, default)

        with TrialTimer() as timer:
            kernels = tune(tasks, opened, timer, trials, time_limit, report, all_blocks=all_blocks)
        seconds = time.perf_counter() - begin
    tuned = default
    if kernels:
        with_log = MeasuredRelaySearch(prepared, replace(options, database=log), progress)
        tuned = with_log.sequential_latency()
        with_log.end_run()
    missing = sum(task.weight > 0 for task in tasks) - sum(row.task.weight > 0 for row in kernels)
    return TuningResult(
        model=name,
        log=log,
        kernels=kernels,
        default=default,
        tuned=tuned,
        missing=missing,
        untouched=len(tasks) - len(kernels) - missing,
        mended=opened.mended,
        seconds=seconds,
    )
