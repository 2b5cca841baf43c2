"""The policies that models are optimised by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm_ios.ios.strategies import GRAPHTURBO, HOLISTIC

if TYPE_CHECKING:
    from relay_passes.module_search import ModuleSearch

POLICIES = (
    "sequential",
    "greedy",
    "ios-merge",
    "ios-parallel",
    "ios-both",
    "rammer",
    "ios-holistic",
)

#: All that can be measured on this machine's CPU.
MEASURED_POLICIES = (*POLICIES, GRAPHTURBO, HOLISTIC)

#: Those that place tiles, by profiles of kernels.
_PLACING = ("rammer", "ios-holistic")

#: Those that need no profiles, only what units and stages take.
UNPROFILED_POLICIES = tuple(policy for policy in POLICIES if policy not in _PLACING)


def measurable(search: ModuleSearch) -> Sequence[str]:
    """The policies whose schedules a search can make and time."""
    known = MEASURED_POLICIES if search.executor == "native" else POLICIES
    if search.prepared.dialect.places_tiles:
        return known
    return [policy for policy in known if policy not in _PLACING]
