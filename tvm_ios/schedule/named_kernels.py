"""The rKernels that a schedule names for its units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy


def fault_of(graph: OpGraph, stages: Sequence[Stage], kernels: Mapping[int, str]) -> str | None:
    """The first rule that the names of kernels violate, in one sentence; None if there is none."""
    for unit, kernel in kernels.items():
        if not 0 <= unit < len(graph):
            return f"the schedule names a kernel of unit {unit}, which does not exist"
        if not kernel:
            return f"the kernel of unit {graph.operators[unit].name!r} has no name"
    for stage in stages:
        if stage.strategy is not Strategy.MERGE:
            continue
        first, *others = stage.units
        for other in others:
            if kernels.get(first) != kernels.get(other):
                a, b = (graph.operators[unit].name for unit in (first, other))
                return (
                    f"units {a!r} and {b!r} are merged, and the schedule names different kernels "
                    "for them"
                )
    return None


def from_json(data: Any) -> dict[int, str]:
    """What a schedule's file has as ``kernels``."""
    if not isinstance(data, dict):
        raise TypeError("'kernels'")
    kernels = {int(unit): name for unit, name in cast(dict[str, Any], data).items()}
    for unit, name in kernels.items():
        if not isinstance(name, str):
            raise TypeError(f"the kernel of unit {unit}")
    return kernels


def units_by_kernel(kernels: Mapping[int, str]) -> dict[str, int]:
    """How many units run each rKernel that a schedule names."""
    return dict(sorted(Counter(kernels.values()).items()))


def kernels_text(units: Mapping[str, int]) -> str:
    """The same for people: ``bfloat16 in 2 units, winograd-4 in 1 unit``."""
    return ", ".join(f"{name} in {n} unit{'s' if n > 1 else ''}" for name, n in units.items())
