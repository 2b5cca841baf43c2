"""Contractions of pairs of 16 bits, whose products one instruction adds up: small integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from runtime_ext.kernels.expression import Access, Expr
from runtime_ext.kernels.spec import Contraction, PhysicalShape


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Images written in 16 bits, their channels an even number.

    Attributes
    ----------
    buffers
        Physical shapes of the float32 image's buffer, and of the result
        ``[image][row][column][channel]`` in 16 bits.
    batch, pixels, channels
        Extents; ``pixels`` are rows and columns.
    data
        The image; ``prologue`` is applied to what is read.
    dtype
        The type of the result: ``int16`` of floats that are integers, or ``bfloat16``, to the
        nearest, whose bits are kept as ``uint16``.
    """

    buffers: tuple[PhysicalShape, ...]
    batch: int
    pixels: tuple[int, int]
    channels: int
    data: Access
    prologue: Expr
    dtype: Literal["int16", "bfloat16"] = "int16"


@dataclass(frozen=True, slots=True)
class IntegerContraction:
    """A contraction whose data and weights are integers in 16 bits; sums are int32.

    Attributes
    ----------
    contraction
        What is computed, in pairs of input channels: ``channels`` counts pairs, ``data`` has
        their strides in elements of 16 bits, and a weight is a pair of them, one after another.
        Statements read and write float32; the value that they begin with is the exact sum.
    """

    contraction: Contraction

    @property
    def buffers(self) -> tuple[PhysicalShape, ...]:
        """Physical shapes of the function's buffers."""
        return self.contraction.buffers


#: A kernel of a contraction of integers.
IntegerKernel = Narrowing | IntegerContraction
