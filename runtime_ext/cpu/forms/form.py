"""The interface of forms: ways to compute units that schedules select by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.units.unit import FormKernel, UnitPlan, UnitSource

#: Returns plans of a unit by the names that schedules have for them.
Planner = Callable[[UnitSource, VectorSpace], Mapping[str, UnitPlan]]
#: Returns a kernel's PrimFunc, over a range of its tiles, and the number of tiles.
Writer = Callable[..., tuple[Any, int]]
#: Cycles to read a byte of weights from memory, in estimates.
MEMORY_CYCLES = 0.15


@dataclass(frozen=True, slots=True)
class Form:
    """A way to compute units beside the default; a unit may have several plans of it."""

    #: The name by which a compiler is told to leave the form out.
    kind: str
    #: Returns all plans of a unit, which schedules may name; none where the form does not fit.
    plans: Planner
    #: Returns those plans that may be faster than the default, which are compiled and timed.
    promising: Planner
    #: The writer of each of its kernels, by the kernel's class.
    writers: Mapping[type[FormKernel], Writer]
    #: Whether it computes units of open extents.
    fits_open: bool = False
