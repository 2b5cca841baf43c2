"""A fleet's machines that were left out or lost, on stderr and in JSON."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime_ext.fleet.device import FleetDevice


def tell_fleet(fleet: FleetDevice | None) -> None:
    """Say on stderr which machines were left out, and which were lost."""
    if fleet is None:
        return
    for gone in fleet.left_out:
        print(f"tvm-ios: {gone.machine} is left out: {gone.why}", file=sys.stderr)
    for gone in fleet.lost:
        print(f"tvm-ios: {gone.machine} was lost: {gone.why}", file=sys.stderr)
    if fleet.lost:
        ended = "; no machine was left, and the search ended with what it had"
        print(
            f"tvm-ios: {len(fleet.lost)} machines were lost of {fleet.concurrency}"
            f"{ended if fleet.exhausted else ''}",
            file=sys.stderr,
        )


def fleet_report(fleet: FleetDevice | None) -> dict[str, Any]:
    """Return the machines that were left out or lost for ``--json``; empty without a fleet."""
    if fleet is None:
        return {}
    return {
        "fleet": {
            "machines": fleet.concurrency,
            "left_out": [asdict(gone) for gone in fleet.left_out],
            "lost": [asdict(gone) for gone in fleet.lost],
        }
    }
