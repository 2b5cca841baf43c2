"""A kernel as a function of its rTasks: C++ and resource figures, without TVM."""

from __future__ import annotations

from dataclasses import dataclass

#: The barrier function of rTasks, for a given number of the block's threads.
BARRIER = "rtask_barrier"


@dataclass(frozen=True)
class RTaskFunction:
    """A ``__device__`` function of one thread of one rTask."""

    #: C++ of the functions that it calls, equal for all that call the same ones.
    called: str
    #: Its name and its C++. It takes buffers, places in shared memory, the rTask and the thread.
    name: str
    source: str
    #: The number of rTasks.
    tasks: int
    #: The number of threads that have to call it: whole warps, the first ones of the block.
    threads: int
    #: The kernel's parameters that its buffers are, by number.
    arguments: tuple[int, ...]
    #: Offsets of the places in an arena of shared memory, in bytes.
    shared: tuple[int, ...]
    #: Size of the arena.
    shared_bytes: int
