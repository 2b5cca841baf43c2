"""What ``tvm-ios models`` says of the networks is true."""

from __future__ import annotations

import pytest

from tvm_ios import zoo
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.models.load import load_graph

LARGE = {
    *zoo.MEMORY_NETWORKS,
    "nasnet_a",
    "lstm_tc",
    "densenet121",
    "randwire",
    "inception_v3",
    "resnext29",
    "resnext29_branches",
    "resnext101_branches",
    "vgg16",
    "alexnet",
    "lstm_tc_gates",
    "deepspeech2",
    "seq2seq",
    "vit_base",
    "bert_128",
    "bert_256",
    "bert_384",
    "bert_512",
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in zoo.names()]
)
def test_sizes(name: str) -> None:
    graph = load_graph(name)
    network = zoo.describe(name)
    assert (network.units, network.blocks) == (len(graph), len(cut_blocks(graph)))
