"""Estimate the cycles of contractions with weights in float32 and in bfloat16.

Half as many bytes of weights come from memory, but they are widened in registers, for each register
tile of pixels again: where pixels are many, arithmetic decides, and there is more of it.
"""

from __future__ import annotations

from math import ceil, prod

from runtime_ext.cpu.forms.form import MEMORY_CYCLES
from runtime_ext.cpu.forms.packs.plan import all_parts
from runtime_ext.cpu.forms.packs.spec import PACKS, in_matrices
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.pixel_rows import merge_rows
from tvm_ios.program.bfloat16 import FORM


def float_cycles(spec: Contraction, space: VectorSpace) -> float:
    """Estimate a contraction's cycles: two vector multiply-adds each, plus reading weights."""
    whole = merge_rows(spec)
    return _vectors(whole, space) * (_pixels(whole) / 2 + _memory(space))


def bfloat16_cycles(spec: Contraction, space: VectorSpace) -> float:
    """Estimate the cycles with bfloat16 weights: half the memory traffic, other products."""
    whole = merge_rows(spec)
    pixels = _pixels(whole)
    if FORM in space.isa.matrices and in_matrices(whole):
        # A product of matrices takes a cycle a row, which has as many packs of two.
        arithmetic = pixels / (2 * PACKS)
    elif FORM in space.isa.products:
        arithmetic = pixels / (2 * space.isa.products[FORM].channels)
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
