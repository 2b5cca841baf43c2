"""Contractions with weights in bfloat16: which fit, and the kernels that compute one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runtime_ext.kernels.cutter import Cutter
from runtime_ext.kernels.packed_contraction import (
    Bfloat16Contraction,
    MatrixContraction,
    PackedKernel,
    in_matrices,
)
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.in_packs import BFLOAT16, all_parts, in_packs, pack_weights
from runtime_ext.units.pixel_rows import merge_rows
from runtime_ext.units.values import Storage

#: A kernel, and the storages of its buffers.
Placed = tuple[PackedKernel, tuple[int, ...]]


def fits(spec: Contraction, weight: Storage) -> bool:
    """Return whether a contraction's weights may be rounded: constants in float32."""
    return weight.role == "constant" and weight.dtype == "float32"


def by_bfloat16(
    spec: Contraction,
    order: Sequence[int],
    storages: list[Storage],
    cutter: Cutter,
    *,
    multiplies: bool,
    matrices: Cutter | None,
) -> list[Placed] | None:
    """Return the kernels of a contraction with bfloat16 weights; None if weights are no constants.

    ``spec`` is not cut yet, ``order`` maps its buffers to ``storages``, the unit's, which may gain
    one for bfloat16 data; that of the weights gets the transform. With ``multiplies`` the
    processor multiplies pairs of bfloat16, so that a kernel before rounds the data, unless pairs
    would span two groups. ``matrices`` cuts for a processor that multiplies matrices of bfloat16.
    """
    weight = storages[order[spec.weight]]
    if not fits(spec, weight):
        return None
    if matrices is not None and in_matrices(spec):
        before, (pairs, places) = in_packs(spec, order, storages, matrices, BFLOAT16, matrices=True)
        return [*before, (MatrixContraction(pairs, None), places)]
    if multiplies and (spec.groups == 1 or spec.channels % 2 == 0):
        before, (pairs, places) = in_packs(spec, order, storages, cutter, BFLOAT16)
        return [*before, (Bfloat16Contraction(pairs, rounded=True), places)]
    whole = merge_rows(spec)
    whole = replace(whole, parts=all_parts(whole))
    whole = replace(whole, blocking=cutter.blocking(whole))
    filled = -(-whole.channels // BFLOAT16.channels) * BFLOAT16.channels
    pack_weights(weight, whole.parts, cutter.width(whole.blocking), BFLOAT16, filled)
    whole = replace(whole, buffers=tuple(storages[place].physical for place in order))
    return [(Bfloat16Contraction(whole, rounded=False), tuple(order))]
