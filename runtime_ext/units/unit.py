"""A unit before compilation, and the ways to cut it into kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runtime_ext.cpu.tilings import Tiling, coarse, fine, finer
from runtime_ext.cpu.vector_unit import VectorUnit
from runtime_ext.kernels.library_convolution import LibraryConvolution
from runtime_ext.kernels.spec import Blocking, Contraction, Pooling, Spec
from runtime_ext.tuning.contraction_space import Space
from runtime_ext.tuning.tuning_log import TuningLog
from runtime_ext.units.by_library import by_library
from runtime_ext.units.draft import IMAGE, Cutter, Tuned, cut, written
from runtime_ext.units.generic import Generic, Scheduled
from runtime_ext.units.planner import Planner
from runtime_ext.units.values import Layout, Slice
from tvm_ios.program.compiled_unit import ConstantUse
from tvm_ios.program.program import BufferType


@dataclass(frozen=True)
class UnitSource:
    """What a unit computes and how its tensors lie in memory.

    Attributes
    ----------
    function
        A Relax function of high-level operators on NCHW images. Its attribute ``num_input``
        says how many leading parameters are data; the others are constants.
    layouts
        For each data input and then each output ``"NHWC"`` or ``""`` (as in the function), or
        which slice of a wider tensor it is.
    in_place
        Which data inputs of a concatenation lie in its output already.
    """

    function: Any
    layouts: tuple[Layout, ...]
    in_place: frozenset[int] = frozenset()

    @property
    def alone(self) -> UnitSource:
        """The unit if none of its tensors lay in a wider one."""
        orders = (x.order if isinstance(x, Slice) else x for x in self.layouts)
        return UnitSource(self.function, tuple(orders))


@dataclass(frozen=True)
class PlannedKernel:
    """A kernel of a unit and which of the unit's buffers its own buffers are."""

    spec: Spec | Generic | Scheduled | LibraryConvolution
    buffers: tuple[int, ...]


@dataclass(frozen=True)
class UnitPlan:
    """A unit cut into kernels; buffers are data inputs, constants, outputs, scratch.

    ``tuned`` names what of it a tuning log has.
    """

    inputs: tuple[BufferType, ...]
    constants: tuple[ConstantUse, ...]
    constant_types: tuple[BufferType, ...]
    outputs: tuple[BufferType, ...]
    scratch: tuple[BufferType, ...]
    kernels: tuple[PlannedKernel, ...]
    tuned: frozenset[str] = frozenset()


def plan_unit(source: UnitSource, cutter: Cutter, tuned: Tuned | None = None) -> UnitPlan:
    """Cut a unit into kernels.

    Parameters
    ----------
    source
        What to compute.
    cutter
        Cuts contractions for a device.
    tuned
        Has other blockings for some of them.

    Raises
    ------
    ValueError
        If the function and its layouts do not fit, or it holds what is no operator.
    """
    return _plan(_planner(source), cutter, tuned)


def library_plan(source: UnitSource, cutter: Cutter, precision: str) -> UnitPlan | None:
    """A unit whose convolutions a kernel library computes; None if it has none of these.

    Parameters
    ----------
    source, cutter
        As of :func:`plan_unit`.
    precision
        See :class:`runtime_ext.cuda.compiler.CudaKernelCompiler`.
    """
    planner = Planner(source.function, source.layouts, source.in_place, inline=False)
    made = _plan(planner, cutter, library=precision)
    by = (isinstance(kernel.spec, LibraryConvolution) for kernel in made.kernels)
    return made if any(by) else None


def tuned_plans(source: UnitSource, space: Space, log: TuningLog) -> dict[str, UnitPlan]:
    """A unit as a tuning log would have it: with its blockings, and with its functions."""
    names: set[str] = set()

    def blocking(spec: Contraction) -> Blocking | None:
        found = log.blocking(spec, space)
        if found is None:
            return None
        name, made = found
        names.add(name)
        return made

    made = plan_unit(source, space, blocking)
    plans = {"tuned": replace(made, tuned=frozenset(names))} if names else {}
    functions = log.find(source.function)
    if functions is not None:
        planner = Planner(functions.function, source.layouts, source.in_place, functions.steps)
        tuned = frozenset(step.tuned for step in functions.steps.values() if step.tuned)
        plans["tuned-functions"] = replace(_plan(planner, space), tuned=tuned)
    return plans


def other_plans(source: UnitSource, unit: VectorUnit) -> dict[str, UnitPlan]:
    """A unit in coarser and in finer tiles than by default; its kernels vary together."""

    def plan(tiling: Tiling) -> UnitPlan:
        return plan_unit(source, unit, lambda spec: tiling(spec, unit))

    narrow = plan(fine)
    kernels = (replace(k, spec=finer(k.spec)) for k in narrow.kernels)
    return {"coarse": plan(coarse), "fine": replace(narrow, kernels=tuple(kernels))}


def different(plans: Mapping[str, UnitPlan]) -> dict[str, UnitPlan]:
    """The first of each of equal code."""
    found: dict[str, tuple[str, UnitPlan]] = {}
    for name, plan in plans.items():
        found.setdefault(repr(replace(plan, tuned=frozenset())), (name, plan))
    return dict(found.values())


def _planner(source: UnitSource) -> Planner:
    return Planner(source.function, source.layouts, source.in_place)


def _plan(
    planner: Planner, cutter: Cutter, tuned: Tuned | None = None, library: str = ""
) -> UnitPlan:
    """A plan of what was cut; ``library`` is the precision of a library that may compute some."""
    storages = planner.storages
    kernels: list[tuple[Spec | Generic | Scheduled | LibraryConvolution, tuple[int, ...]]] = []
    for draft in planner.drafts:
        if draft.generic is not None:
            kernels.append(draft.generic)
        elif draft.statements:
            spec, own = written(draft, storages)
            made = None
            if library and draft.axes == IMAGE and isinstance(spec, Contraction | Pooling):
                made = by_library(spec, own, storages, library)
            if made is None and isinstance(spec, Contraction):
                spec = cut(spec, own, storages, cutter, tuned)
            kernels += made or [(spec, own)]
    used = {s for _, buffers in kernels for s in buffers}
    order: list[int] = []
    for role in ("input", "constant", "output", "scratch"):
        order += [
            i
            for i, storage in enumerate(planner.storages)
            if storage.role == role and (i in used or role in ("input", "output"))
        ]
    of = {role: [s for i in order if (s := planner.storages[i]).role == role] for role in _ROLES}
    types = {role: tuple(BufferType(s.shape, s.dtype) for s in of[role]) for role in _ROLES}
    return UnitPlan(
        inputs=types["input"],
        constants=tuple(ConstantUse(s.number, s.transform) for s in of["constant"]),
        constant_types=types["constant"],
        outputs=types["output"],
        scratch=types["scratch"],
        kernels=tuple(
            PlannedKernel(spec, tuple(order.index(s) for s in buffers)) for spec, buffers in kernels
        ),
    )


_ROLES = ("input", "constant", "output", "scratch")
