"""The options that choose which machines of a tracker to measure on."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_ext.fleet.tracker import Address

#: The share of the median's time by which machines may differ.
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
        The most servers to use; None for all.
    tolerance
        The part of the median's time by which they may differ.
    patience
        Seconds to wait for servers that serve others, before doing without them.
    """

    tracker: Address
    key: str
    devices: int | None = None
    tolerance: float = TOLERANCE
    patience: float = 0.0
