"""Which machines to measure on, before any of them is asked."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_ext.fleet.tracker import Address

#: By what part of the median's time machines may differ.
TOLERANCE = 0.1


@dataclass(frozen=True)
class FleetChoice:
    """Which machines to measure on.

    Attributes
    ----------
    tracker
        A tracker of TVM's RPC.
    key
        The key of the servers.
    devices
        How many of them to use, at most; None for all.
    tolerance
        By what part of the median's time they may differ.
    patience
        Seconds to wait for servers that serve others, before doing without them.
    """

    tracker: Address
    key: str
    devices: int | None = None
    tolerance: float = TOLERANCE
    patience: float = 0.0
