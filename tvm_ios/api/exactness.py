"""Keep units' forms that round more than others only in programs that are exact enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isinf
from typing import TYPE_CHECKING, Any, Protocol

from tvm_ios.api.candidates import Candidates, build_candidates
from tvm_ios.contest.outputs import Errors, Reference, difference, largest_errors, output_errors
from tvm_ios.program import bfloat16, winograd
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule

if TYPE_CHECKING:
    from relay_passes.measured_module import MeasuredModule
    from runtime_ext.execution.built_model import BuiltModel

#: The largest error of outputs of programs with such forms, relative to the largest output.
LARGEST = 1e-4
#: Or this multiple of the error without these forms: some models magnify any rounding, and the
#: reference's own error is as large as ours.
_OF_DIRECT = 1.5
#: Above this tolerance the model or its precision rounds more than these forms do.
ROUNDING = 1e-3
#: The forms that round more than sums of products do, the least exact first.
INEXACT = tuple(f"{winograd.FORM}{outputs}" for outputs in (6, 4, 2))
#: The form that precision bfloat16 asks for; its limit is that precision's tolerance.
ROUNDED = (bfloat16.FORM,)


def exact_enough(
    module: MeasuredModule[Any], candidates: Candidates, reference: Reference, report: Progress
) -> tuple[Candidates, tuple[str, ...]]:
    """Return programs with outputs within 1e-4 of the reference, and notes on forms left out.

    If outputs differ by more, the forms that round are taken back one after another, and programs
    are built again. In bfloat16 the limit is 2e-2, and that form alone is taken back. If outputs
    differ by more without any such form too, the limit is 1.5 times that error. If nothing is
    compared (no reference), the worst form is taken back; quantised models, a GPU's low precision
    and fleets keep all forms. Schedules that place rTasks of a form that is taken back are left
    out.
    """
    if module.options.fleet is not None:
        return candidates, ()
    names, largest = INEXACT, LARGEST
    if reference.source is not None:
        if reference.precision == bfloat16.FORM:
            names, largest = ROUNDED, reference.tolerance.relative
        elif reference.tolerance.relative > ROUNDING:
            return candidates, ()
    programs = _Candidates(module, candidates, reference, names, report)
    told = leave_out_inexact(programs, reference, names, largest)
    return programs.candidates, (told,) if told else ()


class Programs(Protocol):
    """Programs of a model whose units may have forms that round."""

    def uses(self, names: Sequence[str]) -> bool:
        """Return whether a program uses one of these forms."""
        ...

    def error(self) -> float:
        """Return the largest relative error of the outputs of programs that use forms."""
        ...

    def direct_error(self) -> float:
        """Return the error of a program without the forms; 0 if none can be built."""
        ...

    def leave_out(self, name: str) -> None:
        """Build the programs again without the forms of a name."""
        ...


def leave_out_inexact(
    programs: Programs,
    reference: Reference,
    names: Sequence[str] = INEXACT,
    largest: float = LARGEST,
) -> str:
    """Leave forms out of programs, the least exact first, until the outputs are exact enough.

    Return a sentence on those that are left out, empty if none is.
    """
    left_out: list[str] = []
    first = 0.0
    for name in names:
        if not programs.uses(names):
            break
        if reference.source is None:
            if name != INEXACT[0]:
                break
        else:
            error = programs.error()
            if error > largest and not left_out:
                direct = programs.direct_error()
                # Integers that are wrong without the forms, too, are no measure of rounding.
                largest = max(largest, 0.0 if isinf(direct) else _OF_DIRECT * direct)
            if error <= largest:
                break
            first = first or error
        left_out.append(name)
        programs.leave_out(name)
    if not left_out:
        return ""
    if reference.source is None:
        why = "nothing is compared"
    elif isinf(first):
        why = "integers, truth values or infinities of the outputs differed"
    else:
        why = f"outputs differed by {first:.1e}"
    return f"{', '.join(left_out)} left out: {why}"


class _Candidates:
    """The programs of candidates, as :func:`leave_out_inexact` takes them."""

    def __init__(
        self,
        module: MeasuredModule[Any],
        candidates: Candidates,
        reference: Reference,
        names: tuple[str, ...],
        report: Progress,
    ) -> None:
        self._module, self._reference, self._names = module, reference, names
        self._report = report
        self.candidates = candidates

    def uses(self, names: Sequence[str]) -> bool:
        return any(_uses(schedule, names) for schedule in self.candidates.schedules.values())

    def error(self) -> float:
        built = {
            id(model): model
            for policy, model in self.candidates.built.items()
            if _uses(self.candidates.schedules[policy], self._names)
        }
        return max(error_of(model, self._reference) for model in built.values())

    def direct_error(self) -> float:
        schedules = self.candidates.schedules.values()
        # A placement of rTasks is valid for the form's own kernels only.
        schedule = next(
            (s for s in schedules if not _places_tiles(s) and _uses(s, self._names)), None
        )
        if schedule is None:
            return 0.0
        others = {u: name for u, name in schedule.kernels.items() if name not in self._names}
        built = self._module.build(replace(schedule, kernels=others))
        return error_of(built, self._reference)

    def leave_out(self, name: str) -> None:
        self.candidates = _without(self._module, self.candidates, name, self._report)


def _uses(schedule: Schedule, names: Sequence[str]) -> bool:
    return not set(names).isdisjoint(schedule.kernels.values())


def _places_tiles(schedule: Schedule) -> bool:
    return any(stage.placement is not None for stage in schedule.stages)


def error_of(model: BuiltModel, reference: Reference) -> float:
    """Return the largest relative error of a program's outputs; infinite for wrong integers."""
    session = model.session()
    errors: list[Errors] = []
    for sample in reference.samples:
        session.run(**sample.inputs)
        outputs = [session.get_output(place) for place in range(len(sample.outputs))]
        outputs = sample.compared(outputs)
        # Integers must be equal, however small the other errors are.
        integers = [
            x for x in zip(outputs, sample.outputs, strict=True) if x[1].dtype.kind in "biu"
        ]
        ours, theirs = [a for a, _ in integers], [b for _, b in integers]
        wrong = bool(integers) and bool(difference(ours, theirs, reference.tolerance))
        errors.append((inf, inf) if wrong else output_errors(outputs, sample.outputs))
    session.close()
    _, relative = largest_errors(errors)
    return relative


def _without(
    module: MeasuredModule[Any], candidates: Candidates, name: str, report: Progress
) -> Candidates:
    forms = module.timer.forms
    forms.leave_out(name)
    schedules = {
        policy: forms.named(schedule) if _uses(schedule, (name,)) else schedule
        for policy, schedule in candidates.schedules.items()
        # A placement of rTasks is valid for the form's own kernels only.
        if not (_places_tiles(schedule) and _uses(schedule, (name,)))
    }
    again = build_candidates(module, schedules, report)
    return replace(again, unbuilt={**candidates.unbuilt, **again.unbuilt})
