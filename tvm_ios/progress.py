"""Types of callbacks that report progress."""

from __future__ import annotations

from collections.abc import Callable

#: Called with a description of the work, the units of it that are done, and all units.
Progress = Callable[[str, int, int], None]

#: Called with the units of work that are done, and all units.
Steps = Callable[[int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""
