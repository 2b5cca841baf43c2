"""Plans of a unit: the default, by a library, in another form, from a tuning log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from runtime_ext.kernels.cut import ContractionCut
from runtime_ext.kernels.cutter import Cutter, Recut
from runtime_ext.kernels.library_convolution import CUDNN, LibraryConvolution
from runtime_ext.kernels.spec import Contraction, Pooling, Spec
from runtime_ext.tuning_log.log import TuningLog
from runtime_ext.tuning_log.space import Space
from runtime_ext.units.by_library import by_library
from runtime_ext.units.chains import chained, is_chain
from runtime_ext.units.cutting import cut
from runtime_ext.units.described import described
from runtime_ext.units.encodings import widened
from runtime_ext.units.kernel_draft import IMAGE
from runtime_ext.units.planner import drafted
from runtime_ext.units.unit import PlannedKernel, UnitPlan, UnitSource, Workload
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Storage
from tvm_ios.program.compiled_unit import ConstantUse
from tvm_ios.program.program import BufferType

#: Kernels, each with the storages of its buffers.
Kernels = Sequence[tuple[Workload, tuple[int, ...]]]
#: Returns the kernels that replace one, given its spec, and the storages and axes of its draft.
Instead = Callable[[Spec, tuple[int, ...], tuple[int, ...]], Kernels | None]
#: Returns the kernels that replace a contraction. May append storages to the unit's.
InsteadOfContraction = Callable[[Contraction, Sequence[int], list[Storage]], Kernels | None]
_ROLES = ("input", "constant", "output", "scratch")


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

    def calls(spec: Spec, order: tuple[int, ...], axes: tuple[int, ...]) -> Kernels | None:
        if axes == IMAGE and isinstance(spec, Contraction | Pooling):
            return by_library(spec, order, draft.storages, precision)
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
    draft = _drafted(source)
    found = False

    def kernels(spec: Spec, order: tuple[int, ...], _: tuple[int, ...]) -> Kernels | None:
        nonlocal found
        others = instead(spec, order, draft.storages) if isinstance(spec, Contraction) else None
        found = found or others is not None
        return others

    plan = _plan(draft, cutter, instead=kernels)
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


def _plan(
    unit: UnitDraft, cutter: Cutter, recut: Recut | None = None, instead: Instead | None = None
) -> UnitPlan:
    """Return the plan of a drafted unit."""
    storages = unit.storages
    kernels: list[tuple[Workload, tuple[int, ...]]] = []
    for draft in unit.drafts:
        if draft.generic is not None:
            kernels.append(draft.generic)
        elif draft.statements:
            spec, order_of_spec = described(draft, storages)
            others = None if instead is None else instead(spec, order_of_spec, draft.axes)
            if others is None and isinstance(spec, Contraction):
                spec, order_of_spec, before = widened(spec, order_of_spec, storages)
                kernels += before
                spec = cut(spec, order_of_spec, storages, cutter, recut)
            kernels += others or [(spec, order_of_spec)]
    used = {s for _, buffers in kernels for s in buffers}
    order: list[int] = []
    for role in _ROLES:
        order += [
            i
            for i, storage in enumerate(storages)
            if storage.role == role and (i in used or role in ("input", "output"))
        ]
    storages_by_role = {
        role: [s for i in order if (s := storages[i]).role == role] for role in _ROLES
    }
    types = {
        role: tuple(BufferType(s.shape, s.dtype) for s in storages_by_role[role]) for role in _ROLES
    }
    return UnitPlan(
        inputs=types["input"],
        constants=tuple(ConstantUse(s.number, s.transform) for s in storages_by_role["constant"]),
        constant_types=types["constant"],
        outputs=types["output"],
        scratch=types["scratch"],
        kernels=tuple(
            PlannedKernel(spec, tuple(order.index(s) for s in buffers)) for spec, buffers in kernels
        ),
    )
