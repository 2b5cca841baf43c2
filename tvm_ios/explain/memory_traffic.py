"""Which bytes of a program come from memory because the caches have lost them."""

from __future__ import annotations

from collections import OrderedDict

from tvm_ios.explain.tasks import Work


def memory_traffic(work: Work, cache: int) -> tuple[int, ...]:
    """For each task the bytes of its buffers that a cache does not hold when it begins.

    The cache keeps whole buffers, those used last, run after run. A buffer that was not kept
    counts once, whether it is read or written.

    Parameters
    ----------
    work
        The program's tasks.
    cache
        Bytes that it keeps.
    """
    held: OrderedDict[int, int] = OrderedDict()
    used = 0
    missed: list[int] = []
    for _ in ("a run that fills the cache", "the run that counts"):
        missed = []
        for task in work.tasks:
            missed.append(sum(work.buffer_bytes[b] for b in task.buffers if b not in held))
            for buffer in task.buffers:
                used += work.buffer_bytes[buffer] - held.pop(buffer, 0)
                held[buffer] = work.buffer_bytes[buffer]
            while used > cache:
                used -= held.popitem(last=False)[1]
    return tuple(missed)
