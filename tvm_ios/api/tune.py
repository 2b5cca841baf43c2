"""Tune a model's kernels into a log, or continue an earlier run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.clock import Clock
from tvm_ios.errors import UserError
from tvm_ios.ios.merge_candidates import merge_candidates
from tvm_ios.models.source import AnyModel
from tvm_ios.program.bfloat16 import FORM
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    from relay_passes.measured_module import MeasuredModule
    from relay_passes.search_options import SearchOptions
    from tvm_ios.measuring.tuning import ModelToTune, TuningProgress, TuningResult


def tune_model(
    model: AnyModel, log: Path, *, time_limit: float | None = None, **how: Any
) -> TuningResult:
    """Tune the kernels of a model into a log.

    Parameters
    ----------
    model
        A zoo name, a file, or a :class:`~tvm_ios.models.source.ModelSource`.
    log
        A folder (MetaSchedule's); for Relay a file (AutoTVM's, of format 0.2).
    time_limit
        Seconds after which no further round begins, reading included; None for no limit.
    how
        As of :func:`tune_module`.

    Raises
    ------
    UserError
        If the model cannot be read, or as :func:`tune_module`.
    """
    from relay_passes.load import load_model

    clock = Clock(time_limit)
    loaded = load_model(model, how.get("progress", silent), options=how.get("options"))
    done = tune_module(loaded.module, log, name=loaded.name, time_limit=clock.left, **how)
    return replace(done, tail=loaded.tail and loaded.tail.sentence)


def tune_module(
    module: Any,
    log: Path,
    *,
    name: str = "model",
    options: SearchOptions | None = None,
    trials: int = 64,
    time_limit: float | None = None,
    compacted: bool = False,
    all_blocks: bool = False,
    progress: Progress = silent,
    tuning: TuningProgress | None = None,
) -> TuningResult:
    """Tune the kernels of a module's units, and of units that a search may merge.

    Parameters
    ----------
    module
        A ``tvm.IRModule``. Weights must be constants for units to be merged.
    log
        A folder (MetaSchedule's), made or continued; for Relay a file (AutoTVM's).
    name
        The model's name.
    options
        Lanes, target, and the limits of the search whose merge candidates are tuned too.
    trials
        Variants of each kernel that are timed, at most, earlier runs included.
    time_limit
        Seconds after which no further round begins, preparation included; None for no limit.
    compacted
        Keep only each kernel's default and best at the end; only for Relax.
    all_blocks
        Spend half of the trials on channel block sizes other than TVM's own; only for Relay. A log
        used without :class:`relay_passes.IOSSchedule` then gives the fastest kernel of each
        convolution, whatever layout transforms that costs.
    progress
        Called with (phase, done, total) while the model is prepared.
    tuning
        Called with trials done, all trials, and the model's seconds as tuned and by default.

    Raises
    ------
    UserError
        If the module cannot be scheduled, xgboost is missing, the log belongs to another target,
        TVM or running process, or the target is a GPU that is not here, or any GPU for Relay.
    """
    from relay_passes.measured_module import measured_module
    from relay_passes.pipeline import prepare
    from relay_passes.search_options import SearchOptions
    from tvm_ios.measuring.tuning import TuningLimits

    options = replace(options or SearchOptions(), database=None)
    if options.precision == FORM:
        raise UserError(f"no kernels are tuned in {FORM}: leave out --precision")
    clock, report = Clock(time_limit), tuning or _untold
    prepared = prepare(module, name)
    measured = measured_module(prepared, options, progress)
    model = model_to_tune(measured)
    limits = TuningLimits(trials, clock.left)
    if prepared.dialect.name == "relax":
        from runtime_ext.tuning import tune_model as metaschedule

        return metaschedule.tune_model(
            model, log, measured.units.backend, limits, report, compacted=compacted
        )
    if compacted:
        raise UserError(
            "AutoTVM logs are only added to: leave out --compact, and make a small copy by "
            "python -m tvm.autotvm.record --mode pick --i LOG --o COPY"
        )
    from runtime_ext.relay import tune_model as autotvm

    def tuned_latency() -> float:
        with_log = replace(options, database=log)
        return _sequential_latency(measured_module(prepared, with_log, progress))

    return autotvm.tune_model(
        model,
        log,
        measured.units.backend.compiler.target,
        options.lanes,
        limits,
        report,
        tuned_latency=tuned_latency,
        extracting=progress,
        all_blocks=all_blocks,
    )


def model_to_tune(measured: MeasuredModule[Any]) -> ModelToTune:
    """Return a module's graph, merges and kernel sources in the form that tuners take."""
    from tvm_ios.measuring.tuning import ModelToTune

    units, graph = measured.units, measured.graph
    # AutoTVM tunes operators in the model's layouts, and chooses other layouts itself.
    relay = measured.prepared.dialect.name == "relay"
    pruning = measured.options.limits.pruning
    return ModelToTune(
        name=graph.name,
        graph=graph,
        merges=merge_candidates(graph, measured.problem.blocks, pruning),
        source=(lambda members: units.plain(members).function) if relay else units.source,
        sequential_latency=lambda: _sequential_latency(measured),
    )


def _sequential_latency(measured: MeasuredModule[Any]) -> float:
    """Return the measured seconds of all units one after another, and end the measuring run."""
    seconds = measured.timer.sequential_latency()
    measured.end_run()
    return seconds


def _untold(done: int, total: int, tuned: float, default: float) -> None:
    """Report nothing."""
