"""The rKernels that a schedule names for some of its units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy


def fault_of(graph: OpGraph, stages: Sequence[Stage], kernels: Mapping[int, str]) -> str | None:
    """Return the first rule that the names of kernels violate, in one sentence, or None."""
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
    """Return the kernel names by unit from the ``kernels`` entry of a schedule file."""
    if not isinstance(data, dict):
        raise TypeError("'kernels'")
    kernels = {int(unit): name for unit, name in cast(dict[str, Any], data).items()}
    for unit, name in kernels.items():
        if not isinstance(name, str):
            raise TypeError(f"the kernel of unit {unit}")
    return kernels


def units_by_kernel(kernels: Mapping[int, str]) -> dict[str, int]:
    """Return the number of units for each rKernel that a schedule names."""
    return dict(sorted(Counter(kernels.values()).items()))


def kernels_text(units: Mapping[str, int]) -> str:
    """Return the numbers of units as text: ``bfloat16 in 2 units, winograd-4 in 1 unit``."""
    return ", ".join(f"{name} in {n} unit{'s' if n > 1 else ''}" for name, n in units.items())
