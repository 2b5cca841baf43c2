"""Contractions of integers, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_ext.cpu.forms.packs.spec import PackedContraction


@dataclass(frozen=True, slots=True)
class IntegerContraction(PackedContraction):
    """A contraction whose data and weights are integers in 16 or 8 bits; sums are int32.

    Attributes
    ----------
    contraction
        The contraction, in packs of input channels: ``channels`` counts packs, ``data`` has
        their strides in elements, and a weight is a pack of them, one after another.
        Statements read and write float32; the value that they begin with is the exact sum.
    starts
        The buffer that holds, for each output channel of all blocks, the int32 that its sums begin
        with. Data are then unsigned in 8 bits, weights signed.
        None for integers in 16 bits, whose sums begin with zero.
    """

    starts: int | None = None
