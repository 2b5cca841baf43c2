"""From a model to the fastest program: load, search, build, time, verify, choose, save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios import interrupts
from tvm_ios.api.candidates import (
    Candidates,
    build_candidates,
    find_schedules,
    fitting,
    require_all_fit,
)
from tvm_ios.api.destination import Destination, KeptProgram, destination_of
from tvm_ios.api.fallback import Faster, faster_runtime, runtime_files, save_build, slower_than_tvm
from tvm_ios.api.job import Job, load_job
from tvm_ios.api.options import Options
from tvm_ios.api.outcomes import not_worth_a_program, outcomes
from tvm_ios.api.result import Result, SearchSummary
from tvm_ios.api.timers.described import DescribedTimer
from tvm_ios.api.timers.device import DeviceTimer
from tvm_ios.api.timers.fleet import FleetTimer
from tvm_ios.api.timers.local import LocalTimer
from tvm_ios.api.timers.timer import Timed, Timer
from tvm_ios.costs.costs import Offer
from tvm_ios.errors import MemoryBudgetError, SearchError
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.models.source import AnyModel
from tvm_ios.policies.registry import tried_policies
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.bfloat16 import computed_precision, rounded_units
from tvm_ios.program.program_json import program_to_json
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from tvm_ios.policies.policy import Found
    from tvm_ios.schedule.schedule import Schedule


def optimize(
    model: AnyModel | LoadedModel,
    output: Path | Destination | None,
    options: Options | None = None,
    progress: Progress = silent,
) -> Result:
    """Schedule a model, and keep the fastest program that was measured.

    A schedule is kept only if the whole 95 % interval of the ratio of its program to the sequential
    one, from pairs of runs, lies below one, and the median in each of three fresh processes (on a
    device, if every time of its program is below every one of the sequential program's); else the
    sequential program is kept. Without measuring, the program of least expected time is kept. TVM
    counts threads when it starts: set ``TVM_NUM_THREADS`` to the number of lanes before importing
    it, as the command line does.

    Parameters
    ----------
    model
        A zoo name, or an ``.onnx``, ``.pt2`` or ``.json`` file; a
        :class:`~tvm_ios.models.source.ModelSource` also says how to read it. Or a loaded model.
    output
        Where the executable goes: a folder, a ``.tar``, or a place in a deployment; with a device,
        its schedule goes beside it. None to save nothing.
    options
        The machine, the policies, and all other choices.
    progress
        Called with (phase, done, total).

    Raises
    ------
    UserError
        If the model cannot be read or scheduled, or the schedule is of another graph; one
        sentence says why.
    VerificationError
        If a scheduled model computes something else; names the first operator whose output
        differs, as far as it can be told.
    MemoryBudgetError
        If no program fits into the memory budget.
    """
    options = options or Options()
    from relay_passes.search_options import require_dump_folder

    if output is not None:
        destination_of(output).require_writable()
    require_dump_folder(options.search.dump_ir)
    timer = _timer_of(options)
    with temporary_folder() as folder:
        job = load_job(model, options, folder, progress)
        job = _save_first(job, timer, output)
        searched = _search(job, timer)
        candidates = _build(job, searched)
        allowed = fitting(candidates.built, options.memory_budget, searched.refused)
        job.clock.lap("build")
        timed = timer.time(job, candidates, allowed)
        chosen = _choose(job, timed)
        saved = _save(job, timer, timed, chosen, output)
    if options.search.dump_ir is not None:
        _dump(job, timed, options.search.dump_ir)
    if options.cost is None:
        job.module.end_run()
    job.clock.lap("save")
    return _result(job, timer, searched, timed, chosen, saved)


def _timer_of(options: Options) -> Timer:
    if options.search.device is not None:
        return DeviceTimer(options.search.device)
    if options.cost is not None:
        return DescribedTimer()
    return LocalTimer() if options.search.fleet is None else FleetTimer(options.search.fleet)


def _save_first(job: Job, timer: Timer, output: Path | Destination | None) -> Job:
    """Save the sequential program of default kernels, then of the fastest, before others are tried.

    Their outputs are right. They are there if the work is interrupted, and the program that is kept
    replaces them. Return the job with the outputs that programs must compute. Only programs that
    run here on a CPU are saved so, only as executables of their own, and not if nothing else is
    tried.
    """
    if not isinstance(timer, LocalTimer) or not isinstance(output, Path):
        return job
    options = job.options
    is_last = options.policies == ("sequential",) and job.given is None and not options.beside_tvm
    if is_last or not job.on_cpu or options.memory_budget is not None:
        return job

    def saved(job: Job, candidates: Candidates) -> Job:
        timed = timer.first(job, candidates)
        _save(job, timer, timed, _Chosen(None, {}, ()), output)
        interrupts.note(f"{output} has the program of one unit after another")
        return replace(job, reference=timed.reference)

    search = timer.search(job)
    # What will be refused leaves nothing behind.
    require_all_fit(options.policies or (), search)
    # Forms of units take as long to compile and to time as the rest until then.
    default = sequential_schedule(job.module.graph)
    job = saved(job, _only(job, "sequential", {"sequential": default}))
    job.clock.lap("first")
    found, _ = find_schedules(job.module, ("sequential",), search, None)
    fastest = found["sequential"].schedule
    if (fastest.stages, fastest.kernels) != (default.stages, default.kernels):
        job = saved(job, build_candidates(job.module, {"sequential": fastest}, job.report))
        job.clock.lap("second")
    return job


@dataclass(frozen=True)
class _Searched:
    """The results of all policies' searches.

    ``refused`` has the reason of each policy without a schedule, ``not_worth`` of each whose
    schedule is not worth a program; ``broken`` has sentences on policies that could not be loaded.
    """

    found: Mapping[str, Found]
    schedules: Mapping[str, Schedule]
    refused: Mapping[str, str]
    not_worth: Mapping[str, str]
    broken: tuple[str, ...]


def _search(job: Job, timer: Timer) -> _Searched:
    """Search a schedule by each policy, and add the one that the user gave."""
    options, given = job.options, {} if job.given is None else {"given": job.given}
    if given and not options.is_measured:
        job.clock.lap("search")
        return _Searched({}, given, {}, {}, ())
    search, broken = timer.search(job), tuple[str, ...]()
    if options.policies is None:
        offers = search.costs.offers if options.is_measured else {Offer.STAGES}
        policies, broken = tried_policies(offers, job.module.graph)
    else:
        policies = options.policies
    if options.is_measured or not policies:
        policies = ("sequential", *policies)
    found, refused = find_schedules(
        job.module, policies, search, options.memory_budget, priced=not options.is_measured
    )
    if not found:
        kind = SearchError if options.memory_budget is None else MemoryBudgetError
        raise kind("; ".join(dict.fromkeys(refused.values())))
    not_worth = not_worth_a_program(search, found, job.report) if options.is_measured else {}
    schedules = {policy: f.schedule for policy, f in found.items() if policy not in not_worth}
    job.clock.lap("search")
    return _Searched(found, schedules | given, refused, not_worth, broken)


def _build(job: Job, searched: _Searched) -> Candidates:
    """Build the schedules' programs; if nothing is measured, only the expected fastest."""
    schedules = searched.schedules
    if job.options.is_measured or job.options.memory_budget is not None:
        return build_candidates(job.module, schedules, job.report, job.clock)
    return _only(job, min(schedules, key=lambda policy: schedules[policy].latency), schedules)


def _only(job: Job, policy: str, schedules: Mapping[str, Schedule]) -> Candidates:
    """Build the program of one policy's schedule; no form of a unit is timed."""

    def compiling(done: int, total: int) -> None:
        job.report("compiling kernels", done, total)

    return Candidates(schedules, {policy: job.module.build(schedules[policy], compiling)})


@dataclass(frozen=True)
class _Chosen:
    """A runtime that is faster than the kept program, and sentences on runtimes that are wrong."""

    faster: Faster | None
    files: Mapping[str, Path]
    wrong: tuple[str, ...]


def _choose(job: Job, timed: Timed) -> _Chosen:
    """Compare the kept program with other runtimes' builds of the model, where they can run."""
    options = job.options
    # Other runtimes' use of memory is unknown, and they run neither on GPUs nor with a tail.
    alone = job.on_cpu and options.memory_budget is None and job.loaded.tail is None
    fallback = options.fallback if alone and job.clock.left > 0 else ()
    files = runtime_files(fallback, job.own.path, job.loaded, job.folder)
    ours = timed.candidates.built[timed.verdict.kept]
    faster, wrong = faster_runtime(
        timed.verdict, ours, files, timed.reference, job.search, job.report
    )
    return _Chosen(faster, files, wrong)


def _save(
    job: Job, timer: Timer, timed: Timed, chosen: _Chosen, output: Path | Destination | None
) -> tuple[Path | None, Path | None]:
    """Save the kept program, or a faster runtime's build; return its path and its schedule's."""
    options, verdict, kept = job.options, timed.verdict, timed.verdict.kept
    ours, schedule = timed.candidates.built[kept], timed.candidates.schedules[kept]
    if options.sequential is not None:
        timed.candidates.built["sequential"].save(options.sequential)
    if output is None:
        return None, None
    measured = {
        "policies": [asdict(result) for result in verdict.results],
        "confirmed": {name: asdict(ratio) for name, ratio in verdict.confirmed.items()},
    }
    names = () if chosen.faster else schedule.kernels.values()
    notes: dict[str, Any] = {
        "model": job.loaded.name,
        **(measured if options.is_measured else {"cost": options.cost}),
        "kept": kept if chosen.faster is None else chosen.faster.runtime,
        "reference": verdict.reference,
        "precision": computed_precision(job.search.precision, names),
        **({} if timer.place is None else {"timed_on": timer.place}),
        **({"states": dict(options.states)} if options.states else {}),
    }
    if chosen.faster is not None:
        assert isinstance(output, Path), "elsewhere no other runtime is compared with"
        file = chosen.files[chosen.faster.runtime]
        save_build(chosen.faster.runtime, file, ours, job.search, output, notes)
        return output, None
    program = KeptProgram(
        ours,
        job.prepared.outliner.extraction.graph,
        job.loaded.tail,
        kept,
        verdict.latency if options.is_measured else None,
        notes,
        slower_than_tvm(verdict),
    )
    executable = destination_of(output).save(program)
    if job.search.device is None:
        return executable, None
    beside = executable.with_name(f"{executable.stem}.schedule.json")
    schedule.save(beside, job.prepared.units)
    return executable, beside


def _dump(job: Job, timed: Timed, folder: Path) -> None:
    """Write the kept schedule, its module and its program, to be read."""
    from relay_passes.ir_dump import PROGRAM, write_ir
    from relay_passes.pipeline import apply_schedule

    kept = timed.verdict.kept
    apply_schedule(job.prepared, timed.candidates.schedules[kept], folder)
    write_ir(folder, PROGRAM, program_to_json(timed.candidates.built[kept].program))


def _result(
    job: Job,
    timer: Timer,
    searched: _Searched,
    timed: Timed,
    chosen: _Chosen,
    saved: tuple[Path | None, Path | None],
) -> Result:
    from relay_passes.checks import left_out_of, without_elements
    from runtime_ext.isa.levels import cpu_of
    from runtime_ext.target_architecture import cuda_arch

    loaded, module, verdict = job.loaded, job.module, timed.verdict
    ours = timed.candidates.built[verdict.kept]
    compiled_for: Any = module.units.backend.compiler.target
    kernels = timed.candidates.schedules[verdict.kept].kernels.values()
    schedules = [job.given] if job.given else []
    place = timer.place or ("here" if job.options.is_measured else None)
    refused = {**searched.refused, **timed.candidates.unbuilt}
    return Result(
        model=loaded.name,
        target=cuda_arch(compiled_for) or cpu_of(compiled_for),
        cost=job.options.cost,
        timed_on=place,
        policies=verdict.results,
        outcomes=outcomes(
            verdict, searched.not_worth, refused, with_log=job.search.database is not None
        ),
        kept=verdict.kept,
        faster=chosen.faster,
        reference=verdict.reference,
        not_verified=timed.not_verified,
        confirmed=verdict.confirmed,
        memory=ours.memory,
        executable=saved[0],
        schedule=saved[1],
        search=_summary(job, searched),
        notes=(
            *([] if loaded.tail is None else [loaded.tail.sentence]),
            *filter(None, [left_out_of(s, loaded.dialect) for s in schedules]),
            *filter(None, [without_elements(job.prepared.units)]),
            *searched.broken,
            *timed.notes,
            *filter(None, [rounded_units(job.search.precision, kernels, len(module.graph))]),
            *verdict.skipped.values(),
            *chosen.wrong,
        ),
        seconds=job.clock.seconds,
    )


def _summary(job: Job, searched: _Searched) -> SearchSummary:
    found = searched.found.values()
    statistics = [each.statistics for each in found if each.statistics is not None]
    return SearchSummary(
        operators=len(job.prepared.outliner.extraction.graph),
        units=len(job.module.graph),
        blocks=len(job.module.problem.blocks),
        blocks_searched=max((s.blocks_searched or 0 for s in statistics), default=0),
        states=sum(s.states or 0 for s in statistics),
        transitions=sum(s.transitions or 0 for s in statistics),
        candidates=max((s.candidates or 0 for s in statistics), default=0),
        stages_measured=job.module.timer.stages_measured,
        complete=all(s.complete for s in statistics),
        left_out=tuple(dict.fromkeys(reason for each in found for reason in each.left_out)),
        tuned=job.module.units.log_use(),
    )
