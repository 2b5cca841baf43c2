"""Schedules for a range of shapes: searched at points, and kept in boxes where they are faster."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

from tvm_ios.api.outcomes import not_worth_a_program
from tvm_ios.api.range_outputs import inputs_at
from tvm_ios.clock import Clock
from tvm_ios.contest.pairs import PairedRatio, paired_ratio
from tvm_ios.contest.rounds import run_in_turn
from tvm_ios.contest.rules import CONFIRMATION, SELECTION, WORTHWHILE, Rules
from tvm_ios.errors import SearchError
from tvm_ios.program.alternatives import Box, Lanes, with_alternatives, with_lanes_of
from tvm_ios.program.arena.planner import plan_open_memory
from tvm_ios.program.program import ProgramError
from tvm_ios.program.program_builder import LoweringError
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.named_kernels import units_by_kernel
from tvm_ios.shapes.extent import Symbol, unequal_if_undecided
from tvm_ios.shapes.fitting import Values
from tvm_ios.shapes.ranges import typical_shapes, typical_values

if TYPE_CHECKING:
    from relay_passes.relax.ranges.search import OpenSearch
    from runtime_ext.execution.built_model import BuiltModel
    from tvm_ios.search import Search

_LOGGER = logging.getLogger(__name__)
#: The policies whose schedules a range can have: those of units as they are. That of ``sequential``
#: runs each unit on as many lanes as pay at a shape.
RANGE_POLICIES = ("sequential", "ios-parallel", "rammer", "ios-holistic")
#: Points at which schedules are searched, and schedules that a program has besides the sequential
#: one, at most.
_SEARCHED, _KEPT = 3, 3
#: Where the sequential program takes longer, its units fill the lanes: nothing is searched. Where
#: it takes longer than the second, only programs that were found there are timed.
_LONGEST_SECONDS, _LONG_SECONDS = 0.1, 0.03
#: Contests at a point: of all programs, and of the kept ones; and the least seconds of a sample.
_SELECTION = replace(SELECTION, rounds=20, seconds=0.5)
_CONFIRMATION = replace(CONFIRMATION, rounds=20, seconds=1.0)
_SAMPLE_SECONDS = 2e-4


@dataclass(frozen=True)
class Cell:
    """A box of the range's shapes, and the point in it at which programs are timed."""

    point: Values
    box: Box


