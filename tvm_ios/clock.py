"""The time that a command has, and that each of its parts took."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from tvm_ios.errors import UserError


class OutOfTimeError(UserError):
    """The time limit had passed before something was done that can be left out."""


class Clock:
    """A stopwatch with a limit, begun when it is made.

    Parameters
    ----------
    limit
        Seconds until what can be left out is; None for no limit.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self._laps: dict[str, float] = {}
        self._begin = self._last = time.perf_counter()

    @property
    def left(self) -> float:
        """Seconds until the limit; not above zero once it has passed."""
        if self.limit is None:
            return math.inf
        return self._begin + self.limit - time.perf_counter()

    @property
    def seconds(self) -> Mapping[str, float]:
        """What each part took, by its name."""
        return dict(self._laps)

    def lap(self, name: str) -> None:
        """End a part of the work."""
        now = time.perf_counter()
        self._laps[name] = now - self._last
        self._last = now

    def share(self, part: float) -> float:
        """The moment, by :func:`time.perf_counter`, at which a part of what is left is over."""
        return time.perf_counter() + part * max(self.left, 0.0)

    def require_left(self, what: str) -> None:
        """Refuse to begin something.

        Raises
        ------
        OutOfTimeError
            If no time is left.
        """
        if self.left <= 0:
            raise OutOfTimeError(f"not {what}: the time limit of {self.limit:g} s had passed")
