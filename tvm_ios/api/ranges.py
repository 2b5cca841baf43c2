"""From a model to one program for a range of shapes: read, build, verify, time, save."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios import interrupts
from tvm_ios.api.destination import Destination, KeptProgram, destination_of
from tvm_ios.api.options import Options
from tvm_ios.api.outcomes import leaving_out_little
from tvm_ios.api.range_outputs import (
    compared_points,
    exact_enough,
    inputs_at,
    reference_at,
    verified,
)
from tvm_ios.api.range_schedules import (
    RANGE_POLICIES,
    KeptSchedule,
    cells_of,
    with_range_schedules,
)
from tvm_ios.clock import Clock
from tvm_ios.errors import MemoryBudgetError, UserError
from tvm_ios.files.byte_sizes import size_text
from tvm_ios.program.program import in_box
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.first_difference import kinds
from tvm_ios.schedule.named_kernels import units_by_kernel
from tvm_ios.shapes.extent import symbols_in
from tvm_ios.shapes.fitting import Values, values_text
from tvm_ios.shapes.ranges import Range, Ranges, typical_shapes

if TYPE_CHECKING:
    from relay_passes.relax.ranges.search import OpenSearch
    from relay_passes.relax.ranges.units import OpenModel
    from runtime_ext.execution.built_model import BuiltModel
    from tvm_ios.contest.outputs import Reference
    from tvm_ios.models.source import AnyModel

#: Samples of a time, seconds of each, and of all at one point.
_SAMPLES, _SAMPLE_SECONDS, _POINT_SECONDS = 5, 0.02, 1.0


@dataclass(frozen=True)
class TimedPoint:
    """A shape at which the program was timed.

    ``values`` are those of the symbols, ``latency`` is in seconds, and ``arena`` in bytes.
    """

    values: Values
    latency: float
    arena: int


@dataclass(frozen=True)
class RangeResult:
    """A program for a range of shapes.

    Attributes
    ----------
    model
        The name of the model.
    target
        The architecture that it was compiled for.
    lanes
        Its lanes.
    symbols
        The range of each open dimension, as a user writes it.
    units, kernels
        Their numbers.
    compared
        The shapes at which outputs were compared, as values of the symbols.
    error
        The largest error relative to an output's largest value; None if nothing was compared.
    reference
        The framework that outputs were compared with; None if they were not.
    special
        Shapes at the ends of the range at which the model itself has other units, each with the
        reason. The program was compared there too.
    points
        Shapes at which it was timed.
    forms
        For each form of units other than the default, such as ``winograd-4``, its number of units.
    left_out
        A sentence on forms that round too much for this model, or empty.
    schedules
        Schedules that it has in boxes of the range; elsewhere units run one after another.
    executable
        The path of the executable; None if nothing was saved.
    seconds
        Seconds of each phase.
    """

    model: str
    target: str
    lanes: int
    symbols: Mapping[str, str]
    units: int
    kernels: int
    compared: tuple[Values, ...]
    error: float | None
    reference: str | None
    special: tuple[tuple[Values, str], ...]
    points: tuple[TimedPoint, ...]
    forms: Mapping[str, int]
    left_out: str
    schedules: tuple[KeptSchedule, ...]
    executable: Path | None
    seconds: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        data = asdict(self)
        data["executable"] = None if self.executable is None else str(self.executable)
        data["schedules"] = [schedule.to_json() for schedule in self.schedules]
        data["special"] = [{"at": at, "reason": reason} for at, reason in self.special]
        return data


def optimize_range(
    model: AnyModel | OpenModel,
    ranges: Ranges,
    output: Path | Destination | None,
    options: Options | None = None,
    progress: Progress = silent,
) -> RangeResult:
    """Compile a model once for all shapes in the ranges of its inputs.

    Each unit has the form, such as a convolution by Winograd's filtering, that is fastest in the
    mean of three shapes. Units run one after another, each on all lanes, but in boxes of the range
    where a schedule is surely faster: schedules are searched at points of it. The outputs are
    compared at the ends of the range, at these points and at random shapes.

    Parameters
    ----------
    model
        A zoo name, an ``.onnx`` or ``.pt2`` file, or a :class:`~tvm_ios.models.source.ModelSource`.
        Or the model as it was read for these ranges.
    ranges
        For each input its extents: numbers, or a :class:`~tvm_ios.shapes.ranges.Range`.
    output
        Where the executable goes: a folder, a ``.tar``, or a place in a deployment; None to save
        nothing.
    options
        Lanes, target, ``verify``, policies and limits of their searches, and the memory budget,
        which is that of the largest shape; the other options are of programs of one shape.
    progress
        Called with (phase, done, total).

    Raises
    ------
    UserError
        If the model cannot be read, or has no one program for the range; one sentence says why.
    MemoryBudgetError
        If the largest shape does not fit into the memory budget.
    VerificationError
        If the program computes something else.
    """
    options = options or Options()
    from relay_passes.relax.ranges.search import OpenSearch
    from relay_passes.relax.ranges.units import OpenModel, load_open_model
    from runtime_ext.isa.levels import cpu_of
    from runtime_ext.targets import target_backend

    if output is not None:
        destination_of(output).require_writable()
    search = options.search
    clock = Clock(search.limits.budget.time_limit)
    read = model
    if not isinstance(read, OpenModel):
        read = load_open_model(read, ranges, search, progress)
    clock.lap("read")
    units = read.opened.units
    backend = target_backend(
        search.target_for(kinds(units.schedule.get("graph", {}))),
        search.lanes,
        search.cache / "kernels",
        database=None,
        without=search.without,
    )
    opened = OpenSearch(units, backend, leaving_out_little(search), progress)
    typical = typical_shapes(symbols_in(tuple(read.shapes.values())))
    if clock.left > 0:
        opened.choose_forms(typical, progress)
    built = opened.build()
    symbols = built.program.symbols
    # Schedules are kept at points of cells.
    others = [cell.point for cell in cells_of(symbols)]
    compared = compared_points(symbols, [*others, *(at for at, _ in read.opened.special)])
    reference = reference_at(read, built, compared, options.verify, progress)
    smaller = [s for at, s in zip(compared, reference.samples, strict=False) if at in typical[:2]]
    built, left_out = exact_enough(opened, built, replace(reference, samples=smaller))
    clock.lap("build")
    if options.memory_budget is not None:
        built = _within_budget(built, opened, options.memory_budget)
    ranges_of = {s.name: str(Range(s.least, s.most)) for s in symbols}

    def checked(
        built: BuiltModel, reference: Reference, typical: Sequence[Values]
    ) -> tuple[float | None, tuple[TimedPoint, ...]]:
        with closing(built.session()) as session:
            error = verified(session, reference, progress)
            clock.lap("verify")
            points = _timed(built, session, typical, progress)
            clock.lap("time")
        return error, points

    def saved(
        built: BuiltModel, points: Sequence[TimedPoint], schedules: Sequence[KeptSchedule]
    ) -> Path | None:
        if output is None:
            return None
        notes = {
            "model": read.source.name,
            "kept": "sequential",
            "ranges": ranges_of,
            "reference": reference.source,
            "points": [asdict(point) for point in points],
            "schedules": [schedule.to_json() for schedule in schedules],
        }
        middle = points[1].latency
        program = KeptProgram(built, units.graph, None, "sequential", middle, notes)
        path = destination_of(output).save(program)
        clock.lap("save")
        return path

    error, points = checked(built, reference, typical)
    executable = None
    if isinstance(output, Path):
        # It is there if the search is interrupted.
        executable = saved(built, points, ())
        interrupts.note(f"{output} has the program of one unit after another")
    known = [(point.values, point.latency) for point in points]
    built, schedules = _scheduled(built, opened, options, known, clock, progress)
    clock.lap("schedule")
    if schedules:
        # Elsewhere the program is that of before.
        def is_new(at: Values) -> bool:
            return any(in_box(box, at) for each in schedules for box in each.boxes)

        new = [s for at, s in zip(compared, reference.samples, strict=False) if is_new(at)]
        new += reference.samples[len(compared) :]
        worse, again = checked(built, replace(reference, samples=new), [*filter(is_new, typical)])
        error = None if error is None or worse is None else max(error, worse)
        timed = {str(point.values): point for point in (*points, *again)}
        points = tuple(timed.values())
    if schedules or executable is None:
        executable = saved(built, points, schedules)
    return RangeResult(
        model=read.source.name,
        target=cpu_of(backend.compiler.target),
        lanes=search.lanes,
        symbols=ranges_of,
        units=len(units.functions),
        kernels=len(built.program.kernels),
        compared=() if error is None else tuple(compared),
        error=error,
        reference=reference.source,
        special=read.opened.special,
        points=points,
        forms=units_by_kernel(opened.kernels),
        left_out=left_out,
        schedules=schedules,
        executable=executable,
        seconds=clock.seconds,
    )


def _within_budget(built: BuiltModel, opened: OpenSearch, budget: int) -> BuiltModel:
    """Return the program, without forms if it fits into a budget of bytes so alone.

    Raise MemoryBudgetError if it does not.
    """
    try:
        _require_budget(built, budget)
    except MemoryBudgetError:
        if not opened.kernels:
            raise
        opened.kernels = {}
        built = opened.build()
        _require_budget(built, budget)
    return built


def _require_budget(built: BuiltModel, budget: int) -> None:
    """Require that the largest shape fits into a budget of bytes, or raise MemoryBudgetError.

    The error names the largest extents that do.
    """
    plan, program = built.memory.open_plan, built.program
    assert plan is not None
    symbols = program.symbols
    most = {symbol.name: symbol.most for symbol in symbols}

    def nbytes(values: Values) -> int:
        return plan.at(program, values).nbytes

    if nbytes(most) <= budget:
        return
    alone: list[str] = []
    for symbol in symbols:
        fits = _largest(
            symbol.least - 1, symbol.most, lambda n, s=symbol: nbytes({**most, s.name: n}) <= budget
        )
        others = " and ".join(s.name for s in symbols if s is not symbol)
        if fits >= symbol.least:
            alone.append(f"{symbol.name} to {fits}" + (f" with every {others}" if others else ""))
    least = {symbol.name: symbol.least for symbol in symbols}
    if alone:
        fitting = f"what fits is {' or '.join(alone)}"
    elif nbytes(least) <= budget:
        # No symbol alone is enough: all are cut by one fraction.
        def at(part: int) -> Values:
            return {s.name: s.least + (s.most - s.least) * part // 1024 for s in symbols}

        ends = at(_largest(0, 1024, lambda part: nbytes(at(part)) <= budget))
        fitting = f"what fits is {' with '.join(f'{n} to {e}' for n, e in ends.items())}"
    else:
        fitting = f"the least shape needs {size_text(nbytes(least))}"
    raise MemoryBudgetError(
        f"the program needs {size_text(nbytes(most))} between its units at "
        f"{values_text(most)}, and the memory budget "
        f"is {size_text(budget)}: {fitting}"
    )


def _largest(fits: int, most: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number below ``most`` for which a condition holds, by bisection.

    It is taken to hold for ``fits``, and not for ``most``.
    """
    while most - fits > 1:
        middle = (fits + most) // 2
        fits, most = (middle, most) if holds(middle) else (fits, middle)
    return fits


