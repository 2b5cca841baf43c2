"""From a model to the fastest executable: search, build, verify, measure, keep."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api.candidates import build_candidates, find_schedules, fitting
from tvm_ios.api.contests import compare_policies
from tvm_ios.api.optimized import Optimized
from tvm_ios.api.policies import measurable
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.models.load import Shapes
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.schedule import Schedule

if TYPE_CHECKING:
    from relay_passes.measuring_options import MeasuringOptions
    from relay_passes.module_search import ModuleSearch


def optimize(
    model: str,
    output: Path,
    *,
    options: MeasuringOptions | None = None,
    random_weights: int | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    policies: Sequence[str] | None = None,
    schedule: Path | None = None,
    sequential: Path | None = None,
    tvm_build: Path | None = None,
    memory_budget: int | None = None,
    dialect: str = "relax",
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
        A zoo name, or an ``.onnx``, ``.pt2`` or Relax ``.json`` file.
    output
        Where the executable goes: a folder, or a ``.tar``.
    options
        Lanes, target, tuned kernels, limits of the search and of measuring.
    random_weights
        Seed of weights that replace constant-valued ones.
    shapes
        Of inputs with dynamic dimensions.
    batch
        Another leading extent of all inputs, of ONNX models.
    policies
        What to try, by default all that can be measured; ``sequential`` is always built.
    schedule
        A schedule file to try too, as the policy ``given``.
    sequential
        Where the sequential program's executable goes as well, to compare with.
    tvm_build
        Where TVM's own build goes (``.so``), to compare with.
    memory_budget
        Bytes of the largest arena that the kept program may have. Policies that search over stages
        then look for schedules that fit, and ``memory``, one unit after another in the order of
        the least memory, is tried too; where the sequential program does not fit, the fastest
        that does is kept.
    dialect
        Of TVM's IR: ``relax`` or ``relay``.
    progress
        Called with (what, done, total).

    Raises
    ------
    UserError
        If the model cannot be read or scheduled, or the schedule is of another graph; one
        sentence says why.
    VerificationError
        If a scheduled model computes something else.
    MemoryBudgetError
        If no program fits into the memory budget.
    """
    from relay_passes.load import load_model
    from relay_passes.measuring_options import MeasuringOptions
    from relay_passes.prepare import left_out_of, prepare, require_computed_outputs
    from runtime_ext.execution.package import require_writable

    require_writable(output)
    watch = _Watch()
    options = options or MeasuringOptions()
    report = progress or silent
    loaded = load_model(
        model, random_weights=random_weights, shapes=shapes, batch=batch, dialect=dialect
    )
    prepared = prepare(loaded.module, loaded.name)
    require_computed_outputs(prepared)
    given: dict[str, Schedule] = {}
    if schedule is not None:
        given["given"] = Schedule.load(schedule)
        given["given"].validate(prepared.units)
    watch.lap("import")
    search: ModuleSearch = loaded.dialect.measured_search()(prepared, options, progress)
    policies = measurable(search) if policies is None else policies
    wanted = ("sequential", *policies)
    searched, took = find_schedules(search, wanted, search.schedule, memory_budget)
    watch.lap("search")
    candidates = build_candidates(search, searched | given, report)
    allowed = fitting(candidates.built, memory_budget)
    watch.lap("build")
    with temporary_folder() as folder:
        tvm_build = tvm_build or folder / "tvm.so"
        report("building TVM's own", 0, 1)
        loaded.dialect.compile_tvm_build(loaded.module, options, tvm_build)
        report("building TVM's own", 1, 1)
        watch.lap("tvm")
        on_cpu = search.executor == "native"
        verdict = compare_policies(
            candidates, tvm_build, options, allowed, report, watch.lap, beside_tvm=on_cpu
        )
    results, kept = verdict.results, verdict.kept
    notes = {
        "model": loaded.name,
        "policies": [{"policy": r.policy, "latency": r.latency} for r in results],
        "kept": kept,
    }
    candidates.built[kept].save(output, notes)
    if sequential is not None:
        candidates.built["sequential"].save(sequential)
    search.end_run()
    watch.lap("save")
    return Optimized(
        model=loaded.name,
        policies=results,
        kept=kept,
        confirmed=verdict.confirmed,
        memory=candidates.built[kept].memory,
        executable=output,
        operators=len(prepared.outliner.extraction.graph),
        units=len(prepared.units),
        blocks=len(search.blocks),
        blocks_searched=max((s.blocks_searched for s in took), default=0),
        states=sum(s.states for s in took),
        transitions=sum(s.transitions for s in took),
        candidates=max((s.candidates for s in took), default=0),
        stages_measured=search.timer.stages_measured,
        complete=all(s.complete for s in took),
        left_out=tuple(dict.fromkeys(reason for s in took for reason in s.left_out)),
        notes=tuple(filter(None, (left_out_of(s, loaded.dialect) for s in given.values()))),
        tuned=search.log_use(),
        seconds=watch.laps,
    )


class _Watch:
    """Seconds between laps."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now
