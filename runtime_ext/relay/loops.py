"""Read a kernel of ``relay.build`` as a sequence of parallel loops, if it is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm

from tvm_ios.program.program import ALIGNMENT, BufferType, PhaseCall

#: Most tiles of a loop: more would not balance lanes better, and each costs a call.
MOST_TILES = 128

#: TVM takes smaller memory from the stack, where the next loop would not find it.
_STACK_BYTES = 1024


@dataclass(frozen=True)
class KernelLoops:
    """The parallel loops of a kernel, which run one after another."""

    #: Number of tiles of each loop; each is one call of the loop's body. Empty if the kernel is not
    #: a sequence of parallel loops; it then runs whole.
    tiles: tuple[int, ...]
    #: Bytes that the loops share.
    workspace: int = 0

    @property
    def scratch(self) -> tuple[BufferType, ...]:
        """The workspace that the loops share, as a buffer."""
        return (BufferType((self.workspace,), "uint8"),) if self.workspace else ()

    def calls(self, symbol: str, buffers: int) -> tuple[PhaseCall, ...]:
        """Return the call of each phase's function in the exported library.

        Each call has the kernel's buffers as arguments, and :attr:`scratch` after them.
        """
        arguments = tuple(range(buffers + len(self.scratch)))
        if len(self.tiles) < 2:
            return (PhaseCall(symbol, self.tiles[0] if self.tiles else 1, arguments),)
        return tuple(
            PhaseCall(f"{symbol}__{phase}", tiles, arguments)
            for phase, tiles in enumerate(self.tiles)
        )


def loops_of(body: Any) -> KernelLoops:
    """Return the loops of the body of a ``tir.PrimFunc`` as ``relay.build`` keeps it.

    A body with anything between its loops has none, because that would run once for each tile.
    """
    parts = list(_parts(body))
    loops = [part for part in parts if isinstance(part, int)]
    sizes = [part.size for part in parts if isinstance(part, _Shared)]
    if None in parts or not loops:
        return KernelLoops(())
    if len(loops) == 1:
        return KernelLoops((_tiles(loops[0]),))
    if any(size <= _STACK_BYTES for size in sizes):
        return KernelLoops(())
    rounded = sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)
    return KernelLoops(tuple(map(_tiles, loops)), rounded)


@dataclass(frozen=True)
class _Shared:
    """Bytes that are allocated outside of the loops."""

    size: int


def _parts(body: Any) -> Iterator[int | _Shared | None]:
    """Yield the extents of loops and the allocations in order; None for anything else."""
    pending = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, tvm.tir.SeqStmt):
            pending.extend(reversed(list(node.seq)))
        elif isinstance(node, tvm.tir.For) and node.kind == tvm.tir.ForKind.PARALLEL:
            extent = node.extent
            yield int(extent) if isinstance(extent, tvm.tir.IntImm) else None
        elif isinstance(node, tvm.tir.Allocate):
            dtype = tvm.DataType(node.dtype)
            is_static = all(isinstance(extent, tvm.tir.IntImm) for extent in node.extents)
            elements = prod(int(extent) for extent in node.extents) if is_static else 0
            yield _Shared(elements * ((dtype.bits * dtype.lanes + 7) // 8))
            pending.append(node.body)
        elif isinstance(node, tvm.tir.DeclBuffer) or (
            isinstance(node, tvm.tir.AttrStmt) and node.attr_key == "extern_scope"
        ):
            pending.append(node.body)
        else:
            yield None


def _tiles(extent: int) -> int:
    """Return the number of equal tiles (the last may be shorter) into which a loop is divided."""
    return -(-extent // -(-extent // MOST_TILES))
