"""Release resources when a command ends, however it does: ``at_end``."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

_ENDS: ContextVar[ExitStack] = ContextVar("ends of the command")


def at_end(release: Callable[[], object]) -> None:
    """Call ``release`` when the running command ends, not only when its process does."""
    _ENDS.get().callback(release)


@contextmanager
def running_command() -> Generator[None]:
    """Call all that was given to ``at_end`` within this context when it ends."""
    with ExitStack() as ends:
        token = _ENDS.set(ends)
        try:
            yield
        finally:
            _ENDS.reset(token)
