"""The interfaces of executors, which run one program over one set of buffers, and of memories."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from runtime_ext.native_errors import BusyError, SessionError
from tvm_ios.files.array_files import Array
from tvm_ios.program.program import Program


@dataclass(frozen=True, slots=True)
class Span:
    """The time of one launch in a profiled run.

    Attributes
    ----------
    lane, launch
        Number of the lane, and of the launch among the lane's (waits are not counted).
    begin, end
        Seconds since the run began.
    held_up
        Seconds of these in which the system ran something else on the thread's CPU; 0 if
        unknown.
    runner
        The lane whose thread ran it: another one if the launch's own was held up. -1 where no lane
        stands in for another.
    """

    lane: int
    launch: int
    begin: float
    end: float
    held_up: float = 0.0
    runner: int = -1


class Memory(Protocol):
    """The buffers of one program, wherever they lie."""

    def write(self, name: str, value: Array) -> None:
        """Copy an array into a buffer."""
        ...

    def read(self, name: str) -> Array:
        """Return a copy of a buffer's content."""
        ...

    def carry(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Move the content of each pair's first buffer into the second.

        The first one's content is undefined afterwards.
        """
        ...


@runtime_checkable
class ReservingMemory(Protocol):
    """A memory that grows with the largest shape so far, or is as large as any shape needs."""

    def reserve(self) -> None:
        """Take the memory of the largest shape; ExecutableError if there is not as much."""
        ...


class Executor(Protocol):
    """Runs one program over one set of buffers; not re-entrant.

    Raises
    ------
    KernelError
        From ``run``, ``benchmark`` and ``profile`` if a kernel fails. The executor can run
        again afterwards.
    BusyError
        From the same if it is running already, or after ``close``.
    ForkError
        From the same in a forked child, if the executor has threads.
    """

    def run(self) -> None:
        """Run the program once; return when every lane has finished."""
        ...

    def benchmark(self, number: int, repeat: int) -> list[float]:
        """Return seconds a run: ``repeat`` samples, each the mean of ``number`` runs."""
        ...

    def profile(self) -> tuple[Span, ...]:
        """Run once, and return the times of every launch."""
        ...

    def close(self) -> None:
        """End the executor's threads, if any, after a run in progress."""
        ...


def require_one_shape(program: Program) -> None:
    """Refuse an open program, which an executor runs at one shape only: ``program.at(values)``."""
    if program.symbols:
        names = ", ".join(symbol.name for symbol in program.symbols)
        raise SessionError(f"the program is for a range of shapes ({names}): open a session of it")


class Exclusive:
    """A lock that admits one thread at a time until it is closed; others get `BusyError`.

    It is a class because a generator as context manager would cost a microsecond.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise BusyError("this session is running in another thread; make one session a thread")
        if self._closed:
            self._lock.release()
            raise BusyError("this session is closed; make a new one")

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def close(self) -> None:
        """Refuse every later use; return when the one in progress has ended."""
        with self._lock:
            self._closed = True
