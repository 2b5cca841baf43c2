"""Which bytes of a program come from memory because the caches have lost them."""

from __future__ import annotations

from collections import OrderedDict

from tvm_ios.explain.tasks import Work
from tvm_ios.regions import region_bytes, regions_of


def memory_traffic(work: Work, cache: int) -> tuple[int, ...]:
    """For each task the bytes of its buffers that a cache does not hold when it begins.

    The cache keeps whole buffers, or those parts that kernels use by themselves, the last ones
    used, run after run. What was not kept counts once, whether it is read or written.

    Parameters
    ----------
    work
        The program's tasks.
    cache
        Bytes that it keeps.
    """
    buffers = work.program.buffers
    regions, sizes = regions_of(buffers), region_bytes(buffers)
    held: OrderedDict[int, int] = OrderedDict()
    used = 0
    missed: list[int] = []
    for _ in ("a run that fills the cache", "the run that counts"):
        missed = []
        for task in work.tasks:
            touched = dict.fromkeys(r for buffer in task.buffers for r in regions[buffer])
            missed.append(sum(sizes[r] for r in touched if r not in held))
            for region in touched:
                used += sizes[region] - held.pop(region, 0)
                held[region] = sizes[region]
            while used > cache:
                used -= held.popitem(last=False)[1]
    return tuple(missed)
