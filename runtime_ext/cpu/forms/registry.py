"""All forms, the plans of a unit in them, and the writers of their kernels."""

from __future__ import annotations

from runtime_ext.cpu.forms.bfloat16.form import BFLOAT16
from runtime_ext.cpu.forms.form import Form, Writer
from runtime_ext.cpu.forms.integers.form import INTEGERS
from runtime_ext.cpu.forms.winograd.form import WINOGRAD
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.units.unit import FormKernel, UnitPlan, UnitSource

FORMS: list[Form] = [BFLOAT16, INTEGERS, WINOGRAD]


def named_plans(source: UnitSource, space: VectorSpace) -> dict[str, UnitPlan]:
    """Return all plans of a unit in forms, by name."""
    forms = _fitting(source)
    return {name: plan for form in forms for name, plan in form.plans(source, space).items()}


def promising_plans(
    source: UnitSource, space: VectorSpace, without: frozenset[str]
) -> dict[str, UnitPlan]:
    """Return the plans in forms that estimates rank fast, except of the kinds in ``without``.

    Products that integers compute exactly are in no form that rounds.
    """
    exact = INTEGERS.promising(source, space)
    plans: dict[str, UnitPlan] = {}
    for form in _fitting(source):
        if form.kind not in without and not (exact and form is WINOGRAD):
            plans |= exact if form is INTEGERS else form.promising(source, space)
    return plans


def form_writers() -> dict[type[FormKernel], Writer]:
    """Return the writers of the kernels of all forms, by the kernel's class."""
    return {kernel: write for form in FORMS for kernel, write in form.writers.items()}


def _fitting(source: UnitSource) -> list[Form]:
    return [form for form in FORMS if form.fits_open or not source.is_open]
