"""Contractions with weights in bfloat16: which fit, and the kernels that compute one."""

from __future__ import annotations

from dataclasses import replace

from runtime_ext.cpu.forms.bfloat16.spec import Bfloat16Contraction
from runtime_ext.cpu.forms.packs.plan import BFLOAT16, all_parts, in_packs, pack_weights
from runtime_ext.cpu.forms.packs.spec import MatrixContraction, in_matrices
from runtime_ext.kernels.cutter import Cutter
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.pixel_rows import merge_rows
from runtime_ext.units.placed import Placed
from runtime_ext.units.unit import FormKernel
from runtime_ext.units.values import Storage
from tvm_ios.program.program import Role


def fits(spec: Contraction, weight: Storage) -> bool:
    """Return whether a contraction's weights may be rounded: constants in float32."""
    return weight.role is Role.CONSTANT and weight.dtype == "float32"


def by_bfloat16(
    kernel: Placed[Contraction], cutter: Cutter, *, multiplies: bool, matrices: Cutter | None
) -> list[Placed[FormKernel]] | None:
    """Return the kernels of a contraction with bfloat16 weights; None if weights are no constants.

    ``kernel`` is not cut yet; the unit may gain a storage for bfloat16 data, and that of the
    weights gets the transform. With ``multiplies`` the
    processor multiplies pairs of bfloat16, so that a kernel before rounds the data, unless pairs
    would span two groups. ``matrices`` cuts for a processor that multiplies matrices of bfloat16.
    """
    spec, weight = kernel.spec, kernel.storage(kernel.spec.weight)
    if not fits(spec, weight):
        return None
    if matrices is not None and in_matrices(spec):
        before, pairs = in_packs(kernel, matrices, BFLOAT16, matrices=True)
        return [*before, pairs.beside(MatrixContraction(pairs.spec, None), pairs.places)]
    if multiplies and (spec.groups == 1 or spec.channels % 2 == 0):
        before, pairs = in_packs(kernel, cutter, BFLOAT16)
        return [*before, pairs.beside(Bfloat16Contraction(pairs.spec, rounded=True), pairs.places)]
    whole = merge_rows(spec)
    whole = replace(whole, parts=all_parts(whole))
    whole = replace(whole, blocking=cutter.blocking(whole))
    filled = -(-whole.channels // BFLOAT16.channels) * BFLOAT16.channels
    pack_weights(weight, whole.parts, cutter.width(whole.blocking), BFLOAT16, filled)
    whole = replace(whole, buffers=kernel.shapes)
    return [kernel.beside(Bfloat16Contraction(whole, rounded=False), kernel.places)]
