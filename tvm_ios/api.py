"""From a model to the fastest executable: search, build, verify, measure, keep."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios import models
from tvm_ios.byte_sizes import kib
from tvm_ios.files import temporary_folder
from tvm_ios.models import Shapes, form_of, load_graph
from tvm_ios.optimized import Compiled, Optimized
from tvm_ios.paired import PairedRatio
from tvm_ios.schedule import Schedule
from tvm_ios.search.lazy import LazyStatistics
from tvm_ios.search.policies import GRAPHTURBO, HOLISTIC
from tvm_ios.search.policies import POLICIES as SEARCHING
from tvm_ios.search.stage_memory import MemoryBudgetError, stages_peak
from tvm_ios.verdict import (
    PolicyResult,
    compare_outputs,
    first_with_equal_schedule,
    kept_policy,
    most_promising,
    policy_results,
)

if TYPE_CHECKING:
    from relay_passes.measuring_options import MeasuringOptions
    from relay_passes.module_search import ModuleSearch
    from relay_passes.prepare import Prepared
    from runtime_ext.built_model import BuiltModel
    from tvm_ios.graph import OpGraph

Progress = Callable[[str, int, int], None]

POLICIES = (
    "sequential",
    "greedy",
    "ios-merge",
    "ios-parallel",
    "ios-both",
    "rammer",
    "ios-holistic",
)

#: All that can be measured on this machine's CPU.
MEASURED_POLICIES = (*POLICIES, GRAPHTURBO, HOLISTIC)

#: Those that place tiles, by profiles of kernels.
_PLACING = ("rammer", "ios-holistic")


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
    baseline: Path | None = None,
    memory_budget: int | None = None,
    dialect: str = "relax",
    progress: Progress | None = None,
) -> Optimized:
    """Schedule a model, and keep the fastest program that was measured.

    A schedule is kept only if it is faster than the sequential program beyond doubt (the whole
    95 % interval of the ratio, from pairs of runs, and the median in each of three fresh
    processes); else the sequential program is kept. TVM counts threads when it starts: set
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
    baseline
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
    from runtime_ext.package import require_writable

    require_writable(output)
    watch = _Watch()
    options = options or MeasuringOptions()
    report = progress or _silent
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
    policies = _measurable(search) if policies is None else policies
    searched, took = _search(search, policies, memory_budget)
    schedules = searched | given
    watch.lap("search")
    candidates = _build(search, schedules, report)
    fitting = _fitting(candidates, memory_budget)
    watch.lap("build")
    with temporary_folder() as folder:
        baseline = baseline or folder / "tvm.so"
        on_cpu = search.executor == "native"
        report("building TVM's own", 0, 1)
        loaded.dialect.compile_baseline(loaded.module, options, baseline)
        report("building TVM's own", 1, 1)
        watch.lap("tvm")
        precision = options.precision or "float32"
        results = _measure(candidates, baseline, report, watch, precision, compete=on_cpu)
        allowed = [row for row in results if row.policy in fitting]
        beside = baseline if on_cpu else None
        kept, confirmed = _confirm(candidates, allowed, folder, beside, options.lanes, report)
        watch.lap("confirm")
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
        confirmed=confirmed,
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


def compile_unmeasured(
    model: str,
    output: Path,
    cost: str,
    *,
    options: MeasuringOptions,
    random_weights: int | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    policies: Sequence[str] | None = None,
    schedule: Path | None = None,
    dialect: str = "relax",
    progress: Progress | None = None,
) -> Compiled:
    """Compile a model for a machine that is not here, by costs that are known.

    Parameters
    ----------
    model, output, options, random_weights, shapes, batch, schedule, dialect, progress
        As of :func:`optimize`; a given schedule is the only one.
    cost
        A device's name or file, or a log (``.jsonl``) of measurements on such a machine.
    policies
        The one that takes the least time by these costs is kept. By default those of IOS and the
        baselines: where rTasks run can be said only for kernels that were profiled.

    Raises
    ------
    UserError
        If the model cannot be read, compiled or scheduled; one sentence says why.
    """
    from relay_passes.load import load_model
    from relay_passes.prepare import left_out_of, prepare, require_computed_outputs
    from runtime_ext.backend import cuda_arch
    from runtime_ext.package import require_writable
    from tvm_ios.search.described import described_schedule

    require_writable(output)
    report = progress or _silent
    loaded = load_model(
        model, random_weights=random_weights, shapes=shapes, batch=batch, dialect=dialect
    )
    prepared = prepare(loaded.module, loaded.name)
    require_computed_outputs(prepared)
    search: ModuleSearch = loaded.dialect.measured_search()(prepared, options, progress)
    target: Any = search.target
    found: dict[str, Schedule] = {}
    if schedule is not None:
        found["given"] = Schedule.load(schedule)
        policies = ()
    if policies is None:
        policies = [policy for policy in POLICIES if policy not in _PLACING]
    for policy in policies:
        if cost.endswith(".jsonl"):
            found[policy], _ = search.recorded(policy, Path(cost))
        else:
            limits = (options.pruning, options.max_block)
            found[policy], _ = described_schedule(prepared.units, policy, cost, *limits)
    expected = {policy: made.latency for policy, made in found.items()}
    kept = min(expected, key=lambda policy: expected[policy])
    built = search.build(found[kept], lambda done, total: report("compiling kernels", done, total))
    built.save(output, {"model": loaded.name, "kept": kept, "cost": cost})
    return Compiled(
        model=loaded.name,
        expected=expected,
        stages={policy: len(made.stages) for policy, made in found.items()},
        kept=kept,
        cost=cost,
        target=cuda_arch(target) or str(target.attrs["mcpu"]),
        memory=built.memory,
        executable=output,
        notes=tuple(filter(None, [left_out_of(found[kept], loaded.dialect)])),
    )


