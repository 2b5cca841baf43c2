"""Other processes that take processor time while something is measured or tested."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: They end by themselves if the process that started them is killed.
_BUSY = """
import os
os.nice({nice})
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1000000):
        pass
"""


@contextmanager
def busy_processes(count: int, nice: int = 0) -> Iterator[None]:
    """Others that never wait, with so much added to their niceness."""
    code = _BUSY.format(nice=nice)
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
