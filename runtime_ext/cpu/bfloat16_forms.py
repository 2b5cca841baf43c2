"""Units whose weights are rounded to bfloat16, and which of these may be faster.

Half as many bytes of weights come from memory, but they are widened in registers, for each register
tile of pixels again: where pixels are many, arithmetic decides, and there is more of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod

from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.cpu.winograd_forms import MEMORY_CYCLES
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.by_bfloat16 import Placed, by_bfloat16
from runtime_ext.units.in_packs import all_parts
from runtime_ext.units.pixel_rows import merge_rows
from runtime_ext.units.plans import form_plan
from runtime_ext.units.unit import UnitPlan, UnitSource
from runtime_ext.units.values import Storage
from tvm_ios.program.bfloat16 import FORM

#: The form is measured if an estimate of its cycles is at most so many times the default's. Seen:
#: 0.98 of the default's time, where the estimate is 1.06.
_MARGIN = 1.06


def all_bfloat16_plans(source: UnitSource, space: VectorSpace) -> Mapping[str, UnitPlan]:
    """The form with rounded weights, by its name; empty for units without constant weights."""
    plan = _plan(source, space)
    return {} if plan is None else {FORM: plan[0]}


def promising_bfloat16_plans(source: UnitSource, space: VectorSpace) -> Mapping[str, UnitPlan]:
    """The form, if it may take less time than the default one by an estimate."""
    plan = _plan(source, space)
    return {} if plan is None or plan[1] > _MARGIN else {FORM: plan[0]}


def _plan(source: UnitSource, space: VectorSpace) -> tuple[UnitPlan, float] | None:
    """The unit with rounded weights, and its contractions' share of the default's cycles."""
    multiplies = space.unit.bfloat16
    usual = form = 0.0

    def instead(
        spec: Contraction, order: Sequence[int], storages: list[Storage]
    ) -> Sequence[Placed] | None:
        nonlocal usual, form
        kernels = by_bfloat16(spec, order, storages, space, multiplies=multiplies)
        if kernels is not None:
            usual += _cycles(spec, space)
            form += _cycles(spec, space, rounded=True)
        return kernels

    plan = form_plan(source, space, instead, FORM)
    return None if plan is None else (plan, form / usual)


def _cycles(spec: Contraction, space: VectorSpace, *, rounded: bool = False) -> float:
    """Cycles of a contraction by an estimate: multiply-adds, two a cycle, and its weights."""
    whole = merge_rows(spec)
    rows, columns = whole.window.output
    lanes = space.unit.lanes
    vectors = sum(ceil(part / lanes) for part in all_parts(whole))
    vectors *= prod(whole.window.kernel) * whole.channels
    multiply_adds = whole.batch * rows * columns
    memory = MEMORY_CYCLES * lanes * 4
    if not rounded:
        return vectors * (multiply_adds / 2 + memory)
    if space.unit.bfloat16:
        return vectors * (multiply_adds / 4 + memory / 2)
    tiles = whole.batch * rows * ceil(columns / space.blocking(whole).pixels)
    return vectors * ((multiply_adds + tiles) / 2 + memory / 2)
