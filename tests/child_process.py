"""A process that answers questions, and may crash or hang without ending the one that asks."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Seconds that a process may take to get ready.
_START_LIMIT = 300.0


class ChildProcess:
    """A process that calls a function on demand.

    Parameters
    ----------
    start
        Called once in the process; returns the function that answers. It is sent there, so it has
        to be one of a module, or a :func:`functools.partial` of one.
    log
        The file that takes what the process prints; by default only its errors are shown.
    """

    def __init__(self, start: Callable[[], Callable[..., Any]], log: Path | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_answer, args=(other, start, log), daemon=True)
        self._process.start()
        other.close()
        outcome, value = self._receive(_START_LIMIT)
        if outcome != "answer":
            raise RuntimeError(f"the process does not start: {outcome}, {value}")

    def ask(self, *question: Any, limit: float) -> tuple[str, Any]:
        """``answer`` and what the function returned; or ``crash`` or ``hang``, and how.

        After these two the process is of no more use: :meth:`end` it.
        """
        try:
            self._pipe.send(question)
        except OSError:
            return self._crash()
        return self._receive(limit)

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _receive(self, limit: float) -> tuple[str, Any]:
        try:
            if not self._pipe.poll(limit):
                return "hang", f"no answer in {limit:g} s"
            return "answer", self._pipe.recv()
        except (EOFError, OSError):
            return self._crash()

    def _crash(self) -> tuple[str, str]:
        self._process.join()
        return "crash", f"the process ended with {self._process.exitcode}"


def _answer(pipe: Any, start: Callable[[], Callable[..., Any]], log: Path | None) -> None:
    faulthandler.enable()
    with open(log or os.devnull, "w") as file:
        os.dup2(file.fileno(), 1)
        if log is not None:
            os.dup2(file.fileno(), 2)
    function = start()
    pipe.send(None)
    while True:
        pipe.send(function(*pipe.recv()))
