"""Plans of a unit: the default, by a library, in another form, from a tuning log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from runtime_ext.kernels.cut import ContractionCut
from runtime_ext.kernels.cutter import Cutter, Recut
from runtime_ext.kernels.library_convolution import CUDNN, LibraryConvolution
from runtime_ext.kernels.spec import Contraction, Pooling, Recurrence, Spec
from runtime_ext.tuning_log.log import TuningLog
from runtime_ext.tuning_log.space import Space
from runtime_ext.units.by_library import by_library
from runtime_ext.units.chains import chained, is_chain
from runtime_ext.units.cutting import cut, cut_recurrence
from runtime_ext.units.described import described
from runtime_ext.units.encodings import widened
from runtime_ext.units.kernel_draft import IMAGE
from runtime_ext.units.placed import Placed
from runtime_ext.units.planner import drafted
from runtime_ext.units.unit import PlannedKernel, UnitPlan, UnitSource, Workload
from runtime_ext.units.unit_draft import UnitDraft
from tvm_ios.program.compiled_unit import ConstantUse
from tvm_ios.program.program import BufferType, Role

#: Returns the kernels that replace one, of which it gets the axes of its draft too; None for none.
Instead = Callable[[Placed[Spec], tuple[int, int, int, int]], Sequence[Placed[Workload]] | None]
#: Returns the kernels that replace a contraction, None for none. May add to the unit's storages.
InsteadOfContraction = Callable[[Placed[Contraction]], Sequence[Placed[Workload]] | None]
_ROLES = (Role.INPUT, Role.CONSTANT, Role.OUTPUT, Role.SCRATCH)


def plan_unit(source: UnitSource, cutter: Cutter, recut: Recut | None = None) -> UnitPlan:
    """Return the default plan of a unit; ``recut`` may give other cuts of contractions.

    Raise ValueError if the function and its layouts do not fit, or it contains an expression that
    is no operator.
    """
    plan = _plan(_drafted(source), cutter, recut)
    if is_chain(source.function):
        return chained(plan) or plan
    return plan


def library_plan(source: UnitSource, cutter: Cutter, precision: str) -> UnitPlan | None:
    """Return the plan with convolutions computed by a kernel library; None if it has none.

    For ``precision`` see :class:`runtime_ext.cuda.compiler.CudaKernelCompiler`.
    """
    draft = drafted(source.function, source.layouts, source.in_place, inline=False)

    def calls(
        kernel: Placed[Spec], axes: tuple[int, int, int, int]
    ) -> Sequence[Placed[Workload]] | None:
        if axes == IMAGE and isinstance(kernel.spec, Contraction | Pooling):
            return by_library(kernel.beside(kernel.spec, kernel.places), precision)
        return None

    plan = _plan(draft, cutter, instead=calls)
    is_library = (isinstance(kernel.spec, LibraryConvolution) for kernel in plan.kernels)
    return replace(plan, name=CUDNN) if any(is_library) else None


def form_plan(
    source: UnitSource, cutter: Cutter, instead: InsteadOfContraction, name: str
) -> UnitPlan | None:
    """Return the plan ``name``, whose contractions are the kernels that ``instead`` returns.

    Return None if the unit is a chain, or ``instead`` replaces no contraction.
    """
    if is_chain(source.function):
        return None
    found = False

    def kernels(
        kernel: Placed[Spec], _: tuple[int, int, int, int]
    ) -> Sequence[Placed[Workload]] | None:
        nonlocal found
        others = instead(kernel) if _is_contraction(kernel) else None
        found = found or others is not None
        return others

    plan = _plan(_drafted(source), cutter, instead=kernels)
    return replace(plan, name=name) if found else None


def tuned_plans(source: UnitSource, space: Space, log: TuningLog) -> dict[str, UnitPlan]:
    """Return the plans of a unit from a tuning log: with its blockings, and its functions."""
    names: set[str] = set()

    def recut(spec: Contraction) -> ContractionCut | None:
        record = log.blocking(spec, space)
        if record is None:
            return None
        name, best = record
        names.add(name)
        return best

    plan = plan_unit(source, space, recut)
    plans = {"tuned": replace(plan, tuned=frozenset(names))} if names else {}
    functions = log.find(source.function)
    if functions is not None:
        draft = drafted(
            functions.function,
            source.layouts,
            source.in_place,
            functions.steps,
            encodings=source.encodings,
        )
        tuned = frozenset(step.tuned for step in functions.steps.values() if step.tuned)
        plans["tuned-functions"] = replace(_plan(draft, space), tuned=tuned)
    return plans


def different(plans: Mapping[str, UnitPlan]) -> dict[str, UnitPlan]:
    """Return the plans without those whose code equals that of an earlier one."""
    first_of_equal: dict[str, tuple[str, UnitPlan]] = {}
    for name, plan in plans.items():
        first_of_equal.setdefault(repr(replace(plan, tuned=frozenset())), (name, plan))
    return dict(first_of_equal.values())


def _drafted(source: UnitSource) -> UnitDraft:
    return drafted(source.function, source.layouts, source.in_place, encodings=source.encodings)


def _is_contraction(kernel: Placed[Spec]) -> TypeGuard[Placed[Contraction]]:
    return isinstance(kernel.spec, Contraction)


def _plan(
    unit: UnitDraft, cutter: Cutter, recut: Recut | None = None, instead: Instead | None = None
) -> UnitPlan:
    """Return the plan of a drafted unit."""
    storages = unit.storages
    kernels: list[Placed[Workload]] = []
    for draft in unit.drafts:
        if draft.placed is not None:
            placed = draft.placed
            if isinstance(placed.spec, Recurrence):
                placed = cut_recurrence(placed, cutter)
            kernels.append(placed)
        elif draft.statements:
            kernel = described(draft, storages)
            others = None if instead is None else instead(kernel, draft.axes)
            if others is not None:
                kernels += others
            elif _is_contraction(kernel):
                before, contraction = widened(kernel)
                kernels += [*before, cut(contraction, cutter, recut)]
            else:
                kernels.append(kernel)
    used = {place for kernel in kernels for place in kernel.places}
    order: list[int] = []
    for role in _ROLES:
        order += [
            i
            for i, storage in enumerate(storages)
            if storage.role is role and (i in used or role in (Role.INPUT, Role.OUTPUT))
        ]
    storages_by_role = {
        role: [s for i in order if (s := storages[i]).role is role] for role in _ROLES
    }
    types = {
        role: tuple(BufferType(s.shape, s.dtype) for s in storages_by_role[role]) for role in _ROLES
    }
    return UnitPlan(
        inputs=types[Role.INPUT],
        constants=tuple(
            ConstantUse(s.number, s.transform) for s in storages_by_role[Role.CONSTANT]
        ),
        constant_types=types[Role.CONSTANT],
        outputs=types[Role.OUTPUT],
        scratch=types[Role.SCRATCH],
        kernels=tuple(
            PlannedKernel(kernel.spec, tuple(map(order.index, kernel.places))) for kernel in kernels
        ),
    )
