"""A kernel as a function of its rTasks: C++ and resource figures, without TVM."""

from __future__ import annotations

from dataclasses import dataclass

#: The barrier function of rTasks, for a given number of the block's threads.
BARRIER = "rtask_barrier"


@dataclass(frozen=True)
class RTaskFunction:
    """A ``__device__`` function of one thread of one rTask.

    Attributes
    ----------
    called
        C++ of the functions that it calls, equal for all that call the same ones.
    name, source
        Its name and its C++. It takes buffers, places in shared memory, the rTask and the thread.
    tasks
        The number of rTasks.
    threads
        The number of threads that have to call it: whole warps, the first ones of the block.
    arguments
        The kernel's parameters that its buffers are, by number.
    shared
        Offsets of the places in an arena of shared memory, in bytes.
    shared_bytes
        Size of the arena.
    """

    called: str
    name: str
    source: str
    tasks: int
    threads: int
    arguments: tuple[int, ...]
    shared: tuple[int, ...]
    shared_bytes: int
