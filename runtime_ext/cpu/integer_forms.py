"""Units whose contractions are of integers, as quantised models have them, on an x86 CPU."""

from __future__ import annotations

from collections.abc import Mapping

from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.units.plans import integer_plan
from runtime_ext.units.unit import UnitPlan, UnitSource

_NAME = "int16"


def integer_plans(source: UnitSource, space: VectorSpace) -> Mapping[str, UnitPlan]:
    """The form whose products are of integers, by its name; empty for other units and CPUs."""
    if not space.unit.pairs or not source.integers:
        return {}
    plan = integer_plan(source, space, _NAME)
    return {} if plan is None else {_NAME: plan}
