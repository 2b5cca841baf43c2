"""The options that choose which machines of a tracker to measure on."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_ext.fleet.tracker import Address

#: By what part of the median's time machines may differ.
TOLERANCE = 0.1


@dataclass(frozen=True)
class FleetChoice:
    """Options that choose which machines to measure on.

    Attributes
    ----------
    tracker
        The address of a TVM RPC tracker.
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
