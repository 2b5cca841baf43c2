"""The options that choose which machines of a tracker to measure on."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_ext.fleet.tracker import Address

#: The share of the median's time by which machines may differ.
TOLERANCE = 0.1


@dataclass(frozen=True)
class FleetChoice:
    """Options that choose which machines to measure on."""

    #: The address of a TVM RPC tracker.
    tracker: Address
    #: The key of the servers.
    key: str
    #: The most servers to use; None for all.
    devices: int | None = None
    #: The part of the median's time by which they may differ.
    tolerance: float = TOLERANCE
    #: Seconds to wait for servers that serve others, before doing without them.
    patience: float = 0.0
