"""Units whose contractions are of integers, as quantised models have them, on an x86 CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.by_integers import Placed, by_integers
from runtime_ext.units.plans import form_plan
from runtime_ext.units.unit import UnitPlan, UnitSource
from runtime_ext.units.values import Storage

_NAME = "int16"


def integer_plans(source: UnitSource, space: VectorSpace) -> Mapping[str, UnitPlan]:
    """The form whose products are of integers, by its name; empty for other units and CPUs."""
    if not space.unit.pairs or not source.integers:
        return {}

    def instead(
        spec: Contraction, order: Sequence[int], storages: list[Storage]
    ) -> Sequence[Placed] | None:
        return by_integers(spec, order, storages, source.integers, space)

    plan = form_plan(source, space, instead, _NAME)
    return {} if plan is None else {_NAME: plan}
