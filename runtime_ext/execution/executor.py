"""What an executor is: it runs one program over one set of buffers, in some memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime_ext.native_errors import BusyError
from tvm_ios.files.array_files import Array


@dataclass(frozen=True, slots=True)
class Span:
    """When a launch ran.

    Attributes
    ----------
    lane, launch
        Which lane, and which of its launches (waits are not counted).
    begin, end
        Seconds since the run began.
    held_up
        For how many seconds of these the system ran something else on the thread's CPU; 0 where
        nobody knows.
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
        """A copy of what a buffer holds."""
        ...

    def carry(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Let the second buffer of each pair hold what the first one does, which is lost there."""
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
        """Run the program once; returns when every lane has finished."""
        ...

    def benchmark(self, number: int, repeat: int) -> list[float]:
        """Seconds a run, ``repeat`` samples, each the mean of ``number`` runs."""
        ...

    def profile(self) -> tuple[Span, ...]:
        """One run with the times of every launch."""
        ...

    def close(self) -> None:
        """End the threads, if there are any; those of a run in progress when it ends."""
        ...


class Exclusive:
    """Lets one thread at a time use an executor, until it is closed; others get `BusyError`.

    A generator as context manager would cost a microsecond.
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
        """Refuse every later use; returns when the one in progress has ended."""
        with self._lock:
            self._closed = True
