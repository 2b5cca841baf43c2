"""What the authors of IOS measured on a V100 (their README and table 3; MIT licence)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

#: The data, where it lies beside the checkout.
SHARED = Path(__file__).parents[3] / "shared" / "data"
SCHEDULES = SHARED / "ios-schedules"

#: What they call networks and schedules, and how both are called here.
NETWORKS = {
    "squeezenet": "squeezenet",
    "inception_v3": "inception_v3",
    "randwire": "randwire",
    "nasnet": "nasnet_a",
}
POLICIES = {
    "Sequential": "sequential",
    "Greedy": "greedy",
    "IOS-Merge": "ios-merge",
    "IOS-Parallel": "ios-parallel",
    "IOS-Both": "ios-both",
}

#: Milliseconds of Inception V3 at a batch, with the schedule for another (IOS, table 3).
SPECIALISED = {
    1: {1: 4.03, 32: 4.50, 128: 4.63},
    32: {1: 29.21, 32: 27.44, 128: 27.93},
    128: {1: 105.98, 32: 103.74, 128: 103.29},
}

#: Milliseconds of Inception V3 on a K80, with the schedule for it and with that for a V100 (IOS,
#: thesis, table 4.2).
ON_K80 = {"k80": 13.87, "v100": 14.65}


def published_latencies() -> Mapping[tuple[str, int], Mapping[str, float]]:
    """For each network and batch milliseconds by policy; the first of repeated measurements."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for row in json.loads((SCHEDULES / "published_v100.json").read_text())["rows"]:
        if row["what"] in POLICIES:
            of_network = found.setdefault((NETWORKS[row["model"]], row["batch"]), {})
            of_network.setdefault(POLICIES[row["what"]], row["latency_ms"])
    return found
