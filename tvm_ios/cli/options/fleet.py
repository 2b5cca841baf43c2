"""Options of commands that have a fleet's machines measure, or that serve a fleet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.command_end import at_end
from tvm_ios.cli.options.values import refuse, wrong_use

if TYPE_CHECKING:
    from runtime_ext.fleet.choice import FleetChoice
    from runtime_ext.fleet.device import FleetDevice
    from runtime_ext.fleet.tracker import Address

Tracker = Annotated[
    str | None,
    panels.fleet(
        metavar="HOST:PORT",
        help="A tracker of TVM's RPC, whose servers measure.  [TVM_TRACKER_HOST, TVM_TRACKER_PORT]",
    ),
]
Key = Annotated[
    str | None, panels.fleet(metavar="KEY", help="The servers' key.  [TVM_TRACKER_KEY]")
]
Devices = Annotated[
    int | None, panels.fleet(min=1, metavar="N", help="Servers to use, at most.  [all free ones]")
]


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """Options: the servers that measure, in the place of this machine."""

    tracker: Tracker = None
    key: Key = None
    devices: Devices = None

    def choice(self) -> FleetChoice | None:
        """Return the servers that the options name; None if they name none."""
        if self.tracker is None and self.key is None:
            refuse("give --tracker and --key, too", {"--devices": self.devices})
            return None
        from runtime_ext.fleet.choice import FleetChoice

        return FleetChoice(*fleet_address(self.tracker, self.key), self.devices)


def fleet_address(tracker: str | None, key: str | None) -> tuple[Address, str]:
    """Return the tracker's address and the servers' key, by options or by the environment.

    Raise TrackerError if the tracker's address cannot be parsed.
    """
    from runtime_ext.fleet.tracker import Address, tracker_of_environment

    address = tracker_of_environment() if tracker is None else Address.parse(tracker)
    key = key or os.environ.get("TVM_TRACKER_KEY")
    if address is None:
        raise wrong_use("--tracker", "give the tracker of the key, too")
    if not key:
        raise wrong_use("--key", "give the key of the servers, too")
    return address, key


def open_fleet(choice: FleetChoice, lanes: int | None, level: str | None) -> FleetDevice:
    """Open a fleet until the command ends.

    Without ``lanes`` or an instruction-set ``level``, its servers decide these.
    """
    from runtime_ext.fleet.opening import open_fleet as opened
    from runtime_ext.machine.this_machine import cache_folder

    fleet = opened(choice, cache_folder() / "kernels", lanes=lanes, level=level)
    at_end(fleet.close)
    return fleet
