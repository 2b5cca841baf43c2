"""Alternative plans of a unit on a CPU that schedules select by name, and which may be fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runtime_ext.cpu.bfloat16_forms import all_bfloat16_plans, promising_bfloat16_plans
from runtime_ext.cpu.integer_forms import all_integer_plans, promising_integer_plans
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.cpu.winograd_forms import all_winograd_plans, promising_winograd_plans
from runtime_ext.units.unit import UnitPlan, UnitSource
from tvm_ios.program.bfloat16 import FORM

#: Returns plans of a unit by the names that schedules have for them.
Maker = Callable[[UnitSource, VectorSpace], Mapping[str, UnitPlan]]


#: For each kind of forms the makers of all its plans, which schedules may name, and of those that
#: may be fastest, which are compiled and timed.
_MAKERS: Mapping[str, tuple[Maker, Maker]] = {
    FORM: (all_bfloat16_plans, promising_bfloat16_plans),
    "integers": (all_integer_plans, promising_integer_plans),
    "winograd": (all_winograd_plans, promising_winograd_plans),
}


def named_plans(source: UnitSource, space: VectorSpace) -> dict[str, UnitPlan]:
    """Return all named plans of a unit (Winograd, bfloat16, integers), by name."""
    return {
        name: plan for make, _ in _MAKERS.values() for name, plan in make(source, space).items()
    }


def promising_plans(
    source: UnitSource, space: VectorSpace, without: frozenset[str]
) -> dict[str, UnitPlan]:
    """Return the named plans that estimates rank fast, except those of the kinds in ``without``."""
    return {
        name: plan
        for kind, (_, make) in _MAKERS.items()
        if kind not in without
        for name, plan in make(source, space).items()
    }
