"""Find buffers that one kernel writes and only one other reads; renumber fused buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import (
    Contraction,
    Normalisation,
    PhysicalShape,
    Pointwise,
    Pooling,
    Product,
    accesses,
)
from runtime_ext.units.unit import PlannedKernel, UnitPlan

#: Specs that may be a part of a chain.
Part = Contraction | Pooling | Product | Normalisation
_Part = TypeVar("_Part", bound=Part)


def handed_on(
    plan: UnitPlan,
    kernels: Sequence[PlannedKernel],
    one: tuple[PlannedKernel, Part],
    other: tuple[PlannedKernel, Part | Pointwise],
) -> int | None:
    """Return the scratch buffer that one kernel writes and only the other reads, as its data input.

    Return None if there is none. ``kernels`` are the current kernels of the plan.
    """
    (maker, first), (reader, second) = one, other
    if len(first.statements) != 1:
        return None
    handed = maker.buffers[first.statements[0].target.buffer]
    scratch = len(plan.inputs) + len(plan.constants) + len(plan.outputs)
    if handed < scratch or sum(handed in kernel.buffers for kernel in kernels) != 2:
        return None
    reads = [reader.buffers[access.buffer] for access in accesses(second.statements)]
    if isinstance(second, Pointwise):
        return handed if reads.count(handed) == 1 else None
    if isinstance(second, Product):
        reads.append(reader.buffers[second.other.buffer])
    return handed if reader.buffers[second.data.buffer] == handed not in reads else None


def joined_buffers(
    kernels: Iterable[PlannedKernel], handed: Sequence[int]
) -> tuple[tuple[int, ...], tuple[PhysicalShape, ...], Mapping[int, int]]:
    """Return the buffers of a fused kernel, their shapes, and a number for each unit's buffer.

    The buffers in ``handed`` are not arguments; their numbers follow those of the arguments.
    """
    shape_of: dict[int, PhysicalShape] = {}
    for kernel in kernels:
        shape_of |= zip(kernel.buffers, kernel.spec.buffers, strict=True)
    buffers = tuple(buffer for buffer in shape_of if buffer not in handed)
    number_of = {buffer: number for number, buffer in enumerate((*buffers, *handed))}
    return buffers, tuple(shape_of[buffer] for buffer in buffers), number_of


def renumbered(spec: _Part, kernel: PlannedKernel, number_of: Mapping[int, int]) -> _Part:
    """Return the spec of a kernel with its buffers numbered as the fused kernel's."""

    def moved(access: Access) -> Access:
        return replace(access, buffer=number_of[kernel.buffers[access.buffer]])

    statements = tuple(statement.mapped(moved) for statement in spec.statements)
    changed = replace(spec, data=moved(spec.data), statements=statements, buffers=())
    if isinstance(changed, Product):
        return replace(changed, other=moved(changed.other))
    if isinstance(changed, Contraction | Pooling) and changed.weight is not None:
        return replace(changed, weight=number_of[kernel.buffers[changed.weight]])
    return changed
