"""Determine how an anchor reads its input: its access, element-wise prologue and padding."""

from __future__ import annotations

from runtime_ext.kernels.expression import ACC, Access, Expr, loads, substitute, windows
from runtime_ext.units.storing import in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Lazy, Padded, Value, access, four


def read_input(
    unit: UnitDraft, value: Value, inline: bool, order: str | None = None
) -> tuple[Access, Expr, tuple[int, int, int, int], tuple[int, ...]]:
    """Return an anchor's input as an access, a prologue, pads, and the unpadded shape.

    With ``inline`` an element-wise expression of one tensor becomes the prologue, which the kernel
    computes as it reads; otherwise it is stored first, as of
    :func:`in_memory`.
    """
    pads = (0, 0, 0, 0)
    if isinstance(value, Padded):
        pads, value = value.pads, value.inner
    inline = inline and unit.inline
    if isinstance(value, Lazy) and inline and any(loads(value.expr)):
        reads = set(loads(value.expr))
        whole = all(
            stride != 0 or extent == 1
            for read in reads
            for extent, stride in zip(four(value.shape, 1), read.strides, strict=True)
        )
        if len(reads) == 1 and whole and not any(windows(value.expr)):
            prologue = substitute(value.expr, lambda x: ACC if x[0] == "load" else x)
            return reads.pop(), prologue, pads, value.shape
    stored = in_memory(unit, value, order)
    read = access(stored, stored.shape)
    assert read is not None
    return read, ACC, pads, stored.shape