@dataclass(frozen=True)
class KeptSchedule:
    """A schedule that a program for a range has in some boxes of it.

    Attributes
    ----------
    policy
        The policy that found it.
    searched_at
        The shape at which it was found.
    boxes
        For each box and symbol the least and the most values.
    points
        The shapes at which it was surely faster, with the ratio of its time to the sequential one.
    forms
        For each form of units other than the default, such as ``winograd-4``, its number of units.
    schedule
        As a schedule's file has it.
    """

    policy: str
    searched_at: Values
    boxes: tuple[Box, ...]
    points: tuple[tuple[Values, PairedRatio], ...]
    forms: Mapping[str, int]
    schedule: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without the schedule, which an executable has in a file of its own."""
        points = [{"at": at, **ratio.to_json()} for at, ratio in self.points]
        known = {"policy": self.policy, "searched_at": self.searched_at, "boxes": self.boxes}
        return {**known, "points": points, "forms": self.forms}


@dataclass(frozen=True)
class _Candidate:
    policy: str
    point: Values
    model: BuiltModel
    kernels: Mapping[int, str]
    schedule: Mapping[str, Any]


def with_range_schedules(
    built: BuiltModel,
    opened: OpenSearch,
    policies: Sequence[str],
    known: Sequence[tuple[Values, float]],
    clock: Clock,
    progress: Progress,
) -> tuple[BuiltModel, tuple[KeptSchedule, ...]]:
    """Return a program of a range with the schedules that are faster in boxes of it.

    ``known`` has points at which the program was timed, and the seconds of a run.

    Where none is, each of its units runs on all lanes. A schedule may have units in the forms that
    are fastest at its point.

    Schedules are searched at points of the range by the policies, and all their programs are timed
    beside the sequential one at all points. A few that together gain the most are timed again, in
    sessions of their own, and have the boxes of shapes at whose points they are surely faster.
    After the time limit of ``clock`` no further point is searched or timed.
    """
    symbols = built.program.symbols
    timed: list[tuple[float, Cell]] = []
    with closing(built.session()) as session:
        for cell in cells_of(symbols):
            seconds = next((seconds for at, seconds in known if at == cell.point), None)
            timed.append((seconds or _seconds(session, inputs_at(built, cell.point)), cell))
    timed = [(seconds, cell) for seconds, cell in timed if seconds < _LONGEST_SECONDS]
    points = _searched(timed, typical_shapes(symbols))
    candidates = _found(built, opened, policies, points, clock, progress)
    time = partial(_faster, built, candidates, clock=clock, progress=progress)
    contests = [
        (cell, [n for n, c in enumerate(candidates) if s < _LONG_SECONDS or c.point == cell.point])
        for s, cell in timed
    ]
    faster = time(contests, _SELECTION)
    kept = most_useful(faster)
    if not kept:
        return built, ()
    contests = [
        (cell, [number for number in kept if number in ratios])
        for (cell, _), ratios in zip(contests, faster, strict=False)
    ]
    cells = [cell for cell, _ in contests]
    confirmed = list(zip(cells, time(contests, _CONFIRMATION), strict=False))
    schedules: list[KeptSchedule] = []
    others: list[tuple[Box, Lanes]] = []
    program, constants = built.program, dict(built.constants)
    for number in kept:
        candidate = candidates[number]
        won = [(c, ratios[number]) for c, ratios in confirmed if _surely_fastest(ratios) == number]
        if not won:
            continue
        boxes = joined([cell.box for cell, _ in won])
        points = tuple((cell.point, ratio) for cell, ratio in won)
        schedules.append(
            KeptSchedule(
                candidate.policy,
                candidate.point,
                boxes,
                points,
                units_by_kernel(candidate.kernels),
                candidate.schedule,
            )
        )
        program, lanes = with_lanes_of(program, candidate.model.program)
        constants.update(candidate.model.constants)
        others += [(box, lanes) for box in boxes]
    if not others:
        return built, ()
    program = with_alternatives(program, others)
    alternatives = [{"boxes": each.boxes, "schedule": each.schedule} for each in schedules]
    built = replace(
        built,
        program=program,
        constants=constants,
        memory=plan_open_memory(program),
        schedule={**built.schedule, "alternatives": alternatives},
    )
    return built, tuple(schedules)


def cells_of(symbols: Sequence[Symbol]) -> list[Cell]:
    """Return boxes that cover a range, each with a point: the least, middle or most extents.

    Of more than two symbols all have the least, the middle or the most together.
    """
    axes = [_cuts(symbol) for symbol in symbols]
    if len(symbols) <= 2:
        choices = list(product(*axes))
    else:
        choices = [tuple(axis[min(place, len(axis) - 1)] for axis in axes) for place in range(3)]
    names = [symbol.name for symbol in symbols]
    return [
        Cell(
            {name: point for name, (point, _) in zip(names, choice, strict=True)},
            {name: ends for name, (_, ends) in zip(names, choice, strict=True)},
        )
        for choice in dict.fromkeys(choices)
    ]


def _cuts(symbol: Symbol) -> list[tuple[int, tuple[int, int]]]:
    """Return the least, geometric middle and most values, each with the range about it."""
    least, middle, most = typical_values(symbol)
    points = sorted({least, middle, most})
    borders = [round((a * b) ** 0.5) for a, b in pairwise(points)]
    ends = [least, *(border + 1 for border in borders)], [*borders, most]
    return list(zip(points, zip(*ends, strict=True), strict=True))


def joined(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """Return boxes as fewer ones with the same shapes: neighbours along one symbol are one."""
    left = list(boxes)
    # One symbol after another, or boxes of all shapes might be joined to a ring about one of them.
    for name in reversed(list(left[0]) if left else []):
        rest = sorted(left, key=lambda box: ([box[n] for n in box if n != name], box[name]))
        left = list[Box]()
        for box in rest:
            before = left[-1] if left else box
            if {**before, name: box[name]} == box and before[name][1] + 1 == box[name][0]:
                left[-1] = {**box, name: (before[name][0], box[name][1])}
            else:
                left.append(box)
    return tuple(left)


@unequal_if_undecided()
def _found(
    built: BuiltModel,
    opened: OpenSearch,
    policies: Sequence[str],
    points: Sequence[Values],
    clock: Clock,
    progress: Progress,
) -> list[_Candidate]:
    """Return the different programs of the schedules that are found at points.

    Units have the forms that are fastest at a point, where they were timed, or else the program's.
    """
    candidates: dict[Any, _Candidate] = {}
    others = opened.other_forms()
    for number, point in enumerate(points):
        progress("searching at shapes", number, len(points))
        if clock.left <= 0:
            break
        kernels = next((forms for timed, forms in others if timed == point), opened.kernels)
        search = opened.at(point, kernels)
        for policy, schedule in _schedules_at(search, policies).items():
            try:
                model = opened.build(schedule, kernels)
                _, lanes = with_lanes_of(built.program, model.program)
            except (LoweringError, ProgramError) as error:
                _LOGGER.info("%s at %s has no program: %s", policy, point, error)
                continue
            if lanes == built.program.lanes or lanes in candidates:
                continue
            named = replace(schedule, kernels=kernels)
            data = named.to_json(search.problem.units)
            candidates[lanes] = _Candidate(policy, point, model, kernels, data)
    progress("searching at shapes", len(points), len(points))
    return list(candidates.values())


def _schedules_at(search: Search, policies: Sequence[str]) -> dict[str, Any]:
    """Return the schedules of policies that may be worth a program."""
    found: dict[str, Any] = {}
    for policy in policies:
        try:
            found[policy] = search.find(policy)
        except SearchError as error:
            _LOGGER.info("%s finds nothing: %s", policy, error)
    left_out = not_worth_a_program(search, found, silent)
    return {policy: each.schedule for policy, each in found.items() if policy not in left_out}


def _faster(
    built: BuiltModel,
    candidates: Sequence[_Candidate],
    contests: Sequence[tuple[Cell, Sequence[int]]],
    rules: Rules,
    *,
    clock: Clock,
    progress: Progress,
) -> list[dict[int, PairedRatio]]:
    """Return for each cell the programs that may be faster at its point, with the ratios.

    ``contests`` has cells and the numbers of the candidates that are timed there. After the time
    limit there are none of further cells.
    """
    faster: list[dict[int, PairedRatio]] = []
    with ExitStack() as stack:

        def session(model: BuiltModel) -> Any:
            return stack.enter_context(closing(model.session()))

        ours = session(built)
        numbers = sorted({number for _, numbers in contests for number in numbers})
        sessions = {number: session(candidates[number].model) for number in numbers}
        for place, (cell, numbers) in enumerate(contests):
            progress("timing schedules", place, len(contests))
            if clock.left <= 0:
                break
            inputs = inputs_at(built, cell.point)
            runners = {str(n): _runner(sessions[n], inputs) for n in numbers}
            samples = run_in_turn({"": _runner(ours, inputs), **runners}, rules) if runners else {}
            ratios: dict[int, PairedRatio] = {}
            for number in numbers:
                pairs = zip(samples[str(number)], samples[""], strict=False)
                ratios[number] = paired_ratio(*zip(*pairs, strict=True))
            faster.append({n: r for n, r in ratios.items() if r.median < 1 - WORTHWHILE})
        progress("timing schedules", len(contests), len(contests))
    return faster


def most_useful(faster: Sequence[Mapping[int, PairedRatio]]) -> list[int]:
    """Return the numbers of a few programs that together gain the most at points.

    ``faster`` has for each point the programs that are faster there. One after another is added, as
    long as it makes some point surely faster by more than what is worth it.
    """
    chosen: list[int] = []
    medians = [1.0] * len(faster)

    def gain(number: int) -> float:
        gains = (
            math.log(before / of[number].median)
            for before, of in zip(medians, faster, strict=True)
            if number in of and of[number].median < before
        )
        return sum(gains)

    numbers = sorted({number for of in faster for number in of})
    while len(chosen) < _KEPT and numbers:
        best = max(numbers, key=gain)
        if gain(best) < WORTHWHILE:
            break
        chosen.append(best)
        medians = [
            min(before, of[best].median) if best in of else before
            for before, of in zip(medians, faster, strict=True)
        ]
    return chosen


def _surely_fastest(ratios: Mapping[int, PairedRatio]) -> int | None:
    """Return the fastest of the programs that are surely faster than the sequential one."""
    sure = {number: ratio.median for number, ratio in ratios.items() if ratio.high < 1}
    return min(sure, key=lambda number: sure[number], default=None)


def _searched(timed: Sequence[tuple[float, Cell]], typical: Sequence[Values]) -> Sequence[Values]:
    """Return the points at which schedules are searched, of cells with the seconds of a run.

    They are the typical shapes, at which forms of units were timed, and then the slowest points.
    """
    slowest = [cell.point for _, cell in sorted(timed, key=lambda each: -each[0])]
    return sorted(slowest, key=lambda point: point not in typical)[:_SEARCHED]


def _runner(session: Any, inputs: Mapping[str, Any]) -> Callable[[], float]:
    runs = max(1, round(_SAMPLE_SECONDS / _seconds(session, inputs)))
    return lambda: session.benchmark(runs, 1)[0]


def _seconds(session: Any, inputs: Mapping[str, Any]) -> float:
    """Return the seconds of a run; of the first one, if it takes so long that it tells enough."""
    session.set_input(**inputs)
    (first,) = session.benchmark(1, 1)
    return first if first > 3 * _LONGEST_SECONDS else session.benchmark(1, 1)[0]
