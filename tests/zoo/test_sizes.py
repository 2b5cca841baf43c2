"""What ``tvm-ios models`` says of the networks is true."""

from __future__ import annotations

import pytest

from tvm_ios import zoo
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.models.load import load_graph
from tvm_ios.zoo.sizes import SIZES, Size

LARGE = {
    *zoo.MEMORY_NETWORKS,
    "nasnet_a",
    "lstm_tc",
    "densenet121",
    "randwire",
    "inception_v3",
    "resnext29",
}


def test_every_network_has_its_size() -> None:
    assert list(SIZES) == list(zoo.names())


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in SIZES]
)
def test_sizes(name: str) -> None:
    graph = load_graph(name)
    assert SIZES[name] == Size(len(graph), len(cut_blocks(graph)))