def load_units(
    model: str,
    *,
    random_weights: int | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    dialect: str = "relax",
) -> OpGraph:
    """The graph of units of any model; without TVM where the model can be read without it.

    Parameters
    ----------
    model
        A zoo name or a file.
    random_weights
        Seed of the weights that replace constant-valued ones, or None to keep them.
    shapes
        Of inputs with dynamic dimensions.
    batch
        Another leading extent of all inputs, of ONNX models.
    dialect
        With ``relay`` it is read from the module that TVM's importer for Relay makes.

    Raises
    ------
    UserError
        If the model cannot be read, one sentence says why.
    """
    if dialect == "relax" and not form_of(model).needs_tvm:
        return load_graph(model, random_weights, shapes, batch)
    return _prepared(model, random_weights, shapes, batch, dialect).units


def load_operators(
    model: str,
    *,
    random_weights: int | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    dialect: str = "relax",
) -> OpGraph:
    """The graph of operators of any model, before units are formed; else as :func:`load_units`."""
    if dialect == "relax" and not form_of(model).needs_tvm:
        return models.load_operators(model, random_weights, shapes, batch)
    return _prepared(model, random_weights, shapes, batch, dialect).outliner.extraction.graph


def _prepared(
    model: str,
    random_weights: int | None,
    shapes: Shapes | None,
    batch: int | None,
    dialect: str,
) -> Prepared:
    from relay_passes.load import load_model
    from relay_passes.prepare import prepare

    loaded = load_model(
        model, random_weights=random_weights, shapes=shapes, batch=batch, dialect=dialect
    )
    return prepare(loaded.module, loaded.name)


@dataclass(frozen=True)
class _Candidates:
    """Programs of all policies; policies of equal schedules share one."""

    schedules: Mapping[str, Schedule]
    built: Mapping[str, BuiltModel]
    #: For each policy the first one with its schedule.
    measured_as: Mapping[str, str]


def _search(
    search: ModuleSearch, policies: Sequence[str], memory_budget: int | None
) -> tuple[dict[str, Schedule], list[LazyStatistics]]:
    schedules: dict[str, Schedule] = {}
    took: list[LazyStatistics] = []
    memory = () if memory_budget is None else ("memory",)
    for policy in dict.fromkeys(("sequential", *memory, *policies)):
        if memory_budget is not None and policy in SEARCHING:
            found = _search_within(search, policy, memory_budget)
            if found is None:
                continue
            schedules[policy], statistics = found
        else:
            schedules[policy], statistics = search.schedule(policy)
        if statistics is not None:
            took.append(statistics)
    return schedules, took


def _search_within(
    search: ModuleSearch, policy: str, budget: int
) -> tuple[Schedule, LazyStatistics | None] | None:
    """The fastest schedule found whose program fits, or None.

    A program can need more than the search counts (scratch, lanes that run ahead): the search then
    goes on below what it counted.
    """
    counted = budget
    while True:
        try:
            made, took = search.schedule(policy, counted)
        except MemoryBudgetError:
            return None
        if search.build(made).memory.plan.nbytes <= budget:
            return made, took
        counted = min(counted, stages_peak(search.prepared.units, made.stages)) - 1


def _measurable(search: ModuleSearch) -> Sequence[str]:
    """The policies whose schedules the search can make and time."""
    known = MEASURED_POLICIES if search.executor == "native" else POLICIES
    if search.prepared.dialect.places_tiles:
        return known
    return [policy for policy in known if policy not in _PLACING]


