"""A stopwatch with a time limit, which a command uses to time the parts of its work."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from tvm_ios.errors import UserError


class OutOfTimeError(UserError):
    """The time limit passed before a part of the work that can be left out was done."""


class Clock:
    """A stopwatch that starts when it is made, with a limit in seconds (None for no limit).

    Once the limit has passed, parts of the work that can be left out are left out.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self._laps: dict[str, float] = {}
        self._begin = self._last = time.perf_counter()

    @property
    def left(self) -> float:
        """Seconds until the limit; zero or negative once it has passed, infinite without one."""
        if self.limit is None:
            return math.inf
        return self._begin + self.limit - time.perf_counter()

    @property
    def seconds(self) -> Mapping[str, float]:
        """The seconds that each part took, by the part's name."""
        return dict(self._laps)

    def lap(self, name: str) -> None:
        """End a part of the work, and add the seconds since the previous part ended to its own."""
        now = time.perf_counter()
        self._laps[name] = self._laps.get(name, 0.0) + now - self._last
        self._last = now

    def share(self, part: float) -> float:
        """Return when a fraction of the time left will be over, as :func:`time.perf_counter`."""
        return time.perf_counter() + part * max(self.left, 0.0)

    def require_left(self, what: str) -> None:
        """Raise OutOfTimeError, naming the work that is not done, if no time is left."""
        if self.left <= 0:
            raise OutOfTimeError(f"not {what}: the time limit of {self.limit:g} s had passed")
