"""Contractions with weights in bfloat16, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_ext.cpu.forms.packs.spec import PackedContraction


@dataclass(frozen=True, slots=True)
class Bfloat16Contraction(PackedContraction):
    """A contraction whose weights are bfloat16, the upper halves of float32.

    Attributes
    ----------
    contraction
        The contraction. Its weights are stored as
        ``[block][kernel row][kernel column][pair][output channel of the block][of the pair]``,
        the second of an odd number of channels zero, their bits as ``uint16``.
    rounded
        Whether the data are bfloat16 too, and one instruction multiplies packs: ``channels`` then
        counts packs, and ``data`` has the strides of elements of 16 bits. Otherwise data are
        float32, and weights become float32 in registers.
    """

    rounded: bool