def _scheduled(
    built: BuiltModel,
    opened: OpenSearch,
    options: Options,
    known: Sequence[tuple[Values, float]],
    clock: Clock,
    progress: Progress,
) -> tuple[BuiltModel, tuple[KeptSchedule, ...]]:
    """Return the program with the schedules that are faster in boxes of its range."""
    policies = RANGE_POLICIES if options.policies is None else options.policies
    if unfit := [policy for policy in policies if policy not in RANGE_POLICIES]:
        raise UserError(
            f"a program for a range of shapes has no schedule of {unfit[0]}: "
            f"use {', '.join(RANGE_POLICIES)}"
        )
    if options.search.lanes == 1 and policies:
        # Nothing runs side by side, but units may have other forms at other shapes.
        policies = ("sequential",) if opened.other_forms() else ()
    if not policies:
        return built, ()
    scheduled, schedules = with_range_schedules(built, opened, policies, known, clock, progress)
    if options.memory_budget is not None:
        try:
            _require_budget(scheduled, options.memory_budget)
        except MemoryBudgetError:
            return built, ()
    return scheduled, schedules


def _timed(
    built: BuiltModel, session: Any, points: Sequence[Values], progress: Progress
) -> tuple[TimedPoint, ...]:
    """Return the times of a program at some shapes."""
    plan = built.memory.open_plan
    assert plan is not None
    timed: list[TimedPoint] = []
    for number, point in enumerate(points):
        progress("timing", number, len(points))
        session.set_input(**inputs_at(built, point))
        seconds = session.benchmark(1, 1)
        if seconds[0] < _POINT_SECONDS:
            (once,) = session.benchmark(1, 1)
            repeat = max(1, min(_SAMPLES, int(_POINT_SECONDS / once)))
            seconds = session.benchmark(max(1, int(_SAMPLE_SECONDS / once)), repeat)
        nbytes = plan.at(built.program, point).nbytes
        timed.append(TimedPoint(point, statistics.median(seconds), nbytes))
    progress("timing", len(points), len(points))
    return tuple(timed)
