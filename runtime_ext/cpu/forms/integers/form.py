"""The form of quantised units whose contractions multiply integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from runtime_ext.cpu.forms.form import Form
from runtime_ext.cpu.forms.integers.plan import by_integers
from runtime_ext.cpu.forms.integers.spec import IntegerContraction
from runtime_ext.cpu.forms.integers.writer import integer_contraction
from runtime_ext.cpu.forms.packs.matrix_writer import MatrixCutter, matrix_contraction
from runtime_ext.cpu.forms.packs.narrowing import narrowing
from runtime_ext.cpu.forms.packs.spec import MatrixContraction, Narrowing
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.isa import BYTES
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.placed import Placed
from runtime_ext.units.plans import form_plan
from runtime_ext.units.unit import FormKernel, UnitPlan, UnitSource

_NAMES = (BYTES, "int16")


def _all(source: UnitSource, space: VectorSpace) -> dict[str, UnitPlan]:
    """Return the plans with integer products, by name; empty if the unit or the CPU has none."""
    return dict(_plans(source, space))


def _promising(source: UnitSource, space: VectorSpace) -> Mapping[str, UnitPlan]:
    """Return the integer plan of fewest bits: more products an instruction, less memory to read."""
    return dict(islice(_plans(source, space), 1))


def _plans(source: UnitSource, space: VectorSpace) -> Iterator[tuple[str, UnitPlan]]:
    """Yield integer plans and their names, fewest bits first, each planned when it is asked for."""
    for name in _NAMES:
        if (plan := _plan(source, space, name)) is not None:
            yield name, plan


def _plan(source: UnitSource, space: VectorSpace, name: str) -> UnitPlan | None:
    if name not in space.isa.products or not source.integers:
        return None

    has_matrices = BYTES in space.isa.matrices and not source.is_open
    matrices = MatrixCutter() if has_matrices else None

    def instead(kernel: Placed[Contraction]) -> Sequence[Placed[FormKernel]] | None:
        return by_integers(kernel, source.integers, space, name, matrices)

    return form_plan(source, space, instead, name)


INTEGERS = Form(
    "integers",
    _all,
    _promising,
    {
        Narrowing: narrowing,
        IntegerContraction: integer_contraction,
        MatrixContraction: matrix_contraction,
    },
    fits_open=True,
)
