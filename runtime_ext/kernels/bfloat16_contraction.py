"""Contractions whose weights are bfloat16, in pairs of input channels; sums are float32."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_ext.kernels.spec import Contraction, PhysicalShape


@dataclass(frozen=True, slots=True)
class Bfloat16Contraction:
    """A contraction whose weights are the upper halves of float32.

    Attributes
    ----------
    contraction
        What is computed. The weights lie as
        ``[block][kernel row][kernel column][pair][output channel of the block][of the pair]``,
        the second of an odd number of channels zero, their bits as ``uint16``.
    rounded
        Whether the data are bfloat16 too, and one instruction multiplies pairs: ``channels`` then
        counts pairs, and ``data`` has the strides of elements of 16 bits. Otherwise data are
        float32, and weights become float32 in registers.
    """

    contraction: Contraction
    rounded: bool

    @property
    def buffers(self) -> tuple[PhysicalShape, ...]:
        """Physical shapes of the function's buffers."""
        return self.contraction.buffers
