"""The code of units: compiled, and where a unit has several forms, the fastest one."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tvm_ios.costs.log import MEASUREMENTS
from tvm_ios.measuring.device import UnsupportedError
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.measurer import Outcome
from tvm_ios.measuring.timing_device import UntimedError
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy

_LOGGER = logging.getLogger(__name__)
#: Medians of equal kernels differ by this share: a named form must gain more.
_MARGIN = 0.03
#: Forms within this factor of the fastest are timed again: other work may have slowed them down.
_CLOSE = 1.5
#: One unit, or several merged ones.
Units = tuple[int, ...]
#: One unit, or several merged ones, in one of its forms.
Piece = tuple[Units, CompiledUnit]
#: Forms by name.
Forms = dict[str, CompiledUnit]
#: Forms and their seconds, by the form's key.
TimedForms = dict[str, tuple[CompiledUnit, float]]


class TimePieces(Protocol):
    """Times pieces (units in one form each), several at once where the device can."""

    def __call__(self, pieces: Iterable[Piece], *, times: int = 1) -> Iterator[Outcome]:
        """Return the outcome of each piece, in order, with ``times`` measurements in the log."""
        ...


@dataclass
class CompiledForms:
    """The compiled code of units and merged units, which timers that read different logs share."""

    #: The form that stages run, and the one that runs if no schedule names a form.
    fastest: dict[Units, CompiledUnit] = field(default_factory=dict[Units, CompiledUnit])
    generated: dict[Units, CompiledUnit] = field(default_factory=dict[Units, CompiledUnit])
    #: For units of several forms each form and its seconds.
    timed: dict[Units, TimedForms] = field(default_factory=dict[Units, TimedForms])
    #: Names of forms that are not chosen.
    left_out: set[str] = field(default_factory=set[str])
    #: For each unit key the forms by the names of the rKernels.
    rkernels: dict[str, Forms] = field(default_factory=dict[str, Forms])
    #: Whether all units were compiled.
    complete: bool = False


class ChosenForms:
    """The code that stages run for units and merged units, compiled when first asked for.

    ``time_pieces`` may return outcomes without a time; such a form counts as infinitely slow.
    """

    def __init__(
        self, units: MeasuredUnits, time_pieces: TimePieces, compiled: CompiledForms
    ) -> None:
        self._source, self._kernels = units.source, units.kernels
        self._time_pieces = time_pieces
        self._compiled = compiled
        #: The number of units that a kernel library does not compute, by the reason.
        self.unsupported: dict[str, int] = {}

    def __call__(self, units: tuple[int, ...]) -> CompiledUnit:
        """Return the fastest code of one unit, or of several merged ones."""
        if units not in self._compiled.fastest:
            self.compile([units])
        return self._compiled.fastest[units]

    def generated(self, units: tuple[int, ...]) -> CompiledUnit:
        """Return the code of one unit, or of merged ones, that runs if no schedule names a form."""
        self(units)
        return self._compiled.generated[units]

    def named(self, schedule: Schedule) -> Schedule:
        """Return the schedule with a form named for each unit whose fastest form has a name."""
        forms = {units: self(units).name for units in pieces_of_forms(schedule)}
        names = {unit: name for units, name in forms.items() if name for unit in units}
        kept = {
            u: name for u, name in schedule.kernels.items() if name not in self._compiled.left_out
        }
        return replace(schedule, kernels={**kept, **names})

    def leave_out(self, name: str) -> None:
        """Exclude the forms of this name, and choose again among the others."""
        self._compiled.left_out.add(name)
        for units in self._compiled.timed:
            self._choose(units)

    def require(self, pieces: Iterable[tuple[int, ...]]) -> None:
        """Compile those units and merged units that are not compiled yet, in parallel."""
        missing = [units for units in dict.fromkeys(pieces) if units not in self._compiled.fastest]
        if missing:
            self.compile(missing)

    def compile(self, pieces: Sequence[tuple[int, ...]], progress: Progress | None = None) -> None:
        """Compile units and merged units in parallel, and time those of several forms."""
        sources = {str(i): self._source(units) for i, units in enumerate(pieces)}

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress("compiling kernels", done, total)

        compiled = self._kernels.compile_forms(sources, report)
        forms = {units: compiled[str(i)] for i, units in enumerate(pieces)}
        generated = {units: [f for f in forms[units] if not f.name] for units in forms}
        for units, (usual, *_) in generated.items():
            self._compiled.fastest[units] = self._compiled.generated[units] = usual
        several = {units: each for units, each in forms.items() if len(each) > 1}
        self._time(several)
        for times in range(2, MEASUREMENTS + 1):
            self._time({units: self._close(units) for units in several}, times=times)
        for units in several:
            timed = self._compiled.timed[units].values()
            self._choose(units)
            self._kernels.keep(forms[units], self._compiled.generated[units])
            _LOGGER.debug(
                "chosen of %d forms of %s: %s (%s)",
                len(forms[units]),
                f"unit {units[0]}" if len(units) == 1 else f"the merged units {units}",
                _form_name(self._compiled.fastest[units]),
                ", ".join(f"{_form_name(form)} {seconds * 1e3:.4f} ms" for form, seconds in timed),
            )

    def _time(
        self, forms: Mapping[tuple[int, ...], Sequence[CompiledUnit]], *, times: int = 1
    ) -> None:
        """Time forms of units, and add the times to those that are known."""
        pieces = [(units, form) for units in forms for form in forms[units]]
        outcomes = self._time_pieces(pieces, times=times)
        for (units, form), outcome in zip(pieces, outcomes, strict=True):
            timed = self._compiled.timed.setdefault(units, {})
            timed[form.key] = form, self._seconds(outcome)

    def _close(self, units: tuple[int, ...]) -> list[CompiledUnit]:
        """Return the forms whose time is close to the least one; none if that is only one form."""
        timed = self._compiled.timed[units].values()
        least = min(seconds for _, seconds in timed)
        close = [form for form, seconds in timed if seconds < _CLOSE * least]
        return close if len(close) > 1 else []

    def _choose(self, units: tuple[int, ...]) -> None:
        """Choose the fastest form of units; a named one only if faster by more than noise."""
        timed = self._compiled.timed[units].values()
        wanted = [
            (form, seconds) for form, seconds in timed if form.name not in self._compiled.left_out
        ]
        usual, least = min(((f, s) for f, s in wanted if not f.name), key=lambda timed: timed[1])
        best, seconds = min(wanted, key=lambda timed: timed[1])
        self._compiled.generated[units] = usual
        self._compiled.fastest[units] = best if seconds < (1 - _MARGIN) * least else usual

    def _seconds(self, outcome: Outcome) -> float:
        if isinstance(outcome.error, UnsupportedError):
            reason = str(outcome.error)
            self.unsupported[reason] = self.unsupported.get(reason, 0) + 1
        if isinstance(outcome.error, UnsupportedError | UntimedError):
            return math.inf
        (seconds,) = outcome.required()
        return seconds


def pieces_of_forms(schedule: Schedule) -> Iterator[Units]:
    """Yield the units and merged units that a schedule may name a form of.

    In sub-graphs that are split by images of the batch, single units have the form that is fastest
    for the whole batch. Units of sub-graphs split in other ways, and merged units in any split
    sub-graph, are left out, because no form of theirs was timed.
    """
    plan = schedule.instances
    subgraphs = () if plan is None else plan.subgraphs
    split = {unit for subgraph in subgraphs for unit in subgraph.units}
    other = {unit for subgraph in subgraphs if not subgraph.of_batch for unit in subgraph.units}
    for stage in schedule.stages:
        if stage.strategy in (Strategy.CONCURRENT, Strategy.STREAMS):
            yield from ((unit,) for unit in stage.units if unit not in other)
        elif stage.strategy is Strategy.MERGE and not split.intersection(stage.units):
            yield tuple(sorted(stage.units))


def _form_name(form: CompiledUnit) -> str:
    """Return a label of a form: its name, or whether it is ``tuned`` or ``default``."""
    return form.name or ("tuned" if form.tuned else "default")
