"""How much of a tuning log is used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogUse:
    """Kernels that a tuning log has, that run as it says, and that it has not."""

    found: int
    used: int
    missing: int
