"""The published networks have the graphs, peaks and proofs that were found before."""

from __future__ import annotations

import json

import pytest

from tests.memory.golden import COUNTS, GOLDEN, facts
from tvm_ios.zoo import MEMORY_NETWORKS

KNOWN = json.loads(GOLDEN.read_text())
FAST = ("hrnet_w18_small_v1",)


def test_all_networks_are_there_and_proven() -> None:
    assert tuple(KNOWN) == MEMORY_NETWORKS
    for network in KNOWN.values():
        for count in COUNTS:
            peaks = network[count]
            assert peaks["proven"]
            assert peaks["bound"] == peaks["optimal"] <= peaks["rpo"]


@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in MEMORY_NETWORKS]
)
def test_nothing_has_changed(name: str) -> None:
    assert facts(name) == KNOWN[name]
