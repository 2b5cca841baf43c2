"""How work says how far it is."""

from __future__ import annotations

from collections.abc import Callable

#: Called with what is done, how much of it, and how much there is.
Progress = Callable[[str, int, int], None]

#: The same of one piece of work.
Steps = Callable[[int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""
