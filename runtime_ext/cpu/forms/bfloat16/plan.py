"""Contractions with weights in bfloat16: which fit, and the kernels that compute one."""

from __future__ import annotations

from dataclasses import replace

from runtime_ext.cpu.forms.bfloat16.spec import Bfloat16Contraction
from runtime_ext.cpu.forms.packs.plan import BFLOAT16, all_parts, in_packs, pack_weights
from runtime_ext.cpu.forms.packs.spec import MatrixContraction, in_matrices
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.kernels.cutter import Cutter
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.pixel_rows import merge_rows
from runtime_ext.units.placed import Placed
from runtime_ext.units.unit import FormKernel
from runtime_ext.units.values import Storage
from tvm_ios.program.bfloat16 import FORM
from tvm_ios.program.program import Role


def fits(spec: Contraction, weight: Storage) -> bool:
    """Return whether a contraction's weights may be rounded: constants in float32."""
    return weight.role is Role.CONSTANT and weight.dtype == "float32"


def by_bfloat16(
    kernel: Placed[Contraction], space: VectorSpace, matrices: Cutter | None
) -> list[Placed[FormKernel]] | None:
    """Return the kernels of a contraction with bfloat16 weights; None if weights are no constants.

    ``kernel`` is not cut yet; the unit may gain a storage for bfloat16 data, and that of the
    weights gets the transform. Where the
    processor multiplies packs of bfloat16, a kernel before rounds the data, unless packs
    would span two groups. ``matrices`` cuts for a processor that multiplies matrices of bfloat16.
    """
    spec, weight = kernel.spec, kernel.storage(kernel.spec.weight)
    if not fits(spec, weight):
        return None
    if matrices is not None and in_matrices(spec):
        before, pairs = in_packs(kernel, matrices, BFLOAT16, matrices=True)
        return [*before, pairs.beside(MatrixContraction(pairs.spec, None), pairs.places)]
    products = space.isa.products.get(FORM)
    if products is not None and (spec.groups == 1 or spec.channels % products.channels == 0):
        pack = replace(BFLOAT16, channels=products.channels)
        before, packs = in_packs(kernel, space.of_products(products), pack)
        return [*before, packs.beside(Bfloat16Contraction(packs.spec, rounded=True), packs.places)]
    whole = merge_rows(spec)
    whole = replace(whole, parts=all_parts(whole))
    whole = replace(whole, blocking=space.blocking(whole))
    filled = -(-whole.channels // BFLOAT16.channels) * BFLOAT16.channels
    pack_weights(weight, whole.parts, space.width(whole.blocking), BFLOAT16, filled)
    whole = replace(whole, buffers=kernel.shapes)
    return [kernel.beside(Bfloat16Contraction(whole, rounded=False), kernel.places)]
