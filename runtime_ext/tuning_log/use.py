"""A count of the kernels of a tuning log that a program uses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogUse:
    """How many kernels a tuning log has, how many of them run, and how many it lacks."""

    found: int
    used: int
    missing: int
