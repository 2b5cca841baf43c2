"""The bytes of a program that come from memory because they are no longer in the caches."""

from __future__ import annotations

from collections import OrderedDict

from tvm_ios.explain.tasks import Work
from tvm_ios.program.memory_plan import MemoryPlan, pieces
from tvm_ios.program.regions import region_bytes, regions_of


def memory_traffic(work: Work, cache: int, plan: MemoryPlan | None = None) -> tuple[int, ...]:
    """Return for each task the bytes of its buffers that are not in the cache when it begins.

    Models one cache of ``cache`` bytes that keeps the most recently used buffers from run to run,
    by whole buffers, or by the parts that kernels use alone. With a memory plan, buffers that share
    bytes of the arena share them in the cache, too (a buffer with parts counts as if it shared
    none). A byte that is not cached counts once, whether it is read or written.
    """
    memory, sizes = _memory(work, plan)
    cached: OrderedDict[int, int] = OrderedDict()
    used = 0
    missed: list[int] = []
    for _ in ("a run that fills the cache", "the run that counts"):
        missed = []
        for task in work.tasks:
            touched = dict.fromkeys(p for buffer in task.buffers for p in memory[buffer])
            missed.append(sum(sizes[piece] for piece in touched if piece not in cached))
            for piece in touched:
                used += sizes[piece] - cached.pop(piece, 0)
                cached[piece] = sizes[piece]
            while used > cache:
                used -= cached.popitem(last=False)[1]
    return tuple(missed)


def _memory(work: Work, plan: MemoryPlan | None) -> tuple[list[range], list[int]]:
    """Return for each buffer its pieces of memory, and the bytes of each piece."""
    buffers = work.program.buffers
    memory, sizes = list(regions_of(buffers)), list(region_bytes(buffers))
    if plan is not None:
        divided = {b.part.of for b in buffers if b.part is not None}
        shared, bytes_of = pieces(work.program, plan)
        for buffer, shared_pieces in shared.items():
            if buffer not in divided and buffers[buffer].part is None:
                memory[buffer] = range(
                    shared_pieces.start + len(sizes), shared_pieces.stop + len(sizes)
                )
        sizes += bytes_of
    return memory, sizes
