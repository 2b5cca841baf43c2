"""Ways to serve many requests, as they were measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tvm_ios.contest.pairs import PairedRatio


@dataclass(frozen=True)
class ServedWay:
    """How many requests a way serves.

    Attributes
    ----------
    way
        Its name.
    policy
        Whose schedule its program runs.
    lanes
        Those of a request.
    workers
        How many requests run at once.
    requests_a_second
        The median of samples.
    p50, p99
        Seconds that half of all requests and 99 % of them took at most, waiting included.
    ratio
        The median of the ratios of its time to that of one request after another, sample by sample.
    """

    way: str
    policy: str
    lanes: int
    workers: int
    requests_a_second: float
    p50: float
    p99: float
    ratio: float

    def to_json(self) -> dict[str, Any]:
        """Plain data, with milliseconds."""
        data = asdict(self)
        return {**data, "p50_ms": data.pop("p50") * 1e3, "p99_ms": data.pop("p99") * 1e3}


@dataclass(frozen=True)
class Served:
    """The ways to serve many requests that were compared.

    Attributes
    ----------
    ways
        All that were measured.
    kept
        The one that the executable serves requests in.
    confirmed
        Its ratio to one request after another, in fresh processes; None if that is kept.
    in_flight
        How many requests were always in flight.
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
