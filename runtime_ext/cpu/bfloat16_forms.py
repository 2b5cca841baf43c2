"""Units whose weights are rounded to bfloat16, and which of these may be faster.

Half as many bytes of weights come from memory, but they are widened in registers, for each register
tile of pixels again: where pixels are many, arithmetic decides, and there is more of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod

from runtime_ext.cpu.kernels.matrix_contraction import MatrixCutter
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.cpu.winograd_forms import MEMORY_CYCLES
from runtime_ext.kernels.packed_contraction import PACKS, PackedKernel, in_matrices
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.by_bfloat16 import by_bfloat16
from runtime_ext.units.in_packs import all_parts
from runtime_ext.units.pixel_rows import merge_rows
from runtime_ext.units.placed import Placed
from runtime_ext.units.plans import form_plan
from runtime_ext.units.unit import UnitPlan, UnitSource
from tvm_ios.program.bfloat16 import FORM

#: The form is measured if its estimated cycles are at most this multiple of the default's. A time
#: of 0.98 of the default's was seen where the estimate was 1.06.
_MARGIN = 1.06


def all_bfloat16_plans(source: UnitSource, space: VectorSpace) -> Mapping[str, UnitPlan]:
    """Return the plan with bfloat16 weights, by name; empty without constant weights."""
    plan = _plan(source, space)
    return {} if plan is None else {FORM: plan[0]}


def promising_bfloat16_plans(source: UnitSource, space: VectorSpace) -> Mapping[str, UnitPlan]:
    """Return the bfloat16 plan, by name, if by an estimate it may be faster; else nothing."""
    plan = _plan(source, space)
    return {} if plan is None or plan[1] > _MARGIN else {FORM: plan[0]}


def _plan(source: UnitSource, space: VectorSpace) -> tuple[UnitPlan, float] | None:
    """Return the bfloat16 plan and its contractions' cycles as a share of the default plan's."""
    multiplies = FORM in space.isa.products
    matrices = MatrixCutter() if FORM in space.isa.matrices else None
    usual = form = 0.0

    def instead(kernel: Placed[Contraction]) -> Sequence[Placed[PackedKernel]] | None:
        nonlocal usual, form
        kernels = by_bfloat16(kernel, space, multiplies=multiplies, matrices=matrices)
        if kernels is not None:
            usual += _cycles(kernel.spec, space)
            form += _rounded_cycles(kernel.spec, space)
        return kernels

    plan = form_plan(source, space, instead, FORM)
    return None if plan is None else (plan, form / usual)


def _cycles(spec: Contraction, space: VectorSpace) -> float:
    """Estimate a contraction's cycles: two vector multiply-adds each, plus reading weights."""
    whole = merge_rows(spec)
    return _vectors(whole, space) * (_pixels(whole) / 2 + _memory(space))


def _rounded_cycles(spec: Contraction, space: VectorSpace) -> float:
    """Estimate the cycles with bfloat16 weights: half the memory traffic, other products."""
    whole = merge_rows(spec)
    pixels = _pixels(whole)
    if FORM in space.isa.matrices and in_matrices(whole):
        # A product of matrices takes a cycle a row, which has as many packs of two.
        arithmetic = pixels / (2 * PACKS)
    elif FORM in space.isa.products:
        arithmetic = pixels / 4
    else:
        columns = whole.window.output[1]
        tiles = pixels // columns * ceil(columns / space.blocking(whole).pixels)
        arithmetic = (pixels + tiles) / 2
    return _vectors(whole, space) * (arithmetic + _memory(space) / 2)


def _vectors(spec: Contraction, space: VectorSpace) -> int:
    """Return how many vector registers' worth of weights a contraction has."""
    vectors = sum(ceil(part / space.isa.lanes) for part in all_parts(spec))
    return vectors * prod(spec.window.kernel) * spec.channels


def _pixels(spec: Contraction) -> int:
    """Return the output pixels of all images: each multiplies every vector of weights."""
    return spec.batch * prod(spec.window.output)


def _memory(space: VectorSpace) -> float:
    """Return the cycles that reading one vector of float32 weights from memory takes."""
    return MEMORY_CYCLES * space.isa.lanes * 4
