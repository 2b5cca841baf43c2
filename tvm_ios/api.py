"""From a model to the fastest executable: search, build, verify, measure, keep."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files import temporary_folder
from tvm_ios.paired import PairedRatio, paired_ratio
from tvm_ios.schedule import Schedule
from tvm_ios.search.lazy import LazyStatistics

if TYPE_CHECKING:
    from relay_passes.measured import MeasuringOptions
    from runtime_ext.build import BuiltModel

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int, int], None]

POLICIES = ("sequential", "greedy", "ios-merge", "ios-parallel", "ios-both")
#: Above this a result is not rounding: the executable is refused.
LARGEST_ERROR = 1e-3


class VerificationError(UserError):
    """A scheduled model that does not compute what the unscheduled one does."""


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """What a policy came to.

    Attributes
    ----------
    policy
        Its name; ``tvm`` is TVM's own default pipeline and virtual machine.
    latency
        Median seconds.
    ratio
        Median of the ratios to the sequential program, run by run.
    stages
        How many; None for ``tvm``.
    max_abs_error, max_rel_error
        Largest difference to ``tvm`` over all outputs; relative to the output's largest value.
    """

    policy: str
    latency: float
    ratio: float
    stages: int | None
    max_abs_error: float
    max_rel_error: float


@dataclass(frozen=True)
class Optimized:
    """What :func:`optimize` did.

    Attributes
    ----------
    model
        Its name.
    policies
        All that were built, measured side by side.
    kept
        The policy of the executable.
    confirmed
        The kept one against ``sequential`` and ``tvm``, in pairs in a fresh process.
    executable
        Where it went.
    operators, units, blocks, blocks_searched
        How large the model is.
    states, transitions, candidates, stages_measured
        What the searches took; candidates are what a full search would have measured.
    complete
        False if a search's budget ended it before its optimum was proven.
    tuned
        Functions that the tuning log has and has not; None without a log.
    seconds
        Of each part of the work.
    """

    model: str
    policies: tuple[PolicyResult, ...]
    kept: str
    confirmed: Mapping[str, PairedRatio]
    executable: Path
    operators: int
    units: int
    blocks: int
    blocks_searched: int
    states: int
    transitions: int
    candidates: int
    stages_measured: int
    complete: bool
    tuned: tuple[int, int] | None
    seconds: Mapping[str, float]


def optimize(
    model: str,
    output: Path,
    *,
    options: MeasuringOptions | None = None,
    random_weights: int | None = None,
    policies: Sequence[str] = POLICIES,
    progress: Progress | None = None,
) -> Optimized:
    """Schedule a model, and keep the fastest program that was measured.

    A schedule is kept only if it is faster than the sequential program beyond doubt (the whole
    95 % interval of the ratio, from pairs of runs in a fresh process); else the sequential
    program is kept. TVM counts threads when it starts: set ``TVM_NUM_THREADS`` to the number of
    lanes before importing it, as the command line does.

    Parameters
    ----------
    model
        A zoo name or an ONNX file.
    output
        Where the executable goes: a folder, or a ``.tar``.
    options
        Lanes, target, tuned kernels, limits of the search and of measuring.
    random_weights
        Seed of weights that replace constant-valued ones.
    policies
        What to try; ``sequential`` is always built.
    progress
        Called with (what, done, total).

    Raises
    ------
    UserError
        If the model cannot be read or scheduled, one sentence says why.
    VerificationError
        If a scheduled model computes something else.
    """
    from relay_passes.load import load_model
    from relay_passes.measured import MeasuredSearch, MeasuringOptions
    from relay_passes.prepare import apply_schedule, prepare
    from runtime_ext.build import build
    from runtime_ext.contest import Rules, hold_contest, hold_contest_elsewhere, virtual_machine
    from runtime_ext.package import require_writable
    from runtime_ext.tvm_baseline import compile_baseline

    require_writable(output)
    watch = _Watch()
    options = options or MeasuringOptions()
    loaded = load_model(model, random_weights=random_weights)
    name, module = loaded.name, loaded.module
    prepared = prepare(module, name)
    watch.lap("import")

    search = MeasuredSearch(prepared, options, progress)
    schedules: dict[str, Schedule] = {}
    statistics_of: list[LazyStatistics] = []
    for policy in dict.fromkeys(("sequential", *policies)):
        schedules[policy], made = search.schedule(policy)
        if made is not None:
            statistics_of.append(made)
    watch.lap("search")

    built: dict[str, BuiltModel] = {}
    first_with: dict[Any, str] = {}
    for done, (policy, schedule) in enumerate(schedules.items()):
        if progress is not None:
            progress("building", done, len(schedules))
        twin = first_with.setdefault(schedule.stages, policy)
        built[policy] = (
            built[twin]
            if twin in built
            else build(
                apply_schedule(prepared, schedule),
                lanes=options.lanes,
                name=name,
                compiler=search.compiler,
                latencies=search.timer.unit_latencies,
            )
        )
    if progress is not None:
        progress("building", len(schedules), len(schedules))
    watch.lap("build")

    with temporary_folder() as folder:
        baseline = folder / "tvm.so"
        compile_baseline(module, options.resolved_target, baseline, options.database)
        watch.lap("tvm")

        sessions = {policy: built[policy].session() for policy in first_with.values()}
        inputs = next(iter(sessions.values())).random_inputs(0)
        runners: dict[str, Callable[[], Any]] = {
            "tvm": virtual_machine(baseline, list(inputs.values()))
        }
        reference = _arrays(runners["tvm"]())
        errors = {"tvm": (0.0, 0.0)}
        for policy, session in sessions.items():
            session.run(**inputs)
            found = [session.get_output(port.name) for port in session.outputs]
            errors[policy] = _errors(policy, found, reference)
            runners[policy] = session.run
        watch.lap("verify")
        rules = Rules(rounds=40, seconds=10.0, minimum=3)
        samples = hold_contest(
            runners, rules, lambda n: progress("measuring", n, 40) if progress else None
        )
        for session in sessions.values():
            session.close()
        results = _results(schedules, first_with, samples, errors)
        watch.lap("measure")

        kept, confirmed = _confirm(
            results,
            built,
            lambda paths: hold_contest_elsewhere(
                paths, baseline, options.lanes, Rules(rounds=100, seconds=15.0)
            ),
            folder,
        )
        watch.lap("confirm")
    notes = {
        "model": name,
        "policies": [{"policy": r.policy, "latency": r.latency} for r in results],
        "kept": kept,
    }
    built[kept].save(output, notes)
    watch.lap("save")
    log = search.compiler.log
    return Optimized(
        model=name,
        policies=results,
        kept=kept,
        confirmed=confirmed,
        executable=output,
        operators=len(prepared.outliner.extraction.graph),
        units=len(prepared.units),
        blocks=len(search.blocks),
        blocks_searched=max((s.blocks_searched for s in statistics_of), default=0),
        states=sum(s.states for s in statistics_of),
        transitions=sum(s.transitions for s in statistics_of),
        candidates=max((s.candidates for s in statistics_of), default=0),
        stages_measured=search.timer.stages_measured,
        complete=all(s.complete for s in statistics_of),
        tuned=None if log is None else (len(log.matched), len(log.unmatched)),
        seconds=watch.laps,
    )


def _confirm(
    results: Sequence[PolicyResult],
    built: Mapping[str, BuiltModel],
    contest: Callable[[Mapping[str, Path]], dict[str, list[float]]],
    folder: Path,
) -> tuple[str, dict[str, PairedRatio]]:
    """The policy to keep, and its ratios to ``sequential`` and ``tvm`` in a fresh process."""
    ours = [r for r in results if r.policy not in ("tvm", "sequential") and r.ratio < 1]
    best = min(ours, key=lambda r: r.ratio).policy if ours else "sequential"
    paths: dict[str, Path] = {}
    for policy in dict.fromkeys(("sequential", best)):
        paths[policy] = folder / policy
        built[policy].save(paths[policy])
    samples = contest(paths)
    kept = best if _ratio(samples, best, "sequential").high < 1 else "sequential"
    return kept, {name: _ratio(samples, kept, name) for name in ("sequential", "tvm")}


def _ratio(samples: Mapping[str, list[float]], first: str, second: str) -> PairedRatio:
    """Of two runners of a contest, in which a slow one has the first rounds only."""
    pairs = min(len(samples[first]), len(samples[second]))
    return paired_ratio(samples[first][:pairs], samples[second][:pairs])


def _results(
    schedules: Mapping[str, Schedule],
    first_with: Mapping[Any, str],
    samples: Mapping[str, list[float]],
    errors: Mapping[str, tuple[float, float]],
) -> tuple[PolicyResult, ...]:
    """One row a policy; policies of equal schedules share their measurement."""
    rows: list[PolicyResult] = []
    for policy in ("tvm", *schedules):
        measured = policy if policy == "tvm" else first_with[schedules[policy].stages]
        seconds = samples[measured]
        rows.append(
            PolicyResult(
                policy=policy,
                latency=statistics.median(seconds),
                ratio=_ratio(samples, measured, "sequential").median,
                stages=None if policy == "tvm" else len(schedules[policy].stages),
                max_abs_error=errors[measured][0],
                max_rel_error=errors[measured][1],
            )
        )
    return tuple(rows)


def _errors(policy: str, found: list[Array], reference: list[Array]) -> tuple[float, float]:
    absolute = relative = 0.0
    for ours, theirs in zip(found, reference, strict=True):
        worst = float(np.max(np.abs(ours.astype(np.float64) - theirs), initial=0.0))
        scale = float(np.max(np.abs(theirs), initial=0.0)) or 1.0
        # Unlike max, this lets a NaN through to the comparison below.
        absolute = float(np.maximum(absolute, worst))
        relative = float(np.maximum(relative, worst / scale))
    if not relative <= LARGEST_ERROR:
        raise VerificationError(
            f"the {policy} schedule differs from TVM's own result by {relative:.1e} of the "
            "largest output; please report this model"
        )
    return absolute, relative


def _arrays(result: Any) -> list[Array]:
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


class _Watch:
    """Seconds between laps."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now
