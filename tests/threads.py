"""How many threads this process has."""

from __future__ import annotations

import os
import time


def threads_now() -> int:
    return len(os.listdir("/proc/self/task"))


def require_threads(count: int) -> None:
    """Wait until there are so many: one that was joined is listed for a moment."""
    deadline = time.monotonic() + 10
    while threads_now() != count and time.monotonic() < deadline:
        time.sleep(1e-3)
    assert threads_now() == count