def _fitting(candidates: _Candidates, memory_budget: int | None) -> set[str]:
    """The policies whose programs fit.

    Raises
    ------
    MemoryBudgetError
        If there is none.
    """
    sizes = {policy: built.memory.plan.nbytes for policy, built in candidates.built.items()}
    fitting = {p for p, size in sizes.items() if memory_budget is None or size <= memory_budget}
    if memory_budget is not None and not fitting:
        best = min(sizes, key=lambda policy: sizes[policy])
        raise MemoryBudgetError(
            f"no program fits into {kib(memory_budget)} KiB: the smallest ({best}) takes "
            f"{kib(sizes[best])} KiB between its units, "
            f"{kib(sizes[best] - memory_budget)} KiB more"
        )
    return fitting


def _build(
    search: ModuleSearch, schedules: Mapping[str, Schedule], report: Progress
) -> _Candidates:
    # Some were found before the units were measured, but all are lowered with what is known now.
    lowered = {policy: search.timer.timed(schedule) for policy, schedule in schedules.items()}
    measured_as = first_with_equal_schedule(lowered)
    built: dict[str, BuiltModel] = {}
    for done, (policy, twin) in enumerate(measured_as.items()):
        report("building", done, len(schedules))
        built[policy] = built[twin] if twin in built else search.build(lowered[twin])
    report("building", len(schedules), len(schedules))
    return _Candidates(schedules, built, measured_as)


def _measure(
    candidates: _Candidates,
    baseline: Path,
    report: Progress,
    watch: _Watch,
    precision: str,
    *,
    compete: bool,
) -> tuple[PolicyResult, ...]:
    """Compare every program with TVM's own on the CPU, then time them (``compete``: and it)."""
    from runtime_ext.contest import Rules, hold_contest, machine_outputs, virtual_machine

    different = dict.fromkeys(candidates.measured_as.values())
    sessions = {policy: candidates.built[policy].session() for policy in different}
    inputs = sessions["sequential"].random_inputs(0)
    # In float16 only what a GPU stores is so; TVM computes the model as it is.
    widened = {"float16": "float32"} if precision == "float16" else {}
    given = {n: v.astype(widened.get(str(v.dtype), v.dtype)) for n, v in inputs.items()}
    run_tvm = virtual_machine(baseline, given)
    reference = machine_outputs(run_tvm())
    errors = {"tvm": (0.0, 0.0)}
    runners: dict[str, Callable[[], Any]] = {"tvm": run_tvm} if compete else {}
    for policy, session in sessions.items():
        session.run(**inputs)
        found = [session.get_output(place) for place in range(len(session.outputs))]
        errors[policy] = compare_outputs(policy, found, reference, precision)
        runners[policy] = session.run
    watch.lap("verify")
    rules = Rules(rounds=40, seconds=10.0, minimum=3, warm_up=1)
    samples = hold_contest(runners, rules, lambda n: report("measuring", n, rules.rounds))
    for session in sessions.values():
        session.close()
    watch.lap("measure")
    stages = {policy: len(made.stages) for policy, made in candidates.schedules.items()}
    return policy_results(stages, candidates.measured_as, samples, errors)


def _confirm(
    candidates: _Candidates,
    results: Sequence[PolicyResult],
    folder: Path,
    baseline: Path | None,
    lanes: int,
    report: Progress,
) -> tuple[str, dict[str, PairedRatio]]:
    """The policy to keep of those in ``results``, and its ratios to ``sequential`` and ``tvm``.

    Measured in fresh processes.
    """
    from runtime_ext.contest import Rules, hold_contest_elsewhere

    best = most_promising(results)
    paths: dict[str, Path] = {}
    for policy in dict.fromkeys(("sequential", best)):
        paths[policy] = folder / policy
        candidates.built[policy].save(paths[policy])
    rules = Rules(rounds=40, seconds=6.0, warm_up=1)
    contests: list[Mapping[str, list[float]]] = []
    processes = 3 if len(paths) > 1 else 1
    for number in range(processes):
        report("measuring once more", number, processes)
        # Who is loaded first lies elsewhere in memory. TVM's own is compared once: it differs more.
        order = dict(reversed(paths.items())) if number % 2 else paths
        module = None if number else baseline
        contests.append(hold_contest_elsewhere(order, module, lanes, rules))
    report("measuring once more", processes, processes)
    return kept_policy(best, contests, "sequential" in {row.policy for row in results})


def _silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


class _Watch:
    """Seconds between laps."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now
