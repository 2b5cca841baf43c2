"""From a model to the fastest executable: search, build, verify, measure, keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api.candidates import build_candidates, find_schedules, fitting
from tvm_ios.api.contests import compare_policies, reference_for
from tvm_ios.api.destination import Destination, KeptProgram, destination_of
from tvm_ios.api.exactness import exact_enough
from tvm_ios.api.fallback import (
    ONNXRUNTIME,
    faster_runtime,
    require_onnxruntime,
    runtime_files,
    save_build,
    slower_than_tvm,
)
from tvm_ios.api.optimized import Optimized
from tvm_ios.api.outcomes import leaving_out_little, not_worth_a_program, outcomes
from tvm_ios.api.tails import require_same_tail
from tvm_ios.api.tvm_build import TvmBuild
from tvm_ios.clock import Clock
from tvm_ios.contest.outputs import Verify
from tvm_ios.contest.verdict import TVM
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.models.source import AnyModel
from tvm_ios.policies.registry import tried_policies
from tvm_ios.program.bfloat16 import computed_precision, require_precision, rounded_units
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.published.imported import read_schedule
from tvm_ios.schedule.schedule import Schedule

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions

#: The part of the time limit in which schedules are searched; the rest builds and compares.
_SEARCHING = 0.5


def optimize(
    model: AnyModel | LoadedModel,
    output: Path | Destination,
    *,
    options: SearchOptions | None = None,
    policies: Sequence[str] | None = None,
    schedule: Path | None = None,
    sequential: Path | None = None,
    tvm_build: Path | None = None,
    beside_tvm: bool = True,
    memory_budget: int | None = None,
    fallback: Collection[str] = (TVM,),
    verify: Verify = Verify.onnx,
    states: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Optimized:
    """Schedule a model, and keep the fastest program that was measured.

    A schedule is kept only if the whole 95 % interval of the ratio of its program to the sequential
    one, from pairs of runs, lies below one, and the median in each of three fresh processes; else
    the sequential program is kept. TVM counts threads when it starts: set
    ``TVM_NUM_THREADS`` to the number of lanes before importing it, as the command line does.

    Parameters
    ----------
    model
        A zoo name, or an ``.onnx``, ``.pt2`` or ``.json`` file; a
        :class:`~tvm_ios.models.source.ModelSource` also says how it is to be read. Or one that
        was read.
    output
        Where the executable goes: a folder, a ``.tar``, or a place in a deployment, where the build
        of another runtime cannot go: leave out ``fallback``.
    options
        Lanes, target, tuned kernels, limits of the search and of measuring. The time limit of their
        budget is that of all the work: what can be left out has half of it to be searched, and
        is neither built, timed nor kept once it has passed. The sequential program is there in any
        case.
    policies
        What to try, by default all that can be measured; ``sequential`` is always built.
    schedule
        A schedule file to try too, as the policy ``given``.
    sequential
        Where the sequential program's executable goes as well, to compare with.
    tvm_build
        Where TVM's own build goes (``.so``), to compare with.
    beside_tvm
        Whether TVM's own build is compared and timed as well. Without it, it is only made where
        nothing else says what the model computes, and is no fallback.
    memory_budget
        Bytes of the largest arena that the kept program may have. Policies that search over stages
        then look for schedules that fit, and ``memory``, one unit after another in the order of
        the least memory, or in instances where no order fits, is tried too; where the sequential
        program does not fit, the fastest that does is kept.
    fallback
        Other runtimes, ``tvm`` and ``onnxruntime``, whose build of the model is kept where it is
        faster than every program of ours beyond doubt; of neither is known what it takes of a
        memory budget, and on GPUs they do not run.
    verify
        What the programs' outputs are compared with.
    states
        Saved with the executable, whose sessions have them: for outputs, by name, the inputs that
        they are in the next run.
    progress
        Called with (what, done, total).

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
    from relay_passes.load import load_model
    from relay_passes.search_options import SearchOptions

    destination = destination_of(output)
    destination.require_writable()
    options = options or SearchOptions()
    clock = Clock(options.limits.budget.time_limit)
    report = progress or silent
    loaded = load_model(model, report)
    if memory_budget is None:
        options = leaving_out_little(options)
    from relay_passes.checks import (
        left_out_of,
        require_numpy_types,
        require_states,
        without_elements,
    )
    from relay_passes.measured_module import measured_module

    if ONNXRUNTIME in fallback:
        require_onnxruntime(loaded)
    prepared = loaded.prepared()
    require_numpy_types(prepared)
    require_states(prepared, states or {}, loaded.tail)
    schedule_of_file: dict[str, Schedule] = {}
    if schedule is not None:
        given = read_schedule(schedule, prepared.units).schedule
        require_precision(given.policy, given.kernels.values(), options.precision)
        schedule_of_file["given"] = given
    if loaded.tail is not None:
        require_same_tail(loaded, verify)
    clock.lap("import")
    module = measured_module(prepared, options, progress)
    module.end_searches_at(clock.share(_SEARCHING))
    tried, broken = (
        tried_policies(module.search.costs.offers, prepared.units)
        if policies is None
        else (policies, ())
    )
    searches, refused = find_schedules(module, ("sequential", *tried), module.search, memory_budget)
    reasons = not_worth_a_program(module, searches, report)
    schedules = {p: found.schedule for p, found in searches.items() if p not in reasons}
    clock.lap("search")
    candidates = build_candidates(module, schedules | schedule_of_file, report, clock)
    allowed = fitting(candidates.built, memory_budget, refused)
    clock.lap("build")
    beside_tvm = beside_tvm and clock.left > 0
    with temporary_folder() as folder:
        on_cpu = module.units.backend.executor == "native" and options.fleet is None
        own = TvmBuild(loaded, options, tvm_build or folder / "tvm.so", report)
        if beside_tvm:
            own.make()
        clock.lap("tvm")
        reference = reference_for(
            loaded,
            candidates.built["sequential"],
            own,
            options,
            verify,
            report,
            on_cpu=on_cpu,
            beside_tvm=beside_tvm,
        )
        candidates, inexact = exact_enough(module, candidates, reference, report)
        verdict, reference = compare_policies(
            loaded,
            candidates,
            own.path,
            reference,
            options,
            allowed,
            report,
            clock,
            beside_tvm=on_cpu and beside_tvm,
            verify=verify,
        )
        ours = candidates.built[verdict.kept]
        named = candidates.schedules[verdict.kept].kernels.values()
        # Of others is not known what memory they take, and they do not run on GPUs; TVM's own build
        # lacks the tail.
        alone = on_cpu and memory_budget is None and loaded.tail is None and clock.left > 0
        files = runtime_files(fallback if alone else (), own.path, loaded, folder)
        faster, wrong = faster_runtime(verdict, ours, files, reference, options, report)
        notes = {
            "model": loaded.name,
            "policies": [asdict(result) for result in verdict.results],
            "confirmed": {name: asdict(ratio) for name, ratio in verdict.confirmed.items()},
            "kept": verdict.kept if faster is None else faster.runtime,
            "reference": verdict.reference,
            "precision": computed_precision(options.precision, () if faster else named),
            **({} if options.fleet is None else {"timed_on": options.fleet.name}),
            **({"states": dict(states)} if states else {}),
        }
        if faster is not None:
            assert isinstance(output, Path), "elsewhere no other runtime is compared with"
            save_build(faster.runtime, files[faster.runtime], ours, options, output, notes)
            executable = output
        else:
            executable = destination.save(
                KeptProgram(
                    ours,
                    prepared.outliner.extraction.graph,
                    loaded.tail,
                    verdict.kept,
                    next(r.latency for r in verdict.results if r.policy == verdict.kept),
                    notes,
                    slower_than_tvm(verdict),
                )
            )
    if sequential is not None:
        candidates.built["sequential"].save(sequential)
    module.end_run()
    clock.lap("save")
    statistics = [f.statistics for f in searches.values() if f.statistics is not None]
    unfit = [left_out_of(s, loaded.dialect) for s in schedule_of_file.values()]
    unfit.append(without_elements(prepared.units))
    return Optimized(
        model=loaded.name,
        policies=verdict.results,
        outcomes=outcomes(
            verdict,
            reasons,
            {**refused, **candidates.unbuilt},
            with_log=options.database is not None,
        ),
        kept=verdict.kept,
        faster=faster,
        reference=verdict.reference,
        confirmed=verdict.confirmed,
        memory=ours.memory,
        executable=executable,
        operators=len(prepared.outliner.extraction.graph),
        units=len(prepared.units),
        blocks=len(module.problem.blocks),
        blocks_searched=max((s.blocks_searched or 0 for s in statistics), default=0),
        states=sum(s.states or 0 for s in statistics),
        transitions=sum(s.transitions or 0 for s in statistics),
        candidates=max((s.candidates or 0 for s in statistics), default=0),
        stages_measured=module.timer.stages_measured,
        complete=all(s.complete for s in statistics),
        left_out=tuple(dict.fromkeys(reason for f in searches.values() for reason in f.left_out)),
        notes=(
            *([] if loaded.tail is None else [loaded.tail.sentence]),
            *filter(None, unfit),
            *broken,
            *inexact,
            *filter(None, [rounded_units(options.precision, named, len(prepared.units))]),
            *verdict.skipped.values(),
            *wrong,
        ),
        tuned=module.units.log_use(),
        seconds=clock.seconds,
    )
