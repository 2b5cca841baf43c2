"""What is done when a command ends, however it does: ``at_end``."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

_ENDS: ContextVar[ExitStack] = ContextVar("ends of the command")


def at_end(release: Callable[[], object]) -> None:
    """Release something when the running command ends, not only when its process does."""
    _ENDS.get().callback(release)


@contextmanager
def running_command() -> Generator[None]:
    """A command that runs."""
    with ExitStack() as ends:
        token = _ENDS.set(ends)
        try:
            yield
        finally:
            _ENDS.reset(token)
