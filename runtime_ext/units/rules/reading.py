"""How an anchor reads its input: from memory, activated on the way, without what is padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_ext.kernels.expression import ACC, Access, Expr, loads, substitute, windows
from runtime_ext.units.values import Lazy, Padded, Value, access, four

if TYPE_CHECKING:
    from runtime_ext.units.planner import Planner


def read_input(
    planner: Planner, value: Value, inline: bool
) -> tuple[Access, Expr, tuple[int, int, int, int], tuple[int, ...]]:
    """How an anchor reads its input: where, activated how, padded how, of which shape."""
    pads = (0, 0, 0, 0)
    if isinstance(value, Padded):
        pads, value = value.pads, value.inner
    inline = inline and planner.inline
    if isinstance(value, Lazy) and inline and len(list(loads(value.expr))) >= 1:
        reads = set(loads(value.expr))
        whole = all(
            stride != 0 or extent == 1
            for read in reads
            for extent, stride in zip(four(value.shape, 1), read.strides, strict=True)
        )
        if len(reads) == 1 and whole and not any(windows(value.expr)):
            prologue = substitute(value.expr, lambda x: ACC if x[0] == "load" else x)
            return reads.pop(), prologue, pads, value.shape
    stored = planner.stored(value)
    read = access(stored, stored.shape)
    assert read is not None
    return read, ACC, pads, stored.shape
