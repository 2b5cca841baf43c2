"""A form as somebody adds it: contractions that sum their input channels from the last on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runtime_ext.cpu.forms.form import Form
from runtime_ext.cpu.kernels.blocking import UNROLLED
from runtime_ext.cpu.kernels.contraction import ContractionWriter, plan_tiles
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.cpu.kernels.words import WordOf
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.spec import Contraction, PhysicalShape
from runtime_ext.units.cutting import cut
from runtime_ext.units.placed import Placed
from runtime_ext.units.plans import form_plan
from runtime_ext.units.unit import FormKernel, UnitPlan, UnitSource

NAME = "backwards"


@dataclass(frozen=True, slots=True)
class BackwardContraction:
    """The spec: a contraction whose input channels are added in descending order."""

    contraction: Contraction

    @property
    def buffers(self) -> tuple[PhysicalShape, ...]:
        """Physical shapes of the function's buffers."""
        return self.contraction.buffers


class _Writer(ContractionWriter):
    def words_of(
        self, pixels: list[int], source: Any, first: Any, count: int
    ) -> Iterator[tuple[Any, WordOf]]:
        last = self.spec.channels - count
        return super().words_of(pixels, source, last - first, count)


def backward_contraction(spec: BackwardContraction, isa: Isa) -> tuple[Any, int]:
    """The writer: the PrimFunc of a contraction and its number of tiles."""
    plan = plan_tiles(spec.contraction, isa)
    code = TileCode(spec.buffers, isa)
    with code.tiles(plan.tiles) as tile:
        _Writer(spec.contraction, plan, isa, code).tile(tile)
    return code.kernel()


def plans(source: UnitSource, space: VectorSpace) -> dict[str, UnitPlan]:
    """The plan by name, of units with contractions of more channels than are always unrolled."""

    def instead(kernel: Placed[Contraction]) -> Sequence[Placed[FormKernel]] | None:
        if kernel.spec.channels <= UNROLLED:
            return None
        usual = cut(kernel, space)
        return [usual.beside(BackwardContraction(usual.spec), usual.places)]

    plan = form_plan(source, space, instead, NAME)
    return {} if plan is None else {NAME: plan}


#: By its estimate the form is never better.
BACKWARDS = Form(NAME, plans, lambda *_: {}, {BackwardContraction: backward_contraction})
