"""The form of units whose weights are rounded to bfloat16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime_ext.cpu.forms.bfloat16.estimate import bfloat16_cycles, float_cycles
from runtime_ext.cpu.forms.bfloat16.plan import by_bfloat16
from runtime_ext.cpu.forms.bfloat16.spec import Bfloat16Contraction
from runtime_ext.cpu.forms.bfloat16.writer import bfloat16_contraction
from runtime_ext.cpu.forms.form import Form
from runtime_ext.cpu.forms.packs.matrix_writer import MatrixCutter, matrix_contraction
from runtime_ext.cpu.forms.packs.narrowing import narrowing
from runtime_ext.cpu.forms.packs.spec import MatrixContraction, Narrowing
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.placed import Placed
from runtime_ext.units.plans import form_plan
from runtime_ext.units.unit import FormKernel, UnitPlan, UnitSource
from tvm_ios.program.bfloat16 import FORM

#: The form is measured if its estimated cycles are at most this multiple of the default's. A time
#: of 0.98 of the default's was seen where the estimate was 1.06.
_MARGIN = 1.06


def _all(source: UnitSource, space: VectorSpace) -> Mapping[str, UnitPlan]:
    """Return the plan with bfloat16 weights, by name; empty without constant weights."""
    plan = _plan(source, space)
    return {} if plan is None else {FORM: plan[0]}


def _promising(source: UnitSource, space: VectorSpace) -> Mapping[str, UnitPlan]:
    """Return the bfloat16 plan, by name, if by an estimate it may be faster; else nothing."""
    plan = _plan(source, space)
    return {} if plan is None or plan[1] > _MARGIN else {FORM: plan[0]}


def _plan(source: UnitSource, space: VectorSpace) -> tuple[UnitPlan, float] | None:
    """Return the bfloat16 plan and its contractions' cycles as a share of the default plan's."""
    matrices = MatrixCutter() if FORM in space.isa.matrices else None
    usual = form = 0.0

    def instead(kernel: Placed[Contraction]) -> Sequence[Placed[FormKernel]] | None:
        nonlocal usual, form
        kernels = by_bfloat16(kernel, space, matrices)
        if kernels is not None:
            usual += float_cycles(kernel.spec, space)
            form += bfloat16_cycles(kernel.spec, space)
        return kernels

    plan = form_plan(source, space, instead, FORM)
    return None if plan is None else (plan, form / usual)


BFLOAT16 = Form(
    FORM,
    _all,
    _promising,
    {
        Narrowing: narrowing,
        Bfloat16Contraction: bfloat16_contraction,
        MatrixContraction: matrix_contraction,
    },
)
