"""Measurements of the ways to serve many requests."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tvm_ios.contest.pairs import PairedRatio


@dataclass(frozen=True)
class ServedWay:
    """The measurements of one way to serve requests."""

    #: Its name.
    way: str
    #: The policy of its program's schedule.
    policy: str
    #: The lanes that one request runs on.
    lanes: int
    #: How many requests run at once.
    workers: int
    #: The median of samples.
    requests_a_second: float
    #: Percentiles of the seconds that a request took, waiting included.
    p50: float
    p99: float
    #: The median ratio of its time to that of one request after another, sample by sample.
    ratio: float

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with milliseconds."""
        data = asdict(self)
        return {**data, "p50_ms": data.pop("p50") * 1e3, "p99_ms": data.pop("p99") * 1e3}


@dataclass(frozen=True)
class Served:
    """All measured ways to serve requests, and the one that the executable uses (``kept``).

    ``confirmed`` is its time's ratio to one request after another, in fresh processes; None if that
    is kept. ``in_flight`` is the constant number of requests in flight.
    """

    ways: tuple[ServedWay, ...]
    kept: str
    confirmed: PairedRatio | None
    in_flight: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with milliseconds."""
        return {
            "ways": [way.to_json() for way in self.ways],
            "kept": self.kept,
            "confirmed": None if self.confirmed is None else self.confirmed.to_json(),
            "in_flight": self.in_flight,
        }
