"""What the authors of IOS measured on a V100 and a K80, by batch and policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers.catalogue import items_named
from benchmarks.papers.ios.latencies import POLICIES
from benchmarks.papers.ios.networks import ZOO

#: Files of others, where they lie beside the checkout.
SHARED = Path(__file__).parents[4] / "shared" / "data"
SCHEDULES = SHARED / "ios-schedules"


def published_latencies() -> Mapping[tuple[str, int], Mapping[str, float]]:
    """For each network of the zoo and batch the milliseconds by policy (figures 4.1 and 4.9)."""
    found = {(ZOO[name], 1): dict(of) for name, of in _values("figure-4.1").items()}
    for policy, milliseconds in _values("figure-4.9").items():
        for label, value in milliseconds.items():
            batch = int(label.removeprefix("batch "))
            if policy in POLICIES and batch > 1:
                found.setdefault(("inception_v3", batch), {})[policy] = value
    return found


def specialised() -> Mapping[str, Mapping[str, float]]:
    """Milliseconds of Inception V3 by batch or device, with the schedule for each (table 4.2)."""
    return {
        condition.split()[-1]: {label.split()[-1]: value for label, value in measured.items()}
        for condition, measured in _values("table-4.2").items()
    }


def _values(name: str) -> Mapping[str, Any]:
    (item,) = items_named([f"ios-thesis/{name}"])
    return item.values
